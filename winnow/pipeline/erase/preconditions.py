"""Checks what would keep records of erased keys although they leave the log."""

from __future__ import annotations

from collections.abc import Collection

from winnow.errors import EraseRefusedError
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.erase.scan import list_pins
from winnow.pipeline.installation import Installation
from winnow.quality.erasure_facts import NOTHING_ERASED


def require_no_stale_table(installation: Installation, log: TopicLog, head: Head) -> None:
    """Check that no table of the latest state is there that no update takes erased rows out of.

    Raises:
        EraseRefusedError: there is one.
    """
    if not log.config(head).latest_table and installation.log.latest_table(log.topic).table() is not None:
        raise EraseRefusedError(
            f"Topic {log.topic} has a table of its latest state that is not brought up to date any more, and may hold "
            "such records.",
            left=NOTHING_ERASED,
            next=f"Drop it first: winnow latest-table drop {log.topic}",
        )


def require_no_pins(head: Head, snapshots: Collection[int], *, break_pins: bool) -> None:
    """Check that no tag or branch keeps one of the ``snapshots`` with such records, unless it is to be broken.

    Raises:
        EraseRefusedError: one does.
    """
    pins = list_pins(head, snapshots)
    if pins and not break_pins:
        raise EraseRefusedError(
            f"Keys of topic {head.state.topic} were not erased: {', '.join(pins)} "
            f"{'keeps' if len(pins) == 1 else 'keep'} a snapshot with such records. A restore into Kafka that is at "
            "work pins the snapshot that it reads.",
            left=NOTHING_ERASED,
            next="Wait until it has ended, or run it again with --break-pins, which ends it.",
        )
