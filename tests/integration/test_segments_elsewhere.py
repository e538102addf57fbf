"""Segments of tiered storage, and alone, go in by the same command as a broker's folders, and grow like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_runner import winnow
from tests.support.record_batch_encoder import Record, encode_batch, write_segment

TOPIC_ID = "MWJ6FHTfRYy67jzwZdeqSQ"
OTHER_ID = "5fEBmixCR5-dMntYSLIr1g"


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    return tmp_path / "remote"


def write_tiered(root: Path, offsets: range, topic_id: str = TOPIC_ID) -> None:
    """One segment as Kafka's LocalTieredStorage calls it."""
    records = encode_batch([Record(each, b"k%d" % each) for each in offsets])
    log = write_segment(root / f"orders-1-{topic_id}", offsets[0], records)
    log.rename(log.with_name(f"{offsets[0]}-tqimKeZwStOEOwRzT3L5o{offsets[0] % 10}.log"))


def test_tiered_storage_that_grows_goes_on(remote: Path) -> None:
    write_tiered(remote, range(5))
    inspected = winnow("inspect", remote)
    assert f"Next: winnow ingest files orders {remote} --create" in inspected.stdout
    first = winnow("ingest", "files", "orders", remote, "--create", "--json")
    assert (first.document["records_appended"], first.document["partitions"][0]["partition"]) == (5, 1)
    write_tiered(remote, range(5, 8))
    again = winnow("ingest", "files", "orders", remote, "--json")
    assert (again.document["records_appended"], again.document["partitions"][0]["log_end_offset"]) == (3, 8)


def test_tiered_storage_of_a_topic_that_was_created_again_is_refused(remote: Path) -> None:
    write_tiered(remote, range(5))
    winnow("ingest", "files", "orders", remote, "--create")
    write_tiered(remote.parent / "other", range(5, 7), OTHER_ID)
    refused = winnow("ingest", "files", "orders", remote.parent / "other", code=3)
    assert TOPIC_ID in refused.stderr
    assert OTHER_ID in refused.stderr


def test_a_segment_alone_goes_into_the_partition_that_was_said_and_no_other_call_inherits_it(remote: Path) -> None:
    segment = write_segment(remote / "a", 3, encode_batch([Record(3), Record(4)]))
    refused = winnow("ingest", "files", "orders", segment, "--create", code=3)
    assert "Say it with --partition N" in refused.stderr
    assert winnow("topics", "list", "--json").document == []
    done = winnow("ingest", "files", "orders", segment, "--create", "--partition", 2, "--json")
    (part,) = done.document["partitions"]
    assert (part["partition"], part["first_offset"], part["log_end_offset"]) == (2, 3, 5)
    other = write_segment(remote / "b", 5, encode_batch([Record(5)]))
    winnow("ingest", "files", "orders", other, code=3)
    assert winnow("ingest", "files", "orders", other, "--partition", 2, "--json").document["records_appended"] == 1
