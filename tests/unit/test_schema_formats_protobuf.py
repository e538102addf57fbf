"""Protobuf's datums as rows, beside a decoder in plain Python; and what hostile documents and datums do."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from oracle.protobuf_rows import MessageField, decode_protobuf
from oracle.row_values import DatumRefused, is_same_row
from winnow.errors import ConfigurationError
from winnow.schemas.columns import make_arrow_type
from winnow.schemas.decoder import DecodedBatch
from winnow.schemas.documents import SchemaDocument, SchemaReference, UnusableSchemaError
from winnow.schemas.formats import make_decoder
from winnow.schemas.protobuf import make_protobuf_reader
from winnow.values.formats import Format

Proto: Any = descriptor_pb2.FieldDescriptorProto
INTEGERS = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*limits) for kind, limits in INTEGERS.items()},
    "bool": st.booleans(),
    "double": st.floats(),
    "float": st.floats(width=32),
    "string": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
    "enum": st.integers(-1, 2),
}
LABELS = st.sampled_from(("plain", "optional", "repeated"))


@st.composite
def messages(draw: st.DrawFn, depth: int = 0) -> tuple[MessageField, ...]:
    """The fields of any message."""
    fields = []
    for number in range(1, draw(st.integers(2, 5))):
        kind = draw(st.sampled_from((*VALUES, *VALUES, "message", "timestamp", "wrapper", "map")))
        inner: tuple[MessageField, ...] = ()
        label = draw(LABELS)
        if kind == "message":
            inner = draw(messages(depth + 1)) if depth < 2 else (MessageField("leaf", 1, "int32"),)
        if kind == "map":
            inner, label = (MessageField("value", 2, draw(st.sampled_from(tuple(VALUES)))),), "repeated"
        group = draw(st.sampled_from(("", "", "choice"))) if label == "plain" else ""
        label = "optional" if group or (label == "plain" and kind in {"message", "timestamp", "wrapper"}) else label
        fields.append(MessageField(f"f{number}", draw(st.integers(1, 3)) * 100 + number, kind, label, inner, group))
    return tuple(fields)


def describe(fields: tuple[MessageField, ...]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="main.proto", package="p", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    enum = file.enum_type.add(name="E")
    enum.value.add(name="A", number=0)
    enum.value.add(name="B", number=1)
    describe_message(file.message_type.add(name="M"), ".p.M", fields)
    return file


def describe_message(message: descriptor_pb2.DescriptorProto, path: str, fields: tuple[MessageField, ...]) -> None:
    if any(member.group for member in fields):
        message.oneof_decl.add(name="choice")
    for member in fields:
        proto = message.field.add(name=member.name, number=member.number)
        proto.label = Proto.LABEL_REPEATED if member.label == "repeated" else Proto.LABEL_OPTIONAL
        describe_type(message, proto, path, member)
        if member.group:
            proto.oneof_index = 0
    for member, proto in zip(fields, message.field, strict=True):
        if member.label == "optional" and not member.group and member.kind in VALUES:
            proto.proto3_optional = True
            proto.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{member.name}")


def describe_type(message: descriptor_pb2.DescriptorProto, proto: Any, path: str, member: MessageField) -> None:
    if member.kind in {"message", "map"}:
        name = f"{member.name.capitalize()}Entry" if member.kind == "map" else member.name.upper()
        nested = message.nested_type.add(name=name)
        proto.type, proto.type_name = Proto.TYPE_MESSAGE, f"{path}.{name}"
        fields = member.fields if member.kind == "message" else (MessageField("key", 1, "string"), *member.fields)
        describe_message(nested, proto.type_name, fields)
        nested.options.map_entry = member.kind == "map"
    elif member.kind in {"timestamp", "wrapper"}:
        proto.type = Proto.TYPE_MESSAGE
        proto.type_name = f".google.protobuf.{'Timestamp' if member.kind == 'timestamp' else 'Int64Value'}"
    else:
        proto.type = Proto.Type.Value(f"TYPE_{member.kind.upper()}")
        if member.kind == "enum":
            proto.type_name = ".p.E"


@st.composite
def filled(draw: st.DrawFn, message: Any, fields: tuple[MessageField, ...]) -> None:
    """Set some of the fields of ``message``."""
    for member in fields:
        if not draw(st.booleans()):
            continue
        value = getattr(message, member.name)
        if member.kind == "map":
            entries = draw(st.dictionaries(st.text(max_size=3), VALUES[member.fields[0].kind], max_size=3))
            for key, item in entries.items():
                value[key] = item
        elif member.label == "repeated" and member.kind in VALUES:
            value.extend(draw(st.lists(VALUES[member.kind], max_size=3)))
        elif member.kind in VALUES:
            setattr(message, member.name, draw(VALUES[member.kind]))
        else:
            part = value.add() if member.label == "repeated" else value
            part.SetInParent()
            draw(filled_part(part, member))


@st.composite
def filled_part(draw: st.DrawFn, part: Any, member: MessageField) -> None:
    if member.kind == "message":
        draw(filled(part, member.fields))
    elif member.kind == "wrapper":
        part.value = draw(VALUES["int64"])
    else:
        part.seconds = draw(st.integers(-(2**40), 2**40))
        part.nanos = draw(st.sampled_from((0, 1, 999_999_999, 10**9, -1)))


def load_class(file: descriptor_pb2.FileDescriptorProto) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for name in file.dependency:
        descriptor_pool.Default().FindFileByName(name).CopyToProto(copy := descriptor_pb2.FileDescriptorProto())
        pool.Add(copy)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


def write_document(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def decode(text: str, *datums: bytes) -> DecodedBatch:
    batch = make_decoder(Format.PROTOBUF, schema_text=text).decode(pa.array(datums, pa.binary()))
    for group in batch.groups:
        group.rows.validate(full=True)
    return batch


def list_rows(batch: DecodedBatch) -> dict[int, Any]:
    return {
        position: row
        for group in batch.groups
        for position, row in zip(group.positions.to_pylist(), group.rows.to_pylist(), strict=True)
    }


@given(st.data())
def test_rows_of_any_message_equal_those_of_the_plain_decoder(data: st.DataObject) -> None:
    """Every kind of field, presence, oneof, nesting and map; what no column holds is an error of its datum only."""
    fields = data.draw(messages())
    file = describe(fields)
    message_class = load_class(file)
    datums = []
    for _ in range(data.draw(st.integers(1, 4))):
        message = message_class()
        data.draw(filled(message, fields))
        datums.append(message.SerializeToString())
    batch = decode(write_document(file), *datums, b"\xff", b"")
    rows = list_rows(batch)
    assert {*rows, *batch.errors} == set(range(len(datums) + 2))
    assert len(datums) in batch.errors
    for position, datum in enumerate([*datums, b"\xff", b""]):
        try:
            expected = decode_protobuf(fields, datum)
        except DatumRefused:
            assert position in batch.errors, (fields, datum)
            continue
        assert is_same_row(expected, rows.get(position)), (fields, datum, expected, rows.get(position))


@given(st.data())
def test_any_bytes_are_a_row_or_an_error(data: st.DataObject) -> None:
    """The others of the batch are decoded."""
    fields = data.draw(messages())
    file = describe(fields)
    message = load_class(file)()
    data.draw(filled(message, fields))
    datum = message.SerializeToString()
    cut = data.draw(st.integers(0, len(datum)))
    datums = [datum, datum[:cut], datum[cut:], data.draw(st.binary()), datum]
    batch = decode(write_document(file), *datums)
    rows = list_rows(batch)
    assert {*rows, *batch.errors} == set(range(5))
    assert repr(rows.get(0)) == repr(rows.get(4))


SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";
import "types/money.proto";
message Empty {}
message Order {
  message Line { string sku = 1; int32 quantity = 2 [(confluent.field_meta).doc = "pieces"]; }
  int64 id = 1;
  repeated Line lines = 2;
  optional string note = 3;
  oneof payer { string card = 4; Empty cash = 5; }
  map<string, Money> prices = 6;
  map<int32, string> numbered = 7;
  google.protobuf.Struct more = 8;
  Order replaces = 9;
  google.protobuf.Timestamp at = 10;
}
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
SHOP_DOCUMENT = SchemaDocument(
    "PROTOBUF", SHOP, (SchemaReference("types/money.proto", SchemaDocument("PROTOBUF", MONEY)),)
)


def test_text_of_a_document_is_compiled_with_what_it_imports() -> None:
    """Google's types, Confluent's, a reference; a nested message by its path."""
    order = make_arrow_type(make_protobuf_reader(SHOP_DOCUMENT, (1,)).record)
    assert [(field.name, str(field.type)) for field in order] == [
        ("id", "int64"),
        ("lines", "list<item: struct<sku: string, quantity: int32>>"),
        ("note", "string"),
        ("card", "string"),
        ("cash", "string"),
        ("prices", "map<string, struct<cents: int64>>"),
        ("numbered", "string"),
        ("more", "string"),
        ("replaces", "string"),
        ("at", "timestamp[us, tz=UTC]"),
    ]
    line = make_arrow_type(make_protobuf_reader(SHOP_DOCUMENT, (1, 0)).record)
    assert line == pa.struct([("sku", pa.string()), ("quantity", pa.int32())])
    with pytest.raises(UnusableSchemaError, match=r"has no message 1\.5"):
        make_protobuf_reader(SHOP_DOCUMENT, (1, 5))


def test_what_no_column_holds_is_text_as_protobuf_writes_it() -> None:
    """Recursive messages, messages without fields, maps by numbers, ``Struct``."""
    reader = make_protobuf_reader(SHOP_DOCUMENT, (1,))
    inner = bytes([8, 7])
    datum = bytes([0x2A, 0, 0x3A, 5, 8, 1, 0x12, 1, ord("x"), 0x42, 0, 0x4A, len(inner), *inner, 0x52, 0])
    row = reader.parse(datum)
    assert row["cash"] == {}
    assert row["numbered"] == {"1": "x"}
    assert row["more"] == {}
    assert row["replaces"] == {"id": "7"}
    assert row["at"] == 0
    assert row["card"] is None
    assert row["note"] is None


def test_a_message_is_chosen_by_its_full_name() -> None:
    """Also one inside of another, and without a package; a name that the document does not have is an error."""
    nested = "message A { int32 a = 1; } message B { message C { int32 c = 1; } int32 b = 1; }"

    def read(text: str, message: str) -> Any:
        decoder = make_decoder(Format.PROTOBUF, schema_text=text, message=message)
        return list_rows(decoder.decode(pa.array([b"\x08\x07"], pa.binary())))[0]

    packed = f'syntax = "proto3"; package p.q; {nested}'
    assert [read(packed, name) for name in ("", "p.q.A", "p.q.B", "p.q.B.C")] == [
        {"a": 7},
        {"a": 7},
        {"b": 7},
        {"c": 7},
    ]
    assert read(f'syntax = "proto3"; {nested}', "B.C") == {"c": 7}
    for name in ("B", "p.B", "p.q.C", "p.q.B.C.D", "p.q.", "p.q"):
        with pytest.raises(ConfigurationError, match="has no message of the name"):
            read(packed, name)


def refuse(text: str, *references: SchemaReference) -> str:
    with pytest.raises(UnusableSchemaError) as refused:
        make_protobuf_reader(SchemaDocument("PROTOBUF", text, references), (0,))
    return str(refused.value)


def test_hostile_documents_of_protobuf_are_refused() -> None:
    """No Protobuf, too large, too wide, too deep, imports of what is not there, names that lead out of the folder."""
    head = 'syntax = "proto3"; '
    wide = "".join(f"int32 f{number} = {number};" for number in range(1, 2_002))
    assert refuse(f"{head} message M {{ {wide} }}") == "has more than 2,000 columns"
    assert refuse(" " * (10 << 20)) == "is larger than 4,194,304 bytes"
    assert refuse("message M {" * 2_000) == "is not valid Protobuf"
    assert refuse(f"{head} message M {{ M f = 1; ") == "is not valid Protobuf"
    assert refuse(f'{head} import "/etc/passwd"; message M {{}}') == "is not valid Protobuf"
    deep = (
        "".join(f"message M{number} {{ M{number + 1} f = 1; }}" for number in range(70))
        + "message M70 { int32 f = 1; }"
    )
    assert refuse(head + deep) == "is nested deeper than 64 levels"
    for name in ("../out.proto", "/tmp/out.proto", "", "a\0b"):
        reference = SchemaReference(name, SchemaDocument("PROTOBUF", head))
        assert refuse(head, reference) == "refers to a document whose name is not a path"
    assert refuse(base64.b64encode(b"\x0a\x01x\x12\x01y" * 2).decode()) == "has no message 0"


def test_datum_that_nests_without_end_is_an_error() -> None:
    """The runtime stops at a depth of its own."""
    datum = b""
    for _ in range(3_000):
        size = len(datum)
        head = bytearray()
        while size > 0x7F:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        datum = bytes([0x4A, *head, size]) + datum
    decoder = make_protobuf_reader(SHOP_DOCUMENT, (1,))
    with pytest.raises(Exception, match="damaged"):
        decoder.parse(datum)


def test_timestamp_is_cut_to_microseconds() -> None:
    """Its column has no nanoseconds."""
    text = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp at = 1; }'
    )
    assert list_rows(decode(text, bytes([0x0A, 5, 8, 1, 0x10, 0xE7, 0x07]))) == {
        0: {"at": dt.datetime(1970, 1, 1, 0, 0, 1, 0, dt.UTC)}
    }
