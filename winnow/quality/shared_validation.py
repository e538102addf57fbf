"""Validates the fact tables of several attempts with one run of Great Expectations.

A run of the suite costs almost the same for one row as for a thousand, and a page as well. The suite judges row by row,
so the rows of many attempts can stand in one table. What it says of them counts only if everything holds: then
everything holds for each attempt, and each gets its own verdict. Otherwise the attempts with failing rows are judged
alone, as if there were no others, and the rest together again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.quality.gx_runtime import (
    DEFAULT_KEPT_VALIDATIONS,
    GX_LOCK,
    find_raised_exception,
    index_results_by_id,
    keep_newest,
    lock_site,
)
from winnow.quality.gx_session import get_session
from winnow.quality.suites import STRUCTURAL_SUITE, Suite, SuiteFindings, is_row_wise, load_suite
from winnow.quality.validation import find_missing_value, validate_fact_table
from winnow.values.results import Verdict

if TYPE_CHECKING:
    from winnow.quality.gx_session import GxSession

LOG = logging.getLogger(__name__)

MAXIMUM_SHARED_ROWS = 5_000
"""Maximum rows of one shared table; a page and its result stay small."""

_PARTITION_LIMIT = 1 << 32
"""In a shared table ``partition`` is the attempt's number times this plus the partition, so it stays unique."""

_UNIQUE = ("expect_column_values_to_be_unique", {"column": "partition"})
"""The one expectation that compares rows; with the numbers above it says the same of many attempts."""


@dataclass(frozen=True)
class FactTable:
    """The fact table of one attempt. ``findings``: those of the topic's own suite, if it has one."""

    plan_id: str
    topic: str
    attempt: str
    rows: Sequence[Mapping[str, int | str]]
    findings: SuiteFindings | None = None


def validate_fact_tables(
    tables: Sequence[FactTable],
    *,
    checked_at_ms: int,
    data_docs: Path | None,
    suite: str = STRUCTURAL_SUITE,
    extra_folder: Path | None = None,
    keep_validations: int = DEFAULT_KEPT_VALIDATIONS,
    index: bool = True,
) -> list[Verdict | Exception]:
    """Judge ``tables``, and return for each its verdict, or the error with which judging it ended.

    The verdicts are those that :func:`winnow.quality.validation.validate_fact_table` gives. Attempts that passed
    together have one page.

    Raises:
        ConfigurationError: the suite is unknown or invalid.
    """
    reviewed = load_suite(suite, extra_folder)
    found: dict[int, Verdict | Exception] = {}
    for share in _share_out(reviewed, tables):
        waiting = share
        while len(waiting) > 1:
            run = _SharedRun(reviewed, {number: tables[number] for number in waiting}, checked_at_ms)
            suspects = run.judge(data_docs, keep_validations, index=index)
            if not suspects:
                found |= {number: run.make_verdict(number) for number in waiting}
                break
            waiting = [number for number in waiting if number not in suspects]
    for number, table in enumerate(tables):
        if number in found:
            continue
        try:
            found[number] = validate_fact_table(
                table.rows,
                plan_id=table.plan_id,
                topic=table.topic,
                attempt=table.attempt,
                checked_at_ms=checked_at_ms,
                suite=suite,
                findings=table.findings,
                data_docs=data_docs,
                extra_folder=extra_folder,
                keep_validations=keep_validations,
                index=index,
            )
        except Exception as problem:  # of this attempt only; the caller raises it where it handles the attempt
            found[number] = problem
    return [found[number] for number in range(len(tables))]


def _share_out(suite: Suite, tables: Sequence[FactTable]) -> list[list[int]]:
    """Divide the tables that can be judged together into shares of bounded size; return their numbers."""
    if not all(is_row_wise(suite, each) or (each.type, each.kwargs) == _UNIQUE for each in suite.expectations):
        return []
    shares: dict[tuple[str, ...], list[list[int]]] = {}
    sizes: dict[tuple[str, ...], int] = {}
    for number, table in enumerate(tables):
        if table.findings is not None or len(table.rows) > MAXIMUM_SHARED_ROWS or not _can_share(table):
            continue
        columns = tuple(table.rows[0])
        mine = shares.setdefault(columns, [])
        if not mine or sizes[columns] + len(table.rows) > MAXIMUM_SHARED_ROWS:
            mine.append([])
            sizes[columns] = 0
        mine[-1].append(number)
        sizes[columns] += len(table.rows)
    return [share for some in shares.values() for share in some]


def _can_share(table: FactTable) -> bool:
    """Check that the table has no gap, and partitions that the shared numbering can hold."""
    if find_missing_value(table.rows) is not None:
        return False
    partitions = [row.get("partition") for row in table.rows]
    return all(isinstance(each, int) and 0 <= each < _PARTITION_LIMIT for each in partitions)


class _SharedRun:
    """One run of a suite over the fact tables of several attempts, by their numbers."""

    def __init__(self, suite: Suite, tables: Mapping[int, FactTable], checked_at_ms: int) -> None:
        self._suite = suite
        self._tables = tables
        self._checked_at_ms = checked_at_ms
        self._page: str | None = None
        self._rows = [
            {**row, "partition": number * _PARTITION_LIMIT + int(row["partition"])}
            for number, table in tables.items()
            for row in table.rows
        ]

    def judge(self, data_docs: Path | None, keep: int, *, index: bool) -> set[int]:
        """Run the suite; return the numbers of attempts that have to be judged alone, none if all passed."""
        sites = [data_docs, None] if data_docs is not None else [None]
        for site in sites:
            try:
                with GX_LOCK, lock_site(site) if site is not None else nullcontext():
                    return self._judge(get_session(self._suite, site), site, keep, index=index)
            except OSError as problem:
                LOG.warning("The Data Docs page of %d topics could not be written: %s", len(self._tables), problem)
            except Exception as problem:  # GX has many; each attempt alone shows which one causes it
                LOG.warning("%d topics are validated one by one (%s).", len(self._tables), type(problem).__name__)
                break
        return set(self._tables)

    def make_verdict(self, number: int) -> Verdict:
        """Return the verdict of an attempt that passed with the others."""
        table = self._tables[number]
        return Verdict(
            plan_id=table.plan_id,
            topic=table.topic,
            attempt=table.attempt,
            passed=True,
            broken=False,
            failures=(),
            checked_at_ms=self._checked_at_ms,
            data_docs=self._page,
            expectations=len(self._suite.expectations),
        )

    def _judge(self, session: GxSession, site: Path | None, keep: int, *, index: bool) -> set[int]:
        result = session.run(self._rows, self._name_run(), self._checked_at_ms)
        suspects = self._find_suspects(list(result.results))
        if suspects or not result.success:
            session.discard(result)
            return suspects or set(self._tables)
        if site is not None:
            self._page = session.write_page(result, topics=sorted({each.topic for each in self._tables.values()}))
            keep_newest(site, keep)
            if index:
                session.write_index()
        return set()

    def _name_run(self) -> str:
        # No topic's name has a space, so this is never the name of a run over one.
        ids = "".join(f"{table.plan_id}/{table.attempt}\n" for table in self._tables.values())
        return f"{len(self._tables)} topics {hashlib.sha256(ids.encode()).hexdigest()[:12]}"

    def _find_suspects(self, results: Sequence[Any]) -> set[int]:
        """Find the attempts of which ``results`` do not say that every expectation holds for every row."""
        by_id = index_results_by_id(results)
        suspects: set[int] = set()
        for expectation in self._suite.expectations:
            result = by_id.get(expectation.id)
            if result is None or find_raised_exception(result.exception_info) is not None:
                return set(self._tables)
            if result.result.get("element_count") != len(self._rows):
                return set(self._tables)
            if not result.success:
                places = [int(place["partition"]) for place in result.result.get("unexpected_index_list") or ()]
                suspects |= {place // _PARTITION_LIMIT for place in places} & self._tables.keys() or set(self._tables)
        return suspects
