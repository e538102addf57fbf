"""Content suites: a topic's own rules over the records that were rewritten, without ever showing one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.staging_builder import SECRET_VALUE, Case, Scene, arrow, record, stage
from winnow.errors import ConfigurationError
from winnow.quality.content_validation import COLUMNS, make_record_frame, validate_content
from winnow.values.model import Record, Severity
from winnow.values.results import Failure

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")


def json_record(offset: int, key: str, value: bytes | None = b'{"customer": 1}', partition: int = 0) -> Record:
    return replace(record(offset, key, partition=partition), value=value)


def topic(folder: Path, bad: dict[int, bytes | None] | None = None) -> Scene:
    """Two partitions of JSON values; ``bad`` replaces values of partition 1 by offset."""
    cases = {}
    for partition in range(2):
        changed = (bad or {}) if partition == 1 else {}
        inputs = tuple(json_record(i, f"k{i % 6}", changed.get(i, b'{"customer": 1}'), partition) for i in range(12))
        cases[partition] = Case((inputs,), inputs[6:])
    return stage(folder, cases)


def judged(
    scene: Scene, suite: str = "example_json_values", extra: Path | None = None, **options: int
) -> list[Failure]:
    return validate_content(suite, scene.plan, scene.manifest, extra_folder=extra, **options)


def own_suite(folder: Path, kind: str, **kwargs: Any) -> Path:
    expectation = {
        "id": "own_rule",
        "type": kind,
        "severity": "warning",
        "kwargs": kwargs,
        "meta": {"sentence": "The team's own rule holds."},
    }
    (folder / "own.json").write_text(json.dumps({"name": "own", "expectations": [expectation]}))
    return folder


def test_records_that_meet_the_suite_give_no_failure(tmp_path: Path) -> None:
    """JSON values and a tombstone."""
    assert judged(topic(tmp_path, {9: None})) == []


def test_a_bad_record_fails_its_partition_only(tmp_path: Path) -> None:
    """One value of partition 1 is no JSON."""
    (failure,) = judged(topic(tmp_path, {9: SECRET_VALUE.encode()}))
    assert (failure.partition, failure.expectation, failure.severity) == (1, "value_is_json", Severity.FAIL)


def test_a_bad_record_that_was_superseded_is_not_judged(tmp_path: Path) -> None:
    """Only what was written anew is judged."""
    assert judged(topic(tmp_path, {3: SECRET_VALUE.encode()})) == []


def test_a_failure_shows_no_value(tmp_path: Path) -> None:
    """Not in the detail, not in the whole of it."""
    assert SECRET_VALUE not in repr(judged(topic(tmp_path, {9: SECRET_VALUE.encode()})))


def test_a_value_that_is_not_text_fails_as_such(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 have no text to parse, and are said not to be text."""
    (failure,) = judged(topic(tmp_path, {9: b"\xff\xfe"}))
    assert failure.expectation == "value_is_text"


@pytest.mark.parametrize("chunk_rows", [1, 2, 5, 1_000])
def test_where_the_chunks_are_cut_changes_no_outcome(tmp_path: Path, chunk_rows: int) -> None:
    """An expectation holds when it holds on every chunk."""
    failures = judged(topic(tmp_path, {9: b"not json"}), chunk_rows=chunk_rows)
    assert [(f.partition, f.expectation) for f in failures] == [(1, "value_is_json")]
    assert failures[0].detail.endswith("Violated in 1 of 6 new records, the first at offset 9.")


@pytest.mark.parametrize("chunk_rows", [1, 3, 1_000])
def test_bad_records_are_counted_and_the_first_three_named_by_offset(tmp_path: Path, chunk_rows: int) -> None:
    """The others are in the count."""
    (failure,) = judged(topic(tmp_path, dict.fromkeys((7, 8, 10, 11), b"not json")), chunk_rows=chunk_rows)
    assert failure.detail.endswith("Violated in 4 of 6 new records, the first at offset 7, 8, 10.")


def test_an_expectation_about_the_type_of_a_column_names_no_offset(tmp_path: Path) -> None:
    """No single record is at fault."""
    extra = own_suite(tmp_path, "expect_column_values_to_be_of_type", column="offset", type_="float64")
    failures = judged(topic(tmp_path / "log"), "own", extra)
    assert {each.detail for each in failures} == {
        "The team's own rule holds. Violated by the column as a whole, in 6 new records."
    }


def test_an_extra_suite_is_judged_with_its_severity(tmp_path: Path) -> None:
    """A team's own suite, of severity warning."""
    extra = own_suite(tmp_path, "expect_column_values_to_be_in_set", column="header_names", value_set=["trace"])
    failures = judged(topic(tmp_path / "log"), "own", extra)
    assert [(f.partition, f.severity) for f in failures] == [(0, Severity.WARN), (1, Severity.WARN)]


def test_a_check_that_raises_is_broken_and_says_which(tmp_path: Path) -> None:
    """A column that is not there: a fault of the suite, not of the data."""
    extra = own_suite(tmp_path, "expect_column_values_to_not_be_null", column="customer")
    (failure,) = judged(topic(tmp_path / "log"), "own", extra)
    assert (failure.partition, failure.expectation) == (None, "own_rule:raised")
    assert failure.severity is Severity.FAIL


def test_an_unknown_suite_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """Before any record is read."""
    with pytest.raises(ConfigurationError, match="Known suites: compaction, erasure, example_json_values"):
        judged(topic(tmp_path), "nonsense")


def test_the_structural_suite_is_no_content_suite(tmp_path: Path) -> None:
    """It judges facts, and has rules over more than one row."""
    with pytest.raises(ConfigurationError, match="one_row_per_partition"):
        judged(topic(tmp_path), "compaction")


def test_a_file_that_cannot_be_read_is_left_to_the_structural_suite(tmp_path: Path) -> None:
    """It fails there; here it is no failure of content."""
    scene = topic(tmp_path)
    scene.output(1).unlink()
    assert judged(scene) == []


def test_suite_in_the_user_guide_judges_as_the_guide_says(root: Path, tmp_path: Path) -> None:
    """The guide's columns are all there are; bad records are told by the severity of the rule that they break."""
    guide = (root / "docs" / "user-guide.md").read_text()
    section = guide.partition("## Content suites")[2].partition("\n## ")[0]
    columns = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for cell in columns for name in re.findall(r"`(\w+)`", cell)) == sorted(COLUMNS)
    (document,) = re.findall(r"```json suite\n(.*?)```", section, re.DOTALL)
    name = json.loads(document)["name"]
    (tmp_path / f"{name}.json").write_text(document)

    good = Record(1, b"order-1", b"{}", 1_700_000_000_000, (("trace", b"x"),))
    made = {
        "good": good,
        "customer": replace(good, key=b"customer-1"),
        "bare": replace(good, headers=()),
        "torn": replace(good, value=b"{"),
    }
    cases = {
        number: Case(((replace(each, offset=0, partition=number), replace(each, partition=number)),), (each,))
        for number, each in enumerate(replace(each, partition=number) for number, each in enumerate(made.values()))
    }
    found = judged(stage(tmp_path / "log", cases), name, tmp_path)
    assert [(each.partition, each.expectation, each.severity) for each in found] == [
        (1, "key_is_an_order", Severity.FAIL),
        (2, "has_a_trace", Severity.WARN),
        (3, "value_is_json", Severity.FAIL),
    ]


def test_a_frame_shows_records_as_the_columns_that_suites_may_name() -> None:
    """Text, null and bytes that are no text are told apart."""
    records = [
        Record(1, b"k", b'{"a": 1}', 1_700_000_000_000, (("a", b"1"), ("b", None))),
        Record(2, b"\xff", None, None, ()),
        Record(3, None, b"\xfe\xff", 1_700_000_000_001, (("c", b""),)),
    ]
    (batch,) = arrow(records).to_batches()
    frame = make_record_frame(batch)
    assert tuple(frame.columns) == COLUMNS
    assert frame["key"].tolist() == ["k", None, None]
    assert frame["value"].tolist() == ['{"a": 1}', None, None]
    assert frame["key_is_utf8"].tolist() == [True, False, True]
    assert frame["value_is_utf8"].tolist() == [True, True, False]
    assert frame["value_is_null"].tolist() == [False, True, False]
    assert frame["value_bytes"].fillna(-1).tolist() == [8, -1, 2]
    assert frame["header_names"].tolist() == ["a,b", None, "c"]


def test_a_frame_of_a_slice_shows_the_slice() -> None:
    """Batches are often views into larger ones."""
    records = [json_record(i, f"k{i}") for i in range(7)]
    (batch,) = arrow(records).to_batches()
    frame = make_record_frame(batch.slice(2, 3))
    assert frame["offset"].tolist() == [2, 3, 4]
    assert frame["header_names"].tolist() == [None, "trace,empty", None]
