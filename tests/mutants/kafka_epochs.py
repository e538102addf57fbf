"""Breakages of the rules about truncation at the brokers, noticed by leader epochs."""

from __future__ import annotations

from tests.mutants.changes import drop_keyword, drop_statement, never, replace, return_value, set_keyword
from tests.mutants.mutant import Mutant

KAFKA_EPOCHS: tuple[Mutant, ...] = (
    Mutant("lost-end-unnoticed", "a partition that lost its end and grew again is read on where it was left")
    .changes("compare_with_brokers", replace("not changed", "True"))
    .caught_by("test_lost_end_is_noticed_without_leader_epochs[without-epochs]"),
    Mutant("kept-records-of-the-later-epoch", "records that the brokers lost are shown as those in their place")
    .changes("_begin_at_divergences", drop_keyword("begins"))
    .caught_by("test_log_that_grew_again_is_refused_and_its_lost_records_stay_where_that_is_wished[local]"),
    Mutant("leader-epoch-not-asked", "the broker is not asked whether it still has the leader epoch that was read")
    .changes("RangeReader._assign", drop_statement("_seek"))
    .caught_by("test_lost_end_is_noticed_where_no_record_is_left_to_compare"),
    Mutant("truncation-told-at-once", "a node that has just begun to lead and does not have everything yet is believed")
    .changes("TRUNCATION_PAUSES_S", replace("(0.25, 0.5, 1.0)", "()"))
    .caught_by("test_node_that_does_not_have_everything_yet_is_asked_again"),
    Mutant("grown-again-is-an-answer", "a log that was cut off and has grown again passes where nothing can be checked")
    .changes("RangeReader._find_rest", replace("checked.number == UNKNOWN_LEADER_EPOCH", "False"))
    .caught_by("test_log_that_has_grown_again_is_no_answer_where_no_leader_epoch_is_checked"),
    Mutant("asked-again-unchecked", "a broker that is asked again need not have what was read before")
    .changes("RangeReader._find_rest", set_keyword("after", "None"))
    .caught_by("test_broker_that_stays_with_it_is_believed"),
    Mutant("processes-give-up", "an ingest by several processes ends where the log moved, and does not read again")
    .changes("append_here", replace("LogMovedError", "AssertionError"))
    .caught_by("test_what_came_from_a_file_meanwhile_is_compared_with_what_is_read_and_the_rest_appended"),
    Mutant("newest-records-not-compared", "without leader epochs, other records at the same offsets are not noticed")
    .changes("_ComparedPartition._is_equal", replace("ours.fields == theirs.fields", "True"))
    .caught_by("test_lost_end_is_noticed_without_leader_epochs[without-epochs]"),
    Mutant("old-states-not-compared", "records whose leader epoch is not known are not compared")
    .changes("_ComparedPartition._is_equal", replace("ours.time_ms != theirs.time_ms", "False"))
    .caught_by("test_lost_end_is_noticed_without_leader_epochs[format-6]"),
    Mutant("divergence-one-too-high", "the first record that the brokers lost is taken for one that they have")
    .changes("_ComparedPartition.find_divergence", replace("ours.offset + 1", "ours.offset + 2"))
    .caught_by("test_log_that_was_set_back_is_refused_and_left_behind_where_that_is_wished"),
    Mutant("set-back-unnoticed", "a partition that ends before what was read of it counts as unchanged")
    .changes("_list_changed", replace("at_brokers.stable_offset < end", "False"))
    .caught_by("test_log_that_was_set_back_is_refused_and_left_behind_where_that_is_wished"),
    Mutant("parts-of-different-ends-joined", "what tasks read before and after a partition lost its end is one log")
    .changes("_check_joint", set_keyword("after", "None"))
    .caught_by("test_parts_that_were_read_before_and_after_the_loss_are_never_joined"),
    Mutant("undone-leader-epochs-stay", "an undone call leaves the leader epochs of records that are gone")
    .changes("shorten_newest_epoch", drop_keyword("leader_epochs"))
    .caught_by("test_undone_call_leaves_the_leader_epochs_of_those_before"),
    Mutant("leader-epochs-not-recorded", "what the brokers tell of leader epochs is not committed with the records")
    .changes("advance_epochs", replace("leader_epochs.items()", "()"))
    .caught_by("test_the_state_names_the_topic_s_id_and_how_far_it_was_read"),
    Mutant("leader-epochs-join-over-files", "records of files between two readings count as read from brokers")
    .changes("append_leader_epochs", replace("joins or not observed", "True"))
    .caught_by("test_leader_epochs_begin_again_behind_records_of_another_source"),
    Mutant("epoch-begins-at-its-base", "lost records that stay in the log are taken for those of the epoch after them")
    .changes("find_epoch", replace("each.get_begin(partition)", "each.get_base(partition)"))
    .caught_by("test_offset_of_the_log_has_an_epoch_and_an_offset_at_the_brokers[69-1-69]"),
    Mutant("group-offset-in-the-wrong-life", "an offset below the divergence is looked for in what came after it")
    .changes("locate_offset", replace("place >= epochs[number].get_begin(partition)", "True"))
    .caught_by("test_offset_at_the_brokers_is_in_the_life_that_they_have_it_of[39-39]"),
    Mutant("taken-beside-what-was-lost", "records that Kafka lost stay in the log below those in their place")
    .changes("LogCut.segments", replace("part.segments", "()"))
    .caught_by("test_records_that_kafka_lost_leave_the_log_in_the_commit_that_takes_those_in_their_place[taken]"),
    Mutant("divided-segment-goes-whole", "records that both sides have leave with those that Kafka lost")
    .changes("IngestCommit.commit_prepared", drop_statement("_write_kept"))
    .caught_by("test_records_that_kafka_lost_leave_the_log_in_the_commit_that_takes_those_in_their_place[taken]"),
    Mutant("compacted-away-for-what-goes", "a key whose older record a compaction removed is lost with the newer one")
    .changes("plan_taking", replace("compacted > place > state.log_start_offset", "False"))
    .caught_by("test_log_that_was_compacted_beyond_the_divergence_is_read_again_as_a_whole"),
    Mutant("compacted-and-not-at-kafka", "a log is read again although Kafka has less of it than it had")
    .changes("_require_complete", replace("begin > start", "False"))
    .caught_by("test_log_that_was_compacted_beyond_the_divergence_stays_where_kafka_has_less_than_it_had"),
    Mutant("log-changed-before-the-cut", "what came into a log since its end was counted leaves with that")
    .changes("LogCut.apply", replace("_is_as_counted(part, now, live.get(part.partition, ()))", "True"))
    .caught_by("test_nothing_leaves_a_log_that_changed_since_it_was_counted"),
    Mutant("other-than-agreed", "more leaves a log than a person agreed to")
    .changes("_check_agreement", replace("rules.agreed != removed", "False"))
    .caught_by("test_nothing_leaves_a_log_that_changed_since_it_was_counted"),
    Mutant("kept-records-taken", "records that were kept at an earlier loss leave at the next one")
    .changes("_require_decidable", replace("place < begin", "False"))
    .caught_by("test_nothing_leaves_a_log_where_it_is_not_known_what_the_brokers_lost"),
    Mutant("nothing-in-common-taken", "a log keeps records that Kafka lost below those of its present life")
    .changes("_require_decidable", replace("segment.last_offset >= start", "False"))
    .caught_by("test_nothing_leaves_a_log_where_it_is_not_known_what_the_brokers_lost"),
    Mutant("plan-survives-the-cut", "a compaction publishes records that left the log")
    .changes("_describe_moved_log", replace("is_replaced(file)", "False"))
    .caught_by("test_plan_that_reads_records_which_left_the_log_is_void"),
    Mutant("checkpoint-beyond-the-end", "what comes in the place of compacted records counts as compacted")
    .changes("_shorten", drop_keyword("first_dirty_offset"))
    .caught_by("test_log_that_was_compacted_beyond_the_divergence_is_read_again_as_a_whole"),
    Mutant("remembered-divergence-believed", "where a log was found to diverge is said again without a look at it")
    .changes("_ComparedPartition.find_divergence", replace("self._diverges_at(guess, low, high)", "True"))
    .caught_by("test_call_after_one_that_was_refused_compares_records_around_that_place_alone"),
    Mutant("remembered-divergence-too-high", "records that Kafka lost below a remembered divergence are not looked at")
    .changes("_ComparedPartition._diverges_at", never("low"))
    .caught_by("test_call_after_one_that_was_refused_compares_records_around_that_place_alone"),
    Mutant("remembered-divergence-too-low", "records above a remembered divergence are not looked at")
    .changes("_ComparedPartition._diverges_at", return_value("True", "high"))
    .caught_by("test_call_after_one_that_was_refused_compares_records_around_that_place_alone"),
    Mutant("divergence-forgotten", "each tick searches again where a log diverges")
    .changes("compare_as_known", drop_statement("record"))
    .caught_by("test_call_after_one_that_was_refused_compares_records_around_that_place_alone"),
    Mutant("divergence-never-forgotten", "a divergence that is over is remembered")
    .changes("close_failures", drop_statement("forget"))
    .caught_by("test_end_that_grew_again_with_the_same_records_is_no_loss"),
    Mutant("store-without-what-was-cut", "what a call took before it died is missing in the metadata store")
    .changes("prepare_topic", drop_statement("complete_cuts"))
    .caught_by("test_call_that_takes_kafka_s_records_and_dies_did_nothing_or_all_of_it"),
)
