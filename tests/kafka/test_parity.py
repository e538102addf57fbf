"""The parity certificate in small: a real broker's cleaner and Winnow keep the same, and what differs is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parity import archive
from parity.certificate import CertifiedRun, format_certificate
from parity.cleaner_log import Cleaning, Look
from parity.cli import certify, certify_edges
from parity.comparison import LogState, Release, Tally, compare_decision, compare_horizons, compare_records
from parity.differences import DIFFERENCES, Difference
from parity.own_topics import make_own_topics
from parity.random_topics import DAY_MS, make_topics
from parity.segment_headers import Batch, BrokerSegment
from winnow.engine.rewrite import compact_partition
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Record
from winnow.values.results import StagedPartition
from winnow.values.topic_state import Cleaning as History
from winnow.values.topic_state import PartitionState

SEED = 16
LOGS = 28
RECORDS = 800


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    """One run over a few small logs."""
    folder: Path = tmp_path_factory.mktemp("parity")
    return certify("4.3.1", SEED, LOGS, RECORDS, spark_topics=0, folder=folder, report=print)


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """What chance misses."""
    return certify_edges("4.3.1", folder=tmp_path_factory.mktemp("edges"), report=print)


def test_the_broker_and_winnow_differ_in_nothing_that_is_not_listed(run: CertifiedRun) -> None:
    assert run.tally.unexplained == []


def test_enough_was_compared(run: CertifiedRun) -> None:
    compared = run.tally.compared
    assert compared["cleanings by the broker"] >= LOGS
    assert compared["records, field by field"] >= 3_000
    assert compared["delete horizons, tombstone by tombstone"] >= 30
    assert compared["decisions of Winnow's own: its files, its active segment, its ratio"] >= 24


def test_what_chance_misses_is_as_at_the_broker(edges: Tally) -> None:
    """Boundaries of one millisecond, losses of one record, timestamps of 0, a partition that ends before the range."""
    assert edges.unexplained == []


@pytest.mark.parametrize(
    "setting", ["min.compaction.lag.ms", "max.compaction.lag.ms", "retention.ms", "delete.retention.ms"]
)
def test_each_boundary_is_met_to_the_millisecond(edges: Tally, setting: str) -> None:
    assert edges.compared[f"boundaries of {setting}, to the millisecond"] > 0


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.id)
def test_each_listed_difference_is_shown_by_its_topic(run: CertifiedRun, difference: Difference) -> None:
    own = make_own_topics(SEED, segment_setting="segment.bytes")
    topics = [
        *make_topics(SEED, LOGS, RECORDS, segment_setting="segment.bytes"),
        *(each.topic for each in own),
    ]
    shown = [topic.name for topic in topics if topic.shows == difference.id]
    assert [run.tally.shown[difference.id, name] > 0 for name in shown] == [True]


def test_the_certificate_names_version_seed_and_verdict(run: CertifiedRun) -> None:
    page = format_certificate([run], "2026-01-02")
    assert "No unexplained difference" in page
    assert f"| {SEED} |" in page
    broken = replace(run, tally=Tally(unexplained=["seed 16, log-1-0, round 1: one record kept by Winnow alone"]))
    assert "UNEXPLAINED DIFFERENCES" in format_certificate([broken], "2026-01-02")


def damage_value(record: Record) -> Record:
    return replace(record, value=b"other")


def damage_timestamp(record: Record) -> Record:
    return replace(record, timestamp_ms=(record.timestamp_ms or 0) + 1)


def damage_headers(record: Record) -> Record:
    return replace(record, headers=(("a", b"1"),))


@pytest.mark.parametrize("damage", [damage_value, damage_timestamp, damage_headers])
def test_one_record_that_differs_is_a_finding_without_its_bytes(damage: Callable[[Record], Record]) -> None:
    records = [Record(offset, b"secret", b"secret", 1_000) for offset in range(10)]
    tally = Tally()
    log = LogState(make_topics(1, 1, 100, segment_setting="segment.bytes")[0], 0, ingested_end=10)
    compare_records(log, records, [*records[:5], damage(records[5]), *records[6:]], tally, "here")
    assert len(tally.unexplained) == 1
    assert "offset 5," in tally.unexplained[0]
    assert "secret" not in tally.unexplained[0]


def test_a_record_too_many_or_too_few_is_a_finding() -> None:
    records = [Record(offset, b"key", b"value", 1_000) for offset in range(10)]
    log = LogState(make_topics(1, 1, 100, segment_setting="segment.bytes")[0], 0, ingested_end=10)
    tally = Tally()
    compare_records(log, records, records[1:], tally, "here")
    compare_records(log, records[:-1], records, tally, "here")
    assert [finding.split(": ")[1] for finding in tally.unexplained] == [
        "1 records kept by the broker alone",
        "1 records kept by Winnow alone",
    ]


@pytest.mark.parametrize(
    ("threshold", "look", "cleaned", "findings"),
    [
        (0.5, Look(2_000, 100, 200), False, 0),
        (0.4, Look(2_000, 100, 200), True, 0),
        (0.5, Look(2_000, 100, 200), True, 1),
        (0.4, Look(2_000, 100, 200), False, 1),
        (0.4, Look(2_000, 0, 200), True, 1),
        (0.4, Look(2_000, 100, 300), True, 1),
    ],
)
def test_another_range_or_decision_is_a_finding(threshold: float, look: Look, cleaned: bool, findings: int) -> None:
    segments = [
        BrokerSegment(base, base + 100, 1_000, 1, (Batch(base, base + 99, 100, 1_000, False, None),))
        for base in (0, 100, 200)
    ]
    log = LogState(make_topics(1, 1, 100, segment_setting="segment.bytes")[3], 0, checkpoint=100, segments=segments)
    tally = Tally()
    compare_decision(log, Release(threshold), look, cleaned, tally, "here")
    assert len(tally.unexplained) == findings


@pytest.mark.parametrize(("cleaned_ms", "findings"), [(989, 1), (990, 0), (1_000, 0), (1_001, 1)])
def test_a_horizon_of_another_time_than_the_brokers_cleaning_is_a_finding(cleaned_ms: int, findings: int) -> None:
    """The cleaner's clock stood between its look at the log and the line that says that it begins."""
    batch = Batch(0, 9, 10, 500, False, cleaned_ms + DAY_MS)
    log = LogState(make_topics(1, 1, 100, segment_setting="segment.bytes")[0], 0, ingested_end=10)
    log.begun[1_000] = Cleaning(Look(990, 0, 10), 1_000, 10, 10, 10)
    log.retentions[1_000] = DAY_MS
    state = PartitionState(log_end_offset=10, first_dirty_offset=10, history=(History(10, 1_000, 1_000 + DAY_MS),))
    tally = Tally()
    segments = [BrokerSegment(0, 10, 1_000, 500, (batch,))]
    compare_horizons(log, [Record(5, b"key", None, 500)], segments, state, 10, tally, "here")
    assert len(tally.unexplained) == findings


def test_a_horizon_that_is_a_millisecond_late_is_a_finding() -> None:
    """Whatever the broker's clock may have been."""
    log = LogState(make_topics(1, 1, 100, segment_setting="segment.bytes")[0], 0, ingested_end=10)
    log.begun[1_000] = Cleaning(Look(990, 0, 10), 1_000, 10, 10, 10)
    log.retentions[1_000] = DAY_MS
    state = PartitionState(log_end_offset=10, first_dirty_offset=10, history=(History(10, 1_000, 1_001 + DAY_MS),))
    segments = [BrokerSegment(0, 10, 1_000, 500, (Batch(0, 9, 10, 500, False, 995 + DAY_MS),))]
    tally = Tally()
    compare_horizons(log, [Record(5, b"key", None, 500)], segments, state, 10, tally, "here")
    assert len(tally.unexplained) == 1


def test_a_tombstone_that_goes_too_early_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole certificate, with an engine that drops what it should keep."""

    def drop_tombstones(plan: Plan, planned: PartitionPlan, **more: Any) -> StagedPartition:
        return compact_partition(plan, replace(planned, expired=(OffsetRange(0, 1 << 40),)), **more)

    monkeypatch.setattr(archive, "compact_partition", drop_tombstones)
    only = ["show-quiet-tombstones"]
    found = certify("4.3.1", SEED, 1, 400, spark_topics=0, folder=tmp_path, report=print, only=only)
    assert any("kept by the broker alone" in finding for finding in found.tally.unexplained)
