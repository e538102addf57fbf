"""Says where a key still is, and what took it away: the certificate of a key that no erasure was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.arrivals.erased_records import select_counting_erasures
from winnow.files.key_sets import GivenKeys
from winnow.log.erasures import read_erasures
from winnow.pipeline.erase.scan import KeyScans, Progress
from winnow.pipeline.erased_keys import load_secret
from winnow.pipeline.explain.why import explain_key
from winnow.pipeline.explain.why_answer import WhyAnswer
from winnow.pipeline.installation import Installation
from winnow.values.erasures import ErasedFile, KeyDigester


@dataclass(frozen=True, slots=True)
class HoldingFile:
    """A file that holds records of the key. ``until_ms``: when a sweep may delete it; None: it is live, or a leftover.

    ``place``: ``live``, ``retired`` (waits for the end of its grace), ``condemned`` (a sweep deletes it) or
    ``attempt``.
    """

    path: str
    place: str
    records: int
    size_bytes: int
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class KeyWhereabouts:
    """Where a key is. ``is_gone``: in none of the topic's files. ``erasure_id``: that counts for it, if one does.

    ``explanation``: which record won, in which run, or why there is none.
    """

    topic: str
    at_ms: int
    is_gone: bool
    erasure_id: str | None
    files: tuple[HoldingFile, ...]
    files_read: int
    bytes_read: int
    explanation: WhyAnswer


def find_key(
    installation: Installation, topic: str, key: bytes, progress: Progress = lambda done, total: None
) -> KeyWhereabouts:
    """Find every file of ``topic`` with records of ``key``; reads the key column of all.

    Raises:
        DamagedSegmentError, ServiceError, UnknownTopicError: as a read.
    """
    log = installation.log.open(topic)
    head = log.head()
    grace_ms = log.config(head).retired_grace_ms
    scans = KeyScans(topic, GivenKeys([key]), progress)
    live, waiting = scans.scan_log(log, head)
    condemned = {file.path for file in head.state.condemned}
    attempts = scans.find_in_attempts(installation, head)
    files = [
        *(HoldingFile(each.path, "live", scans.live[each.path].records, each.size_bytes, None) for each in live),
        *(
            HoldingFile(
                each.path,
                "condemned" if each.path in condemned else "retired",
                max(scans.others[each.path], 0),
                each.size_bytes,
                None if each.path in condemned else each.retired_at_ms + grace_ms,
            )
            for each in waiting
        ),
        *(_describe_attempt(each) for each in attempts),
    ]
    erasure_id = None
    if head.state.erasures:
        secret = load_secret(installation, head.state, left="Nothing was changed.")
        counting = select_counting_erasures(read_erasures(head.state))
        covering = counting.get(KeyDigester(secret, head.table_uuid).compute(key))
        erasure_id = None if covering is None else covering.erasure_id
    now_ms = installation.now_ms()
    explanation = explain_key(installation, topic, key, partition=None, everywhere=True, as_of_ms=now_ms)
    return KeyWhereabouts(
        topic, now_ms, not files, erasure_id, tuple(files), scans.read_files, scans.read_bytes, explanation
    )


def _describe_attempt(file: ErasedFile) -> HoldingFile:
    return HoldingFile(file.path, file.place, file.records, file.size_bytes, None)
