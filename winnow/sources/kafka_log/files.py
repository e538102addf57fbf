"""The files of a broker's log directory: what their names tell, and what the small ones hold.

A log directory has a folder for each topic partition, ``<topic>-<partition>``, and checkpoint files of all partitions
beside them. A folder has segments, each named after its base offset in 20 digits, and indexes beside each, and the id
of the topic: one that is deleted and created again has another id.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from winnow.config.names import is_topic_name
from winnow.errors import BadInputError
from winnow.sources.checkpoint_file import parse_checkpoints
from winnow.sources.input_errors import make_file_error, open_to_read
from winnow.sources.kafka_log.tiered import MANIFEST, open_wrapped, parse_tiered_name, parse_tiered_place, read_manifest
from winnow.sources.objects import ArchiveObject, StoredObject
from winnow.values.model import TopicPartition

LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

INTERNAL_TOPICS = frozenset(
    {
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)
"""Topics that a broker keeps for itself. Their records mean nothing outside of their cluster."""

_FOLDER = re.compile(
    r"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]{0,9})(?:\.[0-9a-fA-F]{32}-(?P<state>delete|future|stray))?"
)
_SEGMENT = re.compile(r"(?P<base>[0-9]{20})\.(?P<kind>log|txnindex)")
_SWAP = re.compile(r"[0-9]{20}\.log\.swap")
_TOPIC_ID = re.compile(rb"^topic_id: *(?P<id>[A-Za-z0-9_-]{22})\r?$", re.MULTILINE)
_MAXIMUM_PARTITION = 2**31 - 1
_ABORTED = struct.Struct(">hqqqq")


class FolderState(StrEnum):
    """What the broker meant to do with the folder of a topic partition."""

    LIVE = "live"
    DELETED = "delete"
    """The partition was deleted; its files wait for their removal."""
    FUTURE = "future"
    """A copy under way to another disk."""
    STRAY = "stray"
    """The broker was no longer a replica."""


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """What the name of a topic partition's folder tells."""

    topic: str
    partition: int
    state: FolderState = FolderState.LIVE

    @property
    def is_internal(self) -> bool:
        """Whether the topic is one that a broker keeps for itself."""
        return self.topic in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: records from ``base_offset`` on, and the index of the transactions whose abort it holds.

    ``manifest``: of a segment that Aiven's plug-in has moved to tiered storage; ``aborted_index`` has all indexes then.
    """

    base_offset: int
    log: StoredObject
    aborted_index: StoredObject | None = None
    manifest: StoredObject | None = None


class SegmentPlace(StrEnum):
    """Where a segment lies, which says how its log may end."""

    BROKER = "broker"
    """In a broker's folder of its partition: the last one was perhaps being written."""
    TIERED = "tiered"
    """In tiered storage: all are closed, and each begins where the one before it ends."""
    ALONE = "alone"
    """Outside of such folders."""


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An entry of a ``.txnindex``: from a producer's first record to the control record that ended it."""

    producer_id: int
    first_offset: int
    last_offset: int


def parse_folder_name(name: str) -> PartitionFolder | None:
    """Return topic and partition of a folder, None if its name is not one of a topic partition."""
    found = _FOLDER.fullmatch(name)
    if found is None:
        return None
    partition = int(found["partition"])
    if partition > _MAXIMUM_PARTITION or not is_topic_name(found["topic"]):
        return None
    return PartitionFolder(found["topic"], partition, FolderState(found["state"] or "live"))


def parse_segment_name(name: str) -> int | None:
    """Return the base offset in the name of a segment's log file, None if it is none."""
    found = _SEGMENT.fullmatch(name)
    return int(found["base"]) if found is not None and found["kind"] == "log" else None


def parse_segment_path(path: str) -> tuple[PartitionFolder, int] | None:
    """Return the folder and the base offset that the path of a segment's log file tells, None if it is none."""
    folder, _, name = path.rpartition("/")
    found, base = parse_folder_name(folder.rpartition("/")[2]), parse_segment_name(name)
    return None if found is None or base is None else (found, base)


def find_segment_place(log: StoredObject) -> SegmentPlace:
    """Find out where a segment's log file lies."""
    if parse_tiered_name(log.name) is not None:
        return SegmentPlace.TIERED
    return SegmentPlace.ALONE if parse_segment_path(log.uri) is None else SegmentPlace.BROKER


def is_segment_file(name: str) -> bool:
    """Check whether a file of this name is a segment's log or its index of aborted transactions."""
    return _SEGMENT.fullmatch(name) is not None


@contextmanager
def open_segment(segment: Segment) -> Iterator[Any]:
    """Open a segment's log file for random reads, as the broker had it.

    Raises:
        BadInputError: it is missing, or wrapped in a way that cannot be undone.
        ServiceError: its object store cannot be reached.
    """
    if segment.manifest is None:
        with open_to_read(segment.log.uri) as stream:
            yield stream
        return
    with open_wrapped(segment.log, read_manifest(segment.manifest)) as stream:
        yield stream


def parse_topic_id(metadata: bytes) -> str | None:
    """Return the topic's id in the content of a ``partition.metadata`` file, None if there is none.

    A topic that is deleted and created again has another one.
    """
    found = _TOPIC_ID.search(metadata)
    return found["id"].decode() if found else None


def collect_segments(objects: Iterable[StoredObject]) -> tuple[Segment, ...]:
    """Return the segments among the files of one partition's folder, in the order of their offsets.

    Raises:
        BadInputError: the folder was copied while its broker replaced segments, or two segments begin at one offset.
    """
    logs: dict[int, StoredObject] = {}
    indexes: dict[int, StoredObject] = {}
    manifests: dict[int, StoredObject] = {}
    for obj in objects:
        tiered = parse_tiered_name(obj.name)
        if tiered is not None:
            kinds = {".log": logs, MANIFEST: manifests}
            _add_file(kinds.get(tiered.kind, indexes), tiered.base_offset, obj)
            continue
        if _SWAP.fullmatch(obj.name):
            # Which of the older segments it stands for shows only when a broker completes the change.
            raise make_file_error(
                obj.uri,
                "the folder was copied while its broker replaced segments by compacted ones",
                "start a broker on the copy once, or copy the folder again",
            )
        found = _SEGMENT.fullmatch(obj.name)
        if found is not None:
            _add_file(logs if found["kind"] == "log" else indexes, int(found["base"]), obj)
    return tuple(Segment(base, logs[base], indexes.get(base), manifests.get(base)) for base in sorted(logs))


def _add_file(files: dict[int, StoredObject], base_offset: int, obj: StoredObject) -> None:
    if base_offset in files:
        raise make_file_error(
            obj.uri,
            f"another segment begins at offset {base_offset} too: {files[base_offset].uri}",
            "name the files of one partition at a time; of two copies by two leaders leave one out with --exclude GLOB",
        )
    files[base_offset] = obj


def read_log_start_offsets(uri: str) -> Mapping[TopicPartition, int]:
    """Return the log start offsets in a broker's ``log-start-offset-checkpoint`` file.

    A partition that it does not name starts with its first segment.

    Raises:
        BadInputError: the file is missing or damaged.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(uri) as stream:
        data = stream.read()
    try:
        entries = parse_checkpoints(data, uri)
    except BadInputError:
        wrong = "this is no checkpoint file of version 0"
        raise make_file_error(uri, wrong, f"copy the broker's {LOG_START_CHECKPOINT} again") from None
    return {entry.topic_partition: entry.offset for entry in entries}


def read_aborted_index(segment: Segment, *, is_active: bool) -> list[AbortedTransaction]:
    """Return the entries of a segment's ``.txnindex``; none if it has no such file.

    ``is_active``: the segment was being written, so its index may be cut off inside of the last entry.

    Raises:
        BadInputError: the index is damaged.
        ServiceError: its object store cannot be reached.
    """
    if segment.aborted_index is None:
        return []
    uri = segment.aborted_index.uri
    with open_to_read(uri) as stream:
        data = stream.read()
    if segment.manifest is not None:
        position, size = read_manifest(segment.manifest).transactions or (0, 0)
        data = data[position : position + size]
        if len(data) < size:
            raise _make_index_error(uri, "it is cut off")
    rest = len(data) % _ABORTED.size
    whole = data[: len(data) - rest]
    if is_active:
        # An active segment's files may have been given their size before their content.
        while whole and not any(whole[-_ABORTED.size :]):
            whole = whole[: -_ABORTED.size]
    entries = [_make_entry(uri, *values) for values in _ABORTED.iter_unpack(whole)]
    if rest and not is_active:
        raise _make_index_error(uri, "it ends inside of an entry")
    return entries


def _make_entry(uri: str, version: int, producer_id: int, first: int, last: int, _stable: int) -> AbortedTransaction:
    if version != 0:
        raise _make_index_error(uri, f"it has an entry of version {version}; only version 0 is known")
    if not 0 <= first <= last:
        raise _make_index_error(uri, "it has an entry with impossible offsets")
    return AbortedTransaction(producer_id, first, last)


def _make_index_error(uri: str, wrong: str) -> BadInputError:
    advice = "copy the file again, or leave it out: the control records of a complete log say the same"
    return make_file_error(uri, f"this index of aborted transactions is damaged: {wrong}", advice)


PARTITION_METADATA = "partition.metadata"


def read_topic_ids(stored: Sequence[StoredObject], objects: Sequence[ArchiveObject]) -> dict[int, str]:
    """Return the topic's id by partition, from files beside the segments of ``objects`` or folders of tiered storage.

    A partition of which there is no id is left out.

    Raises:
        BadInputError, ServiceError: a file cannot be read.
    """
    places = {each.uri: each.partition for each in objects if each.partition is not None}
    found = {}
    for obj in objects:
        tiered = [part.uri for name, part in obj.parts.items() if parse_tiered_name(name) is not None]
        place = parse_tiered_place(tiered[0]) if tiered else None
        if place is not None and obj.partition is not None:
            found[obj.partition] = place.topic_id
    for each in stored:
        folder, _, name = each.uri.rpartition("/")
        if name == PARTITION_METADATA and folder in places:
            with open_to_read(each.uri) as stream:
                topic_id = parse_topic_id(stream.read())
            if topic_id is not None:
                found[places[folder]] = topic_id
    return found
