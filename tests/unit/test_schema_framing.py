"""Datums that name their schemas: which schema each one has, and in what order rows and row types come."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from winnow.schemas.documents import SchemaDocument, SchemaId, SchemaReference, walk_references
from winnow.schemas.formats import make_decoder
from winnow.schemas.framing import find_schema_ids, read_message_path
from winnow.schemas.schema_cache import KeptDocuments
from winnow.values.formats import Format


def keep(**schemas: Any) -> KeptDocuments:
    documents: dict[SchemaId, SchemaDocument] = {
        int(name[1:]): SchemaDocument("AVRO", json.dumps(schema)) for name, schema in schemas.items()
    }
    return KeptDocuments("the kept schemas", documents)


def frame(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + body


def make_record(*aliases: str) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": list(aliases)}]}


@given(st.lists(st.one_of(st.builds(frame, st.integers(0, 3), st.binary(max_size=2)), st.binary(max_size=7))))
def test_datums_are_grouped_by_the_id_that_they_begin_with(datums: list[bytes]) -> None:
    """A zero byte and four of the id; those that do not begin so are in no group."""
    expected: dict[int, list[int]] = {}
    for position, datum in enumerate(datums):
        if len(datum) >= 5 and datum[0] == 0:
            expected.setdefault(int.from_bytes(datum[1:5]), []).append(position)
    ids = find_schema_ids(pa.array(datums, pa.binary()))
    assert {schema_id: positions.tolist() for schema_id, positions in ids.items()} == expected


@given(
    st.lists(st.sampled_from((7, 8, 9, 10)).flatmap(lambda i: st.binary(max_size=3).map(lambda body: frame(i, body))))
)
def test_every_position_is_in_one_group_or_an_error(datums: list[bytes]) -> None:
    """Whatever the ids: known ones, one of a schema that is not valid, one that nobody has."""
    decoder = make_decoder(Format.AVRO, source=keep(_7="int", _8=make_record(), _9={"type": "nothing"}))
    batch = decoder.decode(pa.array(datums, pa.binary()))
    positions = [position for group in batch.groups for position in group.positions.to_pylist()]
    assert sorted([*positions, *batch.errors]) == list(range(len(datums)))
    for group in batch.groups:
        assert len(group.rows) == len(group.positions)
        assert group.rows.null_count == 0


def test_groups_come_by_the_ids_of_their_schemas_with_former_names() -> None:
    """Older schemas have lower ids."""
    source = keep(_9=make_record("old"), _3=make_record(), _5=make_record(), _4="int")
    decoder = make_decoder(Format.AVRO, source=source)
    datums = pa.array([frame(schema_id, b"\2") for schema_id in (9, 5, 3, 4)], pa.binary())
    groups = decoder.decode(datums).groups
    assert [[(field.name, field.metadata) for field in group.rows.type] for group in groups] == [
        [("a", None)],
        [("", None)],
        [("a", None)],
        [("a", {b"aliases": b"old"})],
    ]
    assert [group.positions.to_pylist() for group in groups] == [[2], [3], [1], [0]]


def test_errors_of_schemas_name_the_id_and_the_source() -> None:
    """A person finds the schema; nothing of the datum is quoted."""
    decoder = make_decoder(Format.AVRO, source=keep(_9={"type": "nothing"}))
    batch = decoder.decode(pa.array([frame(9, b"secret"), frame(8, b"secret"), b"secret"], pa.binary()))
    assert batch.errors == {
        0: "Schema 9 of the kept schemas cannot be used: it is not a valid Avro schema.",
        1: "Schema 8 is not in the kept schemas.",
        2: "The datum does not begin with the id of a schema, as a serializer with a registry writes it.",
    }


def test_path_of_a_message_is_read_as_serializers_write_it() -> None:
    """A lone zero is the first message; others are counted, then listed, as zigzag numbers; else it is no path."""
    assert read_message_path(b"\0rest", 0) == ((0,), 1)
    assert read_message_path(b"\2\4rest", 0) == ((2,), 2)
    assert read_message_path(b"\4\2\x80\x01rest", 0) == ((1, 64), 4)
    for damaged in (b"", b"\1", b"\2", b"\2\1", b"\x80", b"\xff\xff\xff\xff\xff\x01", b"\xfe\xff\x03" + b"\0" * 99):
        try:
            read_message_path(damaged, 0)
        except ValueError:
            continue
        raise AssertionError(damaged)


def test_references_come_after_what_they_refer_to_and_each_once() -> None:
    """Also where two documents refer to a third."""
    third = SchemaReference("3", SchemaDocument("AVRO", ""))
    second = SchemaReference("2", SchemaDocument("AVRO", "", (third,)))
    fourth = SchemaReference("4", SchemaDocument("AVRO", "", (third, second)))
    names = [reference.name for reference in walk_references(SchemaDocument("AVRO", "", (fourth, second, third)))]
    assert names == ["3", "2", "4"]
