"""Great Expectations over the fact table, and its answer as a verdict.

Three outcomes: passed, failed (the data is not as it should be; the partitions are named), broken (a check raised, so
nothing is known about the data and no partition is named).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.model import Failure, Severity, Verdict
from winnow.quality.data_docs import KEEP_VALIDATIONS, exclusive, keep_newest
from winnow.quality.runtime import GX_LOCK, SITE, ephemeral_context, great_expectations, raised, results_by_id
from winnow.quality.suites import STRUCTURAL_SUITE, Expectation, Suite, load_suite, to_gx

if TYPE_CHECKING:
    import pandas as pd

LOG = logging.getLogger(__name__)
_INT64 = range(-(2**63), 2**63)


def judge(
    rows: Sequence[Mapping[str, int | str]],
    *,
    plan_id: str,
    topic: str,
    attempt: str,
    checked_at_ms: int,
    suite: str = STRUCTURAL_SUITE,
    data_docs: Path | None,
    extra_folder: Path | None = None,
    keep_validations: int = KEEP_VALIDATIONS,
) -> Verdict:
    """Judge the fact table of one attempt. The same rows give the same verdict.

    Args:
        rows: the fact table, one row a topic partition (:mod:`winnow.quality.facts`).
        plan_id: the plan that was carried out.
        topic: its topic.
        attempt: which attempt at it.
        checked_at_ms: when this is happening, for the verdict and the page's name.
        suite: name of a suite over fact tables.
        data_docs: folder of the Data Docs site; None builds no page. A page that cannot be written is logged and left
            out: the verdict stands without it.
        extra_folder: further suites.
        keep_validations: pages the site keeps, the newest.

    Raises:
        ConfigurationError: the suite is unknown or not valid.
    """
    reviewed = load_suite(suite, extra_folder)
    verdict = _Judgement(reviewed, rows, plan_id=plan_id, topic=topic, attempt=attempt, checked_at_ms=checked_at_ms)
    gap = _gap(rows)
    if gap is not None:
        return verdict.broken([Failure(None, "fact_table", Severity.FAIL, gap)], None)
    if data_docs is not None:
        try:
            return verdict.reach(data_docs, keep_validations)
        except OSError as problem:
            LOG.warning("The Data Docs page of %s %s could not be written: %s", topic, plan_id[:12], problem)
    return verdict.reach(None, keep_validations)


class _Judgement:
    """One run of one suite over one fact table."""

    def __init__(
        self,
        suite: Suite,
        rows: Sequence[Mapping[str, int | str]],
        *,
        plan_id: str,
        topic: str,
        attempt: str,
        checked_at_ms: int,
    ) -> None:
        self._suite = suite
        self._rows = rows
        self._plan_id = plan_id
        self._topic = topic
        self._attempt = attempt
        self._checked_at_ms = checked_at_ms

    def reach(self, site: Path | None, keep: int) -> Verdict:
        """Run the suite, build the page when there is a ``site``, and sum up."""
        with GX_LOCK, exclusive(site) if site is not None else nullcontext():
            results, page = self._run(site)
            if site is not None:
                keep_newest(site, keep)
        return self._sum_up(results, page)

    def broken(self, failures: Sequence[Failure], page: str | None) -> Verdict:
        """The verdict when something raised: no partition is named."""
        return self._verdict(failures, page, passed=False, broken=True)

    def _run(self, site: Path | None) -> tuple[list[Any], str | None]:
        gx = great_expectations()
        from great_expectations.checkpoint.actions import UpdateDataDocsAction
        from great_expectations.core.run_identifier import RunIdentifier

        context = ephemeral_context(site)
        batch = context.data_sources.add_pandas("facts").add_dataframe_asset("partitions")
        definition = gx.ValidationDefinition(
            name=self._suite.name,
            data=batch.add_batch_definition_whole_dataframe("all"),
            suite=context.suites.add(to_gx(self._suite)),
        )
        checkpoint = gx.Checkpoint(
            name=self._suite.name,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[] if site is None else [UpdateDataDocsAction(name=SITE, site_names=[SITE])],
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": ["partition"]},
        )
        run = RunIdentifier(
            run_name=f"{self._topic} {self._plan_id[:12]} {self._attempt}",
            run_time=datetime.fromtimestamp(self._checked_at_ms / 1000, tz=UTC),
        )
        outcome = context.checkpoints.add(checkpoint).run(
            batch_parameters={"dataframe": fact_frame(self._rows)}, run_id=run
        )
        ((identifier, result),) = outcome.run_results.items()
        page = None
        if site is not None:
            (place,) = context.get_docs_sites_urls(resource_identifier=identifier, site_names=[SITE])
            page = place["site_url"]
        return list(result.results), page

    def _sum_up(self, results: Sequence[Any], page: str | None) -> Verdict:
        by_id = results_by_id(results)
        broken, failures = [], []
        for expectation in self._suite.expectations:
            result = by_id.get(expectation.id)
            kind = "no result" if result is None else raised(result.exception_info)
            if result is None or kind is not None:
                detail = f"The check raised instead of judging ({kind}): nothing is known about the data."
                broken.append(Failure(None, expectation.id, Severity.FAIL, detail))
            elif not result.success:
                failures.extend(_failures(expectation, result.result))
        if broken:
            unplaced = [Failure(None, f.expectation, f.severity, f.detail) for f in failures]
            return self.broken([*broken, *unplaced], page)
        passed = all(failure.severity is not Severity.FAIL for failure in failures)
        return self._verdict(failures, page, passed=passed, broken=False)

    def _verdict(self, failures: Sequence[Failure], page: str | None, *, passed: bool, broken: bool) -> Verdict:
        return Verdict(
            plan_id=self._plan_id,
            topic=self._topic,
            attempt=self._attempt,
            passed=passed,
            broken=broken,
            failures=tuple(failures),
            checked_at_ms=self._checked_at_ms,
            data_docs=page,
            expectations=len(self._suite.expectations),
        )


def fact_frame(rows: Sequence[Mapping[str, int | str]]) -> pd.DataFrame:
    """The fact table as a frame whose integers are exact: int64, or Python's own beyond it; never floats."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        exact = all(isinstance(value, int) and value in _INT64 for value in values)
        columns[name] = pd.Series(values, dtype="int64" if exact else "object")
    return pd.DataFrame(columns)


def _gap(rows: Sequence[Mapping[str, int | str]]) -> str | None:
    """What is missing in the fact table. GX passes over missing values, so a gap would count as good."""
    if not rows:
        return "The fact table is empty: nothing is known about the data."
    if any(row.keys() != rows[0].keys() or None in row.values() for row in rows):
        return "The fact table has gaps: not every partition has every fact."
    return None


def _failures(expectation: Expectation, result: Mapping[str, Any]) -> list[Failure]:
    places = result.get("unexpected_index_list") or []
    if not places:
        return [Failure(None, expectation.id, expectation.severity, expectation.sentence)]
    found = []
    for place in places:
        figures = ", ".join(f"{name} {value}" for name, value in place.items() if name != "partition")
        detail = f"{expectation.sentence} Found: {figures}." if figures else expectation.sentence
        found.append(Failure(int(place["partition"]), expectation.id, expectation.severity, detail))
    return found
