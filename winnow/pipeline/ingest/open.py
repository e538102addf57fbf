"""Opens what the paths of an ingest call name: files of Winnow's own layout, or an archive of another one.

Objects that an earlier call ingested as a whole are not read again: the ledgers know them by name, size and time of
their last change. What the user decided in the last call for the same layout holds unless decided anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from winnow.arrivals.recreated_topic import describe_other_topic_id
from winnow.config.kafka_settings import KafkaRecord
from winnow.config.names import is_topic_name
from winnow.errors import BadInputError, UnknownTopicError, UsageError
from winnow.log.head import Head
from winnow.log.reference_chains import read_ledgers
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest.request import InputDescription, SourcePosition
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_creation
from winnow.sources.archive import (
    Archive,
    ArchiveInput,
    count_partitions,
    is_found_by_fields,
    open_archive,
    select_objects,
)
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layouts.all_layouts import is_in_order
from winnow.sources.layouts.winnow.files import expand_paths
from winnow.sources.listing import Listing
from winnow.sources.objects import ArchiveObject
from winnow.sources.record_input import FilesInput, RecordInput
from winnow.values.epochs import Epoch, format_topic_id
from winnow.values.topic_state import IngestLedger, KnownObject, TopicState

TOPIC_ID = "topic-id"
"""The name of the topic's id among the choices of a ledger."""


def open_log(installation: Installation, topic: str, *, advice: str = "") -> tuple[TopicLog, Head]:
    """Open the log that a call appends to, at its newest head; ``advice``: what to do if there is none.

    Raises:
        BadInputError: there is no such topic.
    """
    log = installation.log.open(topic)
    try:
        return log, log.newest_head()
    except UnknownTopicError as problem:
        raise BadInputError(f"{problem}.", left=NOTHING_INGESTED, next=advice) from problem


def require_topic_name(source_topic: str | None) -> None:
    """Raise if a topic whose records are wanted cannot be one.

    Raises:
        UsageError: Kafka could have no topic of that name.
    """
    if source_topic is not None and not is_topic_name(source_topic):
        raise UsageError("--source-topic names no topic that Kafka could have.", left=NOTHING_INGESTED)


class InputPaths:
    """The paths of a call, of which each is listed once, and what they hold is recognised once."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._listing = Listing()
        self._opened: tuple[object, Archive] | None = None

    def open(self, layout: str, choices: Choices) -> Archive:
        """Find out what the paths hold; raises as :func:`winnow.sources.archive.open_archive`."""
        excluded, fields, partition = decided = choices.exclude, choices.fields, choices.partition
        if self._opened is None or self._opened[0] != (layout, decided):
            listing = self._listing
            archive = open_archive(self._paths, layout, excluded, fields=fields, partition=partition, listing=listing)
            self._opened = (layout, decided), archive
        return self._opened[1]

    def narrow(self, archive: Archive) -> InputPaths:
        """Return these with ``archive``, a part of what :meth:`open` returned last, in its place."""
        assert self._opened is not None
        narrowed = copy(self)
        narrowed._opened = self._opened[0], archive
        return narrowed

    def expand(self, exclude: Sequence[str]) -> list[str]:
        """List the files of Winnow's own layout in the order given."""
        return expand_paths(self._paths, exclude, self._listing)


@dataclass
class OpenedInput(SourcePosition):
    """An input, and what the ledger is to say of it.

    ``known_objects``: those that are not read again. ``topic_id``: what a broker's own files tell of it.
    """

    source: RecordInput
    source_topic: str | None
    known_objects: int = 0
    topic_id: str | None = None
    notices: list[str] = field(default_factory=list)

    def describe(self) -> InputDescription:
        """Describe the layout, choices and objects of an archive."""
        source = self.source
        if not isinstance(source, ArchiveInput):
            return InputDescription(source_topic=self.source_topic)
        return InputDescription(
            layout=source.archive.layout.name,
            choices={**source.describe_choices(), **({} if self.topic_id is None else {TOPIC_ID: self.topic_id})},
            source_topic=self.source_topic,
            objects=tuple(part for obj in source.objects for part in list_parts(obj)),
        )

    def list_notices(self) -> list[str]:
        """Return what a user should know about how the input was read."""
        source = self.source
        notices = list(self.notices)
        if not isinstance(source, ArchiveInput):
            return notices
        layout = source.archive.layout
        notices.append(f"Read as {layout.description.title} (--layout {layout.name}).")
        notices += source.archive.notices
        if self.known_objects:
            notices.append(f"{self.known_objects:,} objects were ingested before and were not read again.")
        if source.rendered:
            fields = " and ".join(sorted(source.rendered))
            notices.append(f"The {fields} were structures here and are JSON text now: their original bytes are gone.")
        if source.empty_values:
            kept = "kept as empty values" if source.choices.empty_values == "keep" else "taken as tombstones"
            notices.append(f"{source.empty_values:,} empty values, which this format writes as null too, were {kept}.")
        if source.deletions:
            notices.append(f"{source.deletions:,} values that stand for a deletion became tombstones.")
        notices += [finding.text for finding in source.archive.findings]
        if layout.survey is not None:
            notices += [finding.text for obj in source.objects for finding in layout.survey(obj).findings]
        return notices


def open_input(
    state: TopicState, paths: InputPaths, *, layout: str, choices: Choices, source_topic: str | None
) -> OpenedInput:
    """Open the input of an ingest call for the topic of ``state``.

    Arguments as of :func:`winnow.pipeline.ingest.ingest.ingest_files`.

    Raises:
        BadInputError: nothing is there to read, or a decision is missing.
        UsageError: there is no such layout.
        ServiceError: an object store cannot be reached.
    """
    ledgers = list(read_ledgers(state, of_archives=True))
    if ledgers:
        before = choices.fill_from(ledgers[-1].choices)
        # A column named before holds as long as nobody says that the files are of another layout now.
        fields = before.fields if is_found_by_fields(layout) else choices.fields
        choices = replace(choices, exclude=before.exclude, fields=fields)
    archive = None if is_in_order(layout) else paths.open(layout, choices)
    if archive is None or archive.layout.keeps_order:
        return OpenedInput(FilesInput(state.topic, paths.expand(choices.exclude), source_topic), source_topic)
    ledgers = [obj for obj in ledgers if (obj.layout, obj.source_topic) == (archive.layout.name, source_topic)]
    if ledgers:
        choices = choices.fill_from(ledgers[-1].choices)
    selected = select_objects(archive, state.topic, source_topic)
    topic_id = _find_topic_id(archive, selected, state, [ledger.choices for ledger in ledgers])
    known = {obj for ledger in ledgers for obj in ledger.objects}
    fresh = [obj for obj in selected if not known.issuperset(list_parts(obj))]
    if topic_id is not None:
        epochs = [epoch for epoch in state.epochs if epoch.topic_id == topic_id]
        # Two epochs of one id: the brokers lost the end of a partition, and have other records at the same offsets.
        if len(epochs) <= 1:
            epoch = epochs[0] if epochs else Epoch()
            fresh = [_skip_taken(obj, topic_id, ledgers, epoch) for obj in fresh]
    order = archive.layout.order
    placed = fresh if order is None else order.place(fresh, choices)
    source = ArchiveInput(archive, placed, state.topic, source_topic, choices)
    notices = _offer_checkpoints(archive, selected, state)
    return OpenedInput(source, source_topic, len(selected) - len(fresh), topic_id, notices)


def _offer_checkpoints(archive: Archive, objects: Sequence[ArchiveObject], state: TopicState) -> list[str]:
    """Say how to take over how far the broker has cleaned the logs of a topic, if that is known.

    Only for partitions that are empty: what was ingested before, the broker has perhaps compacted since.
    """
    if archive.layout.identity is None:
        return []
    empty = {number for number, partition in state.partitions.items() if partition.log_end_offset == 0}
    chosen = [obj for obj in objects if obj.topic == state.topic and obj.partition in empty]
    checkpoint = archive.layout.identity.find_checkpoint(archive.stored, chosen)
    if checkpoint is None:
        return []
    command = f"winnow checkpoints import {shlex.quote(checkpoint.uri)}"
    return [f"The broker had compacted this topic. So that only what came later counts as dirty, type: {command}"]


def _find_topic_id(
    archive: Archive, objects: Sequence[ArchiveObject], state: TopicState, before: Sequence[Mapping[str, str]]
) -> str | None:
    """Find the id that a broker gave the topic; ``before``: the choices of earlier ingests of log directories.

    Raises:
        BadInputError: there are several ids, or an earlier ingest was of another one: the topic was created again.
    """
    if archive.layout.identity is None:
        return None
    epochs = [each.topic_id for each in state.epochs if each.topic_id is not None]
    known = next((format_topic_id(choices[TOPIC_ID]) for choices in reversed(before) if TOPIC_ID in choices), None)
    known = epochs[-1] if epochs else known
    for partition, found in sorted(archive.layout.identity.read_topic_ids(archive.stored, objects).items()):
        if known is not None and found != known and found not in epochs:
            raise BadInputError(describe_other_topic_id(state.topic, partition, known, found))
        known, epochs = found, [found]
    return known


def _skip_taken(obj: ArchiveObject, topic_id: str, ledgers: Sequence[IngestLedger], epoch: Epoch) -> ArchiveObject:
    """Return the log ``obj`` from where an earlier ingest of the same topic of the broker, by its id, ended.

    A broker never changes what is at an offset of a topic; that ingest took all committed records up to its end. So a
    log that grows costs what is new, and can go on after its records were compacted here. The same holds for what was
    read from the brokers themselves, which ``epoch`` tells.
    """
    base = epoch.get_base(obj.partition or 0)
    taken = [epoch.ends.get(obj.partition or 0, base) - base]
    taken += [
        entry.last_offset + 1 - base
        for ledger in ledgers
        if format_topic_id(ledger.choices.get(TOPIC_ID, "")) == topic_id
        for entry in ledger.slices.get(obj.partition or 0, ())
        if entry.records
    ]
    return replace(obj, first_offset=max([obj.first_offset or 0, *taken]))


def list_parts(obj: ArchiveObject) -> list[KnownObject]:
    """List the stored objects of ``obj`` as a ledger knows them: a local path is absolute there."""
    return [KnownObject(_name_part(part.uri), part.size_bytes, part.modified_ns) for part in obj.parts.values()]


def _name_part(uri: str) -> str:
    return uri if "://" in uri else str(Path(uri).absolute())


CreatedTopics = MutableMapping[str, str]
"""The uuid of the table of each topic that a call created."""


def create_topic(
    installation: Installation,
    topic: str,
    partitions: int,
    created: CreatedTopics,
    overrides: Mapping[str, str] | None = None,
    *,
    kafka: KafkaRecord | None = None,
) -> None:
    """Create ``topic`` and note it in ``created``; ``kafka``: what is known of its configuration at Kafka.

    Raises:
        ConfigurationError: this cannot be the name of a topic, or it exists.
    """
    overrides = overrides or {}
    created[topic] = installation.log.create(topic, partitions, overrides, kafka=kafka).head().table_uuid
    record_creation(installation, topic, partitions, overrides)


def describe_default_policy(installation: Installation, topic: str, records: int) -> list[str]:
    """Say what runs remove of a topic that a call created without saying its policy; nothing if they remove nothing.

    ``records``: how many the call appended.
    """
    if not records or not installation.log.open(topic).config().compacts:
        return []
    text = (
        f"Topic {topic} is compacted by default: of {records:,} records a run keeps the newest of each key. What the "
        f"first one may remove: winnow explain {topic} --include-active-segment. To keep all: winnow topics alter "
        f"{topic} --config cleanup.policy=delete"
    )
    return [text]


def create_missing_topic(
    installation: Installation,
    topic: str,
    paths: InputPaths,
    created: CreatedTopics,
    *,
    layout: str,
    choices: Choices,
    source_topic: str | None = None,
    partitions: int | None = None,
) -> int | None:
    """Create ``topic`` unless it is there; return its number of partitions, None if it was there.

    ``created``: it is noted here. ``partitions``: None: as many as the input has, from names, else from the records,
    all of which are read.

    Raises:
        BadInputError: the input cannot be read, or neither names nor records tell a partition.
        ConfigurationError: this cannot be the name of a topic.
    """
    if topic in installation.log.names():
        return None
    archive = paths.open(layout, choices)
    if partitions is None:
        partitions = count_partitions(archive, select_objects(archive, topic, source_topic))
        if partitions is None:
            raise BadInputError(
                f"How many partitions topic {topic} has is not in the input: neither names nor records tell one.",
                left=NOTHING_INGESTED,
                next=(
                    "Say it with --partitions N; records without an offset then go where Kafka's default partitioner "
                    "puts their keys."
                ),
            )
    create_topic(installation, topic, partitions, created)
    return partitions
