"""Recomputes the facts of staged attempts, in this process or, above a size, in a Spark application.

In process, partitions of all topics of a batch are recomputed in parallel, before the first is validated. Large
attempts go to one Spark application for the whole batch: the validating process may be a small scheduler worker.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from winnow.engine import staging
from winnow.engine.events import PlanFailure
from winnow.engine.staging import FactValues, read_facts
from winnow.errors import ServiceError, ValidationBrokenError, WinnowError
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import Progress, build_engine_arguments, find_job_file, run_job
from winnow.planning.plans import PlanReference
from winnow.quality.fact_table import (
    FactRow,
    FactWorkers,
    IndependentFacts,
    estimate_bytes_to_read,
    make_fact_rows,
    pair_partitions,
    parse_figures,
)
from winnow.values import documents
from winnow.values.model import Plan
from winnow.values.results import StagingManifest

JOB_NAME = "facts"
"""The program, below jobs/, that recomputes facts."""
MAXIMUM_WORKERS = 4
"""Maximum partitions recomputed at a time by default: each may use as much memory as an engine task."""


@dataclass(frozen=True)
class StagedAttempt:
    """One attempt at one plan, and its staging manifest."""

    uri: str
    plan: Plan
    manifest: StagingManifest
    plan_sha256: str | None = None

    @cached_property
    def key(self) -> tuple[str, str]:
        """Plan and staging manifest: an attempt whose manifest was written again has other files."""
        return self.plan.plan_id, documents.compute_digest(self.manifest)

    @property
    def size_bytes(self) -> int:
        """Maximum bytes read to recompute it."""
        return estimate_bytes_to_read(self.plan, self.manifest)


class FactRecomputer:
    """Recomputes attempts, on demand or all ahead (:meth:`begin`). Use as a context manager."""

    def __init__(self, installation: Installation, progress: Progress | None = None) -> None:
        self._installation = installation
        self._progress = progress
        self._pool = FactWorkers(
            installation.settings.facts.workers or min(MAXIMUM_WORKERS, os.cpu_count() or 1),
            memory_limit_bytes=installation.budget.memory_limit_bytes,
            threads=installation.budget.threads,
            spill_folder=installation.budget.spill_folder,
        )
        self._begun: dict[tuple[str, str], dict[int, Future[IndependentFacts]]] = {}
        self._large: list[StagedAttempt] = []
        self._in_spark = threading.Lock()
        self._digests: dict[tuple[str, str], str] = {}
        """Digests of documents that this process's applications wrote; other files there are not trusted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pool.__exit__(kind, error, trace)

    def begin(self, plan: PlanReference, attempt: str) -> None:
        """Start recomputing ``attempt`` at ``plan``, if it left a staging manifest."""
        with suppress(WinnowError, OSError):  # validation meets the error again and reports it
            document, sha256 = staging.read_plan_and_digest(plan.uri, plan.sha256)
            manifest = staging.read_manifest(plan.uri, attempt)
            if manifest is not None:
                self._begin(StagedAttempt(plan.uri, document, manifest, sha256))

    def rows(self, attempt: StagedAttempt) -> list[FactRow]:
        """Compute the fact table of one attempt.

        Raises:
            ServiceError: the object store cannot be reached, or Spark cannot be started.
            ValidationBrokenError: the recomputation itself failed.
        """
        if attempt.key not in self._begun and attempt not in self._large:
            self._begin(attempt)
        if attempt in self._large:
            with self._in_spark:  # one application for all, whichever thread needs its facts first
                found = self._recompute_in_spark(attempt)
        else:
            found = {number: future.result() for number, future in self._begun.pop(attempt.key).items()}
        return make_fact_rows(attempt.plan, attempt.manifest, found)

    def _begin(self, attempt: StagedAttempt) -> None:
        if attempt.size_bytes >= self._installation.settings.facts.spark_from_bytes:
            self._large.append(attempt)
        else:
            self._begun[attempt.key] = self._pool.begin(attempt.plan, attempt.manifest)

    def _recompute_in_spark(self, attempt: StagedAttempt) -> dict[int, IndependentFacts]:
        figures = self._left(attempt)
        if figures is None:
            # Other large attempts are included: starting an application costs more than reading a topic.
            missing = [each for each in self._large if self._left(each) is None]
            failures = self._submit([each for each in missing if each.manifest.attempt == attempt.manifest.attempt])
            if attempt.plan.plan_id in failures:
                raise _build_error(attempt.plan, failures[attempt.plan.plan_id])
            figures = self._left(attempt)
        if figures is None:
            raise ValidationBrokenError(
                f"The facts of plan {attempt.plan.plan_id} of topic {attempt.plan.topic} could not be recomputed: the "
                "Spark application left none of this attempt, or not of every partition.",
                left="Nothing was published and no partition was marked.",
                next="Validate again.",
            )
        return {number: parse_figures(each) for number, each in figures.items()}

    def _submit(self, attempts: Sequence[StagedAttempt]) -> dict[str, PlanFailure]:
        references = [
            PlanReference(
                a.plan.topic, a.plan.plan_id, a.uri, len(a.plan.partitions), a.size_bytes, None, a.plan_sha256
            )
            for a in attempts
        ]
        name = attempts[0].manifest.attempt
        options = ["--attempt", name, *build_engine_arguments(self._installation.settings)]
        job = [
            find_job_file(JOB_NAME),
            *options,
            *[staging.format_plan_argument(each.uri, each.sha256) for each in references],
        ]
        done = run_job(
            self._installation.settings, job, name=f"winnow facts {name}", plans=references, progress=self._progress
        )
        self._digests |= {a.key: done.digests[a.plan.plan_id] for a in attempts if a.plan.plan_id in done.digests}
        return done.failures

    def _left(self, attempt: StagedAttempt) -> dict[int, FactValues] | None:
        """Read the facts that this process's Spark application wrote for ``attempt``; None: not of every partition."""
        sha256 = self._digests.get(attempt.key)
        figures = None if sha256 is None else read_facts(attempt.uri, attempt.manifest, sha256)
        wanted = {partition.partition for partition, _ in pair_partitions(attempt.plan, attempt.manifest)}
        return figures if figures is not None and figures.keys() == wanted else None


def _build_error(plan: Plan, failure: PlanFailure) -> WinnowError:
    kind = ServiceError if failure.exit_code == ServiceError.exit_code else ValidationBrokenError
    return kind(
        f"The facts of plan {plan.plan_id} of topic {plan.topic} could not be recomputed in Spark: {failure.error}",
        "Nothing was published and no partition was marked.",
        "Validate again.",
    )
