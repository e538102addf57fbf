"""``winnow compact`` from end to end: one topic, one Spark application."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli_runner import b64, make_topic, winnow, winnow_process

KEYS = ["topic", "plan_id", "status", "snapshot_id", "partitions", "message"]
PARTITION_KEYS = [
    "partition", "first_dirty_offset", "next_first_dirty_offset", "records_in", "records_kept", "records_superseded",
    "tombstones_expired", "records_keyless", "records_retired", "bytes_in", "bytes_out",
]  # fmt: skip


def test_compaction_is_one_document_and_readers_receipts_and_checkpoints_agree(tmp_path: Path) -> None:
    """A topic that cannot be compacted beside it gives the exit code and stops nothing."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2, config=["segment.ms=1000"])

    answer = winnow_process("compact", "orders", "missing", "--json")

    assert answer.exit_code == 2, answer.stderr
    entry, other = json.loads(answer.stdout)
    assert (other["topic"], other["status"]) == ("missing", "refused")
    assert list(entry)[:6] == KEYS
    assert (entry["topic"], entry["status"]) == ("orders", "published")
    assert [list(part)[: len(PARTITION_KEYS)] for part in entry["partitions"]] == [PARTITION_KEYS] * 2
    for part in entry["partitions"]:
        assert (part["first_dirty_offset"], part["next_first_dirty_offset"]) == (0, 6)
        assert (part["records_in"], part["records_kept"], part["records_superseded"]) == (6, 3, 3)
    said = answer.stderr.splitlines()
    assert [line for line in said if line.startswith("orders-0: 6 records in, 3 kept, 3 superseded")]
    assert [line for line in said if line.startswith("orders-1: 6 records in, 3 kept, 3 superseded")]
    assert [each["what"] for each in answer.errors] == ["There is no topic missing."]
    assert "Traceback" not in answer.stderr

    read = [json.loads(line) for line in winnow("read", "orders", "--partition", 1).stdout.splitlines()]
    assert [(each["offset"], each["value"]) for each in read] == [(offset, b64("version-1")) for offset in (3, 4, 5)]
    assert winnow("receipts", "orders", "--json").document == [entry]
    checkpoints = winnow("checkpoints", "orders", "--json").document
    assert [(row["first_dirty_offset"], row["strategy"]) for row in checkpoints] == [(6, "offset")] * 2
    assert [entry["end_offset"] for row in checkpoints for entry in row["cleanings"]] == [6, 6]

    again = winnow("compact", "orders", "--json").document[0]
    assert (again["status"], again["plan_id"]) == ("nothing_to_do", None)
    assert winnow("sweep", "orders", "--json").document[0]["files_waiting"] == 2
    before = winnow("checkpoints", "orders", "--json").document
    winnow("store", "rebuild", "orders")
    assert winnow("checkpoints", "orders", "--json").document == before
    assert winnow("receipts", "orders", "--json").document == [entry]
