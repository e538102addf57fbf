"""Which of key and value ``winnow connect`` shows as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import open_world, record
from winnow.files import storage
from winnow.pipeline.connect.table_access import find_text_columns
from winnow.pipeline.topics.topic_view import load_topic_view

AVRO = b"\x00\x00\x00\x00\x07\x06Ann"
"""Confluent's framing of an Avro string, which is valid UTF-8, too."""


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], {"key", "value"}),
        ([(b"k", b'{"city": "K\xc3\xb6ln"}\r\n\t')], {"key", "value"}),
        ([(b"k", None), (None, b"x")], {"key", "value"}),
        ([(b"k", b"text"), (b"k", AVRO)], {"key"}),
        ([(b"\xff", b"text")], {"value"}),
        ([(b"\x00\x01", b"\x80")], set()),
        ([(b"k", b"\xff"), *[(b"k", b"text")] * 100], {"key", "value"}),
        ([*[(b"k", b"text")] * 100, (b"k", b"\xff")], {"key"}),
    ],
)
def test_columns_whose_newest_records_are_text_are_text(
    tmp_path: Path, records: list[tuple[bytes | None, bytes | None]], expected: set[str]
) -> None:
    """UTF-8 without control characters; a record that has none says nothing; older ones are not looked at."""
    with open_world(tmp_path) as world:
        world.create(2, cleanup_policy="delete")
        if records:
            world.ingest([record(n, key, value, partition=1) for n, (key, value) in enumerate(records)])
        assert find_text_columns(load_topic_view(world.installation, "orders")) == expected


def test_nothing_is_taken_for_text_where_a_segment_is_damaged(tmp_path: Path) -> None:
    """The program is written all the same."""
    with open_world(tmp_path) as world:
        world.create(1)
        world.ingest([record(0, b"k", b"v")])
        (segment,) = world.segments()
        storage.parse_local_path(segment.path).write_bytes(b"no Parquet")
        assert find_text_columns(load_topic_view(world.installation, "orders")) == set()
