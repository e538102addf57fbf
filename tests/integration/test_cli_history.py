"""``winnow receipts``, ``checkpoints``, ``sweep`` and ``store rebuild`` over what runs left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_runner import NOW_MS, make_topic, winnow
from winnow.pipeline.installation import open_installation
from winnow.store import RunState
from winnow.values.model import Status
from winnow.values.results import PartitionReceipt, Receipt, Verdict
from winnow.values.topic_state import Cleaning, PartitionState

CHECKPOINT_KEYS = [
    "topic", "partition", "first_dirty_offset", "log_start_offset", "log_end_offset", "strategy", "cleanings",
]  # fmt: skip
COMPACT_KEYS = ["topic", "plan_id", "status", "snapshot_id", "partitions", "message"]
PARTITION_KEYS = [
    "partition", "first_dirty_offset", "next_first_dirty_offset", "records_in", "records_kept", "records_superseded",
    "tombstones_expired", "records_keyless", "records_retired", "bytes_in", "bytes_out",
]  # fmt: skip

FURTHER_KEYS = ["as_of_ms", "finished_at_ms", "attempt", "data_docs", "plan_against_actual"]
FURTHER_PARTITION_KEYS = [
    "log_start_offset", "bytes_retired", "reason", "headers_missing", "headers_malformed", "malformed_offsets",
    "keys_elsewhere", "expected_records_kept", "expected_bytes_out", "seconds", "tombstones_expired_early",
    "offsets_cleaned_early",
]  # fmt: skip

RECEIPT = Receipt(
    topic="orders",
    plan_id="plan-1",
    status=Status.PUBLISHED,
    snapshot_id=42,
    partitions=(
        PartitionReceipt(
            partition=0,
            first_dirty_offset=0,
            next_first_dirty_offset=6,
            records_in=6,
            records_kept=3,
            records_superseded=3,
            tombstones_expired=0,
            records_keyless=0,
            records_retired=0,
            bytes_in=2048,
            bytes_out=1024,
        ),
    ),
    message="Compacted 1 partition of orders: kept 3 of 6 records.",
    as_of_ms=NOW_MS,
    finished_at_ms=NOW_MS + 1,
    attempt="a-1",
)
CLEANED = PartitionState(
    log_end_offset=6,
    first_dirty_offset=6,
    strategy="offset",
    history=(Cleaning(end_offset=6, cleaning_time_ms=NOW_MS, delete_horizon_ms=NOW_MS + 1000),),
)


def record_publication() -> None:
    """What a publish leaves in the metadata store."""
    with open_installation() as installation:
        installation.store.projection.record_publication(RECEIPT, {0: CLEANED}, [], NOW_MS + 1)


def open_run(plan_id: str, state: RunState, *, message: str, at_ms: int) -> None:
    """A run that went through every step up to ``state``."""
    path = [RunState.COMPACTING, RunState.STAGED, RunState.VALIDATED, RunState.PUBLISHING]
    steps = {
        RunState.COMPACTING: path[:1],
        RunState.INVALID: [*path[:2], RunState.INVALID],
        RunState.UNKNOWN: [*path, RunState.UNKNOWN],
        RunState.VOID: [RunState.VOID],
    }[state]
    with open_installation() as installation:
        installation.store.runs.open(
            plan_id, "orders", attempt="a-1", as_of_ms=NOW_MS, plan_uri="file:///plan", now_ms=at_ms
        )
        for step in steps:
            installation.store.runs.set_state(plan_id, step, at_ms, message=message, attempt="a-1")


def test_checkpoints_list_every_partition_also_those_never_cleaned(tmp_path: Path) -> None:
    """No checkpoint is null, not zero."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    found = winnow("checkpoints", "orders", "--json").document
    assert [list(row) for row in found] == [CHECKPOINT_KEYS] * 2
    assert [(row["partition"], row["first_dirty_offset"], row["log_end_offset"]) for row in found] == [
        (0, None, 6),
        (1, None, 6),
    ]
    assert found[0]["cleanings"] == []
    assert "never cleaned" in winnow("checkpoints").stdout


def test_checkpoints_show_the_cleanings_of_the_metadata_store(tmp_path: Path) -> None:
    """First dirty offset, strategy, and per stretch its time and horizon."""
    make_topic("orders", tmp_path / "orders.jsonl")
    record_publication()
    assert winnow("checkpoints", "--json").document == [
        {
            "topic": "orders",
            "partition": 0,
            "first_dirty_offset": 6,
            "log_start_offset": 0,
            "log_end_offset": 6,
            "strategy": "offset",
            "cleanings": [{"end_offset": 6, "cleaning_time_ms": NOW_MS, "delete_horizon_ms": NOW_MS + 1000}],
        }
    ]
    assert "2023-11-14T22:13:20Z   2023-11-14T22:13:21Z" in winnow("checkpoints", "orders").stdout


def test_receipts_have_the_keys_of_compact_first_and_the_newest_on_top(tmp_path: Path) -> None:
    """Published runs and runs that published nothing, in one list."""
    make_topic("orders", tmp_path / "orders.jsonl")
    record_publication()
    open_run("plan-2", RunState.INVALID, message="Validation of plan plan-2 failed.", at_ms=NOW_MS + 2)
    open_run("plan-3", RunState.VOID, message="The run ended before it published anything.", at_ms=NOW_MS + 3)
    found = winnow("receipts", "orders", "--json").document
    assert [(entry["plan_id"], entry["status"]) for entry in found] == [
        ("plan-3", "refused"),
        ("plan-2", "invalid"),
        ("plan-1", "published"),
    ]
    assert list(found[0]) == [*COMPACT_KEYS, *FURTHER_KEYS]
    known = [*PARTITION_KEYS, *FURTHER_PARTITION_KEYS]
    assert [list(part)[: len(known)] for part in found[2]["partitions"]] == [known]
    assert (found[2]["snapshot_id"], found[2]["as_of_ms"], found[2]["attempt"]) == (42, NOW_MS, "a-1")
    assert found[1]["message"] == "Validation of plan plan-2 failed."


def test_receipts_leave_out_a_run_that_is_still_at_work_and_keep_an_unknown_one(tmp_path: Path) -> None:
    """A receipt says how a run ended."""
    make_topic("orders", tmp_path / "orders.jsonl")
    open_run("plan-2", RunState.COMPACTING, message="", at_ms=NOW_MS + 2)
    assert winnow("receipts", "orders", "--json").document == []
    assert "No run has ended yet. See what is due with: winnow assess orders" in winnow("receipts", "orders").stdout


def test_receipt_of_an_unknown_commit_says_unknown(tmp_path: Path) -> None:
    """Its outcome is settled by the next run, until then it is what it is."""
    make_topic("orders", tmp_path / "orders.jsonl")
    open_run("plan-2", RunState.UNKNOWN, message="The catalog did not say.", at_ms=NOW_MS + 2)
    entry = winnow("receipts", "--json").document[0]
    assert (entry["status"], entry["snapshot_id"], entry["message"]) == ("unknown", None, "The catalog did not say.")


def test_receipt_of_a_failed_validation_leads_to_its_data_docs(tmp_path: Path) -> None:
    """The evidence is one link away."""
    make_topic("orders", tmp_path / "orders.jsonl")
    open_run("plan-2", RunState.INVALID, message="Validation failed.", at_ms=NOW_MS + 2)
    verdict = Verdict("plan-2", "orders", "a-1", passed=False, broken=False, failures=(), checked_at_ms=NOW_MS)
    with open_installation() as installation:
        installation.store.verdicts.record(replace(verdict, data_docs="file:///docs/index.html"))
    assert winnow("receipts", "orders", "--json").document[0]["data_docs"] == "file:///docs/index.html"


@pytest.mark.parametrize(("marked", "status"), [(2, "invalid"), (None, "refused")])
def test_receipt_of_a_failure_in_spark_is_invalid_where_partitions_were_marked(
    tmp_path: Path, marked: int | None, status: str
) -> None:
    """Whatever its message says."""
    make_topic("orders", tmp_path / "orders.jsonl")
    open_run("plan-2", RunState.COMPACTING, message="", at_ms=NOW_MS + 2)
    message = "Spark failed. Nothing was published; run it again."
    with open_installation() as installation:
        installation.store.runs.set_state(
            "plan-2", RunState.SPARK_FAILED, NOW_MS + 3, message, attempt="a-1", partitions_marked=marked
        )
    entry = winnow("receipts", "orders", "--json").document[0]
    assert (entry["status"], entry["message"]) == (status, message)


def test_receipts_for_people_are_a_table(tmp_path: Path) -> None:
    """Records and bytes of what was published, the reason of what was not."""
    make_topic("orders", tmp_path / "orders.jsonl")
    record_publication()
    open_run("plan-2", RunState.INVALID, message="Validation of plan plan-2 failed.", at_ms=NOW_MS + 2)
    text = winnow("receipts").stdout
    published = next(line for line in text.splitlines() if "published" in line)
    assert published.split()[1:] == ["orders", "published", "6", "3", "2.0", "KiB", "1.0", "KiB", "plan-1"]
    assert "Validation of plan plan-2 failed." in text


def test_receipts_set_the_plan_against_what_came_of_it(tmp_path: Path) -> None:
    """Expected and actual, with the deviation; null where the plan expected nothing."""
    make_topic("orders", tmp_path / "orders.jsonl")
    record_publication()
    nothing = winnow("receipts", "orders", "--json").document[0]["plan_against_actual"]
    assert set(nothing.values()) == {None}
    part = replace(RECEIPT.partitions[0], expected_records_kept=4, expected_bytes_out=512)
    with open_installation() as installation:
        installation.store.projection.record_publication(
            replace(RECEIPT, partitions=(part,)), {0: CLEANED}, [], NOW_MS + 1
        )
    assert winnow("receipts", "orders", "--json").document[0]["plan_against_actual"] == {
        "expected_records_kept": 4,
        "records_kept": 3,
        "records_kept_deviation_percent": -25.0,
        "expected_bytes_out": 512,
        "bytes_out": 1024,
        "bytes_out_deviation_percent": 100.0,
    }
    published = next(line for line in winnow("receipts").stdout.splitlines() if "published" in line)
    assert published.split()[3:8] == ["6", "3", "4", "(-25.0", "%)"]


@pytest.mark.parametrize("command", ["receipts", "checkpoints"])
def test_history_of_an_unknown_topic_ends_with_two(command: str) -> None:
    """Nothing is printed as if it had no history."""
    answer = winnow(command, "orders", "--json", code=2)
    assert answer.stdout == ""
    assert "There is no topic orders" in answer.stderr


def test_store_that_was_lost_is_rebuilt_from_the_tables(tmp_path: Path, winnow_home: Path) -> None:
    """What the store projected comes back, also when it knew something else."""
    make_topic("orders", tmp_path / "orders.jsonl")
    make_topic("returns", tmp_path / "returns.jsonl")
    record_publication()
    text = winnow("store", "rebuild", "orders").stdout
    assert text == "Rebuilt the metadata store for orders.\nNext: winnow checkpoints\n"
    assert winnow("checkpoints", "orders", "--json").document[0]["first_dirty_offset"] is None
    assert winnow("receipts", "orders", "--json").document == []
    for file in winnow_home.glob("store.db*"):
        file.unlink()
    assert "orders, returns" in winnow("store", "rebuild").stdout


def test_rebuild_of_an_unknown_topic_ends_with_two_and_rebuilds_the_others(tmp_path: Path) -> None:
    """One topic's failure stops no other."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("store", "rebuild", "missing", "orders", code=2)
    assert answer.stdout.startswith("Rebuilt the metadata store for orders.")
    assert "There is no topic missing" in answer.stderr


def test_sweep_with_nothing_to_remove_reports_zero(tmp_path: Path) -> None:
    """One report a topic, as a sentence or as JSON."""
    make_topic("orders", tmp_path / "orders.jsonl")
    report = winnow("sweep", "--json").document[0]
    assert list(report) == [
        "topic", "files_deleted", "bytes_deleted", "snapshots_expired", "files_waiting", "bytes_waiting", "message",
        "history_rows_removed", "pages_removed", "unnamed", "documents_restored", "documents_copied", "documents_lost",
        "kept_versions",
    ]  # fmt: skip
    assert (report["topic"], report["files_deleted"], report["bytes_deleted"]) == ("orders", 0, 0)
    assert winnow("sweep", "orders").stdout.startswith("orders: 0 files removed.")
    assert winnow("read", "orders").stdout.count("\n") == 6


def test_sweep_of_an_unknown_topic_ends_with_two_and_sweeps_the_others(tmp_path: Path) -> None:
    """The unknown one is named on standard error."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("sweep", "missing", "orders", "--json", code=2)
    assert [report["topic"] for report in answer.document] == ["orders"]
    assert "There is no topic missing" in answer.stderr
