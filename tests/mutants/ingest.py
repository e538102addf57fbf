"""Mutants of ingest: which records are taken in."""

from __future__ import annotations

from tests.mutants.changes import assign, drop_keyword, drop_operand, drop_statement, replace
from tests.mutants.mutant import Mutant

INGEST = (
    Mutant("topics-of-json-lines-ignored", "records of JSON lines are taken whatever topic they name")
    .changes("_Reader.batch", assign("None", "select_lines"))
    .caught_by("test_two_topics_in_one_folder_are_refused_with_topics_and_files_named"),
    Mutant("topics-of-parquet-ignored", "rows of Parquet are taken whatever topic they name")
    .changes("read_parquet", assign("None", "select_rows"))
    .caught_by("test_two_topics_in_one_folder_are_refused_with_topics_and_files_named"),
    Mutant("source-topic-of-files-ignored", "reading files does not hear which source topic was chosen")
    .changes("FilesInput.open_pass", replace("self._source_topic", "None"))
    .caught_by("test_of_a_chosen_source_topic_all_records_are_taken_and_others_are_left_out_and_counted"),
    Mutant("source-topic-of-archives-ignored", "reading an archive does not hear which source topic was chosen")
    .changes("ArchiveInput.open_pass", replace("self.source_topic", "None"))
    .caught_by("test_an_archive_of_several_topics_names_them"),
    Mutant("table-position-unchecked", "two calls that read one table at once set its position back")
    .changes("IngestCommit._build_change", drop_statement("check"))
    .caught_by("test_an_older_call_never_sets_the_position_back"),
    Mutant("undone-table-position-counts", "what an undone ingest of a table had appended is not read again")
    .changes("find_earlier_ingest", replace("position.after in {None, before}", "True"))
    .caught_by("test_a_call_that_continued_one_that_is_gone_stands_for_no_position"),
    Mutant("delete-files-ignored", "rows that delete files took out of a table come back")
    .changes("SourceTable.list_added_files", replace("manifest.content == ManifestContent.DELETES", "False"))
    .caught_by("test_delete_files_are_refused_whatever_the_snapshot_calls_itself[True]"),
    Mutant("topic-id-ignored", "the log of a topic that was created again goes on where the deleted one was")
    .changes("_find_topic_id", replace("found != known", "False"))
    .caught_by("test_a_log_directory_of_another_topic_id_is_refused"),
    Mutant(
        "records-without-a-topic-left-out",
        "with a source topic, records that name no topic are dropped instead of refused",
    )
    .changes("TopicFilter.select_lines", drop_statement("_no_topic"))
    .caught_by("test_a_record_that_names_no_topic_is_refused_where_a_source_topic_is_chosen"),
    Mutant("overlap-without-checksums", "an ingest compares with pages that changed")
    .changes(
        "compare_with_log", replace("check_before_duckdb(A, B, C, after=D)", "check_before_duckdb(A, (), C, after=D)")
    )
    .caught_by("test_reader_and_overlap_refuse_a_value_that_changed"),
    Mutant("overlap-blames-itself-for-a-footer", "an ingest that meets a damaged footer ends as if Winnow were broken")
    .changes("compare_with_log", drop_statement("find_damaged_segment"))
    .caught_by("test_overlap_refuses_a_footer_in_which_a_column_has_another_name"),
    Mutant("spark-ingest-into-a-log-that-moved", "an ingest on Spark commits though the log end has moved")
    .changes("PartitionResult.has_moved", replace("base.log_end_offset != A", "False"))
    .caught_by("test_another_ingest_meanwhile_makes_it_plan_again"),
    Mutant("compared-with-a-log-that-moved", "what was compared with the log is committed over another one")
    .changes("PartitionResult.has_moved", replace("known != A", "False"))
    .caught_by("test_a_later_file_that_comes_first_makes_the_earlier_one_refused"),
    Mutant("quarantined-offset-given-again", "the offset of a record in the quarantine is free for another one")
    .changes("KeylessRecords.add_to", drop_statement("_move_ends"))
    .caught_by("test_a_file_of_keyless_records_alone_is_one_commit_that_takes_their_offsets"),
    Mutant(
        "quarantine-appended-in-one-try", "an append to the quarantine ends with the first commit that comes before it"
    )
    .changes("Quarantine._add_files", replace("range(MAXIMUM_COMMIT_TRIES)", "range(1)"))
    .caught_by("test_an_append_to_the_quarantine_that_stood_still_is_made_again"),
    Mutant("spark-result-unchecked", "what a Spark application reports is not compared with its plan")
    .changes("SparkIngest._submit", drop_statement("check_result"))
    .caught_by("test_a_result_that_is_not_of_its_plan_is_refused"),
    Mutant("topic-created-again-taken-for-the-same", "brokers go on in a log that has another topic's records")
    .changes("is_another_topic", replace("known != topic.topic_id", "False"))
    .caught_by("test_a_topic_that_was_created_again_is_refused[local]"),
    Mutant("topic-created-again-while-read", "what a topic is is not asked again once it was read")
    .changes("KafkaPass.finish", drop_statement("check"))
    .caught_by("test_a_topic_that_is_created_again_while_it_is_read_is_refused[local]"),
    Mutant("deleted-records-passed-over", "records that brokers deleted before they were read are no gap")
    .changes("_list_ranges", replace("start > position and is_known", "False"))
    .caught_by("test_records_deleted_before_they_were_read_are_named_and_never_passed_over[local]"),
    Mutant("uncommitted-records-read", "records of open and aborted transactions come into the log")
    .changes("make_consumer", replace("'read_committed'", "'read_uncommitted'"))
    .caught_by("test_every_committed_record_arrives_as_it_was_written[local]"),
    Mutant("older-epoch-comes-back", "a file of an older epoch is appended as the newest")
    .changes("EpochPass._move", replace("moved >= ends[numbers]", "moved < 0"))
    .caught_by("test_what_an_older_epoch_did_not_have_never_comes_back_as_newest"),
    Mutant("reaching-object-not-noticed", "an object that reaches into the next range is not read there")
    .changes("SparkIngest._judge", replace("find_uncovered(A, B)", "False"))
    .caught_by("test_repeats_of_a_sink_that_started_again_are_skipped_across_ranges"),
    Mutant("spark-encoding-undecided", "what all objects together tell about text and base64 is not asked")
    .changes("SparkIngest._judge", drop_statement("finish"))
    .caught_by("test_text_that_each_object_reads_both_ways_needs_a_decision"),
    Mutant("refused-create-leaves-its-topic", "a topic stays though the ingest that created it was refused")
    .changes("withdraw_if_refused", drop_statement("withdraw_created"))
    .caught_by("test_refused_create_leaves_no_topic_and_no_file"),
    Mutant("used-topic-withdrawn", "a refused ingest removes a topic to which another process has committed")
    .changes("withdraw_topic", drop_operand("snapshot_id"))
    .caught_by("test_topic_to_which_another_process_committed_stays_with_its_records"),
    Mutant("topic-withdrawn-under-an-ingest", "a topic goes for which another process prepares an ingest")
    .changes("withdraw_topic", drop_operand("others"))
    .caught_by("test_topic_for_which_another_process_prepares_an_ingest_stays"),
    Mutant("namesake-withdrawn", "a refused ingest removes another topic of the same name")
    .changes("withdraw_topic", drop_operand("table_uuid"))
    .caught_by("test_namesake_that_was_created_since_stays"),
    Mutant("namesake-committed-to", "a call that stood still while its topic was created again changes the new one")
    .changes("TopicLog.commit", drop_statement("require_same_topic"))
    .caught_by("test_call_that_stands_still_in_its_commit_changes_nothing_in_another_topic"),
    Mutant("namesake-s-records-deleted", "records are deleted from a topic that took the name since the command looked")
    .changes("delete_records.delete_records", drop_keyword("log"))
    .caught_by("test_call_that_stands_still_after_a_look_changes_nothing_in_another_topic"),
)
