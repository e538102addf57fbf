"""Data Docs behind the login: pages of one folder, whatever the path tries."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.page.conftest import Visitor
from tests.page.sample_rows import put_run, put_verdict
from tests.support.world import FakeClock, build_versions, open_world
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.report.evidence import find_page_path
from winnow.store import Store
from winnow_airflow.page.data_docs import make_self_contained


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with one page, and beside it what is not to be seen."""
    home = tmp_path / "winnow-home" / "data_docs"
    site = home / "site"
    (site / "validations" / "winnow" / "a run").mkdir(parents=True)
    (site / "index.html").write_text("<h1>Index</h1>")
    (site / "validations" / "winnow" / "a run" / "verdict.html").write_text("<h1>Verdict</h1>")
    (site / "styles.css").write_text("h1 {}")
    (site / ".hidden").write_text("secret")
    (home / "results").mkdir()
    (home / "results" / "result.json").write_text("secret")
    (tmp_path / "winnow-home" / "winnow.toml").write_text("secret")
    (site / "link.html").symlink_to(tmp_path / "winnow-home" / "winnow.toml")
    (site / "folder").symlink_to(home / "results")
    return site


def test_pages_and_what_they_are_made_of_are_served_with_their_types(viewer: Visitor, site: Path) -> None:
    """A name may hold blanks."""
    for path, kind, text in (
        ("validations/winnow/a%20run/verdict.html", "text/html; charset=utf-8", "<h1>Verdict</h1>"),
        ("styles.css", "text/css; charset=utf-8", "h1 {}"),
    ):
        answer = viewer.get(f"data-docs/{path}")
        assert (answer.status_code, answer.headers["content-type"], answer.text) == (200, kind, text)


def test_index_of_the_site_is_the_page_on_quality(viewer: Visitor, site: Path) -> None:
    """Great Expectations' own is a table that only scripts fill."""
    for path in ("", "index.html"):
        answer = viewer.get(f"data-docs/{path}")
        assert (answer.status_code, answer.headers["location"]) == (307, "/winnow/page#/quality")


def test_pages_run_no_script_and_load_nothing_from_elsewhere(viewer: Visitor, site: Path) -> None:
    """They stand within Airflow's own origin, and may be read without the internet."""
    answer = viewer.get("data-docs/validations/winnow/a%20run/verdict.html")
    rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert "script-src" not in rules
    assert not any("http" in sources or "*" in sources for sources in rules.values())
    assert rules["frame-ancestors"] == "'self'"


def test_page_that_great_expectations_wrote_stands_alone(viewer: Visitor, tmp_path: Path) -> None:
    """A real verdict's page: its results are there, scripts and other hosts are not, and its links stay within."""
    from winnow_airflow.page.data_docs import find_file

    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        world.ingest(build_versions(0, 12))
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        verdict = validate_attempt(world.installation, plan.plan_id, "a1")
        path = find_page_path(verdict.data_docs)
        assert path is not None
        found = find_file(world.installation.settings.data_docs / "site", unquote(path))
        assert found is not None
    assert "https://" in found.read_text()
    text = make_self_contained(found.read_text(), "/winnow/static/data-docs.css")
    assert "Both computations see the same number of records survive." in text
    assert '<link rel="stylesheet" href="/winnow/static/data-docs.css">' in text
    assert "<script" not in text
    assert "onclick" not in text
    assert re.findall(r"https?://[^\"' <]+", re.sub(r"<a\b[^>]*>", "", text)) == []
    assert viewer.get("static/data-docs.css").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "../results/result.json",
        "..%2fresults%2fresult.json",
        "%2e%2e/results/result.json",
        "%2e%2e%2f%2e%2e%2fwinnow.toml",
        "..%252f..%252fwinnow.toml",
        "validations/../../results/result.json",
        "validations/%2e%2e/%2e%2e/results/result.json",
        "..\\results\\result.json",
        "..%5cresults%5cresult.json",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "file:///etc/passwd",
        "index.html%00.css",
        ".hidden",
        "link.html",
        "folder/result.json",
        "validations/winnow/a%20run/verdict.html/",
        "validations",
        "validations/",
        "nothing.html",
        "a" * 5_000,
    ],
)
def test_no_path_leads_out_of_the_folder(viewer: Visitor, site: Path, path: str) -> None:
    """Encoded once or twice, absolute, hidden, through a link: not found, or Airflow's own business."""
    from winnow_airflow.page.data_docs import find_file

    answer = viewer.get(f"data-docs/{path}")
    assert "secret" not in answer.text
    assert "root:" not in answer.text
    if "/winnow/" in str(answer.request.url):
        assert answer.status_code == (400 if "%00" in path else 404)
    assert find_file(site, path) is None


def test_page_of_a_verdict_is_found_by_the_path_that_the_api_names(
    viewer: Visitor, site: Path, home_store: Store
) -> None:
    """Also when it was written on a machine where the folder has another name."""
    put_run(home_store)
    put_verdict(home_store)
    (verdict,) = viewer.json("api/runs/plan-1")["verdicts"]
    assert verdict["data_docs"] == "validations/winnow/a%20run/verdict.html"
    assert viewer.get(f"data-docs/{verdict['data_docs']}").text == "<h1>Verdict</h1>"


def test_page_that_was_swept_away_says_so(viewer: Visitor, site: Path) -> None:
    """Only the newest validations keep their pages."""
    answer = viewer.get("data-docs/validations/winnow/gone/verdict.html")
    assert answer.status_code == 404
    assert "newest validations" in answer.json()["detail"]
