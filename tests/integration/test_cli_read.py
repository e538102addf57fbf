"""``winnow ingest files`` and ``winnow read``: records in, records out, on both streams and in files."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import NOW_MS, b64, find_location, make_topic, record, winnow, winnow_process, write_lines
from winnow.files import storage

FIELDS = ["partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]


def lines(text: str) -> list[dict[str, object]]:
    """JSON lines as documents."""
    return [json.loads(line) for line in text.splitlines()]


def test_ingest_reports_as_one_document_what_landed_where(tmp_path: Path) -> None:
    """The counts per partition, and the snapshot that readers see."""
    winnow("topics", "create", "orders", "--partitions", 1)
    path = write_lines(tmp_path / "a.jsonl", [record("k", "v", offset=7), record("k", "w", offset=9)])
    report = winnow("ingest", "files", "orders", path, "--json").document
    assert " ".join(report) == (
        "topic snapshot_id files records_appended records_skipped records_quarantined partitions notices "
        "records_left_out source_topic layout ingest_id uncommitted removed records_erased"
    )
    assert (report["topic"], report["files"], report["records_appended"]) == ("orders", 1, 2)
    assert isinstance(report["snapshot_id"], int)
    assert report["partitions"] == [
        {
            "partition": 0,
            "first_offset": 7,
            "log_end_offset": 10,
            "records_appended": 2,
            "records_skipped": 0,
            "records_quarantined": 0,
        }
    ]


def test_ingest_of_the_same_file_again_changes_nothing_and_says_so(tmp_path: Path) -> None:
    """Offsets never land twice, and a repeated call is no error."""
    path = make_topic("orders", tmp_path / "orders.jsonl")
    before = winnow("read", "orders").stdout
    again = winnow("ingest", "files", "orders", path)
    assert "0 records appended, 6 skipped because they are there already. Nothing was committed." in again.stdout
    assert winnow("read", "orders").stdout == before


def test_ingest_for_people_ends_with_the_next_command(tmp_path: Path) -> None:
    """From ingest the path leads to assess."""
    winnow("topics", "create", "orders", "--partitions", 1)
    path = write_lines(tmp_path / "a.jsonl", [record("k", "v")])
    text = winnow("ingest", "files", "orders", path).stdout
    assert "Read 1 file into orders: 1 record appended. Snapshot " in text
    assert text.endswith("Next: winnow assess orders\n")


def test_ingest_of_bad_input_ends_with_three_and_leaves_standard_output_empty(tmp_path: Path) -> None:
    """The place is named, the content is not, and nothing of the call landed."""
    winnow("topics", "create", "orders", "--partitions", 1)
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(record("k", "v")) + '\n{"key": "not base64, secret"}\n')
    answer = winnow("ingest", "files", "orders", path, "--json", code=3)
    assert answer.stdout == ""
    assert str(path) in answer.stderr
    assert "secret" not in answer.stderr
    assert winnow("read", "orders").stdout == ""


def test_ingest_as_of_the_future_is_called_simulated_before_work_starts(tmp_path: Path) -> None:
    """An instant ahead of the present is never taken in silence, also where the call then fails."""
    winnow("topics", "create", "orders", "--partitions", 1)
    answer = winnow("ingest", "files", "orders", tmp_path / "missing.jsonl", "--as-of", "2999-01-01T00:00:00Z", code=3)
    assert answer.stderr.startswith("simulated: everything is decided as of 2999-01-01T00:00:00.000Z")


def test_records_are_read_with_every_field_in_the_order_of_the_interface(tmp_path: Path) -> None:
    """Bytes as base64, absent things as null, headers whole."""
    headers = [{"key": "version", "value": b64("1")}, {"key": "version", "value": None}]
    winnow("topics", "create", "orders", "--partitions", 1)
    path = write_lines(
        tmp_path / "a.jsonl",
        [
            record("k", "v", offset=3, headers=headers, timestampType=1),
            record("k", None, offset=5, timestamp=None),
            record("", "", offset=6),
        ],
    )
    winnow("ingest", "files", "orders", path)
    found = lines(winnow("read", "orders").stdout)
    assert [list(each) for each in found] == [FIELDS] * 3
    common = {"partition": 0, "timestampType": 0, "headers": None}
    assert found == [
        common | record("k", "v", offset=3, headers=headers, timestampType=1),
        common | record("k", None, offset=5, timestamp=None),
        common | record("", "", offset=6),
    ]
    assert found[0]["timestamp"] == NOW_MS


def test_what_was_read_can_be_ingested_into_another_topic_and_reads_the_same(tmp_path: Path) -> None:
    """The export is an import: same lines, offset for offset."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    exported = tmp_path / "export.jsonl"
    exported.write_text(winnow("read", "orders").stdout)
    winnow("topics", "create", "copy", "--partitions", 2)
    winnow("ingest", "files", "copy", exported)
    assert winnow("read", "copy").stdout == exported.read_text()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--partition", 1], [(1, offset) for offset in range(6)]),
        (["--from-offset", 4], [(0, 4), (0, 5), (1, 4), (1, 5)]),
        (["--partition", 0, "--from-offset", 4], [(0, 4), (0, 5)]),
        (["--limit", 7], [(0, offset) for offset in range(6)] + [(1, 0)]),
        (["--limit", 0], []),
        (["--from-offset", 6], []),
    ],
)
def test_read_narrows_by_partition_offset_and_limit(
    tmp_path: Path, flags: list[object], expected: list[tuple[int, int]]
) -> None:
    """Offset order per partition, partitions in order."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    found = lines(winnow("read", "orders", *flags).stdout)
    assert [(each["partition"], each["offset"]) for each in found] == expected


def test_partition_that_is_not_there_ends_with_two(tmp_path: Path) -> None:
    """The message says which ones there are."""
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("read", "orders", "--partition", 1, code=2)
    assert answer.stdout == ""
    assert "there is no partition 1" in answer.stderr


@pytest.mark.parametrize("name", ["export.jsonl", "export.jsonl.gz"])
def test_output_file_holds_what_standard_output_would(tmp_path: Path, name: str) -> None:
    """A name that ends in .gz compresses; the count is said on standard error."""
    make_topic("orders", tmp_path / "orders.jsonl")
    target = tmp_path / name
    answer = winnow("read", "orders", "--output", target)
    data = target.read_bytes()
    text = gzip.decompress(data).decode() if name.endswith(".gz") else data.decode()
    assert text == winnow("read", "orders").stdout
    assert (answer.stdout, answer.stderr) == ("", f"Wrote 6 records to {target}\n")


def test_parquet_output_has_the_columns_of_a_segment_and_every_record(tmp_path: Path) -> None:
    """Partitions one after another, in one file."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2)
    target = tmp_path / "export.parquet"
    winnow("read", "orders", "--format", "parquet", "--output", target)
    table = pq.read_table(target)
    assert table.schema.names == FIELDS
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table.column("partition").to_pylist() == [0] * 6 + [1] * 6
    assert table.column("offset").to_pylist() == [*range(6), *range(6)]
    assert table.column("value")[5].as_py() == b"version-1"


def test_parquet_of_an_empty_topic_is_a_valid_empty_file(tmp_path: Path) -> None:
    """Nothing to read is no error in any format."""
    winnow("topics", "create", "orders", "--partitions", 1)
    target = tmp_path / "export.parquet"
    answer = winnow("read", "orders", "--format", "parquet", "--output", target)
    assert pq.read_table(target).num_rows == 0
    assert "Wrote 0 records" in answer.stderr


def test_read_that_fails_leaves_the_file_of_before_and_nothing_beside_it(tmp_path: Path) -> None:
    """A file is complete or it is the old one."""
    make_topic("orders", tmp_path / "orders.jsonl")
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "export.jsonl"
    target.write_text("before")
    for segment in (tmp_path / "winnow-home" / "warehouse").rglob("ingest-*/*.parquet"):
        segment.unlink()
    answer = winnow("read", "orders", "--output", target, code=4)
    assert "is missing" in answer.stderr
    assert (target.read_text(), list(folder.iterdir())) == ("before", [target])


def test_output_into_a_pipe_is_written_to_the_pipe(tmp_path: Path) -> None:
    """What is no regular file is not replaced by one."""
    make_topic("orders", tmp_path / "orders.jsonl")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        winnow("read", "orders", "--output", pipe)
        text, _ = reader.communicate(timeout=60)
    assert text == winnow("read", "orders").stdout
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--format", "parquet"], "--format parquet needs --output FILE"),
        (["--output", "/nowhere/at/all.jsonl"], "the folder /nowhere/at does not exist"),
        (["--output", "/"], "--output / is a folder"),
        (["--quarantined", "--from-offset", "1"], "--quarantined gives JSON lines"),
        (["--quarantined", "--from-time", "1"], "--quarantined gives JSON lines"),
        (["--quarantined", "--latest"], "--quarantined gives JSON lines"),
        (["--quarantined", "--key", "a"], "--quarantined gives JSON lines"),
        (["--latest", "--from-offset", "1"], "--latest takes no --from-offset"),
        (["--from-time", "1", "--from-offset", "1"], "Leave one out"),
        (["--text", "--format", "parquet", "--output", "x.parquet"], "--text goes with JSON lines"),
        (["--key", "hex:abc"], "is not hexadecimal"),
        (["--from-time", "yesterday"], "is not a point in time"),
    ],
)
def test_flags_that_contradict_each_other_end_with_two(flags: list[str], sentence: str) -> None:
    """Before anything is read."""
    answer = winnow("read", "orders", *flags, code=2)
    assert answer.stdout == ""
    assert sentence in answer.stderr


def test_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    """``winnow read orders | head -1``: one line, no complaint, exit code 0."""
    make_topic("orders", tmp_path / "orders.jsonl", keys=40_000)
    command = f"{sys.executable} -m winnow.cli read orders"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout)[0]["offset"] == 0


def test_large_topic_streams_the_same_lines_from_a_process_of_its_own(tmp_path: Path) -> None:
    """Many batches, every record once, in order; nothing but records on standard output."""
    make_topic("orders", tmp_path / "orders.jsonl", keys=10_000)
    answer = winnow_process("read", "orders")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert [each["offset"] for each in lines(answer.stdout)] == list(range(20_000))


def test_quarantined_records_are_read_with_where_they_came_from(tmp_path: Path) -> None:
    """Keyless records of a compacted topic: put aside, never dropped, and readable."""
    winnow("topics", "create", "orders", "--partitions", 1, "--config", "winnow.keyless=quarantine")
    path = write_lines(
        tmp_path / "a.jsonl",
        [record("k", "v", partition=0), record(None, "w", partition=0), record(None, "x", partition=0)],
    )
    report = winnow("ingest", "files", "orders", path, "--json").document
    assert (report["records_appended"], report["records_quarantined"]) == (1, 2)
    found = lines(winnow("read", "orders", "--quarantined").stdout)
    assert [list(each) for each in found] == [["ingest_id", "file_digest", "row", *FIELDS]] * 2
    assert sorted(str(each["value"]) for each in found) == sorted([str(b64("w")), str(b64("x"))])
    assert {each["key"] for each in found} == {None}
    assert {each["timestamp"] for each in found} == {NOW_MS}
    assert len(lines(winnow("read", "orders", "--quarantined", "--limit", 1).stdout)) == 1
    assert len(lines(winnow("read", "orders", "--quarantined", "--partition", 0).stdout)) == 2


def test_topic_without_quarantine_reads_no_quarantined_records(tmp_path: Path) -> None:
    """Nothing put aside, nothing printed."""
    make_topic("orders", tmp_path / "orders.jsonl")
    assert winnow("read", "orders", "--quarantined").stdout == ""


@pytest.mark.parametrize("missing", [True, False])
def test_damaged_segment_is_named_and_not_taken_for_a_swept_one(
    tmp_path: Path, winnow_home: Path, missing: bool
) -> None:
    """Running it again would say the same for ever, so it says what to restore."""
    make_topic("orders", tmp_path / "orders.jsonl")
    (segment,) = storage.parse_local_path(find_location("orders")).joinpath("data").rglob("*.parquet")
    if missing:
        segment.unlink()
    else:
        segment.write_bytes(segment.read_bytes()[:100])
    answer = winnow("read", "orders", code=4)
    assert f"A segment of orders-0 {'is missing' if missing else 'has 100 bytes instead of'}" in answer.stderr
    assert segment.name in answer.stderr
    assert "Restore that file" in answer.stderr


def test_ingest_as_of_the_future_says_what_that_does_to_its_records(tmp_path: Path) -> None:
    """It shortens nothing: what carries no timestamp waits longer."""
    winnow("topics", "create", "orders", "--partitions", 1)
    path = write_lines(tmp_path / "a.jsonl", [record("k", "v", offset=7)])
    answer = winnow("ingest", "files", "orders", path, "--as-of", "2999-01-01T00:00:00Z", "--json")
    (notice,) = answer.document["notices"]
    assert "compacted and retired later, never earlier" in notice
    assert winnow("ingest", "files", "orders", path, "--json").document["notices"] == []


def _make_versions(tmp_path: Path) -> None:
    """Text, bytes that are no UTF-8, a tombstone and headers; the timestamps rise by an hour."""
    winnow("topics", "create", "orders", "--partitions", 1)
    hour_ms = 3_600_000
    records = [
        record("ann", "berlin", headers=[{"key": "trace", "value": b64("t-1")}, {"key": "none", "value": None}]),
        record("bob", "paris"),
        {**record("ann", None), "value": "/wA="},
        {**record("x", "y"), "key": "/w=="},
        record("bob", None),
    ]
    path = write_lines(
        tmp_path / "a.jsonl",
        [{**each, "offset": n, "partition": 0, "timestamp": NOW_MS + n * hour_ms} for n, each in enumerate(records)],
    )
    winnow("ingest", "files", "orders", path)


def test_text_is_shown_as_text_and_other_bytes_as_what_they_are(tmp_path: Path) -> None:
    """No byte is guessed at or replaced: what is not UTF-8 is an object with its base64."""
    _make_versions(tmp_path)
    found = lines(winnow("read", "orders", "--text").stdout)
    assert [(each["key"], each["value"]) for each in found] == [
        ("ann", "berlin"),
        ("bob", "paris"),
        ("ann", {"base64": "/wA="}),
        ({"base64": "/w=="}, "y"),
        ("bob", None),
    ]
    assert found[0]["headers"] == [{"key": "trace", "value": "t-1"}, {"key": "none", "value": None}]
    assert found[1]["headers"] is None
    compressed = tmp_path / "text.jsonl.gz"
    winnow("read", "orders", "--text", "--output", compressed)
    assert lines(gzip.decompress(compressed.read_bytes()).decode()) == found


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (["--key", "ann"], [0, 2]),
        (["--key", "hex:ff"], [3]),
        (["--key", "base64:Ym9i"], [1, 4]),
        (["--key", "text:bob", "--limit", 1], [1]),
        (["--key", "an"], []),
        (["--from-time", NOW_MS + 3_600_001], [2, 3, 4]),
        (["--from-time", "2023-11-15T00:13:20+01:00"], [1, 2, 3, 4]),
        (["--from-time", "2999-01-01T00:00:00Z"], []),
        (["--from-time", NOW_MS + 1, "--key", "ann"], [2]),
        (["--from-offset", 1, "--key", "ann"], [2]),
        (["--latest"], [2, 3]),
        (["--latest", "--key", "ann"], [2]),
        (["--latest", "--key", "bob"], []),
        (["--latest", "--limit", 1], [2]),
    ],
)
def test_read_narrows_by_key_time_and_latest(tmp_path: Path, flags: list[object], offsets: list[int]) -> None:
    """A key is text unless a prefix says otherwise; bob's latest record is a tombstone."""
    _make_versions(tmp_path)
    assert [each["offset"] for each in lines(winnow("read", "orders", *flags).stdout)] == offsets


def test_latest_records_can_be_written_to_parquet_with_every_column(tmp_path: Path) -> None:
    """The columns of a segment, and only the winners."""
    _make_versions(tmp_path)
    target = tmp_path / "latest.parquet"
    winnow("read", "orders", "--latest", "--format", "parquet", "--output", target)
    table = pq.read_table(target)
    assert (table.schema.names, table.column("offset").to_pylist()) == (FIELDS, [2, 3])
