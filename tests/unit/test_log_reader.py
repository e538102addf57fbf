"""Masks of the page, and how a typed key becomes bytes."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest

from winnow.errors import UsageError
from winnow.log_reader.key_text import KeyEncoding, parse_key
from winnow.log_reader.masking import Masks
from winnow.log_reader.shown_records import ShownRecords


def mask(content: bytes, *, patterns: tuple[str, ...] = (), fields: tuple[str, ...] = ()) -> bytes:
    """The content as masked."""
    return Masks.parse(patterns, fields).apply(content)


def test_without_masks_the_bytes_are_the_same_object() -> None:
    """Nothing is decoded."""
    content = b"\xff\x00"
    assert mask(content) is content
    assert mask(content, patterns=("[0-9]+",)) is content


def test_pattern_is_masked_between_bytes_that_are_no_text() -> None:
    """As in Avro and Protobuf, where a text stands among other bytes; those stay as they are."""
    assert mask(b"\x00\xfe4111111111111111\xff", patterns=("[0-9]{16}",)) == b"\x00\xfe***\xff"


@pytest.mark.parametrize(
    ("content", "masked"),
    [
        (b'{"email":"a@b.c","n":1}', b'{"email":"***","n":1}'),
        (b'{ "EMail" : {"x": [1, 2]} , "n": 1.50 }', b'{ "EMail" : "***" , "n": 1.50 }'),
        (b'[{"a":{"email":null}},{"email":-1e9}]', b'[{"a":{"email":"***"}},{"email":"***"}]'),
        (b'{"em\\u0061il":"a"}', b'{"em\\u0061il":"***"}'),
        (b'{"email":"a","email":"b"}', b'{"email":"***","email":"***"}'),
        (b'\x00\x00\x00\x00\x22{"x":1,"email":"a"}', b'\x00\x00\x00\x00\x22{"x":1,"email":"***"}'),
        (b'{"n":1,"email":"never ends', b'{"n":1,"email":"***"'),
        (b'{"email":' + b"[" * 5000, b'{"email":"***"'),
        (b'{"mail":"email","n":"email"}', b'{"mail":"email","n":"email"}'),
    ],
)
def test_json_field_is_masked_and_the_rest_stays_as_written(content: bytes, masked: bytes) -> None:
    """At every depth, however the name is written, behind a serializer's own bytes (0x22 is a quotation mark)."""
    assert mask(content, fields=("email",)) == masked


def test_what_is_masked_is_masked_before_a_value_is_cut() -> None:
    """Half of a number is no match of its pattern."""
    masks = Masks.parse(("[0-9]{16}",), ())
    shown = ShownRecords(masks, (), maximum_value_bytes=12, maximum_bytes=100)
    row: dict[str, object] = {
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "key": None,
        "value": b"card 4111111111111111",
        "headers": [],
    }
    shown.add([pa.RecordBatch.from_pylist([{**row, "timestamp": None}])])
    value = shown.documents[0]["value"]
    assert base64.b64decode(value["base64"]) == b"card ***"
    assert (value["size_bytes"], value["is_cut"], value["is_masked"]) == (21, False, True)


@pytest.mark.parametrize(
    ("text", "encoding", "keys"),
    [
        (" order 1 ", KeyEncoding.TEXT, (b" order 1 ",)),
        ("größe", KeyEncoding.TEXT, "größe".encode()),
        ("a2V5", KeyEncoding.BASE64, (b"key",)),
        ("6b 65 79", KeyEncoding.HEX, (b"key",)),
        ('"a b"', KeyEncoding.JSON, (b'"a b"',)),
        ('{"a":1.50}', KeyEncoding.JSON, (b'{"a":1.50}',)),
        (
            '{ "b" : " x\\" : " ,\n "a": 1e2 }',
            KeyEncoding.JSON,
            (b'{ "b" : " x\\" : " ,\n "a": 1e2 }', b'{"b":" x\\" : ","a":1e2}'),
        ),
    ],
)
def test_typed_key_becomes_bytes(text: str, encoding: KeyEncoding, keys: tuple[bytes, ...] | bytes) -> None:
    """JSON as typed first, then without white space outside of strings; order and numbers stay."""
    assert parse_key(text, encoding) == (keys if isinstance(keys, tuple) else (keys,))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("secret!", KeyEncoding.BASE64), ("secret", KeyEncoding.HEX), ("{secret", KeyEncoding.JSON)],
)
def test_refused_key_is_not_repeated(text: str, encoding: KeyEncoding) -> None:
    """The message goes where errors go."""
    with pytest.raises(UsageError) as refused:
        parse_key(text, encoding)
    assert "secret" not in str(refused.value)
