"""Breakages of what a restore writes, reads back, says and records."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    assign,
    drop_element,
    drop_keyword,
    drop_operand,
    drop_statement,
    never,
    replace,
)
from tests.mutants.mutant import Mutant

COMMITTED = "test_what_is_said_after_committed_transactions_is_what_they_hold_and_how_to_go_on"
SEVERAL = "test_several_topics_are_restored_and_one_that_fails_stops_no_other"
WHOLE = "test_every_record_comes_back_as_it_was"
OTHERWISE = "test_a_record_that_came_out_otherwise_is_found"
MOVED = "test_the_first_row_that_differs_is_found"
GROUPS = "test_groups_with_members_or_other_offsets_are_refused"
OLD = "test_settings_that_the_brokers_do_not_know_are_left_out_and_said"
NODES = "test_restore_whose_target_lacks_a_node_for_its_replicas_is_run_again_when_that_is_back"

KAFKA_RESTORE_WRITING: tuple[Mutant, ...] = (
    # ------------------------------------------------------------------ words and audit
    Mutant("outcome-not-moved", "what a call that failed has committed is said as it was at its beginning")
    .changes("RestoreOutcome.move", drop_statement("state"))
    .caught_by(COMMITTED),
    Mutant("outcome-counts-all-as-this-calls", "records of an earlier call are said to be of this one")
    .changes("RestoreOutcome.describe", replace("A - self._records_before", "A"))
    .caught_by(COMMITTED),
    Mutant("outcome-not-recorded", "a call that failed leaves no entry in the audit log")
    .changes("restore_topic", drop_statement("_record"))
    .caught_by(COMMITTED),
    Mutant("complete-not-recorded", "a complete restore leaves no entry in the audit log")
    .changes("_restore_topic", never("was_complete"))
    .caught_by(COMMITTED),
    Mutant("properties-changed-nothing", "properties refused after commits are said to have changed nothing")
    .changes("RangeReader.__init__", drop_keyword("left"))
    .caught_by("test_properties_that_the_library_refuses_after_commits_are_not_said_to_have_changed_nothing"),
    # ------------------------------------------------------------------ several topics
    Mutant("topics-match-in-part", "a topic whose name only begins as --topics-regex says is restored")
    .changes("map_topics", replace("matching.fullmatch", "matching.match"))
    .caught_by("test_topics_match_as_a_whole_and_get_the_name_that_is_asked_for"),
    Mutant("topics-into-one", "two topics are restored into one")
    .changes("map_topics", never("other"))
    .caught_by("test_several_topics_that_cannot_be_told_apart_in_kafka_are_refused"),
    Mutant("topics-exit-0", "the exit code of several topics is 0 although one failed")
    .changes("RestoreOutcomes.collect", drop_statement("codes"))
    .caught_by(SEVERAL),
    # ------------------------------------------------------------------ the writer
    Mutant("writer-partition-by-key", "the client library chooses a record's partition")
    .changes("TransactionalWriter.write", drop_element("partition"))
    .caught_by(WHOLE),
    Mutant("writer-present-time", "records get the present as their timestamp")
    .changes("TransactionalWriter.write", drop_keyword("timestamp"))
    .caught_by(WHOLE),
    Mutant("writer-forgets-headers", "records are written without headers")
    .changes("TransactionalWriter.write", drop_keyword("headers"))
    .caught_by(WHOLE),
    Mutant("writer-without-positions", "records are committed without the positions that they reach")
    .changes("TransactionalWriter.commit", drop_statement("_add_offsets", "_consumer"))
    .caught_by("test_a_restore_that_is_complete_does_nothing_more"),
    Mutant("writer-without-groups", "the groups' offsets are not committed with the phase")
    .changes("TransactionalWriter.commit", drop_statement("own"))
    .caught_by("test_consumer_groups_continue_at_the_record_that_they_would_have_read_next"),
    Mutant("writer-always-taken-over", "positions that this writer committed show that another took over")
    .changes("TransactionalWriter._has_foreign_positions", replace("any(foreign)", "True"))
    .caught_by("test_own_positions_show_no_other_restore_where_the_producer_cannot_ask"),
    Mutant("writer-fenced-is-a-failure", "a producer that was fenced is not told that another took over")
    .changes("is_fenced", replace("A or B", "False"))
    .caught_by("test_a_second_restore_takes_over_and_the_first_writes_nothing_more[Writing]"),
    # ------------------------------------------------------------------ reading back
    Mutant("verify-without-headers", "headers are not compared")
    .changes("find_difference", always("_count_headers"))
    .caught_by(f"{OTHERWISE}[change2]"),
    Mutant("verify-headers-of-any-record", "headers that stand at another record are the same")
    .changes("find_difference", drop_operand("_count_headers"))
    .caught_by(f"{MOVED}[headers]"),
    Mutant("verify-numbers-of-headers", "only the numbers of headers are compared")
    .changes("find_difference", drop_operand("flatten"))
    .caught_by(f"{MOVED}[header_names]"),
    Mutant("verify-without-timestamps", "timestamps are not compared")
    .changes("compare_records._PLAIN", assign("('key', 'value')"))
    .caught_by(f"{OTHERWISE}[change3]"),
    Mutant("verify-ends-early", "records behind the last restored one are not looked for")
    .changes("_require_end", never("more"))
    .caught_by("test_another_producers_record_behind_the_last_one_is_found"),
    Mutant("verify-dropped-timestamps", "a timestamp that was left out is another than that of the log")
    .changes("compare_records._normalize", replace("pc.greater(times, 0)", "pc.is_valid(times)"))
    .caught_by("test_timestamps_that_clients_cannot_write_are_refused_unless_they_are_to_be_left_out"),
    # ------------------------------------------------------------------ groups
    Mutant("groups-with-members", "offsets of a group that has members are set")
    .changes("GroupOffsets.list_active", never("members"))
    .caught_by(GROUPS),
    Mutant("groups-of-others", "a group's offsets are those that it has in any topic")
    .changes("GroupOffsets.read", never("topic"))
    .caught_by("test_a_groups_offsets_in_other_topics_are_not_those_in_the_target"),
    Mutant("abandoned-goes-on", "a restore that was given up keeps its positions")
    .changes("abandon_restore", drop_statement("delete"))
    .caught_by("test_an_abandoned_restore_releases_its_snapshot_and_its_target_is_refused_from_then_on"),
    # ------------------------------------------------------------------ targets
    Mutant("old-brokers-refuse", "a target whose brokers do not know a setting is not created")
    .changes("TargetTopic.create", never("INVALID_CONFIG"))
    .caught_by(OLD),
    Mutant("old-brokers-keep-the-limit", "what was set for old brokers while records were written stays set")
    .changes("apply_configuration", replace("A.topic.configuration.get(B) == C", "False"))
    .caught_by(OLD),
    Mutant("old-brokers-limit", "the one limit of timestamps of old brokers is not looked at")
    .changes("_list_wrong_values", replace("has_sides or not (is_early or is_late)", "True"))
    .caught_by("test_topic_that_does_not_take_old_timestamps_is_refused_with_the_setting_that_its_brokers_know"),
    Mutant("missing-nodes-refused", "a target that lacks a node that is away is refused for good")
    .changes("TargetTopic._explain_missing_nodes", never("away"))
    .caught_by(NODES),
)
