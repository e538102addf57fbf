"""Attempts that are judged together get the verdicts that each would get alone, from far fewer runs of the suite."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from tests.unit.staging_builder import Scene, build_orders_cases, stage
from winnow.quality import shared_validation
from winnow.quality.fact_table import FactRow
from winnow.quality.gx_session import GxSession
from winnow.quality.shared_validation import FactTable, validate_fact_tables
from winnow.quality.suites import SuiteFindings, load_suite
from winnow.quality.validation import validate_fact_table
from winnow.values.model import Severity
from winnow.values.results import Failure, Verdict

pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

CHECKED_AT_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return stage(tmp_path_factory.mktemp("scene"), {0: build_orders_cases(0), 1: build_orders_cases(1)})


@pytest.fixture
def tables(scene: Scene) -> list[FactTable]:
    """Four topics with the same two partitions, all sound."""
    rows = scene.rows()
    return [FactTable(f"{number:016x}", f"topic-{number}", "a1", [dict(row) for row in rows]) for number in range(4)]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows in each run of the suite."""
    made: list[int] = []
    run = GxSession.run

    def count(self: GxSession, rows: Sequence[FactRow], run_name: str, checked_at_ms: int) -> object:
        made.append(len(rows))
        return run(self, rows, run_name, checked_at_ms)

    monkeypatch.setattr(GxSession, "run", count)
    return made


def judged(tables: Sequence[FactTable], site: Path | None = None, **options: object) -> list[Verdict]:
    found = validate_fact_tables(tables, checked_at_ms=CHECKED_AT_MS, data_docs=site, **options)  # type: ignore[arg-type]
    for each in found:
        if isinstance(each, Exception):
            raise each
    return [each for each in found if isinstance(each, Verdict)]


def judged_alone(table: FactTable) -> Verdict:
    return validate_fact_table(
        table.rows,
        plan_id=table.plan_id,
        topic=table.topic,
        attempt=table.attempt,
        checked_at_ms=CHECKED_AT_MS,
        findings=table.findings,
        data_docs=None,
    )


def changed(table: FactTable, number: int, /, **values: int) -> FactTable:
    """``table`` with other figures for one partition."""
    return replace(table, rows=[{**row, **values} if row["partition"] == number else row for row in table.rows])


def page_of(verdict: Verdict) -> Path:
    assert verdict.data_docs is not None
    return Path(unquote(urlparse(verdict.data_docs).path))


def test_sound_topics_pass_with_one_run_and_each_has_the_verdict_it_would_have_alone(
    tables: list[FactTable], runs: list[int]
) -> None:
    together = judged(tables)
    assert runs == [8]
    assert all(verdict.passed for verdict in together)
    assert together == [judged_alone(table) for table in tables]


def test_a_wrong_figure_of_one_topic_fails_that_topic_as_alone_and_no_other(
    tables: list[FactTable], runs: list[int]
) -> None:
    tables[2] = changed(tables[2], 1, rewrite_records_in=26)
    together = judged(tables)
    assert [verdict.passed for verdict in together] == [True, True, False, True]
    assert together[2].failing_partitions == (1,)
    # All, those without it, and it alone.
    assert runs == [8, 6, 2]
    assert together == [judged_alone(table) for table in tables]


def test_a_warning_stays_with_its_topic(tables: list[FactTable]) -> None:
    tables[1] = changed(tables[1], 0, rewrite_bytes_in=1)
    together = judged(tables)
    assert [verdict.passed for verdict in together] == [True] * 4
    assert [[each.severity for each in verdict.failures] for verdict in together] == [[], [Severity.WARN], [], []]
    assert together[1] == judged_alone(tables[1])


def test_a_partition_that_a_topic_has_twice_fails_and_one_that_two_topics_have_does_not(
    tables: list[FactTable],
) -> None:
    tables[3] = replace(tables[3], rows=[*tables[3].rows, tables[3].rows[1]])
    together = judged(tables)
    assert [verdict.passed for verdict in together] == [True, True, True, False]
    assert {failure.expectation for failure in together[3].failures} == {"one_row_per_partition"}


def test_a_partition_number_that_could_be_another_topics_is_judged_alone(
    tables: list[FactTable], runs: list[int]
) -> None:
    """A staging manifest may name any number, also twice."""
    far = {**tables[1].rows[0], "partition": 1 << 32}
    tables[1] = replace(tables[1], rows=[far, far])
    assert judged(tables) == [judged_alone(table) for table in tables]
    assert runs[0] == 6


def test_a_gap_breaks_the_verdict_of_its_topic_only(tables: list[FactTable], runs: list[int]) -> None:
    rows = [dict(row) for row in tables[0].rows]
    del rows[1]["duplicate_keys"]
    tables[0] = replace(tables[0], rows=rows)
    together = judged(tables)
    assert [(verdict.passed, verdict.broken) for verdict in together] == [(False, True), *[(True, False)] * 3]
    assert runs == [6]


def test_facts_that_one_topic_lacks_break_its_verdict_only(tables: list[FactTable]) -> None:
    """The check raises; facts of another version of Winnow, for instance."""
    rows = [{name: value for name, value in row.items() if name != "duplicate_keys"} for row in tables[0].rows]
    tables[0] = replace(tables[0], rows=rows)
    together = judged(tables)
    assert [(verdict.passed, verdict.broken) for verdict in together] == [(False, True), *[(True, False)] * 3]
    assert together[0] == judged_alone(tables[0])


def test_a_check_that_raises_for_all_breaks_every_verdict(tables: list[FactTable]) -> None:
    lacking = [
        replace(table, rows=[{name: row[name] for name in row if name != "duplicate_keys"} for row in table.rows])
        for table in tables
    ]
    together = judged(lacking)
    assert [(verdict.passed, verdict.broken) for verdict in together] == [(False, True)] * 4


def test_an_error_of_great_expectations_belongs_to_the_topic_that_causes_it(
    tables: list[FactTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GxSession.run

    def raise_for_one(self: GxSession, rows: Sequence[FactRow], run_name: str, checked_at_ms: int) -> object:
        if len(rows) > 2 or run_name.startswith("topic-1 "):
            raise RuntimeError("unexpected")
        return run(self, rows, run_name, checked_at_ms)

    monkeypatch.setattr(GxSession, "run", raise_for_one)
    found = validate_fact_tables(tables, checked_at_ms=CHECKED_AT_MS, data_docs=None)
    assert [type(each) for each in found] == [Verdict, RuntimeError, Verdict, Verdict]


def test_a_topic_with_a_suite_of_its_own_is_judged_alone_with_both(tables: list[FactTable], runs: list[int]) -> None:
    suite = load_suite("example_json_values")
    failure = Failure(0, suite.expectations[0].id, Severity.FAIL, "Violated.")
    tables[1] = replace(tables[1], findings=SuiteFindings(suite, (failure,)))
    together = judged(tables)
    assert [verdict.passed for verdict in together] == [True, False, True, True]
    assert together[1] == judged_alone(tables[1])
    assert runs[0] == 6


@pytest.mark.parametrize(
    "expectation",
    [
        {"type": "expect_column_sum_to_be_between", "kwargs": {"column": "lost_keys", "min_value": 0, "max_value": 1}},
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "lost_keys", "value_set": [0], "mostly": 0.8},
        },
    ],
    ids=["a sum over rows", "a share of rows"],
)
def test_a_suite_that_does_not_judge_row_by_row_judges_each_topic_alone(
    tables: list[FactTable], runs: list[int], tmp_path: Path, expectation: dict[str, object]
) -> None:
    """Together, the one bad row of a topic would be one of many."""
    full = {"id": "own", "severity": "critical", "meta": {"sentence": "It holds."}, **expectation}
    (tmp_path / "own.json").write_text(json.dumps({"name": "own", "expectations": [full]}))
    tables[0] = changed(tables[0], 0, lost_keys=1)
    tables[1] = changed(tables[1], 0, lost_keys=1)
    judged(tables, suite="own", extra_folder=tmp_path)
    assert runs == [2] * 4


def test_topics_that_passed_together_share_a_page_that_names_them_and_a_failed_one_has_its_own(
    tables: list[FactTable], tmp_path: Path
) -> None:
    tables[0] = changed(tables[0], 1, rewrite_records_in=26)
    together = judged(tables, tmp_path / "docs")
    own, *shared = [page_of(verdict) for verdict in together]
    assert len(set(shared)) == 1
    assert own not in shared
    said = html.unescape(re.sub(r"<[^>]+>", " ", shared[0].read_text()))
    assert "Topics: topic-1, topic-2, topic-3" in re.sub(r"\s+", " ", said)
    assert "topic-0" not in said
    # The run that failed because of one topic is no one's verdict, and leaves nothing.
    assert len(list((tmp_path / "docs" / "results").rglob("*.json"))) == 2
    index = unquote((tmp_path / "docs" / "site" / "index.html").read_text())
    assert all(page.parts[-3] in index for page in (own, shared[0]))


def test_a_page_that_cannot_be_written_changes_no_verdict(tables: list[FactTable], tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("a file where the folder should be")
    assert judged(tables, tmp_path / "docs") == judged(tables)


def test_a_shared_table_is_bounded(tables: list[FactTable], runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_validation, "MAXIMUM_SHARED_ROWS", 5)
    assert all(verdict.passed for verdict in judged(tables))
    assert runs == [4, 4]
