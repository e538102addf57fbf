"""Mutants of decisions: what is cleaned, what is retired, and when a tombstone may go."""

from __future__ import annotations

from tests.mutants.changes import (
    assign,
    drop_element,
    drop_operand,
    drop_statement,
    never,
    replace,
    replace_call,
    return_value,
    set_keyword,
    swap_operator,
)
from tests.mutants.mutant import Mutant

DECISIONS = (
    Mutant("ratio-not-strict", "a dirty ratio equal to the threshold is enough")
    .changes("_find_reason", swap_operator(">", ">=", "dirty_ratio"))
    .caught_by("test_the_dirtiest_partition_is_selected_before_any_less_dirty_one"),
    Mutant("min-lag-not-strict", "a record exactly as old as min.compaction.lag.ms is not cleanable")
    .changes("find_cleanable_range", swap_operator(">", ">=", "as_of_ms"))
    .caught_by("test_the_range_ends_at_the_first_segment_younger_than_the_minimum_lag"),
    Mutant("min-lag-by-oldest", "the oldest record of a segment decides min.compaction.lag.ms, not the youngest")
    .changes("find_cleanable_range", replace_call("find_youngest_ms", "find_oldest_ms"))
    .caught_by("test_the_youngest_record_of_a_segment_decides_its_minimum_lag"),
    Mutant(
        "max-lag-on-appends-only",
        "the clock does not close the active segment, so an idle partition misses its deadline",
    )
    .changes("find_active_offset", assign("False", "max_segment_ms"))
    .caught_by("test_on_a_quiet_partition_data_older_than_the_maximum_lag_is_compacted"),
    Mutant("idle-head-ignored", "a topic that was found idle is left out of later checks whatever is committed to it")
    .changes("find_idle_topics", replace("heads.get(topic) == idle.metadata_location", "True"))
    .caught_by("test_every_commit_ends_it"),
    Mutant("idle-for-ever", "a topic that was found idle is left out of later checks whatever the clock says")
    .changes("IdleTopic.covers", replace("latest_ms < self.until_ms", "True"))
    .caught_by("test_the_clock_ends_it_in_the_millisecond_in_which_a_segment_closes"),
    Mutant("active-segment-compacted", "the active segment is cleanable")
    .changes("find_cleanable_range", replace("not log.closes_active", "False"))
    .caught_by("test_the_range_ends_where_the_active_segment_begins"),
    Mutant("overdue-not-first", "a dirtier partition goes before one past its deadline")
    .changes("make_urgency_key", replace("0 if A else 1", "1"))
    .caught_by("test_a_partition_past_its_maximum_lag_comes_before_a_dirtier_one"),
    Mutant("strategy-change-unnoticed", "a changed strategy leaves the clean section clean")
    .changes("is_whole_log_dirty", return_value("False"))
    .caught_by("test_one_strategy_leaves_nothing_behind_that_another_could_see"),
    Mutant("future-not-refused", "compact takes an as-of in the future without --simulate")
    .changes("compact", drop_statement("require_not_ahead"))
    .caught_by("test_as_of_ahead_of_the_present_needs_simulate"),
    Mutant("early-tombstones-not-named", "a simulated run does not say which tombstones it removed before their time")
    .changes("build_change", never("as_of_ms", "now_ms"))
    .caught_by("test_a_simulated_run_names_what_it_removed_before_its_time"),
    Mutant(
        "simulated-retention-of-tombstones",
        "retention in a simulated future takes segments whose tombstones have not outlived what they delete",
    )
    .changes("_list_due_segments", replace("_is_free_to_retire(A, B, C, D)", "_is_free_to_retire(A, B, C, max(C, D))"))
    .caught_by("test_a_simulated_future_retires_no_tombstone_before_its_time"),
    Mutant("horizon-from-as-of", "a backfill starts a tombstone's horizon in the past")
    .changes("build_change", replace("max(A.as_of_ms, B)", "A.as_of_ms"))
    .caught_by("test_a_backfill_starts_a_tombstones_horizon_now_and_not_at_its_as_of"),
    Mutant("horizon-moves", "every run starts the horizon of every tombstone anew")
    .changes("_stamp_ranges", drop_operand("delete_horizon_ms"))
    .caught_by("test_a_later_run_leaves_a_horizon_that_has_started_where_it_is"),
    Mutant("tombstone-dropped-in-one-run", "the run that first covers a tombstone drops it")
    .changes("plan_partition", replace("list_expired_ranges(...)", "(OffsetRange(0, end),)"))
    .caught_by("test_a_retention_of_zero_needs_two_runs"),
    Mutant("tombstone-a-moment-late", "a tombstone does not go at its horizon but after it")
    .changes("TombstoneExpiry.may_expire", swap_operator(">", ">=", "cleaning_time_ms"))
    .caught_by("test_on_a_quiet_partition_tombstones_go_when_their_horizon_has_passed"),
    Mutant("quiet-tombstones-stay", "expired tombstones of a quiet partition are no reason to run")
    .changes("_find_reason", drop_element("(A.tombstones_due, B)"))
    .caught_by("test_on_a_quiet_partition_tombstones_go_when_their_horizon_has_passed"),
    Mutant("late-arrivals-forgotten", "a tombstone goes although an older record that it outranks is not covered yet")
    .changes("TombstoneExpiry.may_expire", return_value("True", "uncovered_since_ms"))
    .caught_by("test_a_late_lower_version_does_not_bring_a_deleted_key_back"),
    Mutant("retention-not-strict", "a segment exactly as old as retention.ms goes")
    .changes("_is_older", swap_operator("<", "<="))
    .caught_by("test_a_segment_exactly_as_old_as_retention_stays"),
    Mutant("retention-in-the-future", "a simulated future removes records of today")
    .changes("_list_due_segments", replace("min(A, B)", "A"))
    .caught_by("test_a_simulated_future_removes_nothing"),
    Mutant("retention-skips-the-young", "retention goes on behind a segment that stays")
    .changes("_take_while", replace_call("takewhile", "filter"))
    .caught_by("test_a_young_segment_keeps_the_older_ones_behind_it"),
    Mutant("log-start-stays", "retention does not move the log start")
    .changes("partition_states.apply_retention", assign("state.log_start_offset", "log_start_offset"))
    .caught_by("test_with_policy_delete_the_oldest_segments_go_by_age_and_the_log_start_follows"),
    Mutant(
        "retention-takes-living-tombstones",
        "under timestamp and header retention takes a tombstone that may not go yet",
    )
    .changes("_is_free_to_retire.free", drop_operand("outlived"))
    .caught_by("test_under_timestamp_and_header_retention_takes_no_dirty_segment_and_no_living_tombstone"),
    Mutant("retention-before-the-late", "retention takes a tombstone that a late, lower version has not met yet")
    .changes(
        "_is_free_to_retire",
        replace(
            "make_tombstone_expiry(A, B, C.first_dirty_offset, D)",
            "make_tombstone_expiry(A, B, C.first_uncleanable_offset, D)",
        ),
    )
    .caught_by("test_retention_leaves_a_tombstone_whose_late_older_value_is_not_compacted_yet"),
    Mutant(
        "late-arrival-only-as-stamped",
        "a tombstone that was covered under offset does not wait for late versions under timestamp",
    )
    .changes("TombstoneExpiry.horizon_ms", replace("max(A, B)", "A"))
    .caught_by("test_a_strategy_that_changed_after_the_tombstone_was_covered_still_fends_off_late_versions"),
    Mutant(
        "wait-only-from-the-first-run", "a tombstone that superseded a record goes with it if its horizon has passed"
    )
    .changes("plan_partition", set_keyword("covered_end", "0"))
    .caught_by(
        "test_an_old_value_stays_away_after_the_run_that_removed_a_newer_one_and_could_have_dropped_its_tombstone"
    ),
    Mutant("wait-not-written-down", "a tombstone that superseded a record stays in that run, and goes in the next")
    .changes("apply_cleaning", drop_statement("_extend_lifetimes"))
    .caught_by("test_a_tombstone_waits_anew_from_the_last_run_in_which_it_superseded_a_record"),
    Mutant("all-tombstones-wait", "the whole history waits anew when one tombstone superseded a record")
    .changes(
        "_extend_lifetimes", replace("replace(A, end_offset=B, cleaning_time_ms=C)", "replace(A, cleaning_time_ms=C)")
    )
    .caught_by("test_tombstones_go_in_time_beside_one_that_is_needed_in_every_run"),
    Mutant("history-cut-short-early", "joined entries of a long history keep the earlier time")
    .changes("_get_later_time", replace_call("max", "min"))
    .caught_by("test_a_history_that_is_cut_short_never_ends_a_life_earlier"),
    Mutant("offset-waits-too", "under offset a tombstone waits for late versions, which Kafka's does not")
    .changes("find_covered_end", never("late_arrival_ms"))
    .caught_by("test_nothing_waits_where_nothing_arrives_late"),
    Mutant("future-appends-believed", "an append with a future as-of counts as late as that")
    .changes("Append.appended_ms", replace("min(A, B)", "A"))
    .caught_by("test_an_append_with_a_future_as_of_counts_as_of_its_arrival"),
)
