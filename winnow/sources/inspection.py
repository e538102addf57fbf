"""Finds out what an archive is and what it has lost, per topic and partition.

Names, first bytes and footers are read always, everything only if asked for.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError
from winnow.sources.archive import Archive
from winnow.sources.formats.encoding import EncodingEvidence, Reading
from winnow.sources.formats.parquet import count_parquet_rows
from winnow.sources.input_errors import FinerTimestampError
from winnow.sources.layout import Finding, FindingKind, ObjectSurvey, RecordOrder
from winnow.sources.objects import ArchiveObject, FieldForm, Offsets, ReadOptions, RecordChunk
from winnow.sources.schema_ids import SchemaIds
from winnow.sources.topic_filter import format_topic_name

Progress = Callable[[int, int], None]
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_MARKERS = 2
"""Offsets that markers of transactions leave out beside each other: seldom more."""
_Place = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class PartitionInspection:
    """What an archive has of one topic partition. Counts are None where not everything was read.

    ``topic``, ``partition``: None where neither names nor records tell.
    """

    layout: str
    topic: str | None
    partition: int | None
    objects: int
    size_bytes: int
    records: int | None
    first_offset: int | None
    last_offset: int | None
    offsets: str
    tombstones: int | None
    keyless: int | None
    min_timestamp_ms: int | None
    max_timestamp_ms: int | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What an archive is. ``command``: what to type to ingest it."""

    layout: str
    title: str
    partitions: tuple[PartitionInspection, ...]
    command: str


@dataclass
class _Counts:
    """Counters of one topic partition."""

    objects: set[str] = field(default_factory=set)
    size_bytes: int = 0
    records: int = 0
    is_complete: bool = True
    first_offset: int | None = None
    last_offset: int | None = None
    offsets: Offsets = Offsets.EXACT
    tombstones: int = 0
    keyless: int = 0
    timestamps: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    empty_values: int = 0
    destroyed: int = 0
    repeats: int = 0
    gaps: int = 0
    wide_gaps: int = 0
    converted_headers: bool = False
    schema_ids: SchemaIds = field(default_factory=SchemaIds)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add_offsets(self, first: int | None, last: int | None) -> None:
        if first is not None:
            self.first_offset = first if self.first_offset is None else min(self.first_offset, first)
        if last is not None:
            self.last_offset = last if self.last_offset is None else max(self.last_offset, last)


def inspect_archive(
    archive: Archive,
    paths: Sequence[str],
    *,
    full: bool,
    options: Sequence[str] = (),
    progress: Progress | None,
) -> Inspection:
    """Inspect ``archive``.

    Args:
        archive: as :func:`winnow.sources.archive.open_archive` makes it of ``paths``.
        paths: for the command.
        options: for it, too: those with which the archive was opened.
        full: read all records; else names, first bytes, footers and headers of batches only.
        progress: called with (bytes read, total bytes).

    Raises:
        BadInputError: not one of its objects can be read.
        ServiceError: an object store cannot be reached.
    """
    return _Inspector(archive, full=full).run(paths, options, progress)


class _Inspector:
    def __init__(self, archive: Archive, *, full: bool) -> None:
        self._archive = archive
        self._full = full
        self._counts: dict[_Place, _Counts] = defaultdict(_Counts)
        self._evidence = EncodingEvidence()
        self._is_finer = False
        self._needs_order = False
        self._has_null_text = False
        self._problems: list[BadInputError] = []

    def run(self, paths: Sequence[str], options: Sequence[str], progress: Progress | None) -> Inspection:
        archive = self._archive
        total, done = sum(obj.size_bytes for obj in archive.objects), 0
        for obj in archive.objects:
            self._inspect_object(obj)
            done += obj.size_bytes
            if progress is not None:
                progress(done, total)
        if len(self._problems) == len(archive.objects):
            raise self._problems[0]
        if archive.layout.order is not None and self._full:
            self._find_unordered_keys(archive.layout.order)
        topics = sorted({topic for topic, _ in self._counts if topic is not None})
        shared = list(archive.findings)
        if len(topics) > 1:
            text = f"The archive has several topics: {', '.join(topics[:10])}. Pick one with --source-topic NAME, or "
            shared.append(Finding(FindingKind.SEVERAL_TOPICS, text + "take all with --each-topic.", len(topics)))
        entries = [
            self._make_entry(place, counts, shared)
            for place, counts in sorted(
                self._counts.items(), key=lambda item: (item[0][0] or "", -1 if item[0][1] is None else item[0][1])
            )
        ]
        layout = archive.layout
        command = self._make_command(paths, options, topics)
        return Inspection(layout.name, layout.description.title, tuple(entries), command)

    # -------------------------------------------------------------- reading

    def _inspect_object(self, obj: ArchiveObject) -> None:
        place = (None if obj.topic is None else format_topic_name(obj.topic), obj.partition)
        try:
            survey = self._archive.layout.survey
            if survey is not None:
                self._add_survey(obj, survey(obj), self._counts[place])
            if self._full:
                self._read(obj, place)
            elif survey is None:
                self._look_at(obj, place)
        except BadInputError as problem:
            self._problems.append(problem)
            counts = self._counts[place]
            counts.objects.add(obj.uri)
            counts.is_complete = False
            text = str(problem.with_left(""))
            counts.findings.append(Finding(FindingKind.CUT_OFF, f"{text} --exclude leaves the object out.", 1))

    def _look_at(self, obj: ArchiveObject, place: _Place) -> None:
        """Count what names and footers tell; of the first object of a place also what its first records look like."""
        rows = count_parquet_rows(obj.parts["value"]) if "value" in obj.parts else None
        if place[0] is None or place[1] is None or place not in self._counts:
            chunk = next(self._read_chunks(obj), None)
            if chunk is not None:
                places = list(_split(chunk, place))
                for where, part in places:
                    counts = self._counts[where]
                    counts.objects.add(obj.uri)
                    counts.offsets = obj.offsets
                    counts.is_complete = counts.is_complete and rows is not None and len(places) == 1
                    lowest = pc.min(part.records.column("offset")).as_py()
                    counts.add_offsets(lowest if obj.first_offset is None else obj.first_offset, None)
                    self._add_forms(obj, part)
                if len(places) > 1:
                    return  # its size belongs to all of them
                place = places[0][0] if places else place
        counts = self._counts[place]
        counts.objects.add(obj.uri)
        counts.size_bytes += obj.size_bytes
        counts.offsets = obj.offsets
        counts.add_offsets(obj.first_offset, None)
        counts.is_complete = counts.is_complete and rows is not None
        counts.records += rows or 0

    def _read(self, obj: ArchiveObject, place: _Place) -> None:
        counted: set[_Place] = set()
        for chunk in self._read_chunks(obj):
            for where, part in _split(chunk, place):
                counts = self._counts[where]
                if where not in counted:
                    counted.add(where)
                    counts.objects.add(obj.uri)
                    counts.size_bytes += obj.size_bytes
                    counts.offsets = obj.offsets
                self._add_chunk(obj, counts, part)

    def _read_chunks(self, obj: ArchiveObject) -> Iterator[RecordChunk]:
        layout = self._archive.layout
        if not self._is_finer:
            with contextlib.suppress(BadInputError):  # which is said where all of it is read
                self._is_finer = _has_finer_timestamps(layout.read(obj, ReadOptions(batch_bytes=1 << 16)))
        return layout.read(obj, ReadOptions(floors_timestamps=True))

    def _add_survey(self, obj: ArchiveObject, survey: ObjectSurvey, counts: _Counts) -> None:
        counts.objects.add(obj.uri)
        if not self._full:
            counts.size_bytes += obj.size_bytes
            counts.records += survey.records
            counts.add_offsets(survey.first_offset, survey.last_offset)
            counts.max_timestamp_ms = survey.maximum_timestamp_ms
        counts.findings += survey.findings

    def _add_forms(self, obj: ArchiveObject, chunk: RecordChunk) -> None:
        null_text = self._archive.layout.null_text
        if null_text is not None:
            found = pc.any(pc.equal(chunk.records.column("value"), pa.scalar(null_text, pa.binary())))
            self._has_null_text |= bool(found.as_py())
        if FieldForm.TEXT_OR_BASE64 in obj.forms.values():
            self._evidence.add_chunk(obj, chunk)

    def _add_chunk(self, obj: ArchiveObject, counts: _Counts, chunk: RecordChunk) -> None:
        records = chunk.records
        counts.records += records.num_rows
        key, value, times = records.column("key"), records.column("value"), records.column("timestamp")
        counts.keyless += key.null_count
        counts.tombstones += value.null_count
        counts.timestamps += len(times) - times.null_count
        extent = pc.min_max(times).as_py()
        if extent["min"] is not None:
            low, high = counts.min_timestamp_ms, counts.max_timestamp_ms
            counts.min_timestamp_ms = extent["min"] if low is None else min(low, extent["min"])
            counts.max_timestamp_ms = extent["max"] if high is None else max(high, extent["max"])
        if obj.null_is_empty:
            counts.empty_values += pc.sum(pc.equal(pc.binary_length(value), 0)).as_py() or 0
        counts.destroyed += _count_destroyed(obj, records)
        counts.schema_ids.add(key)
        counts.converted_headers |= "headers" in chunk.structured
        self._add_forms(obj, chunk)
        offsets = records.column("offset").drop_null()
        if len(offsets):
            numbers = np.sort(np.asarray(offsets))
            counts.add_offsets(int(numbers[0]), int(numbers[-1]))
            steps = np.diff(numbers)
            counts.repeats += int((steps == 0).sum())
            counts.gaps += int((steps > 1).sum())
            counts.wide_gaps += int((steps > _MARKERS + 1).sum())
            if self._archive.layout.order is None:
                counts.ranges.append((int(numbers[0]), int(numbers[-1])))

    def _find_unordered_keys(self, order: RecordOrder) -> None:
        try:
            unordered = order.find_unordered(self._archive.objects)
            for place, count in order.count_overlaps(self._archive.objects).items():
                self._counts[place].repeats += count
        except BadInputError:
            return  # said where the object was read
        for keys in unordered:
            self._needs_order = True
            text = (
                "Keys have a value and a tombstone in one flush, and which came last is not in the archive. "
                "--tombstones last deletes them, --tombstones first keeps their values."
            )
            finding = Finding(FindingKind.TOMBSTONE_ORDER_UNKNOWN, text, keys.count)
            self._counts[keys.topic, keys.partition].findings.append(finding)

    # -------------------------------------------------------------- results

    def _make_entry(self, place: _Place, counts: _Counts, shared: Sequence[Finding]) -> PartitionInspection:
        is_counted = self._full and counts.is_complete
        findings = [*counts.findings, *(self._list_findings(counts) if self._full else ())]
        findings = _join_faults(findings)
        kinds = {finding.kind for finding in findings}
        findings += [finding for finding in shared if finding.kind not in kinds]
        offsets_known = counts.is_complete
        return PartitionInspection(
            layout=self._archive.layout.name,
            topic=place[0],
            partition=place[1],
            objects=len(counts.objects),
            size_bytes=counts.size_bytes,
            records=counts.records if counts.is_complete else None,
            first_offset=counts.first_offset,
            last_offset=counts.last_offset if offsets_known else None,
            offsets=counts.offsets.value,
            tombstones=counts.tombstones if is_counted else None,
            keyless=counts.keyless if is_counted else None,
            min_timestamp_ms=counts.min_timestamp_ms,
            max_timestamp_ms=counts.max_timestamp_ms,
            findings=tuple(findings),
        )

    def _list_findings(self, counts: _Counts) -> Iterator[Finding]:
        if not counts.records:
            return
        if counts.empty_values:
            text = (
                "Values are empty that may have been null: tombstones cannot be told from empty values. Decide with "
                "--empty-values tombstone or keep; format.output.type=jsonl keeps them apart."
            )
            yield Finding(FindingKind.NULL_EQUALS_EMPTY, text, counts.empty_values)
        elif not counts.tombstones:
            text = (
                "There is no tombstone. If the topic is compacted, the sink has dropped its deletes, and deleted keys "
                "live on here (Confluent: behavior.on.null.values=write)."
            )
            yield Finding(FindingKind.NO_TOMBSTONES, text)
        if counts.keyless == counts.records:
            yield Finding(FindingKind.NO_KEYS, "No record has a key: the sink did not write keys.", counts.keyless)
        if not counts.timestamps:
            yield Finding(FindingKind.NO_TIMESTAMPS, "No record has a timestamp: the time of the ingest counts.")
        if counts.destroyed:
            text = (
                "Records hold U+FFFD, which a text converter writes in place of bytes that are not UTF-8: they are "
                "lost. Use org.apache.kafka.connect.converters.ByteArrayConverter."
            )
            yield Finding(FindingKind.BYTES_DESTROYED, text, counts.destroyed)
        if counts.converted_headers:
            text = (
                "Headers that look like numbers or JSON have become such: their bytes are lost. Use "
                "header.converter=org.apache.kafka.connect.converters.ByteArrayConverter."
            )
            yield Finding(FindingKind.HEADERS_LOST, text)
        if counts.schema_ids.has_all:
            text = (
                f"Keys begin with a schema's id ({len(counts.schema_ids.ids)} ids): a key written with another schema "
                "is another key to Kafka, and to compaction."
            )
            yield Finding(FindingKind.SCHEMA_ID_IN_KEYS, text, counts.schema_ids.count_shared())
        yield from self._list_order_findings(counts)

    def _list_order_findings(self, counts: _Counts) -> Iterator[Finding]:
        between, between_wide, overlaps = _compare_ranges(counts.ranges)
        repeats, gaps = counts.repeats + overlaps, counts.gaps + between
        if repeats:
            text = "Objects overlap: the sink was started again. Equal records are taken once, different ones refused."
            yield Finding(FindingKind.OVERLAP, text, repeats)
        if gaps and counts.offsets is Offsets.EXACT:
            text = "Offsets have gaps: of transaction markers, compaction, or of records that are missing."
            yield Finding(FindingKind.GAP, text, gaps)
            if not counts.wide_gaps + between_wide and self._archive.layout.survey is None and not repeats:
                text = (
                    "Only single offsets are missing, as where transaction markers were: if producers aborted "
                    "transactions, their records are inside. Set consumer.override.isolation.level=read_committed."
                )
                yield Finding(FindingKind.ABORTED_INCLUDED, text)

    def _make_command(self, paths: Sequence[str], given: Sequence[str], topics: Sequence[str]) -> str:
        shown, layout = shlex.join(paths), self._archive.layout
        target = " --each-topic" if len(topics) > 1 else f" {topics[0] if topics else 'TOPIC'}"
        options = ["--create", *([shlex.join(given)] if given else ())]
        if layout.suggest is not None and "--layout" not in given and not self._is_recognised():
            # Who types it says that it is so.
            options.append(f"--layout {layout.name}")
        if self._has_null_text:
            options.append("--deletes null-text")
        if self._is_finer:
            options.append("--timestamps floor")
        if any(counts.empty_values for counts in self._counts.values()):
            options.append("--empty-values tombstone|keep")
        if self._needs_order:
            options.append("--tombstones first|last")
        for name, reading in self._evidence.decide().items():
            if reading is Reading.EITHER and self._evidence.fields[name].values:
                options.append(f"--encoding {name}=base64|text")
        return f"winnow ingest files{target} {shown} {' '.join(options)}"

    def _is_recognised(self) -> bool:
        archive = self._archive
        return archive.layout.recognise is not None and all(obj.offsets is Offsets.EXACT for obj in archive.objects)


def _has_finer_timestamps(chunks: Iterator[RecordChunk]) -> bool:
    """Check whether the first chunk has timestamps that would have to be rounded."""
    try:
        next(chunks, None)
    except FinerTimestampError:
        return True
    return False


def _join_faults(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with all objects that cannot be read as one, which names the first."""
    faults = [finding for finding in findings if finding.kind is FindingKind.CUT_OFF]
    others = [finding for finding in findings if finding.kind is not FindingKind.CUT_OFF]
    if len(faults) > 1:
        more = f" And {len(faults) - 1:,} more objects."
        faults = [Finding(FindingKind.CUT_OFF, faults[0].text + more, len(faults))]
    return [*faults, *others]


def _split(chunk: RecordChunk, place: _Place) -> Iterator[tuple[_Place, RecordChunk]]:
    """Split a chunk by topic and partition; a record's own count, else those of ``place``, which names tell."""
    records = chunk.records
    partition = records.column("partition")
    if place[1] is not None:
        partition = partition.fill_null(place[1])
    numbers = np.asarray(partition.fill_null(-1))
    topics = chunk.topics if chunk.topics is not None else pa.nulls(records.num_rows, pa.string())
    if not records.num_rows:
        return
    if topics.null_count == len(topics) and (numbers == numbers[0]).all():
        yield (place[0], None if numbers[0] < 0 else int(numbers[0])), chunk
        return
    encoded = topics.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1))
    pairs = np.unique(np.stack([codes, numbers]), axis=1)
    for code, number in pairs.T.tolist():
        mask = pa.array((codes == code) & (numbers == number))
        topic = place[0] if code < 0 else format_topic_name(encoded.dictionary[code].as_py())
        yield (topic, None if number < 0 else number), replace(chunk, records=records.filter(mask), topics=None)


def _count_destroyed(obj: ArchiveObject, records: pa.RecordBatch) -> int:
    """Count the records with the replacement character in a field that a converter made text of."""
    hit: Any = np.zeros(records.num_rows, np.bool_)
    for name in ("key", "value"):
        if obj.forms.get(name, FieldForm.BYTES) in (FieldForm.TEXT, FieldForm.TEXT_OR_BASE64, FieldForm.JSON):
            hit |= np.asarray(pc.match_substring(records.column(name), _REPLACEMENT).fill_null(False))
    if obj.forms.get("headers", FieldForm.BYTES) in (FieldForm.TEXT, FieldForm.TEXT_OR_BASE64):
        headers = records.column("headers")
        counts = np.asarray(pc.list_value_length(headers).fill_null(0))
        flat = np.asarray(pc.match_substring(headers.flatten().field("value"), _REPLACEMENT).fill_null(False))
        hit |= np.bincount(np.repeat(np.arange(len(counts)), counts), flat, len(counts)) > 0
    return int(hit.sum())


def _compare_ranges(ranges: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """Return how many gaps, gaps of more than one offset, and overlaps are between ranges of offsets."""
    gaps = wide = overlaps = 0
    end: int | None = None
    for first, last in sorted(ranges):
        if end is not None:
            gaps += first > end + 1
            wide += first > end + 1 + _MARKERS
            overlaps += first <= end
        end = last if end is None else max(end, last)
    return gaps, wide, overlaps
