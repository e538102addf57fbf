"""Has the files of an erasure searched, written again and checked by Spark applications, where they are many bytes.

Keys go to tasks as keyed digests, and the secret in a private file. Numbers of keys in a result are places in the
sorted digests; those of a :class:`winnow.files.key_sets.KeySet` are places in the digests as they are given here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from winnow.config.settings import Settings
from winnow.engine.erasure_plans import (
    CHECK,
    ERASE_JOB,
    REWRITE,
    SEARCH,
    ErasureFile,
    ErasureJobPlan,
    ErasureJobResult,
    ErasureOutcome,
)
from winnow.engine.events import PlanFailure
from winnow.engine.job_notes import JobNote
from winnow.errors import ConfigurationError, Explanation, ValidationBrokenError, make_error
from winnow.files.checked_reading import make_damage_error
from winnow.log.head import Head
from winnow.pipeline.erased_keys import open_secret_file
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.plan_job import run_plan_job
from winnow.pipeline.spark.submit import is_driver_here
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.values.erasures import ErasedPartition, compute_key_id, encode_digests
from winnow.values.model import Segment

SPARK: Final = "spark"
Follow = Callable[[int], None]
"""Called with the bytes of files that were read so far."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What tasks made of a file: the segments in its place, none if it is in no manifest, and its own sha256."""

    segments: tuple[Segment, ...]
    sha256: str


class ErasureTasks:
    """The applications of one erasure.

    Args:
        installation: where.
        head: of the topic.
        secret: of the digests.
        digests: of the keys, by their numbers.
        engine: ``local`` or ``spark``; None: by the bytes (``erase.spark_from_bytes``).
        call_id: of the erasure; names the documents, which a sweep deletes of one that died.
        begin: called before each application; writes the row by which a sweep knows the call.

    Raises:
        ConfigurationError: ``engine`` asks for Spark, whose driver cannot read the secret.
    """

    def __init__(
        self,
        installation: Installation,
        head: Head,
        secret: bytes,
        digests: Sequence[bytes],
        engine: str | None,
        *,
        call_id: str,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._installation, self._secret, self._engine = installation, secret, engine
        self._call_id, self._begin, self._applications = call_id, begin, 0
        self._topic, self._table_uuid, self._location = head.state.topic, head.table_uuid, head.location
        self._hashes = encode_digests(digests)
        self._numbers = sorted(range(len(digests)), key=digests.__getitem__)
        if engine == SPARK and not is_driver_here(self._settings):
            raise ConfigurationError(
                "Spark's driver runs on the cluster, where it cannot read the secret of the digests of erased keys.",
                left=NOTHING_ERASED,
                next="Leave --engine out, or set spark.submit.deployMode to client.",
            )

    @property
    def _settings(self) -> Settings:
        return self._installation.settings

    def is_wanted_for(self, size_bytes: int) -> bool:
        """Check whether tasks read or write files of ``size_bytes`` together, and not this process."""
        if self._engine is not None or not size_bytes:
            return self._engine == SPARK and size_bytes > 0
        return size_bytes >= self._settings.erase.spark_from_bytes and is_driver_here(self._settings)

    def search(
        self, segments: Sequence[Segment], others: Sequence[tuple[str, int]], follow: Follow
    ) -> tuple[list[ErasureOutcome], list[ErasureOutcome]]:
        """Search live ``segments`` and ``others`` (path, bytes), which are in no manifest; return what came of each.

        Raises:
            DamagedSegmentError: a live segment is missing or damaged.
            ConfigurationError, ServiceError, WinnowError: the application did not end as it should.
        """
        files = [ErasureFile(number, each.path, each.size_bytes, each) for number, each in enumerate(segments)]
        files += [
            ErasureFile(number, path, size_bytes) for number, (path, size_bytes) in enumerate(others, len(segments))
        ]
        outcomes = [self._renumber(each) for each in self._process_files(SEARCH, files, segments, follow)]
        return outcomes[: len(segments)], outcomes[len(segments) :]

    def rewrite(
        self, wanted: Iterable[tuple[Segment, str, frozenset[int]]], others: Sequence[tuple[str, int]]
    ) -> Mapping[str, WrittenFile]:
        """Write segments again, each into a folder and with tombstones at some offsets; return what was made, by path.

        ``others``: files (path, bytes) of which only the digest is wanted.

        Raises:
            As :meth:`search`.
        """
        chosen = list(wanted)
        files = [
            ErasureFile(number, segment.path, segment.size_bytes, segment, folder, tuple(sorted(tombstones)))
            for number, (segment, folder, tombstones) in enumerate(chosen)
        ]
        files += [
            ErasureFile(number, path, size_bytes) for number, (path, size_bytes) in enumerate(others, len(chosen))
        ]
        outcomes = self._process_files(REWRITE, files, [segment for segment, *_ in chosen])
        return {file.path: WrittenFile(each.segments, each.sha256) for file, each in zip(files, outcomes, strict=True)}

    def check(self, parts: Sequence[ErasedPartition]) -> list[dict[str, int | str]]:
        """Compute the fact table of partitions, as :func:`winnow.quality.erasure_facts.compute_erasure_facts`.

        Raises:
            DamagedSegmentError, ValidationBrokenError: as there.
            ConfigurationError, ServiceError, WinnowError: the application did not end as it should.
        """
        size_bytes = sum(segment.size_bytes for part in parts for segment in (*part.replaced, *part.written))
        result = self._run(CHECK, size_bytes, parts=tuple(parts))
        _raise_first(result.outcomes)
        if sorted(int(row["partition"]) for row in result.rows) != sorted(part.partition for part in parts):
            raise ValidationBrokenError(
                f"The erasure of keys of topic {self._topic} was not checked in every partition.",
                left=NOTHING_ERASED,
                next="Run it again.",
            )
        return [dict(row) for row in result.rows]

    def _process_files(
        self, step: str, files: Sequence[ErasureFile], segments: Sequence[Segment], follow: Follow = lambda done: None
    ) -> Sequence[ErasureOutcome]:
        """Carry out ``step`` on ``files``, the first of which are ``segments`` of the log."""
        size_bytes = sum(file.size_bytes for file in files)
        outcomes = self._run(step, size_bytes, files=tuple(files), follow=follow).outcomes
        _raise_first(outcomes)
        for segment, outcome in zip(segments, outcomes, strict=False):
            if outcome.finding is not None:
                raise make_damage_error(self._topic, segment, outcome.text or outcome.finding, NOTHING_ERASED)
        return outcomes

    def _renumber(self, outcome: ErasureOutcome) -> ErasureOutcome:
        return replace(outcome, keys=tuple(self._numbers[number] for number in outcome.keys))

    def _run(
        self,
        step: str,
        size_bytes: int,
        *,
        files: tuple[ErasureFile, ...] = (),
        parts: tuple[ErasedPartition, ...] = (),
        follow: Follow = lambda done: None,
    ) -> ErasureJobResult:
        self._begin()
        self._applications += 1
        plan = ErasureJobPlan(
            plan_id=f"{self._call_id}-{self._applications}",
            step=step,
            topic=self._topic,
            table_uuid=self._table_uuid,
            key_id=compute_key_id(self._secret),
            hashes=self._hashes,
            location=self._location,
            files=files,
            parts=parts,
        )

        done_bytes = 0

        def note(event: dict[str, Any]) -> None:
            nonlocal done_bytes
            if event["event"] == "file":
                done_bytes += int(event["bytes"])
                follow(done_bytes)

        with open_secret_file(self._installation, self._secret) as options:
            result = run_plan_job(
                self._settings,
                JobNote(ERASE_JOB, self._topic, plan.plan_id, self._installation.now_ms()),
                plan,
                ErasureJobResult,
                title=f"winnow erase: {step}",
                units=len(files) + len(parts),
                size_bytes=size_bytes,
                options=options,
                progress=note,
            )
        if isinstance(result, PlanFailure):
            raise make_error(result.exit_code, result.explanation).with_left(NOTHING_ERASED)
        return result


def _raise_first(outcomes: Iterable[ErasureOutcome]) -> None:
    for outcome in outcomes:
        if outcome.exit_code:
            raise make_error(outcome.exit_code, Explanation(outcome.text or "")).with_left(NOTHING_ERASED)
