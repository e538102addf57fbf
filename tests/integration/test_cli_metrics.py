"""``winnow metrics`` and ``winnow assess --forecast`` against a real catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.integration.test_cli_history import CLEANED, RECEIPT
from tests.support.cli_runner import NOW_MS, make_topic, winnow, winnow_process
from tests.unit.test_metrics import parse_page
from winnow.pipeline.installation import open_installation
from winnow.report.metrics import METRICS
from winnow.values.model import Reason

LAG = ["segment.ms=1000", "max.compaction.lag.ms=2000"]
NAMES = [metric.name for metric in METRICS if not metric.total_only]


def publish(seconds: float = 2.0) -> None:
    """What a run leaves in the metadata store, with its time and the reason of its partition."""
    part = replace(RECEIPT.partitions[0], seconds=seconds, reason=Reason.MAX_COMPACTION_LAG)
    with open_installation() as installation:
        installation.store.projection.record_publication(
            replace(RECEIPT, partitions=(part,)), {0: CLEANED}, [], NOW_MS + 1
        )


def test_metrics_are_one_document_by_kafkas_names_per_topic_and_in_total(tmp_path: Path) -> None:
    """Every name is there; what is not known is null."""
    make_topic("orders", tmp_path / "orders.jsonl", config=LAG)
    make_topic("returns", tmp_path / "returns.jsonl")
    publish()
    answer = winnow_process("metrics", "--json", "--as-of", NOW_MS + 5_000)
    assert (answer.exit_code, answer.stderr) == (0, "")
    found = answer.document
    assert list(found) == ["as_of_ms", "topics", "total"]
    assert [each["topic"] for each in found["topics"]] == ["orders", "returns"]
    assert [list(each["metrics"]) for each in found["topics"]] == [NAMES, NAMES]
    orders, returns = (each["metrics"] for each in found["topics"])
    assert (orders["max-compaction-delay-secs"], orders["next-deadline-secs"]) == (3, -3)
    assert (orders["cleaner-recopy-percent"], orders["cleaner-io"], orders["max-clean-time-secs"]) == (50, 1536, 2)
    assert orders["num-logs-compacted-by-max-compaction-lag"] == 1
    assert (returns["max-compaction-delay-secs"], returns["cleaner-recopy-percent"]) == (0, None)
    together = found["total"]
    assert list(together) == [metric.name for metric in METRICS]
    added = {name: orders[name] + returns[name] for name in ("partitions-count", "due-partitions-count")}
    dirtiest = max(orders["max-dirty-percent"], returns["max-dirty-percent"])
    assert {name: together[name] for name in NAMES} == {**orders, **added, "max-dirty-percent": dirtiest}
    assert (together["overdue-topics-count"], together["healthy-topics-count"]) == (1, 1)


def test_prometheus_page_stands_alone_on_standard_output_and_parses(tmp_path: Path) -> None:
    """For a textfile collector: winnow metrics --prometheus > winnow.prom."""
    make_topic("orders", tmp_path / "orders.jsonl", config=LAG)
    answer = winnow_process("metrics", "--prometheus", "--as-of", NOW_MS + 5_000)
    assert (answer.exit_code, answer.stderr) == (0, "")
    page = parse_page(answer.stdout)
    assert page["winnow_max_compaction_delay_secs", "orders"] == 3
    assert page["winnow_all_topics_overdue_partitions_count", None] == 1


def test_metrics_for_people_are_a_row_per_topic_and_a_line_per_metric(tmp_path: Path) -> None:
    """The most overdue topic first; every line says what it means."""
    make_topic("returns", tmp_path / "returns.jsonl")
    make_topic("orders", tmp_path / "orders.jsonl", config=LAG)
    text = winnow("metrics", "--as-of", NOW_MS + 7_202_000).stdout
    topics = [line.split()[0] for line in text.splitlines() if line.startswith(("orders", "returns"))]
    assert topics == ["orders", "returns"]
    assert next(line for line in text.splitlines() if line.startswith("orders")).split()[1:4] == ["1", "2.0", "h"]
    line = next(line for line in text.splitlines() if line.startswith("max-compaction-delay-secs"))
    assert line.split()[1] == "7,200.0"
    assert "KIP-354" in line


def test_one_topic_that_cannot_be_measured_stops_no_other(tmp_path: Path) -> None:
    """The others are printed, the one is said, and the exit code is its own."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("metrics", "missing", "orders", "--json", code=2)
    assert [each["topic"] for each in answer.document["topics"]] == ["orders"]
    assert "There is no topic missing" in answer.stderr
    assert winnow("metrics", "missing", "--json", code=2).stdout == ""


def test_two_formats_at_once_are_refused_and_no_topics_are_an_empty_document() -> None:
    """Standard output holds one document."""
    assert winnow("metrics", "--json", "--prometheus", code=2).stdout == ""
    assert winnow("metrics", "--json").document["topics"] == []


def test_forecast_is_one_document_with_the_outlook_of_every_deadline(tmp_path: Path) -> None:
    """At 1,024 bytes a second and two tasks; a topic without a deadline is not among them."""
    make_topic("orders", tmp_path / "orders.jsonl", config=LAG, partitions=2)
    make_topic("returns", tmp_path / "returns.jsonl")
    publish()
    found = winnow("assess", "--forecast", "--json", "--as-of", NOW_MS + 1_999).document
    assert list(found) == ["as_of_ms", "bytes_per_second", "parallelism", "partitions"]
    assert (found["as_of_ms"], found["bytes_per_second"]) == (NOW_MS + 1_999, 1024.0)
    assert [list(each) for each in found["partitions"]] == [
        ["topic", "partition", "outlook", "deadline_ms", "size_bytes", "done_at_ms", "late_by_ms"]
    ] * 2
    assert [(p["topic"], p["partition"], p["outlook"]) for p in found["partitions"]] == [
        ("orders", 0, "late"), ("orders", 1, "late"),
    ]  # fmt: skip
    first = found["partitions"][0]
    assert first["done_at_ms"] - found["as_of_ms"] == -(-1000 * first["size_bytes"] // 1024)
    assert first["late_by_ms"] == first["done_at_ms"] - first["deadline_ms"]


def test_forecast_for_people_says_the_pace_or_that_it_is_unknown(tmp_path: Path) -> None:
    """And that nothing has a deadline where nothing has."""
    make_topic("orders", tmp_path / "orders.jsonl", config=LAG)
    text = winnow("assess", "orders", "--forecast", "--as-of", NOW_MS).stdout
    assert "unknown: no run was measured yet, so the pace is unknown (1)" in text
    assert text.endswith(
        "The pace is unknown: no recent run of these topics was measured. The next compaction measures it.\n"
    )
    publish(seconds=0.001)
    text = winnow("assess", "orders", "--forecast", "--as-of", NOW_MS).stdout
    assert "orders-0    in_time   2023-11-14T22:13:22Z" in text
    assert "Pace of recent runs: 2.0 MiB per second and task" in text
    make_topic("returns", tmp_path / "returns.jsonl")
    assert "No partition has a deadline" in winnow("assess", "returns", "--forecast").stdout


def test_forecast_of_an_unknown_topic_ends_with_two() -> None:
    """Nothing on standard output."""
    answer = winnow("assess", "missing", "--forecast", "--json", code=2)
    assert answer.stdout == ""
    assert "There is no topic missing" in answer.stderr


def test_watch_answers_with_one_document(tmp_path: Path) -> None:
    """Topics checked, new messages by kind, earlier ones that were delivered, and topics that could not be checked."""
    make_topic("orders", tmp_path / "orders.jsonl", config=LAG)
    assert winnow("assess").exit_code == 0
    answer = winnow("watch", "--json")
    assert answer.exit_code == 0
    assert answer.document == {"topics": 1, "told": {"deadline_missed": 1}, "delivered": 0, "problems": [], "known": 1}
