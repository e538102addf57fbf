"""An archive whose records alone name topics is read once to find them; each topic gets the objects that hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from winnow.errors import BadInputError
from winnow.sources.archive import Archive, open_archive, split_by_topic
from winnow.sources.envelope import make_chunk
from winnow.sources.input_errors import Place
from winnow.sources.layouts.kcat import KCAT
from winnow.sources.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject

Rows = list[tuple[str | None, int | None]]


def make_archive(*objects: ArchiveObject, rows: dict[str, Rows], readings: Counter[str]) -> Archive:
    """An archive that counts how often each object is read. ``rows``: topic and partition of each record."""

    def read(obj: ArchiveObject, _: ReadOptions) -> Iterator[RecordChunk]:
        readings[obj.uri] += 1
        for topic, partition in rows[obj.uri]:
            yield make_chunk(
                Place(obj.uri, "line", pa.array([1]).to_numpy()),
                partition=pa.array([partition], pa.int64()),
                offset=pa.array([0], pa.int64()),
                topics=None if topic is None else pa.array([topic], pa.string()),
            )

    return Archive(replace(KCAT, read=read), objects, ())


def make_object(uri: str, topic: str | None = None, partition: int | None = None) -> ArchiveObject:
    return ArchiveObject("kcat", uri, {"value": StoredObject(uri, 1)}, topic, partition)


def split(*objects: ArchiveObject, **rows: Rows) -> tuple[dict[str, tuple[str, int | None]], Counter[str]]:
    """The objects of each topic as one word, its partitions, and how often each object was read."""
    readings: Counter[str] = Counter()
    found = split_by_topic(make_archive(*objects, rows=rows, readings=readings))
    parts = {
        topic: ("".join(each.uri for each in part.objects), partitions) for topic, (part, partitions) in found.items()
    }
    return parts, readings


def test_each_topic_gets_its_objects_and_partitions_from_one_reading() -> None:
    parts, readings = split(
        make_object("a"),
        make_object("b"),
        make_object("c", partition=7),
        a=[("t1", 0), ("t2", 4), ("t1", 2)],
        b=[("t1", 1)],
        c=[("t3", None)],
    )
    assert parts == {"t1": ("ab", 3), "t2": ("a", 5), "t3": ("c", 8)}
    assert readings == {"a": 1, "b": 1, "c": 1}


def test_names_that_tell_topics_spare_the_reading_and_one_without_a_partition_leaves_their_number_open() -> None:
    parts, readings = split(make_object("a", "t1", 3), make_object("b", "t2", 1), make_object("c", "t2"))
    assert parts == {"t1": ("a", 4), "t2": ("bc", None)}
    assert not readings


def test_records_without_a_topic_are_in_every_part_and_so_refused_in_each() -> None:
    parts, _ = split(make_object("a"), make_object("b"), a=[("t1", 0), ("t2", 0)], b=[(None, 0)])
    assert parts == {"t1": ("ab", 1), "t2": ("ab", 1)}


def test_an_archive_that_names_no_topic_is_refused() -> None:
    with pytest.raises(BadInputError, match="Neither names nor records name a topic"):
        split(make_object("a"), a=[(None, 0)])


def test_files_of_kcat_are_told_apart_by_their_lines(tmp_path: Path) -> None:
    for number in range(2):
        line = (
            f'{{"topic":"t{number}","partition":{number},"offset":0,"tstype":"create","ts":1,"key":"k","payload":"v"}}'
        )
        (tmp_path / f"{number}.json").write_text(line + "\n")
    found = split_by_topic(open_archive([str(tmp_path)]))
    assert [(topic, len(part.objects), partitions) for topic, (part, partitions) in found.items()] == [
        ("t0", 1, 1),
        ("t1", 1, 2),
    ]
