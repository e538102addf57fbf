"""What kcat -J writes is read without loss, bytes that are not UTF-8 included."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support.sample_archives import SAMPLES, list_rows, load_dump, make_archive, select_fields, store_bytes
from winnow.errors import BadInputError
from winnow.sources.layouts.kcat import is_kcat, read_kcat, unescape
from winnow.sources.objects import ReadOptions

SMALL = ReadOptions(batch_bytes=60_000)


@pytest.mark.parametrize("which", ["read_committed", "read_uncommitted"])
def test_every_record_equals_the_topic(which: str) -> None:
    chunks = list(read_kcat(make_archive("kcat", SAMPLES / "kcat" / f"rich-small.{which}.kcat-J.gz"), SMALL))
    assert len(chunks) > 3
    assert all(chunk.records.nbytes < 3 * SMALL.batch_bytes for chunk in chunks)
    rows = sorted(list_rows(chunks), key=lambda row: (row["partition"], row["offset"]))
    assert rows == select_fields(load_dump(f"kcat/rich-small.{which}"))
    assert {topic for chunk in chunks if chunk.topics is not None for topic in chunk.topics.to_pylist()} == {
        "rich-small"
    }


LINE = b'{"topic":"t","partition":0,"offset":%d,"tstype":"create","ts":5,"broker":1,"key":"a","payload":%s}\n'


def read_all(path: Path, data: bytes) -> list[dict[str, object]]:
    chunks = read_kcat(make_archive("kcat", store_bytes(path, data)), SMALL)
    return [row for chunk in chunks for row in chunk.records.to_pylist()]


def test_strings_keep_their_bytes() -> None:
    assert unescape(b'"\\u0000\\"\\\\\\/\\n\xff\xc3"') == b'\x00"\\/\n\xff\xc3'
    assert unescape(b'"\\u00e9\xff"') == b"\xc3\xa9\xff"
    assert unescape(b'""') == b""
    assert unescape(b"null") is None


def test_timestamps_have_a_type_or_are_missing(tmp_path: Path) -> None:
    lines = [
        b'{"topic":"t","partition":0,"offset":0,"tstype":"logappend","ts":5,"key":null,"payload":null}\n',
        b'{"topic":"t","partition":0,"offset":1,"tstype":"unknown","ts":-1,"key":null,"payload":null}\n',
    ]
    first, second = read_all(tmp_path / "a", b"".join(lines))
    assert (first["timestamp"], first["timestampType"]) == (5, 1)
    assert (second["timestamp"], second["timestampType"]) == (None, -1)


def test_values_that_kcat_took_apart_are_json_text(tmp_path: Path) -> None:
    rows = read_all(tmp_path / "a", LINE % (3, b'{"id": {"long": 1}}'))
    assert rows[0]["value"] == b'{"id":{"long":1}}'


@pytest.mark.parametrize("cut", [1, 20, 60, 99])
def test_a_cut_off_line_is_named(tmp_path: Path, cut: int) -> None:
    data = LINE % (3, b'"x"') + (LINE % (4, b'"yyyyyyyyyyyyyy"'))[:cut]
    with pytest.raises(BadInputError, match=r"line 2: this is not a record.*cut off"):
        read_all(tmp_path / "a", data)


def test_headers_come_in_pairs(tmp_path: Path) -> None:
    line = b'{"topic":"t","partition":0,"offset":0,"key":"a","payload":"b","headers":["x"]}'
    with pytest.raises(BadInputError, match="a header has a name and no value"):
        read_all(tmp_path / "a", line)


def test_what_other_options_of_kcat_write_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"not what kcat -J writes.*Write the archive with `kcat -J`"):
        list(read_kcat(make_archive("kcat", SAMPLES / "kcat" / "rich-small.read_committed.kcat-f.gz"), SMALL))
    with pytest.raises(BadInputError, match="not what kcat -J writes"):
        read_all(tmp_path / "a", b"key\tvalue\nkey\tNULL\n")


def test_it_is_recognised_by_its_members() -> None:
    with gzip.open(SAMPLES / "kcat" / "rich-small.read_committed.kcat-J.gz") as stream:
        assert all(is_kcat(line) for line in stream)
    assert not is_kcat(b'{"partition":0,"offset":0,"key":null,"value":null}')
    assert not is_kcat(b"key\tvalue")
    assert not is_kcat(b"")
