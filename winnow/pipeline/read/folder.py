"""Writes what a command reads into a folder of Parquet files, in this process or on Spark; all files appear at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from winnow.engine.events import PlanFailure
from winnow.engine.job_notes import JobNote, remove_staged_files
from winnow.engine.read_parts import collect_read_results, run_read_part
from winnow.engine.read_plans import READ_JOB, ReadFile, ReadPlan, ReadResult, locate_read_files, name_read_file
from winnow.errors import DamagedSegmentError, PlanVoidError, RunAgainError, UsageError, make_error
from winnow.files import disk_sync, private_files
from winnow.files.file_copies import ContentDiffersError, copy_file
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.plan_job import run_plan_job

NOTHING_WRITTEN: Final = "Nothing was written."


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """What was written: rows and files."""

    rows: int
    files: int


def write_folder(
    installation: Installation, log: TopicLog, plan: ReadPlan, target: Path, engine: str | None = None
) -> WrittenFolder:
    """Write the files of ``plan`` into the empty folder ``target``.

    They are written where nobody reads; then the folder that holds them all takes the place of the empty one, which
    keeps its rights. ``engine``: ``local`` or ``spark``; None: by the size of what is read
    (``read.spark_from_bytes``).

    Raises:
        UsageError: the folder is not empty any more.
        RunAgainError: a segment, or what tasks wrote, was swept meanwhile.
        PlanVoidError: a staged file is not the one that a task wrote.
        DamagedSegmentError: a segment is missing or cannot be read.
        ConfigurationError, ServiceError: of Spark, an object store or the disk.
        OSError: the folder cannot be written or replaced.
    """
    place = target.resolve()
    with private_files.make_draft_folder(place) as draft:
        large = plan.size_bytes >= installation.settings.read.spark_from_bytes
        if engine == "spark" or (engine is None and large):
            files = _write_on_spark(installation, log, plan, draft)
        else:
            files = _write_here(installation, log, replace(plan, root=str(draft), folder=str(draft)))
            for file, named in zip(files, _list_targets(files, draft), strict=True):
                Path(file.uri).rename(named)
        disk_sync.sync_folder(draft)
        shutil.copymode(place, draft)
        _replace_empty_folder(draft, place)
    return WrittenFolder(sum(file.rows for file in files), len(files))


def _write_here(installation: Installation, log: TopicLog, plan: ReadPlan) -> tuple[ReadFile, ...]:
    results = []
    for part in plan.parts:
        results.append(run_read_part(plan, part, installation.budget))
        if "error" in results[-1]:
            break
    return _take_files(log, plan, collect_read_results(plan, results))


def _write_on_spark(installation: Installation, log: TopicLog, plan: ReadPlan, draft: Path) -> tuple[ReadFile, ...]:
    """Have the files written in the staging area, and copy them into ``draft``."""
    settings = installation.settings
    staged = replace(plan, root=settings.staging, folder=locate_read_files(settings.staging, plan.topic, plan.plan_id))
    note = JobNote(READ_JOB, plan.topic, plan.plan_id, installation.now_ms())
    try:
        result = run_plan_job(
            settings,
            note,
            staged,
            ReadResult,
            title=f"winnow {plan.kind.command} {plan.topic}",
            units=len(plan.parts),
            size_bytes=plan.size_bytes,
        )
        files = _take_files(log, staged, result)
        targets = _list_targets(files, draft)
        for file, named in zip(files, targets, strict=True):
            _copy_file(file, named)
        disk_sync.sync_files(targets)
    finally:
        remove_staged_files(settings.staging, note)
    return files


def _list_targets(files: Sequence[ReadFile], draft: Path) -> list[Path]:
    return [draft / name_read_file(number) for number in range(len(files))]


def _take_files(log: TopicLog, plan: ReadPlan, result: ReadResult | PlanFailure) -> tuple[ReadFile, ...]:
    if isinstance(result, PlanFailure):
        _raise_failure(log, plan, result)
    return result.files


def _raise_failure(log: TopicLog, plan: ReadPlan, result: PlanFailure) -> NoReturn:
    if result.exit_code == DamagedSegmentError.exit_code:
        live = log.segments(log.head())
        failed = {failure.partition for failure in result.partitions}
        for part in plan.parts:
            if part.log.partition in failed and not set(part.log.segments) <= set(live.get(part.log.partition, ())):
                raise RunAgainError(
                    f"A segment of {plan.topic}-{part.log.partition} was swept while it was being read.",
                    left=NOTHING_WRITTEN,
                    next="Run it again: it reads the newest snapshot. If that repeats, raise winnow.retired.grace.ms.",
                )
        raise DamagedSegmentError(
            result.error, left=NOTHING_WRITTEN, next=f"What of the topic is damaged: winnow scrub {plan.topic}"
        )
    raise make_error(result.exit_code, result.explanation._replace(left=NOTHING_WRITTEN))


def _copy_file(file: ReadFile, target: Path) -> None:
    try:
        copy_file(file.uri, str(target), file.digest)
    except FileNotFoundError as problem:
        raise RunAgainError(
            f"The file {file.uri}, which a task wrote, was deleted before it could be copied. A sweep does so where a "
            "reading takes longer than winnow.retired.grace.ms.",
            left=NOTHING_WRITTEN,
            next="Run it again. If that repeats, raise winnow.retired.grace.ms, or find out what else deletes there.",
        ) from problem
    except ContentDiffersError as problem:
        raise PlanVoidError(
            f"The file {file.uri} is not the one that a task wrote.",
            left=NOTHING_WRITTEN,
            next="Find out what else writes to the staging area, then run it again.",
        ) from problem


def _replace_empty_folder(draft: Path, place: Path) -> None:
    try:
        os.rename(draft, place)  # noqa: PTH104 - a folder replaces an empty one in one step
    except OSError:
        if any(place.iterdir()):
            raise UsageError(
                f"--output {place}: the folder is not empty any more.",
                left=NOTHING_WRITTEN,
                next="Name an empty folder.",
            ) from None
        raise
    disk_sync.sync_folder(place.parent)
