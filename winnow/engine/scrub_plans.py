"""What a scrub has tasks read, and what came of it, as documents."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.values.model import Segment


@dataclass(frozen=True, slots=True)
class ScrubbedFile:
    """A file to read. ``segment``: it is one; None: it holds ``records`` of the quarantine. ``number``: in the plan."""

    number: int
    path: str
    size_bytes: int
    records: int
    segment: Segment | None = None


@dataclass(frozen=True, slots=True)
class ScrubPlan:
    """Files to read."""

    plan_id: str
    files: tuple[ScrubbedFile, ...]
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What came of a file. ``finding``: ``missing`` or ``damaged``, None: it is what was written.

    ``exit_code``: of what kept it from being read, 0: nothing did; ``text`` says what.
    """

    number: int
    finding: str | None = None
    text: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class ScrubResult:
    """What came of all files of a plan."""

    plan_id: str
    outcomes: tuple[FileOutcome, ...]
    format_version: int = 1
