"""docs/performance.md shows what was measured and nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from bench.docs_page import PAGE, STORED_CURVES, STORED_RESULTS, TABLES, fill_tables
from bench.results import Results
from bench.targets import RATIOS


@pytest.fixture(scope="module")
def kept() -> tuple[Results, Results]:
    return Results.load(STORED_RESULTS), Results.load(STORED_CURVES)


def test_tables_of_the_page_are_those_of_the_kept_results(kept: tuple[Results, Results]) -> None:
    """Write it anew with: python -m bench document."""
    page = PAGE.read_text()
    assert fill_tables(page, *kept) == page
    assert not [name for name in TABLES if f"<!-- figures: {name} -->" not in page]


def test_another_figure_makes_another_page(kept: tuple[Results, Results]) -> None:
    results, curves = kept
    slower = [replace(run, work_seconds=(run.work_seconds or 0.0) * 7 + 1) for run in results.runs]
    page = PAGE.read_text()
    assert fill_tables(page, replace(results, runs=slower), curves) != page


def test_kept_results_measure_every_ratio_that_has_a_target(kept: tuple[Results, Results]) -> None:
    results, _ = kept
    assert [ratio.name for ratio in RATIOS if ratio.value(results) is None] == []


def test_marker_without_a_table_is_refused(kept: tuple[Results, Results]) -> None:
    with pytest.raises(ValueError, match="no table nonsense"):
        fill_tables("<!-- figures: nonsense -->\n<!-- end -->", *kept)


@pytest.mark.parametrize("name", ["performance.svg", "performance-curves.svg"])
def test_plots_are_readable_and_have_words(name: str) -> None:
    words = [each.text for each in ET.parse(PAGE.parent / "img" / name).iter() if each.tag.endswith("text")]
    assert len(words) > 10
