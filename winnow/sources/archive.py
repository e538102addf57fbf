"""An archive as the input of an ingest call: objects of one layout, the topics they hold, what the user decided.

Whether text is base64 is decided over the whole call. The first records are read as they look; if the rest of the call
does not agree, it is read again (:class:`winnow.sources.record_input.ReadAgainError`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError, UsageError, join_first
from winnow.files.record_batch import DEFAULT_BATCH_BYTES, RECORD_SCHEMA, make_batch
from winnow.sources.choices import Choices
from winnow.sources.deletes import NULL_TEXT, DeletedValues
from winnow.sources.field_map import FieldMap
from winnow.sources.formats.encoding import EncodingEvidence, Reading, decode_fields
from winnow.sources.input_errors import NOTHING_INGESTED, make_file_error
from winnow.sources.layout import Finding, Layout
from winnow.sources.layouts.all_layouts import AUTO, find_layout, get_layout
from winnow.sources.layouts.mapped import NAME as MAPPED
from winnow.sources.layouts.mapped import make_mapped_layout
from winnow.sources.listing import Listing
from winnow.sources.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject
from winnow.sources.record_input import ReadAgainError
from winnow.sources.topic_filter import TopicFilter, format_topic_name

MAXIMUM_TOPICS_NAMED = 10


@dataclass(frozen=True, slots=True)
class Archive:
    """The objects of a call, put together.

    ``orphans``: parts whose values are missing. ``findings``: what names and first bytes tell.
    """

    layout: Layout
    objects: tuple[ArchiveObject, ...]
    stored: tuple[StoredObject, ...]
    orphans: tuple[StoredObject, ...] = ()
    findings: tuple[Finding, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that names tell, in order."""
        return tuple(sorted({obj.topic for obj in self.objects if obj.topic is not None}))


def open_archive(
    paths: Sequence[str],
    layout: str = AUTO,
    exclude: Sequence[str] = (),
    *,
    fields: FieldMap | None = None,
    partition: int | None = None,
    suggests: bool = False,
    listing: Listing | None = None,
) -> Archive:
    """List the objects of ``paths``, find their layout, and put together what belongs together.

    ``fields``: the columns that a person named; then the layout is that. ``partition``: that of objects whose names do
    not tell it. ``suggests``: also a layout that only a person can tell, as :func:`find_layout`. ``listing``: that of
    the call.

    Raises:
        BadInputError: there is nothing to read, no layout is recognised, or nothing tells the partition of an object.
        UsageError: there is no such layout, both a layout and columns were named, or the layout takes no partition.
        ServiceError: an object store cannot be reached.
    """
    stored = (listing or Listing()).list_objects(paths, exclude)
    if not stored:
        raise BadInputError(
            f"Nothing is left to read of {join_first(paths, 3, ', ')}.",
            left=NOTHING_INGESTED,
        )
    if fields:
        if not is_found_by_fields(layout):
            raise UsageError(
                f"--map says what the columns are, --layout {layout} too.",
                next="Leave one of the two out.",
            )
        return arrange_archive(stored, make_mapped_layout(fields), partition)
    chosen = find_layout(stored, suggests=suggests) if layout == AUTO else get_layout(layout)
    return arrange_archive(stored, chosen, partition)


def is_found_by_fields(layout: str) -> bool:
    """Check whether the choice ``layout`` leaves it to the columns that a person names, where there are any."""
    return layout in (AUTO, MAPPED)


def arrange_archive(stored: Sequence[StoredObject], layout: Layout, partition: int | None = None) -> Archive:
    """Put the objects ``stored`` of a layout together. ``partition``: as of :func:`open_archive`; raises as that."""
    arranged = layout.arrange(stored)
    if not arranged.objects:
        wrong = f"nothing in it is an object of layout {layout.name}"
        raise make_file_error(stored[0].uri, wrong, "choose another --layout, or check the path")
    objects = _give_partition(layout, arranged.objects, partition)
    return Archive(layout, objects, tuple(stored), arranged.orphans, arranged.findings, arranged.notices)


def _give_partition(
    layout: Layout, objects: tuple[ArchiveObject, ...], partition: int | None
) -> tuple[ArchiveObject, ...]:
    """Give ``partition`` to the objects whose names tell none."""
    if not layout.takes_partition:
        if partition is not None and layout.fields is not None:
            raise UsageError(
                "--partition is not taken beside --map, said now or in an earlier call: the column of --map "
                "partition=COLUMN tells the partition of each record.",
                left=NOTHING_INGESTED,
                next="Leave it out.",
            )
        if partition is not None:
            raise UsageError(
                f"--partition says of which partition objects are that do not tell it; those of layout {layout.name} "
                "do.",
                next="Leave it out.",
            )
        return objects
    for obj in objects:
        if obj.partition is None and partition is None:
            raise make_file_error(
                obj.uri,
                f"it is of layout {layout.name}, and neither its name nor what is in it tells the partition",
                "say it with --partition N, and name the files of one partition at a time",
            )
        if partition is not None and obj.partition not in (None, partition):
            raise make_file_error(
                obj.uri,
                f"its name tells partition {obj.partition}, and --partition says {partition}",
                "leave --partition out, or the object with --exclude GLOB",
            )
    return tuple(obj if obj.partition is not None else replace(obj, partition=partition) for obj in objects)


@dataclass
class ArchiveInput:
    """The objects of an archive that hold records of one topic.

    ``records_of``: whose records are selected. ``readings``: how fields that may be text or base64 are read, as far as
    that is known; a pass adds to it. ``empty_values``, ``deletions``: counted by the last pass, empty values that may
    be null, and values that stand for a deletion. ``rendered``: the fields of which JSON text was made of a structure.
    """

    archive: Archive
    objects: Sequence[ArchiveObject]
    topic: str
    source_topic: str | None
    choices: Choices
    readings: dict[str, Reading] = field(default_factory=dict)
    empty_values: int = 0
    deletions: int = 0
    rendered: set[str] = field(default_factory=set)

    is_ordered = False

    def __post_init__(self) -> None:
        known = {"text": Reading.TEXT, "json": Reading.TEXT, "base64": Reading.BASE64}
        self.readings = {name: known[encoding] for name, encoding in self.choices.encodings.items()}
        self._fixed = frozenset(self.readings)
        self.names = [obj.uri for obj in self.objects]

    def measure(self, number: int) -> int:
        """Return the size of an object, with its parts."""
        return self.objects[number].size_bytes

    def open_pass(self, partitions: int) -> ArchivePass:
        """Begin to read the objects."""
        return ArchivePass(self, TopicFilter(self.topic, self.source_topic), partitions, self._fixed)

    def describe_choices(self) -> dict[str, str]:
        """Return what was decided, by the user or by looking at the records, for the ledger."""
        decided = {name: reading.value for name, reading in self.readings.items() if name not in self._fixed}
        return replace(self.choices, encodings={**decided, **self.choices.encodings}).to_document()


@dataclass(slots=True)
class PassFindings:
    """What a reading of objects found beside their records; that of several readings can be added up.

    ``left_out``: records of other topics, by name. ``rendered``: as :attr:`ArchiveInput.rendered`.
    """

    evidence: EncodingEvidence = field(default_factory=EncodingEvidence)
    empty_values: int = 0
    deletions: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    rendered: frozenset[str] = frozenset()


class ArchivePass:
    """One reading of an archive's objects."""

    def __init__(self, source: ArchiveInput, records_of: TopicFilter, partitions: int, fixed: frozenset[str]) -> None:
        self._source = source
        self.records_of = records_of
        self._partitions = partitions
        self._fixed = fixed
        self._evidence = EncodingEvidence()
        choices = source.choices
        self._options = ReadOptions(
            DEFAULT_BATCH_BYTES, choices.encodings, choices.floors_timestamps, choices.deletes != NULL_TEXT
        )
        self._deleted = DeletedValues(choices.deletes)
        self._empty_values = 0

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the selected records of an object, decoded."""
        archive = self._source.objects[number]
        self._source.rendered |= {name for name, form in archive.forms.items() if form is FieldForm.JSON}
        for chunk in self._source.archive.layout.read(archive, self._options):
            self._source.rendered |= chunk.structured - {"headers"}
            selected = self._select(archive, chunk)
            if selected.records.num_rows:
                yield self._complete(archive, self._decode(archive, selected))

    def finish(self) -> None:
        """Decide how text was to be read, and whether empty values need a decision."""
        source = self._source
        decided = self._evidence.decide()
        undecided = []
        for name, reading in decided.items():
            found = self._evidence.fields[name]
            if name in self._fixed or not found.values:
                continue
            if reading is Reading.EITHER:
                undecided.append(name)
            elif source.readings.get(name, Reading.TEXT) is not reading:
                source.readings[name] = reading
                raise ReadAgainError
        if undecided:
            flags = " ".join(f"--encoding {name}=base64" for name in undecided)
            raise BadInputError(
                f"The field{'s' if len(undecided) > 1 else ''} {', '.join(undecided)} may be text or base64: every "
                "value reads as both.",
                left=NOTHING_INGESTED,
                next=f"Say which it is, for instance: {flags} (or =text)",
            )
        if self._empty_values and source.choices.empty_values is None:
            raise BadInputError(
                f"{self._empty_values:,} values are empty, and this format writes null and empty values the same: "
                "they may be tombstones or empty values.",
                left=NOTHING_INGESTED,
                next="Say which: --empty-values tombstone deletes their keys, --empty-values keep keeps them.",
            )
        source.empty_values = self._empty_values
        source.deletions = self._deleted.count

    def get_findings(self) -> PassFindings:
        """Return what this pass found so far."""
        left_out, rendered = dict(self.records_of.left_out), frozenset(self._source.rendered)
        return PassFindings(self._evidence, self._empty_values, self._deleted.count, left_out, rendered)

    def add_findings(self, found: PassFindings) -> None:
        """Count what another process found in objects of this input, before :meth:`finish`."""
        self._evidence.add(found.evidence)
        self._empty_values += found.empty_values
        self._deleted.count += found.deletions
        self.records_of.note_left_out(found.left_out)
        self._source.rendered |= found.rendered

    def decide_readings(self) -> dict[str, Reading]:
        """Return how each field is to be read of which there are values, unless the user has said it."""
        decided = self._evidence.decide()
        return {
            name: reading
            for name, reading in decided.items()
            if name not in self._fixed and self._evidence.fields[name].values and reading is not Reading.EITHER
        }

    def _select(self, archive: ArchiveObject, chunk: RecordChunk) -> RecordChunk:
        """Leave out records of other topics; a record's own topic counts, else that of the object's name."""
        records = chunk.records

        def locate(index: int) -> tuple[int | None, int | None]:
            return records.column("partition")[index].as_py(), records.column("offset")[index].as_py()

        column = chunk.topics
        if archive.topic is not None:
            if column is None and archive.topic == self.records_of.wanted:
                return chunk
            named = pa.scalar(archive.topic, pa.string())
            column = pa.repeat(named, records.num_rows) if column is None else pc.fill_null(column, named)
        first = records.column("row")[0].as_py() if records.num_rows else 1
        mask = self.records_of.select_rows(column, archive.uri, first, locate)
        return chunk if mask is None else replace(chunk, records=records.filter(pa.array(mask)))

    def _decode(self, archive: ArchiveObject, chunk: RecordChunk) -> pa.RecordBatch:
        if FieldForm.TEXT_OR_BASE64 not in archive.forms.values():
            return chunk.records
        known = self._evidence.add_chunk(archive, chunk)
        readings = self._source.readings
        for name, reading in self._evidence.decide().items():
            if name in self._fixed or not self._evidence.fields[name].values:
                continue
            if name not in readings and reading is not Reading.EITHER:
                readings[name] = reading
                # Values before were such as read the same both ways only if there were none that count.
                if self._evidence.fields[name].values > _count_values(chunk, name):
                    raise ReadAgainError
            elif readings.get(name) is Reading.BASE64 and reading is Reading.TEXT:
                readings[name] = Reading.TEXT
                raise ReadAgainError
        return decode_fields(archive, chunk, readings, known).records

    def _complete(self, archive: ArchiveObject, records: pa.RecordBatch) -> pa.RecordBatch:
        """Apply decisions, and give records the partition of their object's name or of their key."""
        partition, offset = records.column("partition"), records.column("offset")
        if archive.partition is not None and partition.null_count:
            partition = partition.fill_null(archive.partition)
        if partition.null_count and offset.null_count != len(offset):
            unknown = pc.and_(partition.is_null(), offset.is_valid())
            if pc.any(unknown).as_py():
                raise make_file_error(
                    archive.uri,
                    f"record {records.column('row')[pc.index(unknown, True).as_py()].as_py()} has an offset, but "
                    "neither it nor the object's name has a partition",
                    "offsets count per partition, so it cannot be placed by its key; name objects so that topic, "
                    "partition and offset are in the name",
                )
        highest = pc.max(partition).as_py()
        if highest is not None and highest >= self._partitions:
            raise make_file_error(
                archive.uri,
                f"it has partition {highest}, but topic {self.records_of.topic} has {self._partitions} partitions",
                f"add partitions first: winnow topics alter {self.records_of.topic} --partitions {highest + 1}",
            )
        value = self._decide_values(archive, records.column("value"))
        columns = {name: records.column(name) for name in RECORD_SCHEMA.names}
        return make_batch({**columns, "partition": partition, "value": value}, self._partitions)

    def _decide_values(self, archive: ArchiveObject, value: pa.Array) -> pa.Array:
        # Of files whose columns a person named, whether null is empty there is a person's word, too.
        is_mapped = self._source.archive.layout.fields is not None
        is_said = is_mapped and self._source.choices.empty_values == "tombstone"
        if archive.null_is_empty or is_said:
            empty = pc.equal(pc.binary_length(value), 0).fill_null(False)
            count = pc.sum(empty).as_py() or 0
            self._empty_values += count
            if count and self._source.choices.empty_values == "tombstone":
                value = pc.if_else(empty, pa.scalar(None, value.type), value)
        return self._deleted.remove(value)


def _count_values(chunk: RecordChunk, name: str) -> int:
    column = chunk.records.column(name)
    if name == "headers":
        column = column.flatten().field("value")
    return int(np.count_nonzero(pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)))


def list_topics(archive: Archive) -> Mapping[str, list[str]]:
    """Return the topics that names tell, with their objects."""
    found: dict[str, list[str]] = {}
    for obj in archive.objects:
        if obj.topic is not None:
            found.setdefault(format_topic_name(obj.topic), []).append(obj.uri)
    return found


def select_objects(archive: Archive, topic: str, source_topic: str | None) -> list[ArchiveObject]:
    """Return the objects that may hold records of ``source_topic``, or of ``topic`` if that is None.

    Raises:
        BadInputError: names tell that objects are of other topics, and none was chosen; or none is of the chosen one.
    """
    wanted = source_topic or topic
    topics = list_topics(archive)
    others = {name: uris for name, uris in topics.items() if name != wanted}
    if source_topic is None and others:
        shown = join_first([f"{name} ({len(uris):,} objects)" for name, uris in topics.items()], MAXIMUM_TOPICS_NAMED)
        raise BadInputError(
            f"The archive holds records of other topics than {topic}: {shown}.",
            left=NOTHING_INGESTED,
            next="Say whose records to take with --source-topic NAME, or make a topic of each with --each-topic.",
        )
    chosen = [obj for obj in archive.objects if obj.topic is None or obj.topic == wanted]
    if not chosen:
        raise BadInputError(
            f"No object of topic {wanted} is in the archive; it has {join_first(list(topics), MAXIMUM_TOPICS_NAMED)}.",
            left=NOTHING_INGESTED,
            next="Name one of those with --source-topic.",
        )
    return chosen


def split_by_topic(archive: Archive) -> dict[str, tuple[Archive, int | None]]:
    """Return, for each topic by name, the part of ``archive`` that may hold records of it, and how many partitions.

    Topics are those that names of objects tell, else those that records name. Objects whose names do not tell it are
    read, once. Partitions are those seen at least, None where none was. An object with records that name no topic is in
    every part: it is refused when it is read.

    Raises:
        BadInputError: an object cannot be read, or no topic is named.
    """
    places: dict[str, dict[int, int | None]] = {}
    unnamed: set[int] = set()
    for number, obj in enumerate(archive.objects):
        seen: Mapping[str, int | None]
        if obj.topic is not None:
            seen = {format_topic_name(obj.topic): obj.partition}
        else:
            seen, has_unnamed = _survey_topics(archive, obj)
            unnamed |= {number} if has_unnamed else set()
        for topic, highest in seen.items():
            places.setdefault(topic, {})[number] = highest
    if not places:
        raise BadInputError(
            "Neither names nor records name a topic.",
            left=NOTHING_INGESTED,
            next="Say which: winnow ingest files TOPIC PATH...",
        )
    found = {}
    for topic, highest_of in sorted(places.items()):
        part = tuple(obj for number, obj in enumerate(archive.objects) if number in highest_of or number in unnamed)
        told = [highest for highest in highest_of.values() if highest is not None]
        is_known = len(told) == len(highest_of) and max(told) >= 0
        found[topic] = replace(archive, objects=part), max(told) + 1 if is_known else None
    return found


def _survey_topics(archive: Archive, obj: ArchiveObject) -> tuple[dict[str, int], bool]:
    """Return the topics that records of ``obj`` name, with their highest partitions, and whether one names none."""
    seen: dict[str, int] = {}
    has_unnamed = False
    for chunk in archive.layout.read(obj, ReadOptions(floors_timestamps=True)):
        records = chunk.records
        if chunk.topics is None:
            has_unnamed |= records.num_rows > 0
            continue
        partition = records.column("partition").fill_null(-1 if obj.partition is None else obj.partition)
        table = pa.table({"topic": chunk.topics, "partition": partition})
        for row in table.group_by("topic").aggregate([("partition", "max")]).to_pylist():
            if row["topic"]:
                name = format_topic_name(row["topic"])
                seen[name] = max(seen.get(name, -1), row["partition_max"])
            else:
                has_unnamed = True
    return seen, has_unnamed


def count_partitions(archive: Archive, objects: Sequence[ArchiveObject]) -> int | None:
    """Return the number of partitions that ``objects`` have at least; None if neither names nor records tell.

    Reads the objects whose names do not tell it.
    """
    highest = max((obj.partition for obj in objects if obj.partition is not None), default=-1)
    for obj in objects:
        if obj.partition is None:
            for chunk in archive.layout.read(obj, ReadOptions(floors_timestamps=True)):
                highest = max(highest, _find_highest(chunk.records.column("partition")))
    return highest + 1 if highest >= 0 else None


def _find_highest(column: pa.Array) -> int:
    highest = pc.max(column).as_py()
    return -1 if highest is None else int(highest)
