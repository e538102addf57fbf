"""The layout of a broker's log directory, of its tiered storage, or of a copy of segments of either."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.sources.checkpoint_file import read_checkpoint_file
from winnow.sources.input_errors import make_file_error, open_to_read
from winnow.sources.kafka_log.batches import HEADER_BYTES, MAGIC_AT, MESSAGE_FORMAT, find_header_fault, parse_header
from winnow.sources.kafka_log.files import (
    CLEANER_CHECKPOINT,
    INTERNAL_TOPICS,
    LOG_START_CHECKPOINT,
    FolderState,
    PartitionFolder,
    collect_segments,
    find_segment_place,
    is_segment_file,
    parse_folder_name,
    parse_segment_name,
    parse_segment_path,
    read_log_start_offsets,
    read_topic_ids,
)
from winnow.sources.kafka_log.log import LogSurvey, PartitionLog, read_log, survey_log
from winnow.sources.kafka_log.tiered import (
    INDEXES,
    MANIFEST,
    Manifest,
    TieredName,
    TieredPlace,
    parse_tiered_name,
    parse_tiered_place,
    read_manifest,
)
from winnow.sources.layout import (
    Arrangement,
    Description,
    Finding,
    FindingKind,
    Layout,
    ObjectSurvey,
    SourceIdentity,
    sort_objects,
)
from winnow.sources.objects import BYTES, ArchiveObject, ReadOptions, RecordChunk, StoredObject
from winnow.values.model import TopicPartition

NAME: Final = "kafka-log"


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
    files = {obj.uri: obj for obj in stored}
    folders: dict[tuple[str, TieredPlace], dict[str, StoredObject]] = defaultdict(dict)
    for obj in stored:
        name = parse_tiered_name(obj.name)
        if name is None or name.kind != ".log":
            continue
        stem = obj.uri.removesuffix(name.kind)
        place = _find_place(obj, name, files.get(stem + MANIFEST))
        if place.topic in INTERNAL_TOPICS:
            continue
        parts = folders[obj.uri.rpartition("/")[0], place]
        beside = (MANIFEST, INDEXES) if stem + MANIFEST in files else (".txnindex",)
        for uri in (obj.uri, *(stem + kind for kind in beside)):
            if uri in files:
                parts[files[uri].name] = files[uri]
    _require_distinct(folders)
    objects = []
    for (uri, place), parts in folders.items():
        first = collect_segments(parts.values())[0].base_offset
        objects.append(ArchiveObject(NAME, uri, parts, place.topic, place.partition, first, BYTES))
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


UNNAMED = "?"
"""In messages, the topic of segments outside of their folder."""


def recognise_kafka_log(obj: StoredObject) -> bool:
    """Check whether ``obj`` is a segment in the folder of a topic partition, or called and filled like one."""
    if parse_segment_path(obj.uri) is not None:
        return True
    tiered = parse_tiered_name(obj.name)
    base_offset = parse_segment_name(obj.name)
    if tiered is not None and tiered.kind == ".log":
        return is_tiered_segment(obj, tiered)
    return base_offset is not None and begins_with_batch(obj, base_offset)


def arrange_kafka_log(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each topic partition's folder, with its log start offset.

    Those of tiered storage have none. Segments outside of such folders are taken together; of which partition they are
    a person has to say. Internal topics, and folders that wait for their removal, are left out.

    Raises:
        BadInputError: a folder was copied while its broker replaced segments, or a checkpoint file or a manifest is
            damaged or missing.
    """
    folders, tiered, alone = _sort_files(stored)
    starts: dict[str, Mapping[TopicPartition, int]] = {
        obj.uri.rpartition("/")[0]: read_log_start_offsets(obj.uri)
        for obj in stored
        if obj.name == LOG_START_CHECKPOINT
    }
    objects = arrange_tiered(tiered)
    copied = {(obj.topic, obj.partition): obj.uri for obj in objects}
    if collect_segments(alone.values()):
        # By their addresses: of the same names are segments of other partitions.
        objects.append(ArchiveObject(NAME, next(iter(alone)), alone, forms=BYTES))
    left_out = 0
    for uri, files in folders.items():
        folder = parse_folder_name(uri.rpartition("/")[2])
        if folder is None or folder.is_internal or not collect_segments(files):
            continue
        if folder.state is not FolderState.LIVE:
            left_out += 1
            continue
        if (folder.topic, folder.partition) in copied:
            name, place = f"{folder.topic}-{folder.partition}", copied[folder.topic, folder.partition]
            advice = "take that first, then this folder in another call: offsets that both have are taken once"
            raise make_file_error(uri, f"{name} is there in tiered storage too: {place}", advice)
        objects.append(_arrange_folder(uri, folder, files, starts))
    findings: tuple[Finding, ...] = ()
    if left_out:
        text = "Folders of deleted, stray or moving partitions were left out."
        findings = (Finding(FindingKind.GAP, text, left_out),)
    return Arrangement(sort_objects(objects), findings=findings)


def _sort_files(
    stored: Sequence[StoredObject],
) -> tuple[dict[str, list[StoredObject]], list[StoredObject], dict[str, StoredObject]]:
    """Return the files of each partition's folder, those of tiered storage, and segments outside of both."""
    folders: dict[str, list[StoredObject]] = defaultdict(list)
    tiered: list[StoredObject] = []
    alone: dict[str, StoredObject] = {}
    for obj in stored:
        parent = obj.uri.rpartition("/")[0]
        if parse_tiered_name(obj.name) is not None:
            tiered.append(obj)
        elif parse_folder_name(parent.rpartition("/")[2]) is not None:
            folders[parent].append(obj)
        elif is_segment_file(obj.name):
            alone[obj.uri] = obj
    return folders, tiered, alone


def _arrange_folder(
    uri: str,
    folder: PartitionFolder,
    files: Sequence[StoredObject],
    starts: MutableMapping[str, Mapping[TopicPartition, int]],
) -> ArchiveObject:
    """Make the object of a broker's folder. ``starts``: the log start offsets of each log directory that are known."""
    root = uri.rpartition("/")[0]
    if root not in starts:
        starts[root] = _read_checkpoint_beside(root)
    start = starts[root].get(TopicPartition(folder.topic, folder.partition), 0)
    parts = {file.name: file for file in files if file.name.endswith((".log", ".txnindex"))}
    first = max(start, collect_segments(files)[0].base_offset)
    return ArchiveObject(NAME, uri, parts, folder.topic, folder.partition, first, BYTES)


def _read_checkpoint_beside(root: str) -> Mapping[TopicPartition, int]:
    """Return the log start offsets of the log directory ``root``, of which perhaps only some folders were named.

    Without them, deleted records would come back.
    """
    path = storage.join(root, LOG_START_CHECKPOINT)
    return {} if storage.read_size_bytes(path) is None else read_log_start_offsets(path)


def find_cleaner_checkpoint(stored: Sequence[StoredObject], objects: Sequence[ArchiveObject]) -> StoredObject | None:
    """Find the broker's file of cleaner checkpoints beside the logs ``objects``, if it has an entry for one of them.

    A damaged file is none: the logs can be read without it.
    """
    logs = {(obj.uri.rpartition("/")[0], obj.topic, obj.partition) for obj in objects}
    for obj in stored:
        folder, _, name = obj.uri.rpartition("/")
        if name == CLEANER_CHECKPOINT and any(place == folder for place, _, _ in logs):
            try:
                entries = read_checkpoint_file(obj.uri)
            except BadInputError:
                continue
            if any((folder, entry.topic, entry.partition) in logs and entry.offset for entry in entries):
                return obj
    return None


def make_log(archive: ArchiveObject) -> PartitionLog:
    """Return the log that ``archive`` stands for."""
    assert archive.partition is not None
    segments = collect_segments(archive.parts.values())
    place = find_segment_place(segments[0].log)
    return PartitionLog(archive.topic or UNNAMED, archive.partition, segments, archive.first_offset or 0, place)


_survey = lru_cache(maxsize=256)(survey_log)


def survey_object(archive: ArchiveObject) -> LogSurvey:
    """Read the headers of a log's batches, once; raises as :func:`winnow.sources.kafka_log.log.survey_log`."""
    return _survey(make_log(archive))


def survey_kafka_log(archive: ArchiveObject) -> ObjectSurvey:
    """Return what the headers of a log's batches tell, and what of it is not taken: open transactions, a batch cut off.

    Reads the headers once for all callers; raises as :func:`survey_object`.
    """
    survey = survey_object(archive)
    findings = []
    name = f"{archive.topic or UNNAMED}-{archive.partition}"
    if survey.waiting_records:
        text = (
            f"{name}: records from offset {survey.last_stable_offset} on wait for {survey.open_transactions} open "
            "transactions and are not taken; ingest the folder again when they are decided."
        )
        findings.append(Finding(FindingKind.UNCOMMITTED_AT_END, text, survey.waiting_records))
    if survey.tail.cut_off_bytes:
        text = (
            f"{name}: the last batch of the active segment is cut off: {survey.tail.cut_off_bytes:,} bytes behind "
            f"offset {survey.end_offset} are no whole batch and are left out."
        )
        findings.append(Finding(FindingKind.CUT_OFF, text, 1))
    last = survey.last_stable_offset - 1
    return ObjectSurvey(survey.records, survey.first_offset, last, survey.maximum_timestamp_ms, tuple(findings))


def read_kafka_log(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the committed records of ``archive``, up to its last stable offset."""
    yield from read_log(survey_object(archive), options)


KAFKA_LOG = Layout(
    NAME,
    Description(
        title="A broker's log directory, or its tiered storage",
        recognised_by="folders `topic-partition` with segments (`00000000000000000000.log`); record batches of "
        "message format 2, all codecs, check-sums verified. In tiered storage: `OFFSET-SEGMENTID.log` in folders "
        "`topic-partition-TOPICID` (Kafka's own `LocalTieredStorage`), and in `topic-TOPICID/partition` with a "
        "manifest `.rsm-manifest` (Aiven's plug-in, compressed or not; what it encrypted is refused). A segment "
        "outside of its folder, which begins with a record batch: `--partition N` says of which partition it is, all "
        "that are named at once of the same.",
        loses=(
            "nothing: aborted transactions are left out, and what a transaction still holds open waits",
            "the log start offset, in tiered storage and outside of a folder: deleted records below it come back",
        ),
        settings=(),
        settings_note="Copy the folder after a clean stop, or the log's segments but the active one. "
        "`log-start-offset-checkpoint` and `.txnindex` files belong to it; `cleaner-offset-checkpoint` can be taken "
        "over with `winnow checkpoints import`. What a broker of Kafka 4.3.1 put into its `LocalTieredStorage`, with "
        "aborted transactions across segments, was compared with what a consumer sees (2026-11-25); Aiven's form is "
        "from the plug-in's source, which was not run. Of tiered storage all segments of a partition are needed, one "
        "after another; take the broker's own folder in a later call for what is newer.",
    ),
    recognise_kafka_log,
    arrange_kafka_log,
    read_kafka_log,
    is_decisive=True,
    takes_partition=True,
    survey=survey_kafka_log,
    identity=SourceIdentity(read_topic_ids, find_cleaner_checkpoint),
)
