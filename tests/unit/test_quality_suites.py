"""Suite files: reviewed JSON that loads, explains itself, and names only what GX knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from winnow.embedded.bundle import find_bundled_folder
from winnow.errors import ConfigurationError
from winnow.quality.content_validation import load_content_suite
from winnow.quality.fact_table import COMPARED_COLUMNS, FINDING_COLUMNS
from winnow.quality.gx_runtime import GX_LOCK, spare_repeated_work
from winnow.quality.suites import convert_to_gx, list_suites, load_suite
from winnow.values.model import Severity

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

SUITES = sorted(list_suites())


def expectation(**changes: Any) -> dict[str, Any]:
    return {
        "id": "value_present",
        "type": "expect_column_values_to_not_be_null",
        "severity": "critical",
        "kwargs": {"column": "value"},
        "meta": {"sentence": "No value is null."},
    } | changes


def write(folder: Path, file_name: str, *expectations: dict[str, Any], **changes: Any) -> None:
    document = {"name": file_name, "expectations": list(expectations)} | changes
    (folder / f"{file_name}.json").write_text(json.dumps(document))


@pytest.mark.parametrize("name", SUITES)
def test_a_bundled_suite_loads_and_becomes_a_suite_of_gx(name: str) -> None:
    """Every expectation has an id, a severity and a sentence, and GX takes its type and arguments."""
    suite = load_suite(name)
    made = convert_to_gx(suite)
    assert [(e.meta or {})["expectation"] for e in made.expectations] == [e.id for e in suite.expectations]
    assert [str(e.severity.value) for e in made.expectations] == [e.gx_severity for e in suite.expectations]
    assert all(e.sentence.endswith(".") for e in suite.expectations)


@pytest.mark.parametrize("name", SUITES)
def test_a_bundled_suite_is_one_that_gx_itself_can_load(name: str) -> None:
    """The files keep GX's own form, so its tools can open them."""
    import great_expectations as gx

    document = json.loads((find_bundled_folder("expectations") / f"{name}.json").read_text())
    suite = gx.ExpectationSuite(**document)
    assert len(suite.expectations) == len(document["expectations"])


def test_severities_map_to_what_they_do() -> None:
    """critical voids the plan; warning and info are reported."""
    found = {(e.gx_severity, e.severity) for e in load_suite("compaction").expectations}
    assert found == {("critical", Severity.FAIL), ("warning", Severity.WARN), ("info", Severity.WARN)}


def test_the_structural_suite_asks_for_every_fact() -> None:
    """A fact that is computed and judged by nobody protects nothing."""
    asked = json.dumps([e.kwargs for e in load_suite("compaction").expectations])
    for name in COMPARED_COLUMNS:
        assert f'"rewrite_{name}"' in asked
        assert f'"recomputed_{name}"' in asked
    for name in (
        *FINDING_COLUMNS,
        "unaccounted_records",
        "lost_keys",
        "tombstones_expired_too_many",
        "negative_counts",
    ):
        assert f'"{name}"' in asked


def test_no_bound_of_the_structural_suite_is_too_big_for_a_double() -> None:
    """GX turns bounds into floats, so exact figures are compared as pairs instead."""
    for e in load_suite("compaction").expectations:
        for bound in ("min_value", "max_value"):
            assert abs(e.kwargs.get(bound, 0)) < 2**53


def test_an_unknown_suite_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """Extra suites are listed too."""
    write(tmp_path, "mine", expectation())
    with pytest.raises(ConfigurationError, match="compaction, erasure, example_json_values, latest, mine"):
        load_suite("yours", tmp_path)


@pytest.mark.parametrize("name", ["../compaction", "a/b", "", "."])
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    """A suite is named, never pointed at."""
    with pytest.raises(ConfigurationError, match="Known suites"):
        load_suite(name)


def test_an_extra_suite_may_not_take_the_name_of_a_bundled_one(tmp_path: Path) -> None:
    """Otherwise a file could weaken the structural checks unseen."""
    write(tmp_path, "compaction", expectation())
    with pytest.raises(ConfigurationError, match="Rename it"):
        load_suite("compaction", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"meta": {}}, "sentence"),
        ({"meta": {"sentence": ""}}, "sentence"),
        ({"severity": "fatal"}, "severity"),
        ({"id": "Not An Id"}, "id"),
        ({"comment": "?"}, "comment"),
    ],
)
def test_an_expectation_that_does_not_explain_itself_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Id, severity and sentence are what a reviewer reads."""
    write(tmp_path, "mine", expectation(**changes))
    with pytest.raises(ConfigurationError, match=message):
        load_suite("mine", tmp_path)


def test_two_expectations_of_one_id_are_refused(tmp_path: Path) -> None:
    """A failure names its expectation, so the name must be one."""
    write(tmp_path, "mine", expectation(), expectation())
    with pytest.raises(ConfigurationError, match="more than one"):
        load_suite("mine", tmp_path)


@pytest.mark.parametrize("changes", [{"name": "other"}, {"expectations": []}, {"surplus": 1}])
def test_a_suite_file_of_another_shape_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Misnamed, empty, or with keys nobody reads."""
    write(tmp_path, "mine", expectation(), **changes)
    with pytest.raises(ConfigurationError):
        load_suite("mine", tmp_path)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    """Said by name, before anything is judged."""
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"mine\.json"):
        load_suite("mine", tmp_path)


def test_a_type_that_gx_does_not_know_is_refused(tmp_path: Path) -> None:
    """With the expectation and the type."""
    write(tmp_path, "mine", expectation(type="expect_miracles"))
    with pytest.raises(ConfigurationError, match="expect_miracles"):
        load_content_suite("mine", tmp_path)


def test_arguments_that_gx_refuses_are_refused(tmp_path: Path) -> None:
    """Found when the suite is loaded, not in the middle of a topic."""
    write(tmp_path, "mine", expectation(kwargs={"colum": "value"}))
    with pytest.raises(ConfigurationError, match="value_present"):
        load_content_suite("mine", tmp_path)


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        ("expect_table_row_count_to_be_between", {"min_value": 1}),
        ("expect_column_mean_to_be_between", {"column": "value_bytes", "min_value": 1}),
        ("expect_column_values_to_be_unique", {"column": "key"}),
        ("expect_column_values_to_be_increasing", {"column": "offset"}),
        ("expect_compound_columns_to_be_unique", {"column_list": ["key", "offset"]}),
    ],
)
def test_an_expectation_that_is_not_row_wise_is_refused_for_content(
    tmp_path: Path, kind: str, kwargs: dict[str, Any]
) -> None:
    """Judged chunk by chunk it would mean something else."""
    write(tmp_path, "mine", expectation(type=kind, kwargs=kwargs))
    with pytest.raises(ConfigurationError, match="row by row"):
        load_content_suite("mine", tmp_path)


def test_a_tolerated_share_is_refused_for_content(tmp_path: Path) -> None:
    """A share of each chunk depends on where the chunks are cut."""
    write(tmp_path, "mine", expectation(kwargs={"column": "value", "mostly": 0.9}))
    with pytest.raises(ConfigurationError, match="mostly"):
        load_content_suite("mine", tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"column": "records_in"},
        {"column": "records_in", "batch_id": None, "strictly": True, "min_value": 1, "max_value": 2**70},
        {"max_value": 1.5, "column": "ü"},
        {"column_list": ["a", "b"], "condition": {"x": None}},
        {1: "a", "b": 2},
    ],
)
def test_ids_of_metrics_are_those_that_great_expectations_makes(arguments: dict[Any, Any]) -> None:
    from great_expectations.core.id_dict import IDDict

    genuine = IDDict(arguments).to_id()
    with GX_LOCK, spare_repeated_work():
        assert IDDict(arguments).to_id() == genuine
        assert IDDict(arguments).to_id(id_keys={"column"} & {*arguments}) == (
            f"column={arguments['column']}" if "column" in arguments else ()
        )
    assert IDDict(arguments).to_id() == genuine


def test_an_expectation_of_a_configuration_that_changed_is_another_one() -> None:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    configuration = ExpectationConfiguration("expect_column_values_to_not_be_null", kwargs={"column": "value"})
    with GX_LOCK, spare_repeated_work():
        before = configuration.to_domain_obj()
        assert configuration.to_domain_obj() is before
        configuration.kwargs["column"] = "key"
        after = configuration.to_domain_obj()
        assert [made.configuration.kwargs["column"] for made in (before, after)] == ["value", "key"]
    assert configuration.to_domain_obj() is not configuration.to_domain_obj()
