"""``winnow assess`` and ``winnow explain`` against a real catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_runner import NOW_MS, make_topic, record, winnow, winnow_process, write_lines
from winnow.cli.assess import make_urgency_key
from winnow.report.receipts import explain_reason
from winnow.values.model import Assessment, Reason

KEYS = [
    "topic", "partition", "eligible", "reason", "log_start_offset", "first_dirty_offset", "first_uncleanable_offset",
    "log_end_offset", "dirty_ratio", "clean_bytes", "cleanable_bytes", "max_compaction_delay_ms", "deadline_ms",
]  # fmt: skip


def test_assessments_are_one_document_with_exactly_the_keys_of_the_interface(tmp_path: Path) -> None:
    """Closed by the age of their records, dirty as a whole."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2, config=["segment.ms=1000"])
    answer = winnow_process("assess", "orders", "--json")
    assert (answer.exit_code, answer.stderr) == (0, "")
    found = json.loads(answer.stdout)
    assert [list(each) for each in found] == [KEYS] * 2
    assert [(each["topic"], each["partition"], each["eligible"], each["reason"]) for each in found] == [
        ("orders", 0, True, "dirty_ratio"),
        ("orders", 1, True, "dirty_ratio"),
    ]
    assert (found[0]["first_dirty_offset"], found[0]["first_uncleanable_offset"], found[0]["log_end_offset"]) == (
        0,
        6,
        6,
    )
    assert (found[0]["dirty_ratio"], found[0]["deadline_ms"]) == (1.0, None)


def test_as_of_decides_and_not_the_present(tmp_path: Path) -> None:
    """The moment after the records were made their segment was still open."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1000"])
    reasons = [
        winnow("assess", "orders", "--as-of", as_of, "--json").document[0]["reason"]
        for as_of in (NOW_MS + 1000, NOW_MS + 1001, "2023-11-14T22:13:21.000Z", "2023-11-14T23:13:21.001+01:00")
    ]
    assert reasons == ["no_closed_segment", "dirty_ratio", "no_closed_segment", "dirty_ratio"]


def test_as_of_ahead_of_the_present_is_called_simulated_and_one_in_the_past_is_not(tmp_path: Path) -> None:
    """The notice goes to standard error; the document stays alone."""
    make_topic("orders", tmp_path / "orders.jsonl")
    ahead = winnow("assess", "--as-of", "2999-01-01T00:00:00Z", "--json")
    assert ahead.stderr.startswith("simulated: ")
    assert len(ahead.document) == 1
    assert winnow("assess", "--as-of", NOW_MS).stderr == ""


def test_table_says_why_and_what_to_type_next(tmp_path: Path) -> None:
    """A reason in the interface's word and in a sentence."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1000"])
    text = winnow("assess", "orders").stdout
    assert "eligible: dirty_ratio" in text
    assert "\ndirty_ratio: its dirty ratio is above min.cleanable.dirty.ratio\n" in text
    assert text.endswith("Next: winnow compact orders\n")
    winnow("topics", "create", "quiet", "--partitions", 1)
    assert winnow("assess", "quiet").stdout.endswith(
        "Nothing is eligible: winnow compact would leave everything as it is.\n"
    )


def test_one_topic_that_cannot_be_assessed_stops_no_other(tmp_path: Path) -> None:
    """The others are printed, the one is said, and the exit code is its own."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("assess", "missing", "orders", "--json", code=2)
    assert [each["topic"] for each in answer.document] == ["orders"]
    assert [each["what"] for each in answer.errors] == ["There is no topic missing."]


def test_unknown_topic_alone_leaves_standard_output_empty() -> None:
    """Nothing to print is not an empty list."""
    answer = winnow("assess", "orders", "--json", code=2)
    assert answer.stdout == ""
    assert "There is no topic orders" in answer.stderr


def test_installation_without_topics_assesses_to_an_empty_list() -> None:
    """No topics is no error, and the way to begin is said."""
    answer = winnow("assess", "--json")
    assert answer.document == []
    assert "winnow topics create" in answer.stderr


def test_many_partitions_are_summed_up_and_the_most_urgent_shown(tmp_path: Path) -> None:
    """Sixty partitions: a row per topic, fifty rows, the eligible ones first; --json has all sixty."""
    config = ["--config", "segment.ms=1000", "--config", "max.compaction.lag.ms=2000"]
    winnow("topics", "create", "wide", "--partitions", 60, *config)
    winnow("ingest", "files", "wide", write_lines(tmp_path / "a.jsonl", [record("k", "v", partition=59)]))
    text = winnow("assess", "wide").stdout
    rows = [line for line in text.splitlines() if line.startswith("wide-")]
    assert len(rows) == 50
    assert rows[0].split()[:3] == ["wide-59", "eligible:", "max_compaction_lag"]
    summary = next(line for line in text.splitlines() if line.startswith("wide "))
    assert summary.split()[1:4] == ["60", "1", "1"]
    assert "The 50 most urgent of 60 partitions; --json lists all" in text
    assert len(winnow("assess", "wide", "--json").document) == 60


def test_urgency_puts_eligible_before_idle_and_earlier_deadlines_first() -> None:
    """No deadline comes after every deadline, a higher ratio before a lower one."""

    def one(partition: int, *, eligible: bool, deadline_ms: int | None, ratio: float) -> Assessment:
        reason = Reason.DIRTY_RATIO if eligible else Reason.NOT_DIRTY_ENOUGH
        return Assessment("t", partition, eligible, reason, 0, 0, 0, 0, ratio, 0, 0, 0, deadline_ms)

    ordered = [
        one(5, eligible=True, deadline_ms=1, ratio=0.6),
        one(4, eligible=True, deadline_ms=2, ratio=0.9),
        one(3, eligible=True, deadline_ms=None, ratio=0.9),
        one(2, eligible=True, deadline_ms=None, ratio=0.8),
        one(1, eligible=False, deadline_ms=1, ratio=0.4),
    ]
    shuffled = [ordered[3], ordered[0], ordered[4], ordered[2], ordered[1]]
    assert sorted(shuffled, key=make_urgency_key) == ordered


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words(reason: Reason) -> None:
    """A reason that is added later cannot be forgotten here."""
    assert explain_reason(reason)


def test_explanation_tells_what_the_plan_would_read_and_leaves_everything_as_it_is(tmp_path: Path) -> None:
    """The real plan, with no file written and no run opened."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1000"])
    home = tmp_path / "winnow-home"
    before = sorted(path for path in home.rglob("*") if path.suffix in {".parquet", ".json", ".avro"})
    found = winnow("explain", "orders", "--json").document
    assert (found["topic"], found["strategy"], len(found["plan_id"])) == (
        "orders",
        "offset",
        len(found["plan_id"].strip()),
    )
    part = found["partitions"][0]
    assert (part["partition"], part["eligible"], part["records"], part["next_first_dirty_offset"]) == (0, True, 6, 6)
    assert part["bytes_to_read"] > 0
    assert winnow("receipts", "orders", "--json").document == []
    assert sorted(path for path in home.rglob("*") if path.suffix in {".parquet", ".json", ".avro"}) == before


def test_explanation_for_people_ends_with_the_command_that_carries_it_out(tmp_path: Path) -> None:
    """And where nothing is eligible it says so instead."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1000"])
    assert winnow("explain", "orders").stdout.endswith("Next: winnow compact orders\n")
    quiet = winnow("explain", "orders", "--as-of", NOW_MS).stdout
    assert quiet.endswith("Nothing of orders is eligible; a compaction would do nothing.\n")


def test_explanation_for_people_says_unknown_before_the_first_run_and_what_will_leave(tmp_path: Path) -> None:
    """Bounds, keys and memory are known at once; tombstones and retention have their words."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1000"])
    text = winnow("explain", "orders").stdout
    estimate = [line for line in text.splitlines() if line.startswith("orders-0")][1]
    assert estimate.split()[:7] == ["orders-0", "6", "1", "to", "6", "unknown", "unknown"]
    assert "768 B of" in estimate
    assert estimate.endswith("fits")
    winnow("topics", "alter", "orders", "--config", "cleanup.policy=compact,delete", "--config", "retention.ms=1")
    assert "Retention removes 1 segment with 6 records" in winnow("explain", "orders").stdout


def test_explanation_keeps_its_first_keys_and_adds_estimates(tmp_path: Path) -> None:
    """Scripts that read the old ones go on."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["segment.ms=1000"])
    part = winnow("explain", "orders", "--json").document["partitions"][0]
    assert list(part)[:10] == [
        "partition", "eligible", "reason", "segments", "records", "bytes_to_read", "at_most_bytes_to_write",
        "tombstones_in_expired_ranges", "next_first_dirty_offset", "deadline_slack_ms",
    ]  # fmt: skip
    assert (part["expected_records_kept"], part["basis"], part["memory"]) == (None, "unknown", "fits")
    assert (part["at_least_records_kept"], part["at_most_records_kept"]) == (1, 6)
