"""Structures as JSON text, by one rule that never changes."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.sources.formats.json_text import RENDERING_VERSION, render_json, render_value

SOURCE = [
    (b"null", None),
    (b" null\n", None),
    (b'""', b""),
    (b'"null"', b"null"),
    (b'"a\\"b\\u00e9\\n"', 'a"bé\n'.encode()),
    (b'"\\ud83d\\ude00"', "😀".encode()),
    (b"1.00", b"1.00"),
    (b"-0", b"-0"),
    (b"123456789012345678901234567890", b"123456789012345678901234567890"),
    (b"1E+05", b"1E+05"),
    (b"true", b"true"),
    (b'{"b": 1.10, "a" : [ 1 , 2 ] }', b'{"b":1.10,"a":[1,2]}'),
    (b'{"a":1,"a":2}', b'{"a":1,"a":2}'),
    (b'{"a":" x  y "}', b'{"a":" x  y "}'),
    (b'{"a":"\\u00fc\\/\\u003d\\u0041"}', '{"a":"ü/=A"}'.encode()),
    (b'{"a":"\\u0022\\u005c\\u0009\\u000a\\u001F\\u007f"}', b'{"a":"\\"\\\\\\t\\n\\u001f\x7f"}'),
    (b"[ ]", b"[]"),
    (b'{\n  "a": null\n}', b'{"a":null}'),
    ('{"name":"李\u2028"}'.encode(), '{"name":"李\u2028"}'.encode()),
]

DECODED: list[tuple[Any, bytes | None]] = [
    (None, None),
    ("", b""),
    ("null", b"null"),
    (b"\xff\x00", b"\xff\x00"),
    (True, b"true"),
    (2**63, b"9223372036854775808"),
    (1.0, b"1.0"),
    (0.1, b"0.1"),
    (-0.0, b"-0.0"),
    (1e16, b"1e16"),
    (1.5e-7, b"1.5e-7"),
    (math.nan, b"NaN"),
    (math.inf, b"Infinity"),
    (Decimal("12.30"), b"12.30"),
    (Decimal("0E-8"), b"0E-8"),
    (Decimal("NaN"), b"NaN"),
    (dt.date(2026, 3, 1), b"2026-03-01"),
    (dt.time(1, 2, 3), b"01:02:03"),
    (dt.datetime(2026, 3, 1, 0, 47, 41, 52000, dt.UTC), b"2026-03-01T00:47:41.052000Z"),
    (dt.datetime(2026, 3, 1), b"2026-03-01T00:00:00"),  # noqa: DTZ001 - a local timestamp of Avro has no zone
    (pd.Timestamp(1_772_326_061_052_123_456, tz="UTC"), b"2026-03-01T00:47:41.052123456Z"),
    (uuid.UUID(int=5), b"00000000-0000-0000-0000-000000000005"),
    ({}, b"{}"),
    ({"b": 1, "a": [None, "x"]}, b'{"b":1,"a":[null,"x"]}'),
    ({"raw": b"\xff", "name": "李/"}, '{"raw":"/w==","name":"李/"}'.encode()),
    ({"a": math.nan, "b": [-math.inf, None], "c": Decimal("-Infinity")}, None),
    ({"a": dt.date(2026, 3, 1), "d": Decimal("1.50")}, b'{"a":"2026-03-01","d":1.50}'),
    ({1: "a"}, b'{"1":"a"}'),
]


def test_the_rendering_has_a_version() -> None:
    assert RENDERING_VERSION == 1


@pytest.mark.parametrize(("raw", "expected"), SOURCE)
def test_source_text_is_rendered_by_the_rule(raw: bytes, expected: bytes | None) -> None:
    assert render_json(raw) == expected


@pytest.mark.parametrize("raw", [b'"\\ud800"', b'{"a":"\\ud800"}', b"[1, ]"])
def test_what_cannot_be_rendered_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        render_json(raw)


@pytest.mark.parametrize(("value", "expected"), DECODED)
def test_decoded_values_are_rendered_by_the_rule(value: object, expected: bytes | None) -> None:
    if isinstance(value, dict) and expected is None:
        expected = b'{"a":"NaN","b":["-Infinity",null],"c":"-Infinity"}'
    assert render_value(value) == expected


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
STRUCTURES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(st.lists(STRUCTURES) | st.dictionaries(TEXTS, STRUCTURES), st.booleans(), st.sampled_from([None, 2]))
def test_every_way_of_writing_the_same_structure_gives_one_text(
    value: object, ascii_only: bool, indent: int | None
) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert render_json(written) == render_value(value)
    assert json.loads(render_json(written) or b"") == value


@given(TEXTS, st.booleans())
def test_a_string_is_its_characters(text: str, ascii_only: bool) -> None:
    assert render_json(json.dumps(text, ensure_ascii=ascii_only).encode()) == text.encode()
