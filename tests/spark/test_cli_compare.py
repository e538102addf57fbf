"""``winnow compare`` from end to end: one Spark application, one document, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli_runner import b64, record, winnow, winnow_process, write_lines
from winnow.config.settings import load_settings


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_comparison_is_one_document_and_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Late reports in two partitions of three; a sample by coordinates; a bad segment then ends it with its name."""
    winnow("topics", "create", "orders", "--partitions", 3, "--config", "segment.ms=1000")
    rows = [
        record("secret-late", f"secret-{n}", partition=partition, offset=n, timestamp=1_000 - 10 * n)
        for partition in (0, 2)
        for n in range(2)
    ]
    rows += [record("secret-once", "x", partition=0, offset=2, timestamp=5)]
    winnow("ingest", "files", "orders", write_lines(tmp_path / "orders.jsonl", rows))
    settings = load_settings()
    warehouse, staging = (Path(uri.removeprefix("file://")) for uri in (settings.warehouse, settings.staging))
    before = _files(warehouse)

    answer = winnow_process("compare", "orders", "--strategy", "timestamp", "--sample", 1, "--json")

    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert (found["topic"], found["records"], found["keys"], found["keys_differing"]) == ("orders", 5, 3, 2)
    assert found["sample"] == [
        {
            "partition": 0,
            "present_offset": 1,
            "present_timestamp_ms": 990,
            "present_version": None,
            "present_tombstone": False,
            "other_offset": 0,
            "other_timestamp_ms": 1_000,
            "other_version": None,
            "other_tombstone": False,
        }
    ]
    assert (found["present"]["records_kept"], found["other"]["records_kept"]) == (3, 3)
    assert [part["partition"] for part in found["partitions"]] == [0, 2]
    said = answer.stderr.splitlines()
    assert "orders-0: 3 records, 1 key with another winner" in said
    assert "orders-2: 2 records, 1 key with another winner" in said
    assert "secret" not in answer.stdout + answer.stderr
    assert str(b64("secret-late")) not in answer.stdout + answer.stderr
    assert _files(warehouse) == before
    assert _files(staging / "compare") == {}
    assert winnow("receipts", "orders", "--json").document == []

    (segment,) = warehouse.rglob("00002-*.parquet")
    segment.unlink()
    failed = winnow_process("compare", "orders", "--strategy", "timestamp", "--json")
    assert (failed.exit_code, failed.stdout) == (4, "")
    (error,) = failed.errors
    assert error["what"].startswith("Topic orders was not compared: orders-2: segment")
    assert "is missing" in error["what"]
    assert _files(staging / "compare") == {}
