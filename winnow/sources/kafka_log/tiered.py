"""Segments that brokers have moved to tiered storage (KIP-405): their names, and how Aiven's plug-in wraps them.

Kafka's own ``LocalTieredStorage`` keeps a folder ``TOPIC-PARTITION-TOPICID`` with ``OFFSET-SEGMENTID.log`` and indexes.
Aiven's plug-in keeps ``[PREFIX]TOPIC-TOPICID/PARTITION/OFFSET-SEGMENTID.log``, beside it one object ``.indexes`` with
all indexes, and a manifest (``.rsm-manifest``, JSON): whether the segment was compressed (Zstandard, one frame for each
chunk) or encrypted, and what the broker said of it. Ids have 22 characters.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from winnow.config.names import is_topic_name
from winnow.sources.formats.compression import BUFFER_BYTES, open_decompressed
from winnow.sources.formats.json_records import UNREADABLE
from winnow.sources.input_errors import make_file_error, open_to_read
from winnow.sources.objects import StoredObject

MANIFEST: Final = ".rsm-manifest"
INDEXES: Final = ".indexes"
_ID: Final = "[A-Za-z0-9_-]{22}"
_PARTITION: Final = "0|[1-9][0-9]{0,9}"
_FILE: Final = re.compile(rf"(?P<base>[0-9]{{1,20}})-(?P<id>{_ID})(?P<kind>\.log|\.txnindex|\.indexes|\.rsm-manifest)")
_KAFKA_FOLDER: Final = re.compile(rf"(?P<topic>.+)-(?P<partition>{_PARTITION})-(?P<id>{_ID})")
_AIVEN_FOLDERS: Final = re.compile(rf"(?P<topic>.+)-(?P<id>{_ID})/(?P<partition>{_PARTITION})")
_MAXIMUM_PARTITION: Final = 2**31 - 1
_MANIFEST_ADVICE: Final = "copy it again; without it what is in the segment's object is not known"


@dataclass(frozen=True, slots=True)
class TieredName:
    """What a file's name tells: the segment's base offset, and which of its files this is (``.log`` …)."""

    base_offset: int
    segment_id: str
    kind: str


@dataclass(frozen=True, slots=True)
class TieredPlace:
    """What the folders of a segment tell."""

    topic: str
    partition: int
    topic_id: str


def parse_tiered_name(name: str) -> TieredName | None:
    """Return what a file's name tells; None if it is none of tiered storage."""
    found = _FILE.fullmatch(name)
    return None if found is None else TieredName(int(found["base"]), found["id"], found["kind"])


def parse_tiered_place(uri: str) -> TieredPlace | None:
    """Return what the folders above the file ``uri`` tell; None if they are none of tiered storage."""
    *above, folder = uri.split("/")[:-1] or [""]
    found = _AIVEN_FOLDERS.fullmatch(f"{above[-1]}/{folder}") if above else None
    found = found or _KAFKA_FOLDER.fullmatch(folder)
    if found is None or int(found["partition"]) > _MAXIMUM_PARTITION or not is_topic_name(found["topic"]):
        return None
    return TieredPlace(found["topic"], int(found["partition"]), found["id"])


class _Topic(msgspec.Struct, rename="camel"):
    topic: str
    partition: int


class _TopicId(msgspec.Struct, rename="camel"):
    topic_id: str
    topic_partition: _Topic


class _SegmentId(msgspec.Struct, rename="camel"):
    topic_id_partition: _TopicId


class _Metadata(msgspec.Struct, rename="camel"):
    remote_log_segment_id: _SegmentId
    start_offset: int


class _ChunkIndex(msgspec.Struct, rename="camel"):
    original_file_size: int


class _Index(msgspec.Struct):
    position: int
    size: int


class _Indexes(msgspec.Struct):
    transaction: _Index | None = None


class _Document(msgspec.Struct, rename="camel"):
    version: str
    chunk_index: _ChunkIndex
    segment_indexes: _Indexes
    compression: bool
    encryption: dict[str, Any] | None = None
    remote_log_segment_metadata: _Metadata | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What Aiven's plug-in noted of a segment.

    ``size_bytes``: of the segment before it was wrapped. ``transactions``: where in the object of indexes that of
    aborted transactions is, and how long. ``place``, ``base_offset``: what the broker said; None in older manifests.
    """

    uri: str
    size_bytes: int
    is_compressed: bool
    is_encrypted: bool
    transactions: tuple[int, int] | None
    place: TieredPlace | None
    base_offset: int | None


_decode_manifest = msgspec.json.Decoder(_Document).decode


@lru_cache(maxsize=1024)
def read_manifest(obj: StoredObject) -> Manifest:
    """Read a manifest, once: a segment asks for it when it is arranged, surveyed and read.

    Raises:
        BadInputError: it is damaged, or of a version that is not known.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(obj.uri) as stream:
        data = stream.read()
    try:
        found = _decode_manifest(data)
    except UNREADABLE:
        raise make_file_error(obj.uri, "this is no manifest of a tiered segment", _MANIFEST_ADVICE) from None
    if found.version != "1":
        wrong = f"this manifest is of version {ascii(found.version)[:20]}; only version 1 is known"
        raise make_file_error(obj.uri, wrong, "read the topic with winnow ingest kafka")
    place, base_offset, metadata = None, None, found.remote_log_segment_metadata
    if metadata is not None:
        told = metadata.remote_log_segment_id.topic_id_partition
        place = TieredPlace(told.topic_partition.topic, told.topic_partition.partition, told.topic_id)
        base_offset = metadata.start_offset
    index = found.segment_indexes.transaction
    transactions = (index.position, index.size) if index is not None and index.size else None
    return Manifest(
        obj.uri,
        found.chunk_index.original_file_size,
        found.compression,
        found.encryption is not None,
        transactions,
        place,
        base_offset,
    )


@contextmanager
def open_wrapped(log: StoredObject, manifest: Manifest) -> Iterator[Any]:
    """Open a segment to be read at random, as the broker had it; a compressed one is unpacked on the disk before.

    Raises:
        BadInputError: it is encrypted, damaged, or not of the size that the manifest says.
        ServiceError: its object store cannot be reached.
    """
    if manifest.is_encrypted:
        raise make_file_error(
            log.uri,
            "it is encrypted, and the key lies with the brokers",
            "read the topic through them, with winnow ingest kafka",
        )
    if not manifest.is_compressed:
        with open_to_read(log.uri) as stream:
            _check_size(log, manifest, int(stream.size()))
            yield stream
        return
    with tempfile.TemporaryFile() as unpacked:
        with open_decompressed(log) as stream:
            shutil.copyfileobj(stream, unpacked, BUFFER_BYTES)
        _check_size(log, manifest, unpacked.tell())
        unpacked.seek(0)
        yield pa.PythonFile(unpacked, mode="r")


def _check_size(log: StoredObject, manifest: Manifest, size_bytes: int) -> None:
    if size_bytes != manifest.size_bytes:
        wrong = f"it holds {size_bytes:,} bytes of a segment, and its manifest says {manifest.size_bytes:,}"
        raise make_file_error(log.uri, wrong, "copy the object and its manifest again")
