"""The verdict: passed, failed with partitions named, or broken; exact beyond 2^53; its page holds no user bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from jinja2 import Environment

from tests.unit.staging_builder import SECRET_KEY, SECRET_VALUE, Scene, build_orders_cases, list_failed, stage
from winnow.errors import ConfigurationError
from winnow.quality.fact_table import FactRow
from winnow.quality.gx_session import get_session
from winnow.quality.suites import STRUCTURAL_SUITE, load_suite
from winnow.quality.validation import build_site_index, prepare_first_judgement, validate_fact_table
from winnow.values.model import Severity
from winnow.values.results import Verdict

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

CHECKED_AT_MS = 1_800_000_000_000


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return stage(tmp_path, {0: build_orders_cases(0), 1: build_orders_cases(1)})


def judged(rows: list[FactRow], data_docs: Path | None = None, **options: object) -> Verdict:
    arguments = {"plan_id": "0123456789abcdef", "topic": "orders", "attempt": "1", "checked_at_ms": CHECKED_AT_MS}
    return validate_fact_table(rows, data_docs=data_docs, **(arguments | options))  # type: ignore[arg-type]


def page_of(verdict: Verdict) -> Path:
    assert verdict.data_docs is not None
    return Path(unquote(urlparse(verdict.data_docs).path))


def test_a_verdict_names_its_plan_and_counts_its_expectations(scene: Scene) -> None:
    """Everything a receipt needs to tell which result was judged, and by how much."""
    verdict = judged(scene.rows())
    assert (verdict.plan_id, verdict.topic, verdict.attempt) == ("0123456789abcdef", "orders", "1")
    assert verdict.checked_at_ms == CHECKED_AT_MS
    assert verdict.passed
    assert verdict.data_docs is None


def test_the_same_rows_give_the_same_verdict(scene: Scene) -> None:
    """Judging may be repeated."""
    scene.report(records_in=7)
    rows = scene.rows()
    assert judged(rows) == judged(rows)


def test_only_failing_partitions_are_named_and_the_figures_are_told(scene: Scene) -> None:
    """A failure says which partition, which sentence, and which two figures disagree."""
    scene.report(1, records_in=26)
    verdict = judged(scene.rows())
    assert not verdict.passed
    assert verdict.failing_partitions == (1,)
    (failure,) = verdict.failures
    assert failure.severity is Severity.FAIL
    assert "rewrite_records_in 26" in failure.detail
    assert "recomputed_records_in 25" in failure.detail


def test_a_warning_and_an_info_are_reported_and_pass(scene: Scene) -> None:
    """Neither voids the plan."""
    rows = scene.rows()
    rows[0] |= {"rewrite_bytes_in": 1, "removed_per_million": 999_001}
    verdict = judged(rows)
    assert verdict.passed
    assert list_failed(verdict, 0, Severity.WARN) == {"bytes_in_equal", "not_nearly_everything_removed"}


@pytest.mark.parametrize("big", [2**53, 2**62, 2**63 - 2, 2**64, 2**80])
def test_counts_beyond_2_to_the_53_are_compared_exactly(scene: Scene, big: int) -> None:
    """As doubles these two would be equal."""
    rows = scene.rows()
    rows[0] |= {"rewrite_records_in": big, "recomputed_records_in": big}
    assert judged(rows).passed
    rows[0] |= {"rewrite_records_in": big + 1}
    assert list_failed(judged(rows), 0) == {"records_in_equal"}


def test_a_check_that_raises_is_broken_not_failed(scene: Scene) -> None:
    """A fact the suite asks for is not there: nothing is known, and no partition is to blame."""
    rows = scene.rows()
    for row in rows:
        del row["duplicate_keys"]
    verdict = judged(rows)
    assert verdict.broken
    assert not verdict.passed
    assert verdict.failing_partitions == ()
    assert list_failed(verdict) == {"unique_keys"}


def test_a_failure_beside_a_broken_check_is_told_but_marks_no_partition(scene: Scene) -> None:
    """Where something raised, even a plain failure is not enough to call a partition uncleanable."""
    scene.report(1, records_in=26)
    rows = scene.rows()
    for row in rows:
        del row["duplicate_keys"]
    verdict = judged(rows)
    assert verdict.broken
    assert list_failed(verdict) == {"unique_keys", "records_in_equal"}
    assert verdict.failing_partitions == ()


def test_an_empty_fact_table_is_broken() -> None:
    """Nothing judged is not passed."""
    verdict = judged([])
    assert verdict.broken
    assert not verdict.passed


def test_a_fact_that_one_partition_lacks_is_broken(scene: Scene) -> None:
    """GX passes over missing values, so a gap must not reach it."""
    rows = scene.rows()
    del rows[1]["duplicate_keys"]
    assert judged(rows).broken
    rows = scene.rows()
    rows[1]["duplicate_keys"] = None  # type: ignore[assignment]
    assert judged(rows).broken


def test_a_partition_that_is_there_twice_fails(scene: Scene) -> None:
    """Each partition is judged once."""
    rows = scene.rows()
    assert list_failed(judged([rows[0], rows[1], rows[1]]), 1) == {"one_row_per_partition"}


def test_an_unknown_suite_is_refused_with_the_known_ones(scene: Scene) -> None:
    """A misspelt name is said, not passed over."""
    with pytest.raises(ConfigurationError, match="Known suites: compaction, erasure, example_json_values"):
        judged(scene.rows(), suite="compactoin")


def test_a_suite_of_an_extra_folder_can_judge(scene: Scene, tmp_path: Path) -> None:
    """A team's own checks over the same facts."""
    expectation = {
        "id": "always_more",
        "type": "expect_column_values_to_be_between",
        "severity": "critical",
        "kwargs": {"column": "recomputed_records_in", "min_value": 1000},
        "meta": {"sentence": "Every partition has a thousand records."},
    }
    (tmp_path / "own.json").write_text(json.dumps({"name": "own", "expectations": [expectation]}))
    verdict = judged(scene.rows(), suite="own", extra_folder=tmp_path)
    assert verdict.failing_partitions == (0, 1)


def test_a_page_is_built_and_holds_no_user_bytes(scene: Scene, tmp_path: Path) -> None:
    """The page of a failed run names it and shows figures; no key or value is anywhere in the site."""
    scene.rewrite_file(lambda records: records[1:], 1, tell=False)
    site = tmp_path / "docs"
    verdict = scene.verdict(site)
    page = page_of(verdict)
    assert page.is_file()
    assert "orders 5f0c0ffee0dd 1" in str(page)
    assert "Records in = kept + superseded" in page.read_text()
    for path in site.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert SECRET_KEY.encode() not in content, path
            assert SECRET_VALUE.encode() not in content, path


def test_a_verdict_with_a_page_says_the_same_as_one_without(scene: Scene, tmp_path: Path) -> None:
    """Building the page changes nothing about the judgement."""
    scene.report(1, records_in=26)
    rows = scene.rows()
    assert replace(judged(rows, tmp_path / "docs"), data_docs=None) == judged(rows)


def test_earlier_pages_stay_and_only_the_newest_are_kept(scene: Scene, tmp_path: Path) -> None:
    """The site is an archive with a retention rule; its index lists what is there."""
    rows, site = scene.rows(), tmp_path / "docs"
    pages = [
        page_of(judged(rows, site, attempt=str(n), checked_at_ms=CHECKED_AT_MS + n, keep_validations=2))
        for n in range(4)
    ]
    assert [page.is_file() for page in pages] == [False, False, True, True]
    assert len(list((site / "results").rglob("*.json"))) == 2
    judged(rows, site, attempt="4", checked_at_ms=CHECKED_AT_MS + 4, keep_validations=3)
    index = (site / "site" / "index.html").read_text()
    assert [f"orders 0123456789ab {n}" in index for n in range(5)] == [False, False, True, True, True]


@pytest.mark.parametrize("pages", [True, False])
def test_one_process_judges_one_topic_after_another_each_by_its_own_facts(
    scene: Scene, tmp_path: Path, pages: bool
) -> None:
    """What GX keeps between two runs of one context is no fact of the next topic."""
    sound, site = scene.rows(), tmp_path / "docs" if pages else None
    wrong = [sound[0], sound[1] | {"stale_winners": 1}]
    other = [sound[0] | {"lost_keys": 2}, sound[1]]
    verdicts = [
        judged(rows, site, topic=f"topic-{n}", checked_at_ms=CHECKED_AT_MS + n, index=False)
        for n, rows in enumerate([sound, wrong, sound, other, sound])
    ]
    assert [verdict.failing_partitions for verdict in verdicts] == [(), (1,), (), (0,), ()]
    assert [list_failed(verdict) for verdict in verdicts] == [set(), {"newest_survives"}, set(), {"no_key_lost"}, set()]


def test_nothing_of_a_run_is_kept_without_a_site(scene: Scene) -> None:
    """One context serves every topic of a process; neither results nor cached configurations stay in memory."""
    from great_expectations.expectations.expectation import Expectation

    scene.report(1, records_in=26)
    configuration = Expectation.__dict__["configuration"]
    for rows in (scene.rows(), stage(scene.folder / "sound", {0: build_orders_cases(0)}).rows()):
        judged(rows)
    assert get_session(load_suite(STRUCTURAL_SUITE), None)._context.validation_results_store.list_keys() == []
    assert Expectation.__dict__["configuration"] is configuration


def test_a_later_run_leaves_earlier_pages_alone_and_the_index_lists_them_when_it_is_built(
    scene: Scene, tmp_path: Path
) -> None:
    """Building costs the page of the run, however many there are."""
    rows, site = scene.rows(), tmp_path / "docs"
    first = page_of(judged(rows, site, attempt="0", index=False))
    assert not (site / "site" / "index.html").exists()
    earlier = first.stat().st_mtime_ns, (site / "site" / "static").stat().st_mtime_ns
    wrong = [rows[0], rows[1] | {"stale_winners": 1}]
    page_of(judged(wrong, site, attempt="1", checked_at_ms=CHECKED_AT_MS + 1, index=False))
    build_site_index(site)
    assert (first.stat().st_mtime_ns, (site / "site" / "static").stat().st_mtime_ns) == earlier
    index = (site / "site" / "index.html").read_text()
    assert all(f"orders 0123456789ab {n}" in index for n in range(2))
    assert ("fa-check-circle" in index, "fa-times" in index) == (True, True)


def test_a_topic_whose_name_is_a_word_of_gx_has_its_page_too(scene: Scene, tmp_path: Path) -> None:
    """GX takes runs with this word in their name for something else."""
    site = tmp_path / "docs"
    assert page_of(judged(scene.rows(), site, topic="profiling")).is_file()
    assert "profiling 0123456789ab 1" in (site / "site" / "index.html").read_text()


def test_a_page_that_cannot_be_written_leaves_the_verdict_standing(scene: Scene, tmp_path: Path) -> None:
    """Documentation is not judgement."""
    (tmp_path / "docs").write_text("a file where the folder should be")
    verdict = judged(scene.rows(), tmp_path / "docs")
    assert verdict.passed
    assert verdict.data_docs is None


def test_a_prepared_judgement_compiles_no_template_and_says_the_same(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Spark works, nothing is written that no verdict stands behind."""
    site = tmp_path / "docs"
    prepare_first_judgement(site)
    assert not list(site.rglob("*.html"))
    compiled: list[str] = []
    compile_template = Environment.compile

    def listen(environment: Environment, source: Any, name: str | None = None, *more: Any, **options: Any) -> Any:
        compiled.append(str(name))
        return compile_template(environment, source, name, *more, **options)

    monkeypatch.setattr(Environment, "compile", listen)
    rows = [scene.rows()[0], scene.rows()[1] | {"stale_winners": 1}]
    prepared = judged(rows, site, index=False)
    assert compiled == []
    assert page_of(prepared).is_file()
    assert replace(prepared, data_docs=None) == judged(rows)
    assert page_of(judged(rows, tmp_path / "of another site", index=True)).is_file()
    assert compiled == []


def test_a_judgement_that_cannot_be_prepared_is_left_to_whoever_judges(tmp_path: Path) -> None:
    """It runs beside Spark, where nobody could act on an error."""
    (tmp_path / "docs").write_text("a file where the folder should be")
    prepare_first_judgement(tmp_path / "docs")


_JUDGE_IN_TWO_PROCESSES = """
import json, os, sys
from pathlib import Path
from winnow.quality import wait_until_ready
from winnow.quality.validation import validate_fact_table
rows, site = json.loads(sys.argv[1]), Path(sys.argv[2])
wait_until_ready()
child = os.fork()
name = "payments" if child else "orders"
for n in range(3):
    verdict = validate_fact_table(
        rows, plan_id="0123456789abcdef", topic=name, attempt=str(n), checked_at_ms=1_800_000_000 + n, data_docs=site
    )
    assert verdict.passed and verdict.data_docs
assert not child or os.waitpid(child, 0)[1] == 0
"""


def test_two_processes_may_build_the_same_site(scene: Scene, tmp_path: Path) -> None:
    """Topics are validated side by side; none loses its page."""
    rows, site = json.dumps(scene.rows()), tmp_path / "docs"
    command = [sys.executable, "-W", "ignore", "-c", _JUDGE_IN_TWO_PROCESSES, rows, str(site)]
    subprocess.run(command, check=True, timeout=300)
    assert len(list((site / "site" / "validations").rglob("*.html"))) == 6
    index = (site / "site" / "index.html").read_text()
    assert all(f"{name} 0123456789ab {n}" in index for name in ("orders", "payments") for n in range(3))


_IMPORT_LIGHTLY = """
import sys, time
import winnow.quality, winnow.quality.validation, winnow.quality.fact_table
import winnow.quality.content_validation, winnow.quality.suites
assert "great_expectations" not in sys.modules, "GX was imported"
started = time.monotonic()
winnow.quality.start_import()
assert time.monotonic() - started < 1
from winnow.quality.gx_runtime import import_great_expectations
assert import_great_expectations().__version__
"""

_IMPORT_NARROWLY = """
import sys
from winnow.quality.gx_runtime import import_great_expectations
import_great_expectations()
heavy = {"altair.vegalite", "boto3", "botocore", "pyspark", "scipy.stats._stats_py"} & sys.modules.keys()
assert not heavy, heavy
import boto3, pyspark.sql, scipy.stats
assert scipy.stats.norm.cdf(0) == 0.5
assert pyspark.sql.SparkSession is not None
"""


def test_importing_quality_imports_no_great_expectations_until_it_is_warmed_up() -> None:
    """GX costs seconds; it is paid in the background, while something else works."""
    finished = subprocess.run([sys.executable, "-c", _IMPORT_LIGHTLY], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == ""


def test_what_checks_do_not_use_of_great_expectations_libraries_is_loaded_when_something_asks_for_it() -> None:
    """They are a third of its import."""
    finished = subprocess.run([sys.executable, "-c", _IMPORT_NARROWLY], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
