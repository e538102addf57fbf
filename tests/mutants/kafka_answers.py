"""Breakages of the rules about what counts as an answer of brokers, and when an epoch begins."""

from __future__ import annotations

from tests.mutants.changes import drop_statement, never, replace, return_value
from tests.mutants.mutant import Mutant

KAFKA_ANSWERS: tuple[Mutant, ...] = (
    Mutant("special-number-taken-for-an-offset", "an offset of -1001 is one below all others")
    .changes("is_offset", replace("offset >= 0", "True"))
    .caught_by("test_number_that_is_no_offset_makes_the_topic_run_again"),
    Mutant("offsets-of-brokers-unchecked", "what a client hands out as an offset is believed")
    .changes("Cluster.describe_topics", never("problem"))
    .caught_by("test_offset_that_is_none_is_run_again_and_begins_no_epoch"),
    Mutant("election-is-a-failure", "a topic whose leader has just changed is told to be run again")
    .changes("Cluster._list_offsets", never("_BETWEEN_LEADERS"))
    .caught_by("test_partition_whose_leader_has_just_changed_is_asked_again"),
    Mutant("leaderless-partition-asked", "a partition without a leader is asked for its offsets")
    .changes("find_leaderless", never("without"))
    .caught_by("test_partition_without_a_leader_is_named"),
    Mutant("topic-without-an-answer-taken-for-gone", "a topic that brokers could not describe is not there")
    .changes("TopicDescriptions.__getitem__", never("problems"))
    .caught_by("test_topic_without_a_valid_answer_is_never_taken_for_one_that_is_not_there"),
    Mutant("gap-of-one-record-accepted", "one record that the brokers deleted before it was read is passed over")
    .changes("_list_ranges", replace("start > position and is_known", "start > position + 1 and is_known"))
    .caught_by("test_gap_of_one_record_is_refused_and_named"),
    Mutant("offset-set-back-by-one-not-seen", "a topic that lost its newest record is gone on with")
    .changes("_find_set_back", replace("A + B < C", "A + B < C - 1"))
    .caught_by("test_offset_set_back_by_one_is_refused_and_begins_no_epoch_of_the_same_topic"),
    Mutant("early-end-taken-as-the-end", "a range ends where the broker knows no more records yet")
    .changes("RangeReader._judge", return_value("True", "_get_offset"))
    .caught_by("test_early_end_of_a_partition_is_not_the_end_of_the_range"),
    Mutant("timestamp-0-read-as-missing", "a record of 1970-01-01 gets the time of its ingest")
    .changes("make_batch", replace("stamps < 0", "stamps <= 0"))
    .caught_by("test_timestamp_of_0_is_a_time_and_a_missing_one_is_none"),
    Mutant("epoch-of-the-same-topic", "a topic that lost records begins an epoch that repeats what is here")
    .changes("plan_reading", drop_statement("_make_lost_records_error"))
    .caught_by("test_offset_set_back_by_one_is_refused_and_begins_no_epoch_of_the_same_topic"),
    Mutant("added-partition-begins-anywhere", "the first records of an added partition are passed over once deleted")
    .changes("_list_ranges", replace("bool(epoch.ends)", "number in epoch.ends"))
    .caught_by("test_first_offsets_of_a_partition_that_was_added_are_a_gap_when_they_are_deleted"),
    Mutant("overlap-appended-again", "what a mirror repeats of the log is appended once more")
    .changes("skip_known", replace("A > B", "False"))
    .caught_by("test_what_is_skipped_leaves_the_offsets_of_the_epoch_as_they_are"),
    Mutant("mirror-that-lags-taken", "an epoch begins with a topic whose newest records are older than the log's")
    .changes("PartitionOverlap.is_older", return_value("False", "newest_there_ms"))
    .caught_by("test_mirror_that_lags_lacks_the_newest_records_and_is_older"),
    Mutant("overlap-accepted-by-nobody", "an epoch begins though nobody accepted that it repeats or is older")
    .changes("require_no_overlap", replace("not doubtful or accepts_overlap", "True"))
    .caught_by("test_topic_with_only_older_records_is_refused"),
    Mutant("unknown-records-skipped", "records between those of the log that it never had are lost")
    .changes("require_no_overlap", never("strange"))
    .caught_by("test_records_between_those_of_the_log_that_it_never_had_are_never_skipped"),
    Mutant("newer-records-skipped", "records newer than the log are skipped, as an old one comes after them")
    .changes("compare_partition", replace("A and B and time_ms > newest_here_ms", "False"))
    .caught_by("test_record_newer_than_the_log_before_one_that_both_have_was_never_in_it"),
    Mutant("records-equal-without-their-time", "a value that was written again is taken for the one of the log")
    .changes("compare_partition", replace("exact.get(A)", "by_content.get(record.digest)"))
    .caught_by("test_same_key_and_value_at_another_time_is_another_record"),
    Mutant("epoch-begins-unasked", "a new epoch begins before anybody was asked")
    .changes("ingest_kafka.kafka", drop_statement("_confirm_epoch"))
    .caught_by("test_new_epoch_says_what_it_will_do_and_asks"),
    Mutant("files-of-failed-processes-stay", "what processes wrote before one of them failed stays in the log's folder")
    .changes("_append_in_processes", drop_statement("discard"))
    .caught_by("test_process_that_dies_is_run_again_and_nothing_lands"),
)
