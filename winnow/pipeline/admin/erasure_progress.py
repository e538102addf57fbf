"""Notes in the state what a sweep deleted, and how far erasures have come.

When their files were gone, and from when on none can come again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS
from winnow.errors import WinnowError
from winnow.log.erasure_register import ErasureRegister
from winnow.log.head import Change, Head
from winnow.log.snapshot_expiry import FileReferences
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.erased_versions import has_open_erasures, remove_erased_versions
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.table_files import find_reflected_snapshot
from winnow.values.topic_state import ErasureReference, TopicState

LOG = logging.getLogger("winnow")


def open_register(installation: Installation) -> ErasureRegister:
    """Open the register of erasures of ``installation``."""
    return ErasureRegister(installation.settings.erase.register_folder)


def register_erasures(installation: Installation, head: Head) -> frozenset[str]:
    """Register the erasures of ``head`` as far as the register can be written; return the ids of those that it has.

    What cannot be written is a warning: their certificates stay open, and the next sweep tries again.
    """
    try:
        return open_register(installation).complete(head.state, head.table_uuid)
    except (WinnowError, OSError) as problem:
        LOG.warning(
            "Erasures of topic %s are not in the register of erasures (%s): %s",
            head.state.topic,
            installation.settings.erase.register_folder,
            problem,
        )
        return frozenset()


class _NothingChangedError(Exception):
    """No file was deleted, and no erasure has come further."""


def commit_deletions(
    installation: Installation, log: TopicLog, gone: set[str], swept: Head, referenced: FileReferences
) -> str:
    """Take deleted files out of the state, and note which erasures are through with that and with their versions.

    Returns why the store still has versions of files with erased keys; empty: it has none.
    """
    kept_versions = remove_erased_versions(installation, swept, referenced)
    # An erasure that came since is left to the next sweep: nobody has looked for versions of its files.
    through = () if kept_versions else tuple(each.erasure_id for each in swept.state.erasures)
    registered = register_erasures(installation, swept)

    def build(head: Head) -> Change:
        state = _drop_deleted_files(head.state, gone)
        state = note_erasures(installation, log, head, state, through, registered)
        if state == head.state:
            raise _NothingChangedError
        return Change(state=state, summary={"winnow.operation": "sweep"})

    with suppress(_NothingChangedError):
        log.commit(build)
    return kept_versions


def _drop_deleted_files(state: TopicState, gone: set[str]) -> TopicState:
    if not gone:
        return state
    return replace(state, condemned=tuple(file for file in state.condemned if file.path not in gone))


def note_erasures(
    installation: Installation,
    log: TopicLog,
    head: Head,
    state: TopicState,
    through: Collection[str],
    registered: Collection[str],
) -> TopicState:
    """Return ``state``, what a sweep makes of that of ``head``, with the progress of its erasures.

    The files of an erasure are gone if none is condemned any more, it is ``through`` with their versions in the store,
    and the table of the latest state shows the log after it. It is closed once no process is left that began before it:
    every run of the topic was found empty twice, a grace apart, and no ingest call from before is open, and if it is
    among the ``registered`` ones.
    """
    if not has_open_erasures(state):
        return state
    now_ms = installation.now_ms()
    reflected = _list_reflected(installation, log, head)

    def note(each: ErasureReference) -> ErasureReference:
        if each.lifts or each.closed_at_ms is not None or each.erasure_id not in through:
            return each
        if each.deleted_at_ms is None:
            waits = state.list_erased_files(each.erasure_id)
            shown = reflected is None or each.erasure_id in reflected
            if waits or not shown:
                return each
            each = replace(each, deleted_at_ms=now_ms)
        is_open = each.erasure_id not in registered or _is_any_left(installation, state, each)
        return each if is_open else replace(each, closed_at_ms=now_ms)

    return replace(state, erasures=tuple(note(each) for each in state.erasures))


def _list_reflected(installation: Installation, log: TopicLog, head: Head) -> frozenset[str] | None:
    """List the erasures in the log that the table of the latest state shows; None: the topic keeps no such table."""
    if not log.config(head).latest_table:
        return None
    snapshot_id = find_reflected_snapshot(installation, log.topic)
    if snapshot_id is None:
        return frozenset()
    try:
        shown = log.snapshot(snapshot_id).state
    except WinnowError:
        return frozenset()
    return frozenset(each.erasure_id for each in shown.erasures)


def _is_any_left(installation: Installation, state: TopicState, erasure: ErasureReference) -> bool:
    """Check whether a process may be left that began before ``erasure`` and could write a file with such a key.

    Its commit voided the ingest calls that it knew to be open, and raised the fence above that of all attempts. Others
    may have been opened before its files were gone, by a clock that is behind.
    """
    store, topic = installation.store, state.topic
    deleted_at_ms = erasure.deleted_at_ms or 0
    runs = [*store.runs.list_open(topic), *store.runs.list_to_sweep(topic, installation.now_ms())]
    return any(run.fence < erasure.fence for run in runs) or any(
        state.is_voided(call.ingest_id, call.number) or call.opened_at_ms <= deleted_at_ms + MAXIMUM_CLOCK_SKEW_MS
        for call in store.ingests.list_open(topic)
    )
