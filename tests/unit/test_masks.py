"""An allow-list of fields: what it does not show is nowhere in the rows that are written."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.row_types import build_array, make_rows, row_types
from winnow.schemas.masks import mask_row_type, mask_rows
from winnow.schemas.row_types import merge_row_types
from winnow.values.latest_fields import FieldRule, FieldRules, parse_fields

SECRET = b"s" * 32
Path = tuple[str, ...]


def make_text(kind: pa.DataType) -> pa.DataType:
    """The same type with text in all places, and without aliases."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, make_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(make_text(kind.value_type))
    return pa.map_(pa.string(), make_text(kind.item_type)) if pa.types.is_map(kind) else pa.string()


def make_marked(kind: pa.DataType, path: Path, numbers: Iterator[int], marks: dict[str, Path]) -> Any:
    """A value whose texts occur only once; ``marks``: where they are."""
    if pa.types.is_struct(kind):
        return [make_marked(field.type, (*path, field.name), numbers, marks) for field in kind]
    if pa.types.is_list(kind):
        return [make_marked(kind.value_type, path, numbers, marks) for _ in range(2)]
    if pa.types.is_map(kind):
        # Keys are contents of the map, as its items are.
        keys = [make_marked(pa.string(), path, numbers, marks) for _ in range(2)]
        return {key: make_marked(kind.item_type, path, numbers, marks) for key in keys}
    mark = f"secret-{next(numbers):06}"
    marks[mark] = path
    return mark


def list_paths(kind: pa.DataType, path: Path = ()) -> list[Path]:
    if pa.types.is_struct(kind):
        return [
            other for field in kind for other in ((*path, field.name), *list_paths(field.type, (*path, field.name)))
        ]
    if pa.types.is_list(kind):
        return list_paths(kind.value_type, path)
    return list_paths(kind.item_type, path) if pa.types.is_map(kind) else []


def is_shown(path: Path, rules: dict[Path, FieldRule]) -> bool:
    """A field is shown if one that it is in, or itself, is named to be shown, and none to be hidden."""
    found = {rules.get(path[:length]) for length in range(1, len(path) + 1)}
    return FieldRule.SHOW in found and not found & {FieldRule.HMAC, FieldRule.DROP}


def write_bytes(rows: pa.StructArray) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("rows", rows.type)])) as writer:
        writer.write_batch(pa.record_batch([rows], ["rows"]))
    return bytes(sink.getvalue())


@given(row_types.map(make_text), st.data())
def test_no_byte_of_a_value_that_is_not_shown_is_written(row_type: pa.StructType, data: st.DataObject) -> None:
    """Every value that is shown is, those beside it are not; also within structs, lists and maps."""
    paths = sorted({path for path in list_paths(row_type) if all(part and "." not in part for part in path)})
    named = data.draw(st.dictionaries(st.sampled_from(paths or [("x",)]), st.sampled_from(FieldRule), max_size=3))
    entries = [".".join(path) + ("" if rule is FieldRule.SHOW else f":{rule}") for path, rule in named.items()]
    try:
        rules = parse_fields([*entries, "another"])
    except ValueError:
        return  # one of the rules contradicts another
    marks: dict[str, Path] = {}
    numbers = count()
    rows = build_array([make_marked(row_type, (), numbers, marks) for _ in range(2)], row_type)
    masked = mask_rows(rows, rules, SECRET)
    masked.validate(full=True)
    assert masked.type == mask_row_type(row_type, rules)
    assert len(masked) == 2
    written = write_bytes(masked)
    for mark, path in marks.items():
        inner = [other for other in named if other[: len(path)] == path and other != path]
        if not inner:  # a map of which single fields are named shows its keys with them
            assert (mark.encode() in written) == is_shown(path, named), path


@given(row_types, st.data())
def test_a_digest_has_no_byte_of_the_value_and_tells_equal_values_of_any_width(
    row_type: pa.StructType, data: st.DataObject
) -> None:
    """A field of any type; null stays null."""
    rows = data.draw(make_rows(pa.struct([("f", row_type)])))
    masked = mask_rows(rows, parse_fields(["f:hmac"]), SECRET)
    assert masked.type == pa.struct([("f", pa.string())])
    cells = masked.field("f").to_pylist()
    assert [cell is None for cell in cells] == rows.field("f").is_null().to_pylist()
    assert all(cell is None or len(cell) == 64 for cell in cells)
    originals = [repr(cell) for cell in rows.field("f").to_pylist()]
    for one, digest in zip(originals, cells, strict=True):
        for other, second in zip(originals, cells, strict=True):
            assert (one != other) or digest == second


def test_a_digest_is_the_hmac_of_path_and_value() -> None:
    """Whoever has the secret can compute it; equal values of two fields differ; a wider type changes nothing."""
    rules = parse_fields(["a:hmac", "b:hmac"])
    narrow = build_array([[5, 5], [None, 6]], pa.struct([("a", pa.int32()), ("b", pa.int32())]))
    wide = build_array([[5, 5], [None, 6]], pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    masked = mask_rows(narrow, rules, SECRET).to_pylist()
    assert masked == mask_rows(wide, rules, SECRET).to_pylist()
    text = json.dumps(["a", ["long", "5"]], separators=(",", ":")).encode()
    assert masked[0]["a"] == hmac.new(SECRET, text, hashlib.sha256).hexdigest()
    assert masked[0]["a"] != masked[0]["b"]
    assert masked[1]["a"] is None


def test_a_rule_for_one_name_of_a_renamed_field_holds_for_all() -> None:
    """Else a rename, or a record from before it, would show what was masked."""
    former = pa.struct([("mail", pa.string())])
    latter = pa.struct([pa.field("email", pa.string(), metadata={"aliases": "mail"})])
    columns = merge_row_types(former, latter)
    for entries in (["mail:hmac"], ["email:hmac"], ["mail:hmac", "email"], ["email:hmac", "mail"]):
        rules = parse_fields(entries)
        early = mask_rows(build_array([["x@y"]], former), rules, SECRET, columns).to_pylist()
        late = mask_rows(build_array([["x@y"]], latter), rules, SECRET, columns).to_pylist()
        assert len(early[0]["mail"]) == 64
        assert early[0]["mail"] == late[0]["email"]
    for entries in (["mail:drop", "email", "x"], ["email:drop", "mail"]):
        rules = parse_fields(entries)
        for row_type in (former, latter):
            assert mask_rows(build_array([["x@y"]], row_type), rules, None, columns).to_pylist() == [{}]


def test_a_rule_for_a_former_name_holds_for_a_row_type_that_says_so_itself() -> None:
    """Also where nothing else is known of the topic."""
    latter = pa.struct([pa.field("email", pa.string(), metadata={"aliases": "mail"})])
    assert mask_row_type(latter, parse_fields(["mail:drop", "email"])) == pa.struct([])


def test_what_an_entry_says_of_a_field_inside_another_counts_more() -> None:
    """The rest of the outer one is shown as it is."""
    kind = pa.struct([("b", pa.string()), ("c", pa.string()), ("d", pa.string())])
    rows = build_array([[[["x", "y", "z"]]]], pa.struct([("a", pa.list_(kind))]))
    (masked,) = mask_rows(rows, parse_fields(["a", "a.b:drop", "a.c:hmac"]), SECRET).to_pylist()
    (line,) = masked["a"]
    assert list(line) == ["c", "d"]
    assert len(line["c"]) == 64
    assert line["d"] == "z"


def test_what_a_masked_field_was_stays_masked_when_its_type_changes() -> None:
    """Both digests are in one column: there is no second one to show the value."""
    rules = parse_fields(["a:hmac"])
    types = [mask_row_type(pa.struct([("a", kind)]), rules) for kind in (pa.int64(), pa.string(), pa.list_(pa.int64()))]
    assert types == [pa.struct([("a", pa.string())])] * 3


def test_what_stands_below_a_null_gets_no_digest() -> None:
    """Arrow keeps what stands in the fields of a struct that is null."""
    inner = pa.StructArray.from_arrays([pa.array(["hidden"])], ["b"], mask=pa.array([True]))
    rows = pa.StructArray.from_arrays([inner], ["a"])
    masked = mask_rows(rows, parse_fields(["a.b:hmac"]), SECRET)
    assert masked.to_pylist() == [{"a": None}]
    assert masked.field("a").field("b").to_pylist() == [None]


def test_without_entries_every_field_is_shown_and_a_digest_needs_a_secret() -> None:
    """An empty secret is none."""
    rows = build_array([["x"]], pa.struct([("a", pa.string())]))
    assert mask_rows(rows, FieldRules(), None).to_pylist() == [{"a": "x"}]
    for secret in (None, b""):
        with pytest.raises(ValueError, match="no secret"):
            mask_rows(rows, parse_fields(["a:hmac"]), secret)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([""], "names no field"),
        (["a..b"], "names no field"),
        ([":hmac"], "names no field"),
        (["a:show"], "neither hmac nor drop"),
        (["a:"], "neither hmac nor drop"),
        (["a", "a:drop"], "named twice"),
        (["a:hmac", "a.b"], "nothing is left"),
        (["a.b.c", "a:drop"], "nothing is left"),
        (["a:drop"], "no field to show"),
    ],
)
def test_entries_that_say_nothing_or_contradict_each_other_are_refused(entries: list[str], what: str) -> None:
    """A list that is misread would show what it was to hide."""
    with pytest.raises(ValueError, match=what):
        parse_fields(entries)


def test_entries_are_parsed_with_spaces_around_them() -> None:
    """As lists in a topic's configuration have them."""
    rules = parse_fields([" a ", "b.c : hmac", "d:drop"])
    assert rules.entries == (("a", FieldRule.SHOW), ("b.c", FieldRule.HMAC), ("d", FieldRule.DROP))
    assert rules.hides
    assert rules.needs_secret
    assert not parse_fields([]).hides
