"""Chains the entries of the audit log by digest, so that one that was changed, removed or put in is noticed.

The digest of an entry is the SHA-256 of one line of ASCII: the JSON array of the digest of the entry before (empty for
the first), its number, ``entry_id``, ``at_ms``, ``topic``, ``actor``, ``action``, ``reason``, ``origin`` and
``detail``, and, where it is set, ``config_changes``, with no space between and every other character escaped as JSON
does. It is written in lowercase hex.

Retention removes entries from the beginning only. The digest of the last one that it removed stays, and the entry after
it is checked against that. Whoever may write to the database can still end the chain earlier, or compute all of it
anew: a digest that was written down elsewhere shows it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from winnow.store import bulk_statements, tables

CHAIN_NAME: Final = "audit"
"""The name of the only chain that there is."""
_CONTENT: Final = ("entry_id", "at_ms", "topic", "actor", "action", "reason", "origin", "detail")
_ROWS_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class AuditBreak:
    """The first place where the chain does not hold. ``number`` and the others None: no entry is there."""

    number: int | None
    at_ms: int | None
    entry_id: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class AuditChainReport:
    """The chain of the audit log. ``removed``: how many entries retention removed from its beginning.

    ``last_number`` and ``last_digest``: of the newest entry, as they are written down elsewhere.
    ``first_break`` None: every entry is as it was written. ``contains_expected`` None: no digest was to be found.
    """

    entries: int
    removed: int
    last_number: int
    last_digest: str
    first_break: AuditBreak | None
    contains_expected: bool | None = None


def compute_entry_digest(previous: str, row: tables.AuditTable) -> str:
    """Compute the digest of an entry that follows the one with the digest ``previous``."""
    content = [previous, row.number, *(getattr(row, name) for name in _CONTENT)]
    if row.config_changes is not None:  # entries from before the column keep their digests
        content.append(row.config_changes)
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()


def lock_chain(session: Session) -> tables.AuditChainTable:
    """Load the chain's end, and keep other writers away from it until this transaction ends."""
    chain = session.get(tables.AuditChainTable, CHAIN_NAME, with_for_update=True)
    if chain is not None:
        return chain
    last = session.scalar(select(tables.AuditTable).order_by(tables.AuditTable.number.desc()).limit(1))
    end = {"number": 0, "digest": ""} if last is None else {"number": last.number, "digest": last.digest}
    row = {"name": CHAIN_NAME, **end, "removed_number": 0, "removed_digest": ""}
    bulk_statements.insert_missing(session, tables.AuditChainTable, [row])
    return session.get_one(tables.AuditChainTable, CHAIN_NAME, with_for_update=True, populate_existing=True)


def append_entry(session: Session, chain: tables.AuditChainTable, row: tables.AuditTable) -> None:
    """Give ``row`` the next number of ``chain``, which this transaction has locked, and its digest; insert it."""
    row.number = chain.number + 1
    row.digest = compute_entry_digest(chain.digest, row)
    session.add(row)
    chain.number, chain.digest = row.number, row.digest


def remove_oldest(session: Session, before_ms: int, most: int) -> int:
    """Remove at most ``most`` entries from before ``before_ms`` from the chain's beginning; return how many.

    Clocks differ: an entry from before ``before_ms`` that follows a younger one stays until that one goes.
    """
    chain, row = lock_chain(session), tables.AuditTable
    first_kept = session.scalar(select(row.number).where(row.at_ms >= before_ms).order_by(row.number).limit(1))
    old = _select_oldest().with_only_columns(row.number, row.digest)
    if first_kept is not None:
        old = old.where(row.number < first_kept)
    removed = session.execute(old.limit(most)).all()
    if not removed:
        return 0
    chain.removed_number, chain.removed_digest = removed[-1]
    session.execute(delete(row).where(row.number <= chain.removed_number).execution_options(synchronize_session=False))
    return len(removed)


def check_chain(session: Session, expected: str | None = None) -> AuditChainReport:
    """Check every entry against the one before, and the last one against the chain's end.

    Args:
        session: a read transaction.
        expected: the digest of an entry that was written down elsewhere; None: none was.
    """
    chain = session.get(tables.AuditChainTable, CHAIN_NAME)
    end = (0, "", 0, "") if chain is None else (chain.number, chain.digest, chain.removed_number, chain.removed_digest)
    last_number, last_digest, removed, digest = end
    rows = session.scalars(_select_oldest().execution_options(yield_per=_ROWS_AT_ONCE))
    walk = _ChainWalk(removed, digest, expected)
    walk.follow(rows)
    if walk.first_break is None and (walk.number, walk.digest) != (last_number, last_digest):
        walk.first_break = _describe_end(walk.number, last_number)
    contains = None if expected is None else walk.contains_expected
    return AuditChainReport(walk.entries, removed, last_number, last_digest, walk.first_break, contains)


def _select_oldest() -> Select[tables.AuditTable]:
    return select(tables.AuditTable).order_by(tables.AuditTable.number)


def _describe_end(number: int, last_number: int) -> AuditBreak:
    if number < last_number:
        return AuditBreak(None, None, None, f"the entries {number + 1:,} to {last_number:,} are missing")
    return AuditBreak(None, None, None, f"the chain's end names another entry {last_number:,} than there is")


class _ChainWalk:
    """Follows the chain from the entry after number ``number``, whose digest is ``digest``, to its end."""

    def __init__(self, number: int, digest: str, expected: str | None) -> None:
        self.number = number
        self.digest = digest
        self.entries = 0
        self.first_break: AuditBreak | None = None
        self.contains_expected = expected is not None and digest == expected
        self._expected = expected

    def follow(self, rows: Iterable[tables.AuditTable]) -> None:
        """Check ``rows``, which are in the order of their numbers."""
        for row in rows:
            self.entries += 1
            if self.first_break is None:
                self._check(row)
            self.contains_expected = self.contains_expected or row.digest == self._expected
            self.number, self.digest = row.number, row.digest

    def _check(self, row: tables.AuditTable) -> None:
        problem = None
        if row.number != self.number + 1:
            problem = f"the entries {self.number + 1:,} to {row.number - 1:,} before it are missing"
        elif row.digest != compute_entry_digest(self.digest, row):
            problem = "it or the entry before it is not as it was written"
        if problem is not None:
            self.first_break = AuditBreak(row.number, row.at_ms, row.entry_id, problem)
