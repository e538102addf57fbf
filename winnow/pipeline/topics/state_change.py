"""Commits a change of partition states alone: a snapshot without files, or nothing if no state changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from winnow.log.head import Change, Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.overview import refresh_overview
from winnow.report.events import log_event
from winnow.values.topic_state import PartitionState, TopicState


class _UnchangedError(Exception):
    """No state needs a change."""


def change_states(
    installation: Installation,
    topic: str,
    change: Callable[[TopicState], Mapping[int, PartitionState]],
    *,
    operation: str,
    summary: Mapping[str, str] | None = None,
    note: Callable[[TopicState], TopicState] = lambda state: state,
    log: TopicLog | None = None,
) -> tuple[TopicState, bool]:
    """Commit the partition states that ``change`` makes of the carried state; return them, and whether any changed.

    ``change`` is called again if another commit came first; ``note`` adds to the state what it did. ``log``: by which
    the caller has looked at the topic, so that no other one of its name is changed. The metadata store
    is updated even if nothing changed, so repeating a call repairs the store after a crash between the commit and the
    store.

    Raises:
        CommitConflictError, CommitUnknownError, ServiceError, UnknownTopicError, ForeignTableError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`; also the errors of ``change``.
    """
    log = log or installation.log.open(topic)
    moved: list[int] = []

    def build(head: Head) -> Change:
        states = {**head.state.partitions, **change(head.state)}
        moved[:] = [number for number, each in sorted(states.items()) if each != head.state.partitions.get(number)]
        if states == head.state.partitions:
            raise _UnchangedError
        return Change(
            state=note(replace(head.state, partitions=states)),
            summary={"winnow.operation": operation, **(summary or {})},
        )

    try:
        committed = log.commit(build)
        changed = True
        log_event("state_changed", topic, operation=operation, partitions=moved, snapshot_id=str(committed.snapshot_id))
    except _UnchangedError:
        changed = False
    # Read the present state, not the committed one: another commit may have come after it.
    head = log.head()
    installation.store.projection.record_states(
        topic, head.state.partitions, installation.now_ms(), table_uuid=head.table_uuid
    )
    refresh_overview(installation, topic, head)
    return head.state, changed
