"""Carries out an update of the side table with Spark applications: what its rows need is known before they are written.

Only this process gives columns their field ids. Tasks write with the columns that there are; where rows need others,
a task finds all that its partition needs instead, and that partition is written by the next application. So most
updates are one application, the first of a table is two.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, NoReturn

from winnow.engine.events import PlanFailure
from winnow.engine.job_notes import JobNote
from winnow.engine.latest_plans import (
    LATEST_JOB,
    PartitionUpdatePlan,
    PartitionUpdateResult,
    UpdatePlan,
    UpdateResult,
    remove_written,
)
from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import ConfigurationError, DamagedSegmentError, Explanation, RunAgainError, make_error
from winnow.files import private_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import TableRows
from winnow.pipeline.latest.state import explain_scan_errors, explain_table_damage
from winnow.pipeline.spark.plan_job import run_plan_job
from winnow.pipeline.spark.submit import is_driver_here
from winnow.pipeline.topics.topic_view import TopicView
from winnow.quality.latest_facts import NOTHING_UPDATED
from winnow.schemas.row_task import RowSecrets, decode_types

MAXIMUM_APPLICATIONS: Final = 4
"""Maximum applications of one update: what a partition needs is known after its first."""


@dataclass(frozen=True, slots=True)
class SparkUpdate:
    """One update. ``order``: of winners; ``rows``: make rows, None: they are records; ``folder``: of new files."""

    installation: Installation
    view: TopicView
    order: RecordOrder
    rows: TableRows | None
    folder: str

    def run(self, parts: Sequence[PartitionUpdatePlan]) -> list[PartitionUpdateResult]:
        """Have the files of ``parts`` written, synced and judged; on a failure they are deleted again.

        Raises:
            DamagedSegmentError, RunAgainError, ServiceError, ConfigurationError: as of an update in one process, or of
                Spark.
        """
        done: list[PartitionUpdateResult] = []
        waiting = list(parts)
        try:
            for _ in range(MAXIMUM_APPLICATIONS):
                results = self._submit(self._make_plan(waiting))
                done += [result for result in results if result.update is not None]
                learned = {result.partition: result.types for result in results if result.update is None}
                if not learned:
                    return done
                for number in sorted(learned):
                    assert self.rows is not None
                    self.rows.maker.learn(decode_types(learned[number]))
                waiting = [part for part in waiting if part.partition in learned]
            raise RunAgainError(
                f"The columns of the latest state of topic {self.view.log.topic} kept changing while rows were made.",
                left=NOTHING_UPDATED,
                next=f"Run it again: winnow latest-table update {self.view.log.topic}",
            )
        except BaseException:
            remove_written(self.folder, done)
            raise

    def _make_plan(self, parts: Sequence[PartitionUpdatePlan]) -> UpdatePlan:
        log = self.view.log
        rows = self.rows
        return UpdatePlan(
            plan_id=uuid.uuid4().hex,
            topic=log.topic,
            folder=self.folder,
            order=self.order,
            parts=tuple(parts),
            typed=None if rows is None else rows.describe(),
            learns=rows is not None and not rows.maker.columns.num_fields,
            max_undecoded_ratio=self.view.config.latest_max_undecoded_ratio,
        )

    def _submit(self, plan: UpdatePlan) -> tuple[PartitionUpdateResult, ...]:
        with ExitStack() as stack:
            result = run_plan_job(
                self.installation.settings,
                JobNote(LATEST_JOB, plan.topic, plan.plan_id, self.installation.now_ms()),
                plan,
                UpdateResult,
                title=f"winnow latest {plan.topic}",
                units=len(plan.parts),
                size_bytes=sum(part.size_bytes for part in plan.parts),
                options=self._write_secrets(stack),
            )
        if isinstance(result, PlanFailure):
            self._raise_failure(plan, result)
        return result.parts

    def _write_secrets(self, stack: ExitStack) -> list[str]:
        """Write what no document may say into a file for the application's driver; return the argument that names it.

        Raises:
            ConfigurationError: the driver runs elsewhere.
        """
        if self.rows is None:
            return []
        settings = self.installation.settings
        if not is_driver_here(settings):
            raise ConfigurationError(
                "The driver of Spark applications runs on the cluster, where it cannot read what typed rows need.",
                left=NOTHING_UPDATED,
                next=f"Update it in one process: winnow latest-table update {self.view.log.topic} --engine local",
            )
        secrets = RowSecrets(self.rows.secret, settings.schema_registry)
        folder = stack.enter_context(private_files.make_private_folder(settings.private_folder))
        return ["--secrets", str(private_files.write_file(folder / "secrets.json", secrets.dump()))]

    def _raise_failure(self, plan: UpdatePlan, failure: PlanFailure) -> NoReturn:
        logs = {partition.partition: partition for partition in self.view.partitions}
        parts = {part.partition: part for part in plan.parts}
        for failed in failure.partitions:
            part = parts[failed.partition]
            with explain_table_damage(plan.topic, part.rows), explain_scan_errors(self.view.log, logs[part.partition]):
                if failed.exit_code == DamagedSegmentError.exit_code:
                    raise DamagedSegmentError(failed.error)
                raise make_error(failed.exit_code, Explanation(failed.error))
        raise make_error(failure.exit_code, Explanation(failure.error, NOTHING_UPDATED))
