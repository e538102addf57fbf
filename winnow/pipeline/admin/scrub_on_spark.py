"""Has files of a scrub read by one Spark application."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from winnow.engine.events import PlanFailure
from winnow.engine.job_notes import JobNote
from winnow.engine.scrub_plans import FileOutcome, ScrubbedFile, ScrubPlan, ScrubResult
from winnow.errors import make_error
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.plan_job import run_plan_job
from winnow.values.model import Segment

JOB_NAME: Final = "scrub"
"""The program, below jobs/, that reads files."""


def read_on_spark(
    installation: Installation,
    files: Sequence[tuple[str, int, Segment | None, int]],
    bytes_per_second: float | None,
    follow: Callable[[int], None],
) -> tuple[FileOutcome, ...]:
    """Read ``files`` (path, bytes, the segment, records if it is none) in full; return what came of each, by number.

    ``bytes_per_second``: average rate of all tasks together. ``follow``: called with the bytes read so far.

    Raises:
        ConfigurationError, ServiceError, WinnowError: the application did not end as it should.
    """
    plan = ScrubPlan(
        uuid.uuid4().hex,
        tuple(
            ScrubbedFile(number, path, size_bytes, records, segment)
            for number, (path, size_bytes, segment, records) in enumerate(files)
        ),
    )
    read_bytes = 0

    def note(event: dict[str, Any]) -> None:
        nonlocal read_bytes
        if event["event"] == "file":
            read_bytes += int(event["bytes"])
            follow(read_bytes)

    result = run_plan_job(
        installation.settings,
        JobNote(JOB_NAME, "", plan.plan_id, installation.now_ms()),
        plan,
        ScrubResult,
        title="winnow scrub",
        units=len(plan.files),
        size_bytes=sum(file.size_bytes for file in plan.files),
        options=[] if bytes_per_second is None else ["--bytes-per-second", str(bytes_per_second)],
        progress=note,
    )
    if isinstance(result, PlanFailure):
        raise make_error(result.exit_code, result.explanation)
    return result.outcomes
