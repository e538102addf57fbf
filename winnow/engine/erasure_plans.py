"""What an erasure of keys has tasks do, and what came of it, as documents. Keys are in them as keyed digests alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from winnow.values.erasures import ErasedPartition
from winnow.values.model import Segment

ERASE_JOB: Final = "erase"
"""The program, below jobs/; its plans and results lie below the folder of this name in the staging area."""
SEARCH, REWRITE, CHECK = "search", "rewrite", "check"
"""Steps: count the records of the keys in files; write segments again without them; compute what that made of them."""


@dataclass(frozen=True, slots=True)
class ErasureFile:
    """A file to search, or to write again. ``number``: in the plan.

    ``segment``: it is one of the log; None: it is in no manifest. ``folder``: how the name of the folder begins in
    which it is written again without the keys, another one each time; None: only its digest is computed.
    ``tombstones``: offsets of records that stay as tombstones.
    """

    number: int
    path: str
    size_bytes: int
    segment: Segment | None = None
    folder: str | None = None
    tombstones: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ErasureJobPlan:
    """One step. ``hashes``: as of :class:`winnow.values.erasures.ErasureDocument`; a key's number is its place there.

    ``location``: the table's folder. ``files``: of a search or a rewriting. ``parts``: of a check.
    """

    plan_id: str
    step: str
    topic: str
    table_uuid: str
    key_id: str
    hashes: str
    location: str
    files: tuple[ErasureFile, ...] = ()
    parts: tuple[ErasedPartition, ...] = ()
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class ErasureOutcome:
    """What came of a file.

    ``records``: of the keys, in a search. ``keys``, ``offsets``: the numbers of the keys of a segment, and the highest
    offset of each. ``segments``, ``sha256``: those written in place of a segment, and the digest of the file itself, in
    a rewriting. ``finding``: ``missing`` or ``damaged``, None: neither. ``exit_code``: of what kept it from being read
    or written, 0: nothing did. ``text``: says either.
    """

    number: int
    records: int = 0
    keys: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    segments: tuple[Segment, ...] = ()
    sha256: str = ""
    finding: str | None = None
    text: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class ErasureJobResult:
    """What came of all files of a plan, by number, or the fact table of a check."""

    plan_id: str
    outcomes: tuple[ErasureOutcome, ...] = ()
    rows: tuple[dict[str, int | str], ...] = ()
    format_version: int = 1
