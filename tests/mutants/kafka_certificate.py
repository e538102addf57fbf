"""Breakages that the short form of the parity certificate notices, which is a test: of the border and of the cleaner.

Those that chance would miss are noticed by its special topics (``parity/edges.py``), those of Winnow's own segments by
the topics of which Winnow decides on its own files (``parity/own_run.py``).
"""

from __future__ import annotations

from tests.mutants.changes import drop_operand, replace, return_value, swap_operator
from tests.mutants.mutant import Mutant

_EDGES = "test_what_chance_misses_is_as_at_the_broker"
_RUN = "test_the_broker_and_winnow_differ_in_nothing_that_is_not_listed"

KAFKA_CERTIFICATE: tuple[Mutant, ...] = (
    Mutant("certified-timestamp-0-missing", "a record of 1970-01-01 gets the time of its ingest")
    .changes("make_batch", replace("stamps < 0", "stamps <= 0"))
    .caught_by(_EDGES),
    Mutant("certified-gap-of-one-record", "one record that the brokers deleted before it was read is passed over")
    .changes("_list_ranges", replace("start > position and is_known", "start > position + 1 and is_known"))
    .caught_by(_EDGES),
    Mutant("certified-offset-set-back-by-one", "a topic that lost its newest record is gone on with")
    .changes("_find_set_back", replace("A + B < C", "A + B < C - 1"))
    .caught_by(_EDGES),
    Mutant("certified-early-end", "a range ends where the broker knows no more records yet")
    .changes("RangeReader._judge", return_value("True", "_get_offset"))
    .caught_by(_EDGES),
    Mutant("certified-minimum-lag-late", "a record exactly as old as min.compaction.lag.ms is not cleanable")
    .changes("find_cleanable_range", swap_operator(">", ">=", "as_of_ms"))
    .caught_by(_EDGES),
    Mutant("certified-minimum-lag-early", "a record is cleanable a millisecond before min.compaction.lag.ms")
    .changes(
        "find_cleanable_range",
        replace("as_of_ms - rules.min_compaction_lag_ms", "as_of_ms - rules.min_compaction_lag_ms + 1"),
    )
    .caught_by(_EDGES),
    Mutant("certified-maximum-lag-early", "a log is due exactly at max.compaction.lag.ms, not behind it")
    .changes("_compute_deadline", replace("A - B - closed_earliest_ms", "A - B - closed_earliest_ms + 1"))
    .caught_by(_EDGES),
    Mutant("certified-maximum-lag-late", "a log is due a millisecond later than max.compaction.lag.ms says")
    .changes("_compute_deadline", replace("A - B - closed_earliest_ms", "A - B - closed_earliest_ms - 1"))
    .caught_by(_EDGES),
    Mutant("certified-retention-early", "a segment exactly as old as retention.ms goes")
    .changes("_is_older", swap_operator("<", "<="))
    .caught_by(_EDGES),
    Mutant("certified-retention-late", "a segment goes a millisecond later than retention.ms says")
    .changes("_is_older", replace("youngest_ms < oldest_kept_ms", "youngest_ms < oldest_kept_ms - 1"))
    .caught_by(_EDGES),
    Mutant("certified-horizon-late", "a tombstone does not go at its horizon but after it")
    .changes("TombstoneExpiry.may_expire", swap_operator(">", ">=", "cleaning_time_ms"))
    .caught_by(_EDGES),
    Mutant("certified-horizon-early", "a tombstone goes a millisecond before its horizon")
    .changes("TombstoneExpiry.may_expire", replace("A > self.cleaning_time_ms", "A > self.cleaning_time_ms + 1"))
    .caught_by(_EDGES),
    Mutant("certified-second-stamping", "every run starts the horizon of every tombstone anew")
    .changes("_stamp_ranges", drop_operand("delete_horizon_ms"))
    .caught_by(_RUN),
    Mutant("certified-horizon-stamped-late", "a tombstone's horizon is a millisecond later than its cleaning says")
    .changes("apply_cleaning", replace("A + plan.delete_retention_ms", "A + plan.delete_retention_ms + 1"))
    .caught_by(_RUN),
    Mutant("certified-active-segment-compacted", "the active segment is cleanable")
    .changes("find_cleanable_range", replace("not log.closes_active", "False"))
    .caught_by(_RUN),
    Mutant("certified-segments-never-full", "the active segment is not closed by its size")
    .changes("find_active_offset", replace("A >= rules.segment_bytes", "False"))
    .caught_by(_RUN),
    Mutant("certified-segments-never-old", "the active segment is not closed by its age")
    .changes("find_active_offset", replace("as_of_ms - oldest_ms > rules.max_segment_ms", "False"))
    .caught_by(_RUN),
)
