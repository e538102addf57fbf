"""docs/cost.md is arithmetic: over what was measured, and over one table of prices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.cost_page import PRICES, Measured, compute_days_to_pay_back, load_measured, price_run, render_page
from bench.object_requests import count_requests
from bench.process_measurement import ROOT


@pytest.fixture(scope="module")
def measured() -> Measured:
    return load_measured()


def test_page_is_what_the_measurements_and_the_prices_make_of_it(measured: Measured) -> None:
    written = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    assert written == render_page(measured), "Write it anew: make docs"


def test_costs_follow_what_was_measured(measured: Measured) -> None:
    """Twice the time is twice the cores; requests and storage stay."""
    prices = PRICES[0]
    costs = price_run(prices, measured)
    slower = price_run(prices, replace(measured, whole_work_seconds=2 * measured.whole_work_seconds))
    assert slower == costs | {"cores": pytest.approx(2 * costs["cores"])}


def test_costs_follow_the_prices(measured: Measured) -> None:
    """A price that is ten times as high shows in its part alone."""
    prices = PRICES[0]
    costs = price_run(prices, measured)
    dearer = price_run(replace(prices, million_reads=10 * prices.million_reads), measured)
    assert dearer == costs | {"reads": pytest.approx(10 * costs["reads"])}


def test_large_requests_count_as_several_where_a_cloud_bills_them_so(measured: Measured) -> None:
    """At the price of the first, the third cloud's way of counting costs more."""
    whole = PRICES[0]
    cut = replace(whole, bytes_per_operation=PRICES[2].bytes_per_operation)
    assert price_run(cut, measured)["reads"] > price_run(whole, measured)["reads"]
    assert price_run(cut, measured)["writes"] > price_run(whole, measured)["writes"]


def test_fixed_part_of_the_requests_is_what_does_not_grow(measured: Measured) -> None:
    """Ten requests a run and one for each of ten thousand bytes: told apart from two sizes."""
    none = dict.fromkeys(("write", "list", "delete"), 0)
    small, large = (
        {"bytes_before": size, "requests": {"compact": none | {"read": 10 + size // 10_000}}}
        for size in (1_000_000, 9_000_000)
    )
    told = replace(measured, small=small, large=large)
    assert told.count_per_run("compact", "read") == pytest.approx(10)
    assert told.count_per_tb("compact", "read") == pytest.approx(10**8 + 10 * 10**12 / 2**36)


@pytest.mark.parametrize(("versions", "stays"), [(2, 1 / 2), (3, 1 / 3), (100, 1 / 100)])
def test_fewer_versions_save_less_and_pay_back_later(measured: Measured, versions: int, stays: float) -> None:
    """By hand, from what a run at ten versions costs: only writes and what is saved change."""
    prices = PRICES[0]
    told = replace(measured, output_bytes=measured.input_bytes / 10)
    at_ten, at_versions = price_run(prices, told), price_run(prices, told.assume_versions(versions))
    writes_of_new_files = told.count_per_tb("ingest", "write") / 1e6 * prices.million_writes
    assert at_versions == at_ten | {"writes": pytest.approx(at_ten["writes"] + (stays - 0.1) * writes_of_new_files)}
    saved_a_day = 1000 * prices.gb_month * (1 - stays) / 30
    days = compute_days_to_pay_back(prices, told.assume_versions(versions))
    assert days == pytest.approx(sum(at_versions.values()) / saved_a_day)
    assert (days > compute_days_to_pay_back(prices, told)) == (versions < 10)


def test_page_has_a_row_for_each_number_of_versions_and_says_which_was_measured(measured: Measured) -> None:
    """The headline names it; the row of ten has the figures of the tables above."""
    page = render_page(measured)
    assert page.splitlines()[1] == "# Cost, at ten versions of each key"
    rows = {cells[0]: cells[1:] for line in page.splitlines() if len(cells := line.strip("| ").split(" | ")) == 7}
    assert {"2", "3", "10", "100"} <= rows.keys()
    (run,) = (
        line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| AWS") and "days" in line
    )
    assert rows["10"][2:4] == [run[5], run[6]]


def test_requests_are_counted_by_the_classes_of_a_bill() -> None:
    """Lists apart from reads, a deletion of many as a deletion, answers in colour too."""
    lines = (
        '"GET /moto-api/ HTTP/1.1" 200 -',
        '"GET /lake/a.parquet HTTP/1.1" 206 -',
        '"\x1b[33mHEAD /lake/b HTTP/1.1\x1b[0m" 404 -',
        '"GET /lake?list-type=2&prefix=a HTTP/1.1" 200 -',
        '"POST /lake/a?uploads HTTP/1.1" 200 -',
        '"PUT /lake/a?partNumber=1&uploadId=x HTTP/1.1" 200 -',
        '"\x1b[35m\x1b[1mDELETE /lake/a HTTP/1.1\x1b[0m" 204 -',
        '"POST /lake?delete= HTTP/1.1" 200 -',
    )
    assert count_requests("\n".join(lines)) == {"write": 2, "list": 1, "read": 2, "delete": 2}
