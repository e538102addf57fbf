"""Kafka's cleaner metrics over assessments, state and receipts; the Prometheus page; the paragraph of a receipt."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from winnow.report.metric_formats import format_exposition
from winnow.report.metrics import (
    METRICS,
    TOPIC_STATES,
    Measurement,
    compute_measurement,
    list_metric_values,
    sum_measurements,
)
from winnow.report.receipts import compare_with_plan, format_receipt
from winnow.values.model import Assessment, Reason, Status
from winnow.values.results import PartitionReceipt, Receipt, RunFigures
from winnow.values.topic_state import PartitionState, RetiredFile, TopicState, Uncleanable

AS_OF_MS = 4_000_000_000_000


def assessment(partition: int, reason: Reason = Reason.DIRTY_RATIO, **more: Any) -> Assessment:
    found = Assessment("orders", partition, True, reason, 0, 0, 0, 0, 0.5, 50, 50, 0, None)
    return replace(found, **more)


def part(number: int = 0, **more: Any) -> PartitionReceipt:
    return replace(
        PartitionReceipt(
            partition=number,
            first_dirty_offset=0,
            next_first_dirty_offset=100,
            records_in=100,
            records_kept=40,
            records_superseded=60,
            tombstones_expired=0,
            records_keyless=0,
            records_retired=0,
            bytes_in=1000,
            bytes_out=400,
            seconds=2.0,
        ),
        **more,
    )


def receipt(*parts: PartitionReceipt, at_ms: int = 1, **more: Any) -> Receipt:
    found = Receipt("orders", f"plan-{at_ms}", Status.PUBLISHED, 7, parts, "message", 0, at_ms)
    return replace(found, **more)


def state(**partitions: PartitionState) -> TopicState:
    numbered = {int(name.removeprefix("p")): found for name, found in partitions.items()}
    return TopicState("orders", numbered or {0: PartitionState()})


def measured(
    *found: Assessment, of: TopicState | None = None, receipts: tuple[Receipt, ...] = (), **more: Any
) -> Measurement:
    options: dict[str, Any] = {"compacts": True, "last_run_ms": None, "as_of_ms": AS_OF_MS, **more}
    return compute_measurement(of or state(), found, receipts, **options)


@pytest.mark.kafka("114")
def test_uncleanable_partitions_are_counted_with_their_cleanable_bytes() -> None:
    """Two of three are marked; the third does not count, and one that is released no longer does."""
    mark = Uncleanable("corrupt", since_ms=1)
    both = state(p0=PartitionState(uncleanable=mark), p1=PartitionState(uncleanable=mark), p2=PartitionState())
    found = [assessment(n, Reason.UNCLEANABLE, cleanable_bytes=10 ** (n + 1)) for n in range(3)]
    told = list_metric_values(measured(*found, of=both))
    assert (told["uncleanable-partitions-count"], told["uncleanable-bytes"]) == (2, 110)
    released = state(p0=PartitionState(), p1=PartitionState(uncleanable=mark), p2=PartitionState())
    told = list_metric_values(measured(*found, of=released))
    assert (told["uncleanable-partitions-count"], told["uncleanable-bytes"]) == (1, 100)


@pytest.mark.parametrize("reason", [Reason.IN_PROGRESS, Reason.PAUSED])
def test_dirtiest_partition_is_one_that_could_be_cleaned(reason: Reason) -> None:
    """Before any threshold, but without what is in progress, paused or uncleanable."""
    marked = state(p0=PartitionState(), p1=PartitionState(uncleanable=Uncleanable("x", 1)), p2=PartitionState())
    found = measured(
        assessment(0, Reason.NOT_DIRTY_ENOUGH, eligible=False, dirty_ratio=0.3),
        assessment(1, Reason.UNCLEANABLE, eligible=False, dirty_ratio=0.9),
        assessment(2, reason, eligible=False, dirty_ratio=0.8),
        of=marked,
    )
    assert list_metric_values(found)["max-dirty-percent"] == 30.0


@pytest.mark.kafka("G30")
def test_delay_is_the_most_of_all_partitions_and_does_not_saturate() -> None:
    """Also of those nobody selects: an idle or an uncleanable partition is as overdue as any other."""
    long_ms = 3_000_000_000_000  # 95 years, more than fits into 32 bits of milliseconds or of seconds * 1000
    marked = state(p0=PartitionState(), p1=PartitionState(uncleanable=Uncleanable("x", 1)), p2=PartitionState())
    found = measured(
        assessment(0, max_compaction_delay_ms=5_000),
        assessment(1, Reason.UNCLEANABLE, eligible=False, max_compaction_delay_ms=long_ms),
        assessment(2, Reason.PAUSED, eligible=False, max_compaction_delay_ms=7_000),
        of=marked,
    )
    told = list_metric_values(found)
    assert (told["max-compaction-delay-secs"], told["overdue-partitions-count"]) == (3_000_000_000, 3)


def test_delay_is_zero_again_when_nothing_is_late() -> None:
    """Kafka's stays at the last selection that found a log; this one is of now."""
    late = receipt(part(reason=Reason.MAX_COMPACTION_LAG))
    told = list_metric_values(measured(assessment(0, Reason.CLEAN, eligible=False), receipts=(late,)))
    assert told["max-compaction-delay-secs"] == 0


def test_next_deadline_is_the_earliest_and_negative_once_it_has_passed() -> None:
    """In seconds from the as-of."""
    found = [assessment(0, deadline_ms=AS_OF_MS + 9_000), assessment(1), assessment(2, deadline_ms=AS_OF_MS - 1_500)]
    assert list_metric_values(measured(*found))["next-deadline-secs"] == -1.5
    assert list_metric_values(measured(*found[:2]))["next-deadline-secs"] == 9
    assert list_metric_values(measured(found[1]))["next-deadline-secs"] is None


def test_topic_without_compaction_has_no_delay_no_deadline_and_no_dirt() -> None:
    """Its cleaner does not exist."""
    found = assessment(0, Reason.POLICY_DELETE_ONLY, max_compaction_delay_ms=5, deadline_ms=AS_OF_MS, dirty_ratio=0.9)
    told = list_metric_values(measured(found, compacts=False))
    assert (told["max-compaction-delay-secs"], told["max-dirty-percent"], told["next-deadline-secs"]) == (0, 0, None)


def test_last_run_is_the_newest_that_compacted_something() -> None:
    """A later run of retention alone, or one that published nothing, does not hide it."""
    runs = (
        receipt(part(reason=Reason.RETENTION, bytes_in=0, bytes_out=0, seconds=0.0), at_ms=9),
        receipt(part(bytes_out=999), at_ms=8, status=Status.INVALID),
        receipt(
            part(0, reason=Reason.MAX_COMPACTION_LAG, seconds=1.5, records_keyless=3),
            part(1, reason=Reason.DIRTY_RATIO, bytes_in=3000, bytes_out=600, seconds=0.5, headers_malformed=2),
            at_ms=7,
        ),
        receipt(part(bytes_out=1), at_ms=6),
    )
    told = list_metric_values(measured(assessment(0), receipts=runs))
    assert told["cleaner-recopy-percent"] == 25.0
    assert told["max-clean-time-secs"] == 1.5
    assert told["cleaner-io"] == 2500
    assert told["num-logs-compacted-by-max-compaction-lag"] == 1
    assert told["no-key-compacted-topic-records"] == 3
    assert (told["header-malformed-records"], told["header-missing-records"]) == (2, 0)


def test_topic_that_was_never_compacted_has_no_figures_of_a_last_run() -> None:
    """Unknown is not zero."""
    told = list_metric_values(measured(assessment(0)))
    assert [name for name, value in told.items() if value is None] == [
        "num-logs-compacted-by-max-compaction-lag", "cleaner-recopy-percent", "max-clean-time-secs", "cleaner-io",
        "time-since-last-run-ms", "no-key-compacted-topic-records", "next-deadline-secs", "header-missing-records",
        "header-malformed-records", "ingest-lag-records", "ingest-lag-secs", "ingest-look-age-secs",
        "ingest-uncommitted-records", "ingest-open-transaction-secs", "latest-age-secs", "latest-late-secs",
        "last-run-timestamp-secs",
    ]  # fmt: skip


def test_lag_behind_kafka_is_the_sum_of_records_and_the_worst_of_times() -> None:
    """A topic of files has none, and takes none from the others."""
    found = [
        Measurement("a", records_behind=3, behind_ms=9_000, look_age_ms=1_000),
        Measurement("b", records_behind=0, behind_ms=2_000, look_age_ms=2_000),
        Measurement("files"),
    ]
    told = list_metric_values(sum_measurements(found))
    assert (told["ingest-lag-records"], told["ingest-lag-secs"], told["ingest-look-age-secs"]) == (3, 9.0, 2.0)
    assert list_metric_values(sum_measurements(found[2:]))["ingest-lag-secs"] is None


def test_age_of_all_tables_of_latest_states_is_that_of_the_oldest() -> None:
    """A topic without such a table has none, and one without a limit is never late."""
    kept = Measurement("a", latest_age_ms=9_000, latest_late_ms=2_000)
    free = Measurement("b", latest_age_ms=12_000)
    told = list_metric_values(sum_measurements([kept, free, Measurement("none")]))
    assert (told["latest-age-secs"], told["latest-late-secs"]) == (12.0, 2.0)
    assert list_metric_values(free)["latest-late-secs"] is None


def test_open_transactions_of_all_topics_are_their_records_and_the_oldest_age() -> None:
    """One whose age is not known is not taken for none."""
    free = Measurement("a", records_behind=0, records_uncommitted=0, open_transaction_ms=0)
    held = Measurement("b", records_behind=0, records_uncommitted=120, open_transaction_ms=7_200_000)
    undated = replace(held, open_transaction_ms=None)

    def tell(*found: Measurement) -> list[float | None]:
        told = list_metric_values(sum_measurements(found))
        return [told["ingest-uncommitted-records"], told["ingest-open-transaction-secs"]]

    assert tell(free, held, undated) == [240, 7_200.0]
    assert tell(free, Measurement("files")) == [0, 0.0]
    assert tell(free, undated) == [120, None]


def test_run_that_did_not_tell_its_time_has_no_rate() -> None:
    """Receipts of earlier versions know no seconds."""
    told = list_metric_values(measured(assessment(0), receipts=(receipt(part(seconds=0.0)),)))
    assert (told["max-clean-time-secs"], told["cleaner-io"], told["cleaner-recopy-percent"]) == (None, None, 40.0)


def test_pauses_retired_bytes_and_the_time_since_the_last_run_come_from_the_state() -> None:
    """Two paused, two files waiting, a run one second ago; one that began after the as-of was just now."""
    paused = state(p0=PartitionState(paused_since_ms=1), p1=PartitionState(paused_since_ms=2), p2=PartitionState())
    paused = replace(paused, retired=(RetiredFile("a", 10, 0, "p"), RetiredFile("b", 5, 0, "p")))
    told = list_metric_values(measured(of=paused, last_run_ms=AS_OF_MS - 1_000))
    assert (told["paused-partitions-count"], told["retired-bytes-waiting"]) == (2, 15)
    assert told["time-since-last-run-ms"] == 1_000
    assert list_metric_values(measured(last_run_ms=AS_OF_MS + 1))["time-since-last-run-ms"] == 0


PAUSED = PartitionState(paused_since_ms=1)
MARKED = PartitionState(uncleanable=Uncleanable("x", 1))
LATE: dict[str, Any] = {"max_compaction_delay_ms": 5}


@pytest.mark.parametrize(
    ("states", "found", "word"),
    [
        ([PartitionState()], [assessment(0, Reason.CLEAN, eligible=False)], "healthy"),
        ([PartitionState(), PAUSED], [assessment(0, Reason.CLEAN, eligible=False)], "paused"),
        ([PAUSED], [assessment(0, Reason.PAUSED, eligible=False, **LATE)], "paused"),
        ([PartitionState(), PAUSED], [assessment(0)], "due"),
        ([PartitionState(), PartitionState()], [assessment(0), assessment(1, eligible=False, **LATE)], "overdue"),
        ([PartitionState(), MARKED], [assessment(0, **LATE), assessment(1, eligible=False)], "uncleanable"),
    ],
)
def test_topic_has_the_state_of_its_worst_partition_and_counts_once(
    states: list[PartitionState], found: list[Assessment], word: str
) -> None:
    """One topic says nothing of topics; the total counts each under one word. Who is paused is late for nobody."""
    one = measured(*found, of=TopicState("orders", dict(enumerate(states))))
    assert not [name for name in list_metric_values(one) if name.endswith("-topics-count")]
    counts = {
        name: value
        for name, value in list_metric_values(sum_measurements([one, one])).items()
        if name.endswith("-topics-count")
    }
    assert counts == {f"{each}-topics-count": 2 * (each == word) for each in TOPIC_STATES}


def test_runs_are_counted_by_how_they_stand_and_swept_bytes_are_told() -> None:
    """Runs that are still at work count nowhere."""
    tally = {"published": 3, "void": 2, "compacting": 1}
    told = list_metric_values(measured(assessment(0), runs_by_state=tally, swept_bytes=512))
    runs = {name.removesuffix("-runs-count"): value for name, value in told.items() if name.endswith("-runs-count")}
    none = dict.fromkeys(("invalid", "broken", "spark-failed", "refused", "unknown"), 0)
    assert runs == {"published": 3, "void": 2, **none}
    assert told["swept-bytes"] == 512
    assert (told["partitions-count"], told["due-partitions-count"]) == (1, 1)


def test_total_adds_up_before_it_divides() -> None:
    """10 of 1,000 and 990 of 1,000 bytes, not the mean of two percentages; the worst delay, the nearest deadline."""
    one = Measurement("a", max_delay_ms=5_000, next_deadline_ms=7, since_last_run_ms=9, last_run_ms=1_000, runs=1,
                      figures=RunFigures(2, 2, 0, 0, 0, 1000, 10),
                      seconds=1.0, longest_seconds=1.0, max_dirty_ratio=0.2)  # fmt: skip
    two = Measurement("b", max_delay_ms=1_000, next_deadline_ms=3, since_last_run_ms=2, last_run_ms=8_000, runs=1,
                      figures=RunFigures(2, 2, 0, 0, 0, 3000, 990),
                      seconds=3.0, longest_seconds=2.0, max_dirty_ratio=0.4)  # fmt: skip
    told = list_metric_values(sum_measurements([one, two, Measurement("c")]))
    assert told["cleaner-recopy-percent"] == 25.0
    assert told["cleaner-io"] == 1250
    assert (told["max-compaction-delay-secs"], told["next-deadline-secs"]) == (5, 0.003)
    assert (told["max-clean-time-secs"], told["time-since-last-run-ms"], told["max-dirty-percent"]) == (2, 2, 40)
    assert told["last-run-timestamp-secs"] == 8


def test_total_of_one_topic_is_that_topic() -> None:
    """Every field of a measurement takes part in the total."""
    figures = RunFigures(1, 2, 3, 4, 5, 6, 7, headers_missing=8, headers_malformed=9, keys_elsewhere=10)
    full = replace(Measurement("a", *range(1, len(Measurement.__dataclass_fields__))), figures=figures)
    assert replace(sum_measurements([full]), topic="a") == full


def test_total_of_no_topics_is_nothing_late_and_nothing_known() -> None:
    """As Kafka's gauges read 0 without cleaner threads."""
    assert list_metric_values(sum_measurements([])) == list_metric_values(Measurement(None))


# One line of the text format, as its specification has it.
SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{topic="(?P<topic>(?:[^"\\\n]|\\\\|\\"|\\n)*)"\})? (?P<value>\S+)'
)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse_page(page: str) -> dict[tuple[str, str | None], float]:
    """A strict reader of the text exposition format 0.0.4, for gauges with at most the label topic."""
    assert page == "" or page.endswith("\n")
    found: dict[tuple[str, str | None], float] = {}
    helped: list[str] = []
    typed: list[str] = []
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name, meaning = line.removeprefix("# HELP ").split(" ", 1)
            assert name not in helped
            assert meaning
            helped.append(name)
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert (name, kind) == (helped[-1], "gauge")
            typed.append(name)
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match["name"] == typed[-1]  # samples of a family stand together, below its type
            topic = match["topic"]
            if topic is not None:
                topic = re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], topic)
            assert (match["name"], topic) not in found
            found[match["name"], topic] = float(match["value"])
    assert helped == typed
    return found


def test_prometheus_page_holds_every_known_metric_by_topic_and_for_all() -> None:
    """And the unknown ones not at all, neither sample nor family."""
    topics = [
        measured(assessment(0, max_compaction_delay_ms=1_500), receipts=(receipt(part()),)),
        Measurement("returns"),
    ]
    found = parse_page(format_exposition(topics))
    assert found["winnow_max_compaction_delay_secs", "orders"] == 1.5
    assert found["winnow_max_compaction_delay_secs", "returns"] == 0
    assert found["winnow_all_topics_max_compaction_delay_secs", None] == 1.5
    assert found["winnow_cleaner_recopy_percent", "orders"] == 40
    assert ("winnow_cleaner_recopy_percent", "returns") not in found
    expected = {
        (f"winnow_{name.replace('-', '_')}", m.topic)
        for m in topics
        for name, v in list_metric_values(m).items()
        if v is not None
    }
    together = {
        (f"winnow_all_topics_{name.replace('-', '_')}", None)
        for name, v in list_metric_values(sum_measurements(topics)).items()
        if v is not None
    }
    assert set(found) == expected | together
    assert "time_since" not in format_exposition(topics)


def test_prometheus_labels_are_escaped() -> None:
    """Backslash, quotation mark and line feed; no topic is called so, and no page breaks should one be."""
    odd = 'a"b\\c\nd\\n'
    assert ("winnow_max_dirty_percent", odd) in parse_page(format_exposition([Measurement(odd)]))


def test_names_of_metrics_are_unique_and_in_kafkas_manner() -> None:
    """Lower case with hyphens, so that hyphens to underscores is all that Prometheus needs."""
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_paragraph_tells_what_the_plan_expected_and_how_far_off_it_was() -> None:
    """Deviations in percent of what was expected, over the partitions of which anything was expected."""
    found = receipt(
        part(0, expected_records_kept=50, expected_bytes_out=500), part(1, expected_records_kept=None, records_kept=9)
    )
    compared = compare_with_plan(found)
    assert (compared.expected_records_kept, compared.records_kept) == (50, 40)
    assert (compared.records_kept_deviation_percent, compared.bytes_out_deviation_percent) == (-20.0, -20.0)
    text = format_receipt(found)
    assert "The plan expected 50 records to be kept (it was -20.0 %) and 500 B to remain (it was -20.0 %)." in text
    assert "expected" not in format_receipt(receipt(part()))


def test_deviation_from_an_expected_nothing_is_not_a_percentage() -> None:
    """Nothing was expected and something stayed."""
    compared = compare_with_plan(receipt(part(expected_records_kept=0, expected_bytes_out=0)))
    assert (compared.expected_records_kept, compared.records_kept) == (0, 40)
    assert compared.records_kept_deviation_percent is None


def test_paragraph_tells_header_anomalies_by_coordinates() -> None:
    """How many, and where the first ones are; never a byte of them."""
    text = format_receipt(
        receipt(part(3, headers_missing=1, headers_malformed=7, malformed_offsets=(5, 1200, 1300, 1301, 1302, 1303)))
    )
    assert "1 record came without the version header" in text
    assert (
        "7 records came with a version header that is not an 8-byte long and counts as missing: orders-3 at 5, "
        "orders-3 at 1,200, orders-3 at 1,300, orders-3 at 1,301, orders-3 at 1,302 and 2 more."
    ) in text


def test_paragraph_tells_what_else_left_the_log_and_what_may_surprise() -> None:
    """Keyless records, retention, keys that would go elsewhere now, and a strategy that changed."""
    text = format_receipt(
        receipt(
            part(
                records_keyless=4,
                records_retired=30,
                bytes_retired=2048,
                keys_elsewhere=1,
                reason=Reason.STRATEGY_CHANGED,
            )
        )
    )
    assert "4 had no key and moved to the quarantine" in text
    assert "Retention removed 30 records (2.0 KiB) from the log." in text
    assert "1 key would now go to another partition because partitions were added" in text
    assert "records that were removed under the old one cannot return" in text
    quiet = format_receipt(receipt(part()))
    assert [word for word in ("quarantine", "Retention", "added", "strategy", "header") if word in quiet] == []


def test_paragraph_of_retention_alone_says_that_nothing_was_compacted() -> None:
    """No zeros of a compaction that did not happen."""
    alone = part(reason=Reason.RETENTION, records_in=0, records_kept=0, records_superseded=0, bytes_in=0, bytes_out=0)
    text = format_receipt(receipt(replace(alone, records_retired=8, bytes_retired=10)))
    assert text == (
        "orders as of 1970-01-01T00:00:00.000Z: nothing was compacted. Retention removed 8 records (10 B) from the "
        "log. Published as snapshot 7 of plan plan-1."
    )
