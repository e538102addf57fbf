"""The layout of a broker's log directory, or of a copy of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.model import TopicPartition
from winnow.sources.checkpoint_file import read_checkpoint_file
from winnow.sources.layouts.kafka_log import LogSurvey, PartitionLog, read_log, survey_log
from winnow.sources.layouts.layout import Arrangement, Description, Finding, FindingKind, Layout, sort_objects
from winnow.sources.layouts.log_files import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    FolderState,
    collect_segments,
    parse_folder_name,
    parse_segment_path,
    read_log_start_offsets,
)
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject

NAME = "kafka-log"


def recognise_kafka_log(obj: StoredObject) -> bool:
    """Check whether ``obj`` is a segment in the folder of a topic partition."""
    return parse_segment_path(obj.uri) is not None


def arrange_kafka_log(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each topic partition's folder, with its log start offset.

    Internal topics, and folders that wait for their removal, are left out.

    Raises:
        BadInputError: a folder was copied while its broker replaced segments, or a checkpoint file is damaged.
    """
    folders: dict[str, list[StoredObject]] = defaultdict(list)
    starts: dict[str, Mapping[TopicPartition, int]] = {}
    for each in stored:
        parent = each.uri.rpartition("/")[0]
        if each.name == LOG_START_CHECKPOINT:
            starts[parent] = read_log_start_offsets(each.uri)
        elif parse_folder_name(parent.rpartition("/")[2]) is not None:
            folders[parent].append(each)
    objects = []
    left_out = 0
    for uri, files in folders.items():
        folder = parse_folder_name(uri.rpartition("/")[2])
        segments = collect_segments(files)
        if folder is None or folder.is_internal or not segments:
            continue
        if folder.state is not FolderState.LIVE:
            left_out += 1
            continue
        parts = {each.name: each for each in files if each.name.endswith((".log", ".txnindex"))}
        root = uri.rpartition("/")[0]
        if root not in starts:
            starts[root] = _read_checkpoint_beside(root)
        start = starts[root].get(TopicPartition(folder.topic, folder.partition), 0)
        forms = dict.fromkeys(("key", "value", "headers"), FieldForm.BYTES)
        first = max(start, segments[0].base_offset)
        objects.append(ArchiveObject(NAME, uri, parts, folder.topic, folder.partition, first, forms))
    findings: tuple[Finding, ...] = ()
    if left_out:
        text = "Folders of deleted, stray or moving partitions were left out."
        findings = (Finding(FindingKind.GAP, text, left_out),)
    return Arrangement(sort_objects(objects), findings=findings)


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
    logs = {(each.uri.rpartition("/")[0], each.topic, each.partition) for each in objects}
    for each in stored:
        folder, _, name = each.uri.rpartition("/")
        if name == CLEANER_CHECKPOINT and any(place == folder for place, _, _ in logs):
            try:
                entries = read_checkpoint_file(each.uri)
            except BadInputError:
                continue
            if any((folder, entry.topic, entry.partition) in logs and entry.offset for entry in entries):
                return each
    return None


def make_log(archive: ArchiveObject) -> PartitionLog:
    """Return the log that ``archive`` stands for."""
    assert archive.topic is not None
    assert archive.partition is not None
    segments = collect_segments(archive.parts.values())
    return PartitionLog(archive.topic, archive.partition, segments, archive.first_offset or 0)


@lru_cache(maxsize=256)
def _survey(topic: str, partition: int, first_offset: int, files: tuple[StoredObject, ...]) -> LogSurvey:
    return survey_log(PartitionLog(topic, partition, collect_segments(files), first_offset))


def survey_object(archive: ArchiveObject) -> LogSurvey:
    """Read the headers of a log's batches, once; raises as :func:`winnow.sources.layouts.kafka_log.survey_log`."""
    log = make_log(archive)
    return _survey(log.topic, log.partition, log.log_start_offset, tuple(archive.parts.values()))


def list_log_findings(archive: ArchiveObject) -> list[Finding]:
    """List what of a log is not taken: records of transactions that are open, and a batch that is cut off at its end.

    Reads the headers of the log's batches, once for all callers; raises as :func:`survey_object`.
    """
    survey = survey_object(archive)
    found = []
    name = f"{archive.topic}-{archive.partition}"
    if survey.waiting_records:
        text = (
            f"{name}: records from offset {survey.last_stable_offset} on wait for {survey.open_transactions} open "
            "transactions and are not taken; ingest the folder again when they are decided."
        )
        found.append(Finding(FindingKind.UNCOMMITTED_AT_END, text, survey.waiting_records))
    if survey.tail.cut_off_bytes:
        text = (
            f"{name}: the last batch of the active segment is cut off: {survey.tail.cut_off_bytes:,} bytes behind "
            f"offset {survey.end_offset} are no whole batch and are left out."
        )
        found.append(Finding(FindingKind.CUT_OFF, text, 1))
    return found


def read_kafka_log(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the committed records of ``archive``, up to its last stable offset."""
    yield from read_log(survey_object(archive), options)


KAFKA_LOG = Layout(
    NAME,
    Description(
        title="A broker's log directory",
        recognised_by="folders `topic-partition` with segments (`00000000000000000000.log`); record batches of "
        "message format 2, all codecs, check-sums verified.",
        loses=("nothing: aborted transactions are left out, and what a transaction still holds open waits",),
        settings=(),
        settings_note="Copy the folder after a clean stop, or the log's segments but the active one. "
        "`log-start-offset-checkpoint` and `.txnindex` files belong to it; `cleaner-offset-checkpoint` can be taken "
        "over with `winnow checkpoints import`.",
    ),
    recognise_kafka_log,
    arrange_kafka_log,
    read_kafka_log,
)
