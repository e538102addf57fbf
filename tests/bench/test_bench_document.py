"""docs/performance.md shows what was measured and nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from bench.docs_page import PAGE, PAGES, STORED_CURVES, STORED_RESULTS, TABLES, fill_tables, merge_results
from bench.results import Results
from bench.targets import RATIOS


@pytest.fixture(scope="module")
def kept() -> tuple[Results, Results]:
    return Results.load(STORED_RESULTS), Results.load(STORED_CURVES)


def test_tables_of_the_pages_are_those_of_the_kept_results(kept: tuple[Results, Results]) -> None:
    """Write them anew with: python -m bench document."""
    pages = [page.read_text() for page in PAGES]
    assert [fill_tables(page, *kept) for page in pages] == pages
    assert not [name for name in TABLES if not any(f"<!-- figures: {name} -->" in page for page in pages)]


def test_another_figure_makes_another_page(kept: tuple[Results, Results]) -> None:
    results, curves = kept
    slower = [replace(run, work_seconds=(run.work_seconds or 0.0) * 7 + 1) for run in results.runs]
    page = PAGE.read_text()
    assert fill_tables(page, replace(results, runs=slower), curves) != page


def test_kept_results_measure_every_ratio_that_has_a_target(kept: tuple[Results, Results]) -> None:
    results, _ = kept
    assert [ratio.name for ratio in RATIOS if ratio.value(results) is None] == []


def test_added_results_replace_their_own_kind_and_stand_where_the_suite_has_them(
    kept: tuple[Results, Results], tmp_path: Path
) -> None:
    """What was not measured again stays, and the page says what was measured later."""
    results, _ = kept
    again = [replace(run, seconds=1.5) for run in results.of("12m", "incremental-1-spread", "winnow")][:1]
    new = Results(tmp_path / "new.json", {"day": "2030-01-01", "commit": "abc"}, again, {"topics": {"ms_per_topic": 7}})
    merged = merge_results(results, new)
    assert merged.of("12m", "incremental-1-spread", "winnow") == again
    assert merged.of("12m", "uniform", "winnow") == results.of("12m", "uniform", "winnow")
    assert merged.control == {**results.control, "topics": {"ms_per_topic": 7}}
    page = fill_tables("<!-- figures: machine -->\n<!-- end -->", merged, merged)
    assert "| measured later, 2030-01-01, commit abc | incremental-1-spread winnow, topics |" in page
    workloads = list(dict.fromkeys(run.workload for run in merged.runs))
    assert workloads.index("clean-1") < workloads.index("incremental-1-spread") < workloads.index("many-small")
    with pytest.raises(ValueError, match="no results"):
        merge_results(results, Results(tmp_path / "empty.json"))


def test_marker_without_a_table_is_refused(kept: tuple[Results, Results]) -> None:
    with pytest.raises(ValueError, match="no table nonsense"):
        fill_tables("<!-- figures: nonsense -->\n<!-- end -->", *kept)


@pytest.mark.parametrize("name", ["performance.svg", "performance-curves.svg"])
def test_plots_are_readable_and_have_words(name: str) -> None:
    words = [each.text for each in ET.parse(PAGE.parent / "img" / name).iter() if each.tag.endswith("text")]
    assert len(words) > 10
