"""Mutants of what an erasure leaves out of later inputs."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    assign,
    drop_statement,
    never,
    replace,
    return_value,
    set_keyword,
    swap_operator,
)
from tests.mutants.mutant import Mutant

ERASE_ARRIVALS = (
    Mutant("erased-offset-lands", "a record at an offset that was erased comes back with another time")
    .changes("ErasedRecords._is_old", never("lowered"))
    .caught_by("test_records_below_the_log_end_at_the_erasure_are_left_out_whatever_their_time[in one pass]"),
    Mutant("erased-at-that-very-time-lands", "a record of the millisecond of the erasure comes back")
    .changes("ErasedRecords._is_old", swap_operator("<=", "<", "timestamp"))
    .caught_by("test_record_that_is_later_than_the_erasure_is_a_new_one[in one pass]"),
    Mutant("erased-of-another-life-lands", "a record without a time is taken from a topic that may be another life")
    .changes("open_erased", never("KafkaInput"))
    .caught_by("test_without_a_time_nobody_can_tell_which_life_of_a_topic_brokers_have"),
    Mutant("erased-records-have-no-digest", "a file from before an erasure is not recognised and lands again")
    .changes(
        "Spool._read",
        replace("digests.update(batch)", "digests.update(batch if erased is None else erased.remove(batch, path))"),
    )
    .caught_by("test_file_without_offsets_from_before_the_erasure_is_skipped_as_a_whole[over the spool]"),
    Mutant("erased-records-counted-twice", "an input that is read again counts what is left out again")
    .changes("Spool._read", drop_statement("restart"))
    .caught_by("test_input_that_is_read_twice_counts_what_is_left_out_once[over the spool]"),
    Mutant("erased-while-ingested-lands", "a key that is erased while a file is read lands with it")
    .changes("commit.IngestCommit._build_change", never("has_same_erasures"))
    .caught_by("test_key_that_is_erased_while_its_records_are_ingested_does_not_land[in one pass]"),
    Mutant("erased-from-a-spool-lands", "a spool from before an erasure is committed after it")
    .changes("_append_spooled", never("has_same_erasures"))
    .caught_by("test_keys_erased_again_and_again_while_a_file_is_ingested_do_not_land[over the spool]"),
    Mutant("erased-progress-stops-ingest", "an ingest begins again although only the deletion of files was noted")
    .changes("has_same_erasures", return_value("state.erasures == other.erasures", "erasure_id"))
    .caught_by("test_erasure_that_only_came_further_lets_an_ingest_go_on"),
    Mutant("erased-lands-from-tasks", "tasks of Spark write old copies of erased keys")
    .changes("RangeReader.read", never("_erased"))
    .caught_by("test_tasks_leave_out_and_count_what_one_process_does"),
    Mutant("erased-lands-from-tasks-without-secret", "a task that cannot tell old copies writes them")
    .changes("open_planned_erasures", never("secret"))
    .caught_by("test_task_without_the_secret_writes_nothing[another secret of sixteen bytes and more]"),
    Mutant("erased-by-tasks-is-not-accounted-for", "a task may drop records and say nothing of it")
    .changes("list_result_files", replace("A - erased[number]", "sum(part.records for part in result.ranges)"))
    .caught_by("test_task_that_does_not_account_for_what_it_left_out_is_refused[forget_count]"),
    Mutant("erased-plan-forgets-lowered-ends", "tasks leave out new records at offsets that were given away again")
    .changes("plan_erasures", replace("each.lowered_ends", "{}"))
    .caught_by("test_plan_says_of_erasures_what_one_process_knows"),
    Mutant("erased-plan-forgets-epochs", "tasks take a record without a time of a topic that may be another life")
    .changes("plan_erasures", set_keyword("needs_timestamps", "False"))
    .caught_by("test_tasks_refuse_a_record_of_which_nobody_can_tell_whether_it_is_old"),
    Mutant("erased-tasks-forget-what-was-lifted", "what was left out before an erasure was lifted is lost to tasks")
    .changes("write_range._compare", never("lifted"))
    .caught_by("test_tasks_know_what_was_left_out_before_its_erasure_was_lifted"),
    Mutant("erased-tasks-read-no-copy", "an archive cannot be ingested on Spark where an erasure's document is gone")
    .changes("plan_erasures", replace("(each.path, A)", "(each.path,)"))
    .caught_by("test_tasks_read_the_copy_of_an_erasure_whose_document_is_gone"),
    Mutant("erased-offset-of-another-life", "a record of a topic that was created again at the brokers counts as new")
    .changes("plan_erasures", replace("of_brokers or A", "A"))
    .caught_by("test_offsets_at_brokers_never_tell_tasks_that_a_record_is_new"),
    Mutant("kafka-secret-goes-to-a-cluster", "a driver elsewhere is told of a file of this machine")
    .changes("_may_leave", return_value("True", "erasures"))
    .caught_by("test_driver_on_a_cluster_reads_no_topic_with_erased_keys"),
    Mutant("erase-secret-goes-to-a-cluster", "a driver elsewhere is told of a file of this machine")
    .changes("find_local_reason", never("is_driver_here"))
    .caught_by("test_driver_on_a_cluster_cannot_have_the_secret_and_this_process_reads"),
    Mutant("erased-lands-from-brokers", "tasks that read Kafka write old copies")
    .changes("copy_broker_range", replace("erased.remove(A, B)", "A"))
    .caught_by("test_old_copies_at_the_brokers_stay_out_however_many_read_them[tasks]"),
    Mutant("erased-under-another-secret-lands", "with another secret no old copy is told, and all land")
    .changes("load_secret_of", never("others"))
    .caught_by("test_another_secret_refuses_every_input_and_nothing_lands[in one pass]"),
    Mutant("lifted-erasure-counts", "a key whose erasure was lifted stays out")
    .changes("select_counting_erasures", never("lifts"))
    .caught_by("test_lifted_erasure_lets_records_in_again[in one pass]"),
    Mutant("lifted-erasure-stops-files", "what was left out before an erasure was lifted is said to be lost")
    .changes("check_overlap", never("lifted"))
    .caught_by("test_file_with_what_was_left_out_is_still_known_when_the_erasure_is_lifted[over the spool]"),
    Mutant("lifted-erasure-excuses-others", "a lost record is not noticed where another key's erasure was lifted")
    .changes("LogComparison.drop_absent", replace("is_known(A)", "True"))
    .caught_by("test_file_with_what_was_left_out_is_still_known_when_the_erasure_is_lifted[over the spool]"),
    Mutant("erased-input-is-a-mistake", "an input in which every record of the topic is an old copy is refused")
    .changes("IngestCommit.note_other_topics", replace("not self.records_erased", "True"))
    .caught_by("test_records_of_other_topics_beside_old_copies_are_no_mistake"),
    Mutant("erased-newest-is-a-lost-end", "brokers that still have the newest record are said to have lost others")
    .changes("_ComparedPartition._is_newest_erased", return_value("False", "end"))
    .caught_by("test_log_without_its_newest_record_is_still_that_of_the_topic[False]"),
    Mutant("tombstone-is-a-divergence", "a tombstone in the place of an erased record is taken for a divergence")
    .changes("_ComparedPartition._read_ours", always("left_out"))
    .caught_by("test_log_without_its_newest_record_is_still_that_of_the_topic[True]"),
    Mutant("erased-is-strange-in-a-copy", "a copy of the topic that has what was erased is said to be another topic")
    .changes("compare_new_epoch", assign("None", "ignore_offsets"))
    .caught_by("test_erased_record_that_was_the_newest_in_the_middle_of_the_log_is_not_strange_in_a_copy"),
)
