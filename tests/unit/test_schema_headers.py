"""Records whose headers name their schemas, beside such whose keys and values begin with an id."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
from confluent_kafka.schema_registry import dual_schema_id_deserializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from winnow.files.segments import HEADERS_TYPE
from winnow.schemas.documents import SchemaDocument
from winnow.schemas.formats import make_decoder
from winnow.schemas.framing import FramedDecoder
from winnow.schemas.header_ids import find_header_ids
from winnow.schemas.record_decoder import DecodedRecords, RecordDecoder
from winnow.schemas.schema_cache import KeptDocuments
from winnow.values.formats import Format
from winnow.values.latest_fields import FieldRules
from winnow.values.typed_columns import Side

GUID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
SCHEMAS: dict[Any, Any] = {
    7: {"type": "record", "name": "A", "fields": [{"name": "a", "type": "bytes"}]},
    8: {"type": "record", "name": "B", "fields": [{"name": "b", "type": "bytes"}]},
    GUID: {"type": "record", "name": "C", "fields": [{"name": "c", "type": "bytes"}]},
}
SOURCE = KeptDocuments(
    "the registry", {name: SchemaDocument("AVRO", json.dumps(text)) for name, text in SCHEMAS.items()}
)

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers | None]
KNOWN: tuple[int | UUID, ...] = (7, 8, GUID, 9, UUID(int=9))


def name_schema(schema_id: int | UUID) -> bytes:
    return b"\1" + schema_id.bytes if isinstance(schema_id, UUID) else b"\0" + schema_id.to_bytes(4)


IDS = st.sampled_from(KNOWN).map(name_schema)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(("__key_schema_id", "__value_schema_id", "trace")),
        st.one_of(st.none(), IDS, IDS.map(lambda name: name[:-1]), st.binary(max_size=6)),
    ),
    max_size=3,
)
BODIES = st.one_of(
    st.binary(max_size=4).map(lambda content: bytes([2 * len(content)]) + content),
    # A body that looks like a datum with a head, and is one where no header says otherwise.
    st.sampled_from((b"\0\0\0\0\7\0", b"\0\0\0\0\7\2x")),
    st.binary(max_size=8),
)
DATUMS = st.one_of(st.none(), BODIES, st.tuples(IDS, BODIES).map(b"".join), IDS.map(lambda name: name[:-1]))
RECORDS = st.lists(st.tuples(DATUMS, DATUMS, st.one_of(st.none(), HEADERS)), max_size=6)


def make_records(records: list[Record]) -> pa.RecordBatch:
    keys, values, headers = zip(*records, strict=True) if records else ((), (), ())
    pairs = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(pairs, HEADERS_TYPE),
        }
    )


def decode(records: pa.RecordBatch) -> DecodedRecords:
    key, value = (make_decoder(Format.AVRO, source=SOURCE) for _ in range(2))
    return RecordDecoder(key, value, known=pa.struct([]), rules=FieldRules(), secret=None).decode(records)


def list_rows(decoded: DecodedRecords, side: Side) -> dict[int, Any]:
    return {
        position: row
        for group in decoded.groups[side]
        for position, row in zip(group.positions.to_pylist(), group.rows.to_pylist(), strict=True)
    }


def decode_plainly(datum: bytes, headers: Headers | None, side: Side) -> Any:
    """Decode as Confluent's deserializer does, one datum at a time; None: it refuses it, or leaves bytes behind."""
    field = MessageField.KEY if side is Side.KEY else MessageField.VALUE
    schema_id = SchemaId("AVRO")
    try:
        body = dual_schema_id_deserializer(datum, SerializationContext("orders", field, headers), schema_id)
        schema = SCHEMAS[schema_id.id if schema_id.guid is None else schema_id.guid]
        row = fastavro.schemaless_reader(body, fastavro.parse_schema(schema))
    except Exception:
        return None
    return None if body.read(1) else row


@given(RECORDS, st.integers(0, 2))
def test_ids_in_headers_and_in_payloads_are_read_as_confluents_deserializer_does(
    records: list[Record], skipped: int
) -> None:
    """Mixed in one batch, keys by their header and values by theirs, also in a part of a batch; the rest are errors."""
    decoded = decode(make_records(records).slice(skipped))
    for side, column in ((Side.KEY, 0), (Side.VALUE, 1)):
        rows = list_rows(decoded, side)
        for position, record in enumerate(records[skipped:]):
            datum: Any = record[column]
            expected = None if datum is None else decode_plainly(datum, record[2], side)
            assert [value for value in rows.get(position, {}).values() if value is not None] == list(
                (expected or {}).values()
            )
            assert (position in decoded.errors[side]) == (datum is not None and expected is None)


def test_body_that_begins_like_an_id_is_of_the_schema_that_its_header_names() -> None:
    """It would be a row of another schema, and nobody would see that it is wrong."""
    body = b"\2\0"
    assert decode(make_records([(None, body, [("__value_schema_id", name_schema(8))])])).groups[Side.VALUE][
        0
    ].rows.to_pylist() == [{"b": b"\0"}]
    lookalike = name_schema(7) + b"\2x"
    decoded = decode(
        make_records([(None, lookalike, [("__value_schema_id", name_schema(8))]), (None, lookalike, None)])
    )
    assert list(decoded.errors[Side.VALUE]) == [0]
    assert list_rows(decoded, Side.VALUE) == {1: {"a": b"x"}}


def test_hostile_headers_are_errors_of_their_records_and_quote_nothing() -> None:
    """Short, long, unknown or huge: never read as a datum with a head, and never a failure of the others."""
    framed = name_schema(7) + b"\2x"
    hostile = [
        b"",
        b"\0",
        b"\2\0\0\0\7",
        name_schema(7)[:-1],
        name_schema(GUID)[:-1],
        name_schema(7) + b"!",
        b"\0" * 2**20,
    ]
    records: list[Record] = [(framed, framed, [("__value_schema_id", value)]) for value in hostile]
    decoded = decode(make_records([*records, (framed, framed, [("trace", b"\1")])]))
    assert set(decoded.errors[Side.VALUE]) == set(range(len(hostile)))
    assert set(decoded.errors[Side.VALUE].values()) == {
        "The header that names its schema is damaged: it is none that a serializer with a registry writes."
    }
    assert len(list_rows(decoded, Side.KEY)) == len(records) + 1
    unknown = decode(
        make_records([(None, b"x", [("__value_schema_id", name_schema(UUID(bytes=b"a secret of some")))])])
    )
    assert unknown.errors[Side.VALUE] == {0: "The schema of a GUID is not in the registry."}
    framed = b"\1a secret of someone"
    assert decode(make_records([(None, framed, None)])).errors[Side.VALUE] == unknown.errors[Side.VALUE]


def test_content_ids_of_apicurio_are_read_and_no_other_ids_of_it_are_taken_for_them() -> None:
    """Its last header counts, Confluent's goes before it; an id of another kind makes no row of another schema."""
    row, lookalike, seven = b"\2x", name_schema(7) + b"\2x", (7).to_bytes(8)
    content, other = "apicurio.value.contentId", "apicurio.value.globalId"
    encoding = "apicurio.value.encoding"
    records: list[Record] = [
        (None, row, [(content, seven)]),
        (None, row, [(other, b"\0" * 8), (content, (8).to_bytes(8)), (content, seven), (encoding, b"BINARY")]),
        (None, row, [(content, (8).to_bytes(8)), ("__value_schema_id", name_schema(7))]),
        (lookalike, row, [(content, seven), ("apicurio.key.globalId", seven)]),
        (None, lookalike, [("apicurio.key.contentId", (8).to_bytes(8))]),
        (None, lookalike, [(other, seven)]),
        (None, lookalike, [(content, seven), (encoding, b"JSON")]),
        (None, lookalike, [(content, b"\0\0\0\7")]),
        (None, lookalike, [(content, b"\1" + seven[1:])]),
        (None, lookalike, [(content, None), (other, None)]),
    ]
    decoded = decode(make_records(records))
    assert list_rows(decoded, Side.VALUE) == {position: {"a": b"x"} for position in (*range(5), 9)}
    assert set(decoded.errors[Side.VALUE]) == {5, 6, 7, 8}
    assert list(decoded.errors[Side.KEY]) == [3]
    assert all("of a serializer of Apicurio" in sentence for sentence in decoded.errors[Side.VALUE].values())


def test_path_of_a_protobuf_message_follows_in_the_header() -> None:
    """The first message and another one, beside datums that begin with id and path; without a path it is an error."""
    text = 'syntax = "proto3"; message A { bytes a = 1; } message B { bytes b = 1; }'
    decoder = make_decoder(
        Format.PROTOBUF, source=KeptDocuments("kept", dict.fromkeys((7, GUID), SchemaDocument("PROTOBUF", text)))
    )
    assert isinstance(decoder, FramedDecoder)
    name, body = name_schema(7), b"\n\1x"
    named = [name + b"\0", name + b"\2\2", None, name, name + b"\0\0", None, None]
    datums = [body, body, name + b"\2\2" + body, body, body, name_schema(GUID) + b"\2\2" + body, name_schema(GUID)]
    records = make_records(
        [
            (None, datum, [] if value is None else [("__value_schema_id", value)])
            for datum, value in zip(datums, named, strict=True)
        ]
    )
    batch = decoder.decode(records.column("value"), find_header_ids(records.column("headers"), Side.VALUE))
    rows = [(group.positions.to_pylist(), group.rows.to_pylist()) for group in batch.groups]
    assert rows == [([0], [{"a": b"x"}]), ([1, 2], [{"b": b"x"}, {"b": b"x"}]), ([5], [{"b": b"x"}])]
    assert set(batch.errors) == {3, 4, 6}


def test_headers_cost_nothing_where_none_names_a_schema() -> None:
    """No array is made for a batch of records with other headers, or with none."""
    assert find_header_ids(make_records([(None, b"", None), (None, b"", [])]).column("headers"), Side.VALUE) is None
    records = make_records([(None, b"", [("trace", b"1"), ("__key_schema_id", None)])])
    assert find_header_ids(records.column("headers"), Side.VALUE) is None


def test_a_header_without_a_value_names_no_schema() -> None:
    """The datum's own head counts then, as of the first header of the name alone."""
    framed = name_schema(7) + b"\2x"
    headers: Headers = [("__value_schema_id", None), ("__value_schema_id", name_schema(8))]
    assert list_rows(decode(make_records([(None, framed, headers)])), Side.VALUE) == {0: {"a": b"x"}}
