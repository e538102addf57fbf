"""Breakages of the rules about truncation at the brokers, noticed by leader epochs."""

from __future__ import annotations

from tests.mutants.changes import drop_keyword, drop_statement, replace, set_keyword
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
    .changes("_shorten_epochs", drop_keyword("leader_epochs"))
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
)
