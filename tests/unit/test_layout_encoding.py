"""Text or base64 is decided for a field over a whole call, never for a value."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_archives import make_archive
from winnow.errors import BadInputError
from winnow.sources.envelope import make_chunk
from winnow.sources.formats.column_values import make_header_column
from winnow.sources.formats.encoding import EncodingEvidence, FieldEvidence, Reading, decode_base64, decode_fields
from winnow.sources.input_errors import Place
from winnow.sources.objects import ArchiveObject, FieldForm, RecordChunk, StoredObject

TEXTS = st.text("ABab01+/= -_\n", max_size=13).map(str.encode)
WRITTEN = st.binary(max_size=12).map(base64.b64encode)


def is_canonical(text: bytes) -> bool:
    """Python's own judgement."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return base64.b64encode(data) == text


@given(st.lists(st.none() | TEXTS | WRITTEN), st.integers(0, 3))
def test_columns_are_decoded_as_python_decodes_values(values: list[bytes | None], skipped: int) -> None:
    read = decode_base64(pa.array(values, pa.binary()).slice(skipped))
    kept = values[skipped:]
    assert read.canonical.tolist() == [is_canonical(value or b"") for value in kept]
    for value, decoded, canonical, padded in zip(
        kept, read.decoded.to_pylist(), read.canonical, read.padded, strict=True
    ):
        if canonical:
            assert decoded == base64.b64decode(value or b"")
            assert padded == (value or b"").endswith(b"=")


def decide(*values: bytes | None, structured: bool = False) -> Reading:
    evidence = FieldEvidence(structured=structured)
    evidence.add_column(pa.array(values, pa.binary()))
    return evidence.decide()


@pytest.mark.parametrize(
    ("values", "reading"),
    [
        ([], Reading.TEXT),
        ([None, b""], Reading.TEXT),
        ([b"YWI="], Reading.BASE64),
        ([b"YWI=", None, b"", b"abcd"], Reading.BASE64),
        ([b"/////w=="], Reading.BASE64),
        ([b"////"], Reading.BASE64),
        ([b"abcd", b"1234"], Reading.BASE64),
        ([b"YWJj"], Reading.EITHER),
        ([b"YWI=", b"a b c d "], Reading.TEXT),
        ([b"YWI=", b"abc"], Reading.TEXT),
        ([b"YWJ="], Reading.TEXT),
        ([b"order-1"], Reading.TEXT),
    ],
)
def test_one_value_that_is_no_base64_makes_the_field_text(values: list[bytes | None], reading: Reading) -> None:
    assert decide(*values) is reading


def test_a_number_or_an_object_makes_the_field_text() -> None:
    assert decide(b"1724936659254010", b"YWI=", structured=True) is Reading.TEXT


@given(st.lists(st.lists(st.none() | TEXTS | WRITTEN)))
def test_evidence_of_parts_adds_up(parts: list[list[bytes | None]]) -> None:
    whole, total = FieldEvidence(), FieldEvidence()
    whole.add_column(pa.array([value for part in parts for value in part], pa.binary()))
    for part in parts:
        found = FieldEvidence()
        found.add_column(pa.array(part, pa.binary()))
        total.add(found)
    assert total.decide() is whole.decide()


def make_records(**columns: Any) -> RecordChunk:
    count = len(next(iter(columns.values())))
    headers = columns.pop("headers", None)
    structured = columns.pop("structured", ())
    return make_chunk(
        Place("orders-0-0", "line", np.arange(1, count + 1)),
        **{name: pa.array(values, pa.binary()) for name, values in columns.items()},
        headers=None if headers is None else make_header_column(headers),
        structured=structured,
    )


def make_texts(*names: str) -> ArchiveObject:
    return make_archive("aiven", StoredObject("orders-0-0", 1), forms=dict.fromkeys(names, FieldForm.TEXT_OR_BASE64))


def test_fields_are_decided_each_by_itself() -> None:
    archive = make_texts("key", "value", "headers")
    chunk = make_records(
        key=[b"order-1", None], value=[b"YWI=", None], headers=[[("a", b"YQ=="), ("b", None)], [("a", b"/w==")]]
    )
    evidence = EncodingEvidence()
    evidence.add_chunk(archive, chunk)
    readings = evidence.decide()
    assert readings == {"key": Reading.TEXT, "value": Reading.BASE64, "headers": Reading.BASE64}
    rows = decode_fields(archive, chunk, readings).records.to_pylist()
    assert [row["key"] for row in rows] == [b"order-1", None]
    assert [row["value"] for row in rows] == [b"ab", None]
    assert rows[0]["headers"] == [{"key": "a", "value": b"a"}, {"key": "b", "value": None}]
    assert rows[1]["headers"] == [{"key": "a", "value": b"\xff"}]


def test_fields_of_certain_form_are_left_alone() -> None:
    archive = make_archive("aiven", StoredObject("orders-0-0", 1), forms={"key": FieldForm.BYTES})
    chunk = make_records(key=[b"YWI="])
    evidence = EncodingEvidence()
    evidence.add_chunk(archive, chunk)
    assert evidence.decide()["key"] is Reading.TEXT
    assert decode_fields(archive, chunk, {"key": Reading.BASE64}).records == chunk.records


@pytest.mark.parametrize(
    ("columns", "number"),
    [
        ({"value": [b"YWI=", b"ab!"]}, 2),
        ({"value": [b"YWI="], "structured": ["value"]}, 1),
        ({"headers": [[], [("a", b"YQ=="), ("b", b"?")]]}, 2),
    ],
)
def test_what_is_no_base64_though_the_user_said_so_is_refused_without_showing_it(
    columns: dict[str, Any], number: int
) -> None:
    name = "headers" if "headers" in columns else "value"
    with pytest.raises(BadInputError, match=rf"record {number}: .* is not base64. .*--encoding {name}=text") as refused:
        decode_fields(make_texts(name), make_records(**columns), {name: Reading.BASE64})
    assert "ab!" not in str(refused.value)
