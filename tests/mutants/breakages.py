"""The list: what is broken, where, and the test that must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breakage:
    """One breakage: ``old`` occurs exactly once in ``path`` and becomes ``new``; ``test`` must fail then."""

    name: str
    sentence: str
    path: str
    old: str
    new: str
    test: str

    def broken(self, sound: str) -> str:
        """The file's text with the breakage.

        Raises:
            ValueError: the code has changed and the list has not.
        """
        if sound.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.path} has {sound.count(self.old)} places like {self.old!r}, not one")
        return sound.replace(self.old, self.new)


_ELIGIBILITY = "winnow/eligibility.py"
_WINNERS = "winnow/engine/winners.py"
_ORDERS = "winnow/engine/orders.py"
_REWRITE = "winnow/engine/rewrite.py"
_PUBLISH = "winnow/pipeline/publish.py"
_STANDING = "winnow/pipeline/standing.py"
_STATES = "winnow/pipeline/partition_states.py"
_PLANNING = "winnow/planning.py"
_SELECTION = "tests/catalogue/test_selection.py"
_STRATEGIES = "tests/catalogue/test_strategies.py"
_CORE = "tests/catalogue/test_core_retention.py"
_BEYOND = "tests/catalogue/test_beyond_kafka.py"
_LIFETIMES = "tests/integration/test_lifetimes.py"
_RETENTION = "tests/integration/test_retention.py"

BREAKAGES: tuple[Breakage, ...] = (
    Breakage(
        "ratio-not-strict",
        "a dirty ratio equal to the threshold is enough",
        _ELIGIBILITY,
        "look.dirty_ratio > rules.min_cleanable_dirty_ratio",
        "look.dirty_ratio >= rules.min_cleanable_dirty_ratio",
        f"{_SELECTION}::test_the_dirtiest_partition_is_selected_before_any_less_dirty_one",
    ),
    Breakage(
        "min-lag-not-strict",
        "a record exactly as old as min.compaction.lag.ms is not cleanable",
        _ELIGIBILITY,
        "youngest_ms > as_of_ms - rules.min_compaction_lag_ms",
        "youngest_ms >= as_of_ms - rules.min_compaction_lag_ms",
        f"{_SELECTION}::test_the_range_ends_at_the_first_segment_younger_than_the_minimum_lag",
    ),
    Breakage(
        "min-lag-by-oldest",
        "the oldest record of a segment decides min.compaction.lag.ms, not the youngest",
        _ELIGIBILITY,
        "youngest_ms = _youngest_ms(segment, appends)\n            if",
        "youngest_ms = _oldest_ms(segment, appends)\n            if",
        f"{_LIFETIMES}::test_the_youngest_record_of_a_segment_decides_its_minimum_lag",
    ),
    Breakage(
        "max-lag-on-appends-only",
        "the clock does not close the active segment, so an idle partition misses its deadline",
        _ELIGIBILITY,
        "aged = oldest_ms is not None and as_of_ms - oldest_ms > rules.max_segment_ms",
        "aged = False",
        f"{_BEYOND}::test_on_a_quiet_partition_data_older_than_the_maximum_lag_is_compacted",
    ),
    Breakage(
        "active-segment-compacted",
        "the active segment is cleanable",
        _ELIGIBILITY,
        "    upper = active\n",
        "    upper = log.state.log_end_offset\n",
        f"{_SELECTION}::test_the_range_ends_where_the_active_segment_begins",
    ),
    Breakage(
        "overdue-not-first",
        "a dirtier partition goes before one past its deadline",
        _PLANNING,
        "return (0 if overdue else 1,",
        "return (1,",
        f"{_BEYOND}::test_a_partition_past_its_maximum_lag_comes_before_a_dirtier_one",
    ),
    Breakage(
        "horizon-from-as-of",
        "a backfill starts a tombstone's horizon in the past",
        _PUBLISH,
        "cleaning_time_ms = max(plan.as_of_ms, now_ms)",
        "cleaning_time_ms = plan.as_of_ms",
        f"{_LIFETIMES}::test_a_backfill_starts_a_tombstones_horizon_now_and_not_at_its_as_of",
    ),
    Breakage(
        "horizon-moves",
        "every run starts the horizon of every tombstone anew",
        _STATES,
        "covered_now = entry.delete_horizon_ms is None and start < stamped.end_offset",
        "covered_now = start < stamped.end_offset",
        f"{_LIFETIMES}::test_a_later_run_leaves_a_horizon_that_has_started_where_it_is",
    ),
    Breakage(
        "tombstone-dropped-in-one-run",
        "the run that first covers a tombstone drops it",
        _PLANNING,
        "expired=expired_ranges(log.state.history, outliving(left, rules, end, max(as_of_ms, now_ms)))",
        "expired=(OffsetRange(0, end),)",
        f"{_BEYOND}::test_a_retention_of_zero_needs_two_runs",
    ),
    Breakage(
        "tombstone-a-moment-late",
        "a tombstone does not go at its horizon but after it",
        _ELIGIBILITY,
        "horizon_ms is None or horizon_ms > self.cleaning_time_ms",
        "horizon_ms is None or horizon_ms >= self.cleaning_time_ms",
        f"{_BEYOND}::test_on_a_quiet_partition_tombstones_go_when_their_horizon_has_passed",
    ),
    Breakage(
        "quiet-tombstones-stay",
        "expired tombstones of a quiet partition are no reason to run",
        _ELIGIBILITY,
        "        (look.tombstones_due, Reason.TOMBSTONES_EXPIRED),\n",
        "",
        f"{_BEYOND}::test_on_a_quiet_partition_tombstones_go_when_their_horizon_has_passed",
    ),
    Breakage(
        "late-arrivals-forgotten",
        "a tombstone goes although an older record that it outranks is not covered yet",
        _ELIGIBILITY,
        "        return self.uncovered_since_ms is None or self.uncovered_since_ms >= horizon_ms",
        "        return True",
        f"{_BEYOND}::test_a_late_lower_version_does_not_bring_a_deleted_key_back",
    ),
    Breakage(
        "tail-not-compared",
        "winners are picked among dirty records only",
        _WINNERS,
        """readable = f'"offset" >= {plan.log_start_offset}""",
        """readable = f'"offset" >= {plan.first_dirty_offset}""",
        f"{_STRATEGIES}::test_exactly_one_of_a_tail_and_a_head_record_survives",
    ),
    Breakage(
        "first-header-wins",
        "the first occurrence of the version header counts, not the last",
        _ORDERS,
        "h.key = {literal(header)})[-1]",
        "h.key = {literal(header)})[1]",
        f"{_STRATEGIES}::test_a_version_is_the_last_eight_byte_value_of_the_exact_name",
    ),
    Breakage(
        "short-header-counts",
        "a header value of another length than 8 bytes is a version",
        _ORDERS,
        "CASE WHEN octet_length({value}) = {_LONG_BYTES} THEN",
        "CASE WHEN octet_length({value}) > 0 THEN",
        f"{_STRATEGIES}::test_a_version_is_the_last_eight_byte_value_of_the_exact_name",
    ),
    Breakage(
        "missing-timestamp-wins",
        "a record without timestamp is the newest of its key",
        _ORDERS,
        """coalesce(epoch_ms("timestamp"), -1)""",
        """coalesce(epoch_ms("timestamp"), 9223372036854775807)""",
        f"{_STRATEGIES}::test_exactly_one_of_a_tail_and_a_head_record_survives",
    ),
    Breakage(
        "lower-offset-wins-ties",
        "of equal versions the lower offset survives",
        _ORDERS,
        """(max({version} * {_OFFSETS} + "offset") & {_OFFSETS - 1})""",
        """(max({version} * {_OFFSETS} + {_OFFSETS - 1} - "offset") & {_OFFSETS - 1} ^ {_OFFSETS - 1})""",
        f"{_STRATEGIES}::test_exactly_one_of_a_tail_and_a_head_record_survives",
    ),
    Breakage(
        "strategy-change-unnoticed",
        "a changed strategy leaves the clean section clean",
        _ELIGIBILITY,
        "    return log.state.strategy is not None and log.state.strategy != rules.order",
        "    return False",
        f"{_STRATEGIES}::test_one_strategy_leaves_nothing_behind_that_another_could_see",
    ),
    Breakage(
        "empty-value-is-a-tombstone",
        "an empty value deletes",
        _WINNERS,
        "WHERE value IS NULL AND ({inside}) AND",
        "WHERE (value IS NULL OR octet_length(value) = 0) AND ({inside}) AND",
        f"{_LIFETIMES}::test_only_a_null_value_expires",
    ),
    Breakage(
        "retention-not-strict",
        "a segment exactly as old as retention.ms goes",
        _ELIGIBILITY,
        "youngest_ms < oldest_kept_ms",
        "youngest_ms <= oldest_kept_ms",
        f"{_RETENTION}::test_a_segment_exactly_as_old_as_retention_stays",
    ),
    Breakage(
        "retention-in-the-future",
        "a simulated future removes records of today",
        _ELIGIBILITY,
        "oldest_kept_ms = min(as_of_ms, now_ms) - rules.retention_ms",
        "oldest_kept_ms = as_of_ms - rules.retention_ms",
        f"{_RETENTION}::test_a_simulated_future_removes_nothing",
    ),
    Breakage(
        "retention-skips-the-young",
        "retention goes on behind a segment that stays",
        _ELIGIBILITY,
        "return tuple(takewhile(qualifies, segments))",
        "return tuple(filter(qualifies, segments))",
        f"{_RETENTION}::test_a_young_segment_keeps_the_older_ones_behind_it",
    ),
    Breakage(
        "log-start-stays",
        "retention does not move the log start",
        _STATES,
        "    start = partition.log_start_offset\n",
        "    start = state.log_start_offset\n",
        f"{_RETENTION}::test_with_policy_delete_the_oldest_segments_go_by_age_and_the_log_start_follows",
    ),
    Breakage(
        "retention-takes-living-tombstones",
        "under timestamp and header retention takes a tombstone that may not go yet",
        _ELIGIBILITY,
        "        return segment.last_offset < span.first_dirty_offset and outlived",
        "        return segment.last_offset < span.first_dirty_offset",
        f"{_RETENTION}::test_under_timestamp_and_header_retention_takes_no_dirty_segment_and_no_living_tombstone",
    ),
    Breakage(
        "keyless-dropped",
        "keyless records leave the log and are not visible in the quarantine",
        _PUBLISH,
        "*([moved] if moved is not None else [])",
        "",
        "tests/catalogue/test_retention_policies.py::"
        "test_after_a_switch_to_compact_keyless_records_are_moved_aside_and_counted",
    ),
    Breakage(
        "paused-published",
        "a partition that was paused during the run is published all the same",
        _STANDING,
        "    if state.paused_since_ms is not None:\n",
        "    if False:\n",
        "tests/integration/test_partitions.py::test_run_whose_partition_was_paused_meanwhile_publishes_nothing",
    ),
    Breakage(
        "stale-plan-published",
        "a plan is published although records were deleted meanwhile",
        _STANDING,
        "if planned == there and not straddling and not moved:",
        "if planned == there and not straddling:",
        f"{_RETENTION}::test_a_plan_made_before_records_were_deleted_is_void",
    ),
    Breakage(
        "configuration-ignored-at-publish",
        "a plan is published under rules it was not made under",
        _STANDING,
        "if plan.configuration not in {None, configuration_digest(log.config(head))}:",
        "if False:",
        f"{_RETENTION}::test_a_plan_is_void_when_the_configuration_changed_after_it_was_made",
    ),
    Breakage(
        "retention-before-the-late",
        "retention takes a tombstone that a late, lower version has not met yet",
        _ELIGIBILITY,
        "going = outliving(log, rules, span.first_dirty_offset, cleaning_time_ms)",
        "going = outliving(log, rules, span.first_uncleanable_offset, cleaning_time_ms)",
        f"{_RETENTION}::test_retention_leaves_a_tombstone_whose_late_older_value_is_not_compacted_yet",
    ),
    Breakage(
        "late-arrival-only-as-stamped",
        "a tombstone that was covered under offset does not wait for late versions under timestamp",
        _ELIGIBILITY,
        "return max(entry.delete_horizon_ms, entry.cleaning_time_ms + self.late_arrival_ms)",
        "return entry.delete_horizon_ms",
        "tests/integration/test_late_arrivals.py::"
        "test_a_strategy_that_changed_after_the_tombstone_was_covered_still_fends_off_late_versions",
    ),
    Breakage(
        "future-appends-believed",
        "an append with a future as-of counts as late as that",
        "winnow/model.py",
        "return self.as_of_ms if self.arrived_ms is None else min(self.as_of_ms, self.arrived_ms)",
        "return self.as_of_ms",
        "tests/integration/test_late_arrivals.py::test_an_append_with_a_future_as_of_counts_as_of_its_arrival",
    ),
    Breakage(
        "facts-ignore-a-stale-winner",
        "the recomputation does not mind that a survivor has a greater record among the inputs",
        "winnow/quality/quick_census.py",
        "if self._gone.keys > self._most or places.above(theirs).any():",
        "if self._gone.keys > self._most:",
        "tests/unit/test_quality_facts.py::test_an_older_record_that_survived_instead_fails_as_a_stale_winner_only",
    ),
    Breakage(
        "facts-ignore-a-lost-key",
        "keys without a survivor are not compared with the tombstones that expired",
        "winnow/quality/quick_census.py",
        "if not self.every_new_record_met_itself or self._gone.counts() != (keys_gone, keys_gone):",
        "if not self.every_new_record_met_itself:",
        "tests/unit/test_quality_lookup.py::test_the_quick_census_gives_what_grouping_gives_or_nothing",
    ),
    Breakage(
        "facts-believe-any-tombstone",
        "a key that is gone need not have ended with a tombstone of an expired range",
        "winnow/quality/recomputation.py",
        'may_go &= batch.column("value").is_null().to_numpy(zero_copy_only=False)',
        "pass",
        "tests/unit/test_quality_facts.py::test_a_key_that_is_gone_must_have_ended_with_a_tombstone_that_may_go",
    ),
    Breakage(
        "facts-of-some-partitions",
        "facts that Spark left of some partitions stand for all",
        "winnow/pipeline/facts.py",
        "figures if figures is not None and figures.keys() == wanted else None",
        "figures",
        "tests/integration/test_facts_in_spark.py::"
        "test_document_that_lacks_a_partition_breaks_the_check_and_marks_nothing",
    ),
    Breakage(
        "another-manifest-published",
        "the staging manifest need not be the one that was judged",
        _PUBLISH,
        "if verdict.manifest_digest not in {None, documents.digest(manifest)}:",
        "if False:",
        "tests/integration/test_publish_validation.py::"
        "test_an_attempt_that_was_staged_again_after_it_passed_is_not_published",
    ),
    Breakage(
        "entries-miscounted",
        "a block of a manifest may say that it has fewer entries than it has",
        "winnow/log/manifests.py",
        "if rows.tell() != len(plain):",
        "if False:",
        "tests/integration/test_control_plane.py::test_a_block_that_says_it_has_fewer_entries_than_it_has_is_refused",
    ),
    Breakage(
        "facts-believe-invented-records",
        "a new record that no input held is no finding",
        "winnow/quality/quick_census.py",
        "if not self.every_new_record_met_itself or self._gone.counts() != (keys_gone, keys_gone):",
        "if self._sealed() is None or self._gone.counts() != (keys_gone, keys_gone):",
        "tests/unit/test_quality_lookup.py::test_the_quick_census_gives_what_grouping_gives_or_nothing",
    ),
    Breakage(
        "facts-ignore-a-surviving-duplicate",
        "a key that survived twice is no finding",
        "winnow/quality/quick_census.py",
        "if self._table.has_duplicates:",
        "if False:",
        "tests/unit/test_quality_facts.py::test_a_key_in_two_segments_kept_by_reference_fails_as_not_unique",
    ),
    Breakage(
        "facts-forget-crowded-slots",
        "keys whose slot another one has are not found",
        "winnow/quality/key_table.py",
        "np.where(self._rest_hashes[places] == wanted, self._rest[places], _NOBODY)",
        "_NOBODY",
        "tests/unit/test_quality_lookup.py::test_a_table_finds_each_hash_that_it_holds_and_no_other",
    ),
    Breakage(
        "facts-missing-version-is-zero",
        "a missing version stands as high as version 0",
        "winnow/quality/quick_census.py",
        "(self.present & ~others.present) | ((self.present == others.present) & higher)",
        "higher",
        "tests/unit/test_quality_orders.py::test_a_header_that_is_no_version_or_a_lower_one_does_not_excuse_a_loser",
    ),
    Breakage(
        "facts-of-another-manifest",
        "facts that Spark computed are taken for another staging manifest of the attempt",
        "winnow/engine/facts_document.py",
        "return facts.partitions if facts.manifest_digest == documents.digest(manifest) else None",
        "return facts.partitions",
        "tests/integration/test_facts_in_spark.py::test_facts_of_another_staging_manifest_of_the_attempt_are_not_used",
    ),
    Breakage(
        "facts-rewrites-mixed-up",
        "a record that one rewrite took from the inputs of another is no finding",
        "winnow/quality/recomputation.py",
        "if quick is not None and not self._strays and not",
        "if quick is not None and not",
        "tests/unit/test_quality_lookup.py::test_a_record_moved_from_one_rewrite_to_another_is_foreign_to_it",
    ),
    Breakage(
        "judged-without-figures",
        "a failing check is not run again for its partitions",
        "winnow/quality/session.py",
        "return result if result.success else self._run(frame, run_id, _LONG)",
        "return result",
        "tests/unit/test_quality_judge.py::test_only_failing_partitions_are_named_and_the_figures_are_told",
    ),
    Breakage(
        "docs-index-always-green",
        "the index of the Data Docs shows every run as passed",
        "winnow/quality/site_index.py",
        'success = bool(result["success"])',
        "success = True",
        "tests/unit/test_quality_judge.py::"
        "test_a_later_run_leaves_earlier_pages_alone_and_the_index_lists_them_when_it_is_built",
    ),
)
