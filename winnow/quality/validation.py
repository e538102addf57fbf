"""Validates the fact table with Great Expectations and makes the verdict.

Three outcomes: passed; failed (the data is wrong, and the partitions are named); broken (a check raised, so nothing is
known about the data and no partition is named).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from winnow.quality.gx_runtime import (
    DEFAULT_KEPT_VALIDATIONS,
    GX_LOCK,
    find_raised_exception,
    index_results_by_id,
    keep_newest,
    locate_results_folder,
    lock_site,
)
from winnow.quality.gx_session import get_session
from winnow.quality.suites import RAISED, STRUCTURAL_SUITE, Expectation, Suite, SuiteFindings, load_suite
from winnow.values.model import Severity
from winnow.values.results import Failure, Verdict

LOG = logging.getLogger(__name__)


def validate_fact_table(
    rows: Sequence[Mapping[str, int | str]],
    *,
    plan_id: str,
    topic: str,
    attempt: str,
    checked_at_ms: int,
    suite: str = STRUCTURAL_SUITE,
    findings: SuiteFindings | None = None,
    data_docs: Path | None,
    extra_folder: Path | None = None,
    keep_validations: int = DEFAULT_KEPT_VALIDATIONS,
    index: bool = True,
) -> Verdict:
    """Judge the fact table of one attempt. The same rows give the same verdict.

    Args:
        rows: the fact table, one row per partition (:mod:`winnow.quality.fact_table`).
        plan_id: the plan that was carried out.
        topic: its topic.
        attempt: the attempt at it.
        checked_at_ms: the current time, for the verdict and the page's name.
        suite: name of a suite over fact tables.
        findings: those of the topic's content suite, if it has one; part of the verdict and of its page.
        data_docs: folder of the Data Docs site; None builds no page. A page that cannot be written is logged and does
            not affect the verdict.
        extra_folder: folder with more suites.
        keep_validations: number of newest pages that the site keeps.
        index: also build the site's index; for many topics call :func:`build_site_index` once afterwards instead.

    Raises:
        ConfigurationError: the suite is unknown or invalid.
    """
    reviewed = load_suite(suite, extra_folder)
    validation = _Validation(
        reviewed,
        rows,
        plan_id=plan_id,
        topic=topic,
        attempt=attempt,
        checked_at_ms=checked_at_ms,
        findings=findings,
    )
    gap = find_missing_value(rows)
    if gap is not None:
        return validation.make_broken_verdict([Failure(None, "fact_table", Severity.FAIL, gap)], None)
    if data_docs is not None:
        try:
            return validation.reach_verdict(data_docs, keep_validations, index=index)
        except OSError as problem:
            LOG.warning("The Data Docs page of %s %s could not be written: %s", topic, plan_id[:12], problem)
    return validation.reach_verdict(None, keep_validations)


def prepare_first_judgement(data_docs: Path) -> None:
    """Make the session of the structural suite, and compile the templates of its pages; nothing is judged or written.

    Failures are logged: whoever judges meets them again.
    """
    try:
        with GX_LOCK, lock_site(data_docs):
            get_session(load_suite(STRUCTURAL_SUITE), data_docs).prepare_pages()
    except Exception as problem:  # GX has many
        LOG.debug("The first judgement could not be prepared (%s).", type(problem).__name__)


def build_site_index(data_docs: Path) -> None:
    """List every page of the site in its index, if there are results. Failures are logged."""
    if not locate_results_folder(data_docs).is_dir():
        return
    try:
        with GX_LOCK, lock_site(data_docs):
            get_session(load_suite(STRUCTURAL_SUITE), data_docs).write_index()
    except OSError as problem:
        LOG.warning("The index of the Data Docs could not be written: %s", problem)
    except Exception as problem:  # the verdicts stand, and GX has many exceptions
        LOG.warning("The index of the Data Docs could not be built (%s).", type(problem).__name__)


class _Validation:
    """One run of one suite over one fact table, with the findings of the topic's content suite."""

    def __init__(
        self,
        suite: Suite,
        rows: Sequence[Mapping[str, int | str]],
        *,
        plan_id: str,
        topic: str,
        attempt: str,
        checked_at_ms: int,
        findings: SuiteFindings | None,
    ) -> None:
        self._findings = findings
        self._suite = suite
        self._rows = rows
        self._plan_id = plan_id
        self._topic = topic
        self._attempt = attempt
        self._checked_at_ms = checked_at_ms

    def reach_verdict(self, site: Path | None, keep: int, *, index: bool = False) -> Verdict:
        """Run the suite, build the page if there is a ``site``, and return the verdict."""
        with GX_LOCK, lock_site(site) if site is not None else nullcontext():
            session = get_session(self._suite, site)
            name = f"{self._topic} {self._plan_id[:12]} {self._attempt}"
            result = session.run(self._rows, name, self._checked_at_ms)
            page = None
            if site is not None:
                page = session.write_page(result, self._findings)
                keep_newest(site, keep)
                if index:
                    session.write_index()
        return self._sum_up(list(result.results), page)

    def make_broken_verdict(self, failures: Sequence[Failure], page: str | None) -> Verdict:
        """Return the verdict when a check raised: no partition is named."""
        return self._make_verdict(failures, page, passed=False, broken=True)

    def _sum_up(self, results: Sequence[Any], page: str | None) -> Verdict:
        by_id = index_results_by_id(results)
        broken, failures = [], []
        for expectation in self._suite.expectations:
            result = by_id.get(expectation.id)
            kind = "no result" if result is None else find_raised_exception(result.exception_info)
            if result is None or kind is not None:
                detail = f"The check raised instead of judging ({kind}): nothing is known about the data."
                broken.append(Failure(None, expectation.id, Severity.FAIL, detail))
            elif not result.success:
                failures.extend(_list_failures(expectation, result.result))
        for failure in self._findings.failures if self._findings is not None else ():
            (broken if failure.expectation.endswith(RAISED) else failures).append(failure)
        if broken:
            unplaced = [Failure(None, f.expectation, f.severity, f.detail) for f in failures]
            return self.make_broken_verdict([*broken, *unplaced], page)
        passed = all(failure.severity is not Severity.FAIL for failure in failures)
        return self._make_verdict(failures, page, passed=passed, broken=False)

    def _make_verdict(self, failures: Sequence[Failure], page: str | None, *, passed: bool, broken: bool) -> Verdict:
        return Verdict(
            plan_id=self._plan_id,
            topic=self._topic,
            attempt=self._attempt,
            passed=passed,
            broken=broken,
            failures=tuple(failures),
            checked_at_ms=self._checked_at_ms,
            data_docs=page,
            expectations=sum(len(suite.expectations) for suite in self._list_suites()),
        )

    def _list_suites(self) -> list[Suite]:
        return [self._suite] if self._findings is None else [self._suite, self._findings.suite]


def find_missing_value(rows: Sequence[Mapping[str, int | str]]) -> str | None:
    """Describe what is missing in the fact table. GX skips missing values, so a gap would pass."""
    if not rows:
        return "The fact table is empty: nothing is known about the data."
    if any(row.keys() != rows[0].keys() or None in row.values() for row in rows):
        return "The fact table has gaps: not every partition has every fact."
    return None


def _list_failures(expectation: Expectation, result: Mapping[str, Any]) -> list[Failure]:
    places = result.get("unexpected_index_list") or []
    if not places:
        return [Failure(None, expectation.id, expectation.severity, expectation.sentence)]
    found = []
    for place in places:
        figures = ", ".join(f"{name} {value}" for name, value in place.items() if name != "partition")
        detail = f"{expectation.sentence} Found: {figures}." if figures else expectation.sentence
        found.append(Failure(int(place["partition"]), expectation.id, expectation.severity, detail))
    return found
