"""Puts the segments of tiered storage together, partition by partition, and recognises a segment by what is in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.sources.input_errors import make_file_error, open_to_read
from winnow.sources.layouts.log_files import INTERNAL_TOPICS, collect_segments
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, StoredObject
from winnow.sources.layouts.record_batches import (
    HEADER_BYTES,
    MAGIC_AT,
    MESSAGE_FORMAT,
    find_header_fault,
    parse_header,
)
from winnow.sources.layouts.tiered_files import (
    INDEXES,
    MANIFEST,
    Manifest,
    TieredName,
    TieredPlace,
    parse_tiered_name,
    parse_tiered_place,
    read_manifest,
)

_LAYOUT: Final = "kafka-log"
_FORMS: Final = dict.fromkeys(("key", "value", "headers"), FieldForm.BYTES)


def begins_with_batch(obj: StoredObject, base_offset: int) -> bool:
    """Check whether ``obj`` begins with a record batch at ``base_offset`` or above, or with a message of old formats.

    Raises:
        BadInputError: it cannot be read.
        ServiceError: its object store cannot be reached.
    """
    with open_to_read(obj.uri) as stream:
        start = np.frombuffer(stream.read(HEADER_BYTES), np.uint8)
    if len(start) < HEADER_BYTES or start[MAGIC_AT] > MESSAGE_FORMAT:
        return False
    header = parse_header(start, 0)
    is_old = start[MAGIC_AT] < MESSAGE_FORMAT
    return header.base_offset >= base_offset and header.length > 0 and (is_old or find_header_fault(header) is None)


def is_tiered_segment(obj: StoredObject, name: TieredName) -> bool:
    """Check whether ``obj`` is a segment of tiered storage: a batch is its begin, or a manifest is beside it.

    Raises as :func:`begins_with_batch`.
    """
    manifest = obj.uri.removesuffix(name.kind) + MANIFEST
    return begins_with_batch(obj, name.base_offset) or storage.read_size_bytes(manifest) is not None


def arrange_tiered(stored: Sequence[StoredObject]) -> list[ArchiveObject]:
    """Make an archive object of each partition's folder among files of tiered storage; internal topics are left out.

    Raises:
        BadInputError: a manifest is missing, damaged, or contradicts the name; a segment is encrypted; a partition is
            there twice, or of two topics of one name.
    """
    files = {each.uri: each for each in stored}
    folders: dict[tuple[str, TieredPlace], dict[str, StoredObject]] = defaultdict(dict)
    for each in stored:
        name = parse_tiered_name(each.name)
        if name is None or name.kind != ".log":
            continue
        stem = each.uri.removesuffix(name.kind)
        place = _find_place(each, name, files.get(stem + MANIFEST))
        if place.topic in INTERNAL_TOPICS:
            continue
        parts = folders[each.uri.rpartition("/")[0], place]
        beside = (MANIFEST, INDEXES) if stem + MANIFEST in files else (".txnindex",)
        for uri in (each.uri, *(stem + kind for kind in beside)):
            if uri in files:
                parts[files[uri].name] = files[uri]
    _require_distinct(folders)
    objects = []
    for (uri, place), parts in folders.items():
        first = collect_segments(parts.values())[0].base_offset
        objects.append(ArchiveObject(_LAYOUT, uri, parts, place.topic, place.partition, first, _FORMS))
    return objects


def _find_place(log: StoredObject, name: TieredName, manifest_file: StoredObject | None) -> TieredPlace:
    """Say of which partition a segment is, by its folders; a manifest has to agree."""
    place = parse_tiered_place(log.uri)
    if place is None:
        raise make_file_error(
            log.uri,
            "it is called like a segment of tiered storage, and its folders tell no topic and partition",
            "copy it with its folders, such as orders-TOPICID/0/ or orders-0-TOPICID/; a segment for --partition N is "
            "called by its offset alone, 00000000000000000000.log",
        )
    if manifest_file is None:
        if log.uri.split("/")[-2].isdecimal():
            raise make_file_error(
                log.uri,
                f"its manifest ({MANIFEST}) is not there: the upload was not finished, or it was not copied",
                "copy the manifest, or leave the segment out with --exclude GLOB",
            )
        return place
    manifest = read_manifest(manifest_file)
    if manifest.is_encrypted:
        raise make_file_error(
            log.uri,
            "its manifest says that it is encrypted, and the key lies with the brokers",
            "read the topic through them, with winnow ingest kafka",
        )
    return place if manifest.place is None else _check_manifest(manifest, manifest.place, place, name)


def _check_manifest(manifest: Manifest, told: TieredPlace, place: TieredPlace, name: TieredName) -> TieredPlace:
    """Return the place that a manifest tells, if the name agrees; a prefix of keys may stand before the topic."""
    is_same = (told.partition, told.topic_id) == (place.partition, place.topic_id)
    if not is_same or not place.topic.endswith(told.topic) or manifest.base_offset != name.base_offset:
        raise make_file_error(
            manifest.uri,
            f"it is of {told.topic}-{told.partition} from offset {manifest.base_offset} on; its name says otherwise",
            "copy segments and manifests with their names and folders as they were",
        )
    return told


def _require_distinct(folders: Mapping[tuple[str, TieredPlace], object]) -> None:
    seen: dict[tuple[str, int], str] = {}
    for uri, place in folders:
        before = seen.setdefault((place.topic, place.partition), uri)
        if before != uri:
            raise _make_repetition_error(uri, before, place)


def _make_repetition_error(uri: str, before: str, place: TieredPlace) -> BadInputError:
    return make_file_error(
        uri,
        f"{place.topic}-{place.partition} is there twice, also as {before}: of a topic that was created again, or of "
        "another cluster",
        "name the folder of one of them",
    )
