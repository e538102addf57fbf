"""Validates a batch of staged attempts: small ones together, each topic with its own outcome.

A module of its own: the steps before it need neither DuckDB nor NumPy, and begin sooner without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from winnow.pipeline.compaction.batch import PlanAttempt
from winnow.pipeline.compaction.facts import FactRecomputer
from winnow.pipeline.compaction.validate import (
    PreparedAttempt,
    conclude_validation,
    judge_attempts,
    prepare_attempt,
)
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import map_parallel
from winnow.pipeline.spark.submit import Progress
from winnow.pipeline.topics.leases import HeldLeases
from winnow.quality import start_import
from winnow.quality.validation import build_site_index
from winnow.values.failures import TopicFailures
from winnow.values.model import Status
from winnow.values.results import Verdict

MAXIMUM_SMALL_BYTES = 64 << 20
"""Attempts at plans that read up to this many bytes are validated together; a larger one is not kept waiting."""


def validate_plans(
    installation: Installation,
    attempts: Sequence[PlanAttempt],
    results: TopicFailures,
    leases: HeldLeases,
    *,
    progress: Progress | None = None,
) -> Iterator[tuple[PlanAttempt, Verdict]]:
    """Validate staged attempts; yield each that passed as soon as it has, with its verdict.

    The facts of all are recomputed in parallel, meanwhile. Small attempts are judged together, first. ``leases``: keeps
    and renews the topics' leases.
    """
    if attempts:
        start_import()  # Great Expectations' import takes seconds, and recomputing facts mostly waits
    with FactRecomputer(installation, progress) as facts:
        small = [each for each in attempts if each.plan.size_bytes <= MAXIMUM_SMALL_BYTES]
        large = [each for each in attempts if each.plan.size_bytes > MAXIMUM_SMALL_BYTES]
        for each in (*small, *large):
            facts.begin(each.plan, each.attempt)
        for share in (small, *([each] for each in large)):
            yield from _validate_together(installation, share, results, leases, facts)
    if attempts:
        build_site_index(installation.settings.data_docs)


def _validate_together(
    installation: Installation,
    attempts: Sequence[PlanAttempt],
    results: TopicFailures,
    leases: HeldLeases,
    facts: FactRecomputer,
) -> Iterator[tuple[PlanAttempt, Verdict]]:
    """Validate ``attempts`` with one run of the suite; yield those that passed."""

    def collect(each: PlanAttempt) -> AbstractContextManager[None]:
        return results.collect(each.plan.topic, each.plan.plan_id, each.attempt, status=Status.REFUSED)

    def prepare(each: PlanAttempt) -> PreparedAttempt | Verdict | None:
        with collect(each):
            leases.acquire(each.plan.topic)
            return prepare_attempt(installation, each.plan.plan_id, each.attempt, facts)
        return None

    found = list(zip(attempts, map_parallel(prepare, attempts), strict=True))
    yield from ((each, known) for each, known in found if isinstance(known, Verdict))
    ready = [(each, prepared) for each, prepared in found if isinstance(prepared, PreparedAttempt)]
    if not ready:
        return
    try:
        judged = judge_attempts(installation, [prepared for _, prepared in ready], index=False)
    except Exception as problem:  # Great Expectations cannot be used, so no topic can be judged
        judged = [problem] * len(ready)

    def conclude(each: PlanAttempt, prepared: PreparedAttempt, outcome: Verdict | Exception) -> Verdict | None:
        with collect(each):
            return conclude_validation(installation, prepared, outcome)
        return None

    work = [(*both, outcome) for both, outcome in zip(ready, judged, strict=True)]
    verdicts = map_parallel(lambda arguments: conclude(*arguments), work)
    yield from ((each, verdict) for (each, _), verdict in zip(ready, verdicts, strict=True) if verdict is not None)
