"""Makes the immutable plan of an ingest from what is known of its objects, and objects of it again in the tasks.

What names do not tell is found out: a first application surveys objects whose offsets are unknown, and whatever a later
one finds otherwise than planned (objects that reach further, a field that is base64) is known when it is planned again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from winnow import __version__
from winnow.engine.ingest_documents import compute_ingest_plan_id
from winnow.errors import BadInputError
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.planning.ingest_ranges import Arrival, add_log, choose_range_bytes, divide_arrivals, list_arrivals
from winnow.sources.archive import Archive, ArchiveInput, PassFindings
from winnow.sources.choices import Choices
from winnow.sources.formats.encoding import EncodingEvidence, FieldEvidence, Reading
from winnow.sources.layouts.all_layouts import get_layout
from winnow.sources.objects import ArchiveObject, FieldForm, Offsets, ReadOptions, StoredObject
from winnow.values.ingest_plans import (
    FieldCounts,
    IngestPlan,
    OffsetExtent,
    PlannedErasures,
    PlannedObject,
    PlannedPart,
    TaskFindings,
)
from winnow.values.model import Segment
from winnow.values.topic_state import PartitionState, TopicState


def plan_object(number: int, obj: ArchiveObject) -> PlannedObject:
    """Return ``obj``, the ``number``-th of its call, as a plan has it."""
    return PlannedObject(
        number=number,
        uri=obj.uri,
        parts={role: _plan_part(part) for role, part in obj.parts.items()},
        topic=obj.topic,
        partition=obj.partition,
        first_offset=obj.first_offset,
        forms={name: form.value for name, form in obj.forms.items()},
        reference=None if obj.reference is None else _plan_part(obj.reference),
        null_is_empty=obj.null_is_empty,
        offsets=obj.offsets.value,
    )


def restore_object(layout: str, planned: PlannedObject) -> ArchiveObject:
    """Return the object that ``planned`` stands for."""
    return ArchiveObject(
        layout=layout,
        uri=planned.uri,
        parts={role: _restore_part(part) for role, part in planned.parts.items()},
        topic=planned.topic,
        partition=planned.partition,
        first_offset=planned.first_offset,
        forms={name: FieldForm(form) for name, form in planned.forms.items()},
        reference=None if planned.reference is None else _restore_part(planned.reference),
        null_is_empty=planned.null_is_empty,
        offsets=Offsets(planned.offsets),
    )


def open_planned_input(plan: IngestPlan, objects: Sequence[PlannedObject]) -> ArchiveInput:
    """Open ``objects`` of ``plan`` with its decisions."""
    layout = get_layout(plan.layout)
    restored = tuple(restore_object(plan.layout, planned) for planned in objects)
    archive = Archive(layout, restored, ())
    choices = Choices().fill_from(plan.choices)
    source = ArchiveInput(archive, restored, plan.topic, plan.source_topic, choices)
    source.readings |= {name: Reading(reading) for name, reading in plan.readings.items()}
    return source


def count_evidence(evidence: EncodingEvidence) -> dict[str, FieldCounts]:
    """Return ``evidence`` as a result has it; fields without values are left out."""
    return {
        name: FieldCounts(counted.values, counted.canonical, counted.showing, counted.structured)
        for name, counted in evidence.fields.items()
        if counted.values or counted.structured
    }


def restore_findings(findings: TaskFindings) -> PassFindings:
    """Return what a task found, as a pass of this process would have it."""
    restored = EncodingEvidence()
    for name, counts in findings.evidence.items():
        restored.fields[name].add(FieldEvidence(counts.values, counts.canonical, counts.showing, counts.structured))
    return PassFindings(
        restored, findings.empty_values, findings.deletions, dict(findings.left_out), frozenset(findings.rendered)
    )


def _plan_part(part: StoredObject) -> PlannedPart:
    return PlannedPart(part.uri, part.size_bytes, part.modified_ns)


def _restore_part(part: PlannedPart) -> StoredObject:
    return StoredObject(part.uri, part.size_bytes, part.modified_ns)


PROBED_OBJECTS = 3
SURVEYED_BYTES = 128 << 20
"""Objects surveyed in one unit of work."""


@dataclass
class InputKnowledge:
    """What is known of an input. ``extents``: per object, by number, the offsets of its records.

    ``readings``: per field that may be text or base64 how it is read. Both grow from plan to plan.
    """

    source: ArchiveInput
    extents: dict[int, dict[int, OffsetExtent]] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.readings = {**probe_readings(self.source), **self.source.readings}

    def list_unknown(self) -> list[int]:
        """Return the numbers of objects whose partitions and offsets neither their names nor a reading tell."""
        return [
            number
            for number, obj in enumerate(self.source.objects)
            if number not in self.extents and (obj.partition is None or obj.first_offset is None)
        ]

    def list_arrivals(self) -> list[Arrival]:
        """Return the offsets of all objects, once none is unknown."""
        arrivals: list[Arrival] = []
        for number, obj in enumerate(self.source.objects):
            named = obj.partition, obj.first_offset
            arrivals += list_arrivals(number, obj.size_bytes, named, self.extents.get(number)) or []
        return arrivals


def probe_readings(source: ArchiveInput) -> dict[str, Reading]:
    """Guess from the first records of some objects how fields are read; the whole input decides it later."""
    fields = {name for obj in source.objects for name, form in obj.forms.items() if form is FieldForm.TEXT_OR_BASE64}
    if not fields:
        return {}
    evidence = EncodingEvidence()
    options = ReadOptions(encodings=source.choices.encodings, floors_timestamps=True)
    largest = sorted(source.objects, key=lambda obj: (-obj.size_bytes, obj.uri))
    for obj in largest[:PROBED_OBJECTS]:
        try:
            chunk = next(iter(source.archive.layout.read(obj, options)), None)
        except BadInputError:
            continue  # the task that reads it says what is wrong
        if chunk is not None:
            evidence.add_chunk(obj, chunk)
    decided = evidence.decide()
    return {name: Reading.BASE64 if decided[name] is Reading.BASE64 else Reading.TEXT for name in sorted(fields)}


@dataclass(frozen=True)
class IngestPlanner:
    """Makes the plans of one try of an ingest call; ``location``: of the table of the log in ``state``.

    ``erasures``: what tasks leave out; None: no key was erased.
    """

    state: TopicState
    location: str
    knowledge: InputKnowledge
    ingest_id: str
    source_topic: str | None
    segment_bytes: int
    needs_keys: bool
    erasures: PlannedErasures | None = None

    def make_survey(self) -> IngestPlan | None:
        """Make the plan that finds out the offsets of objects; None if all of them are known."""
        unknown = self.knowledge.list_unknown()
        if not unknown:
            return None
        groups: list[list[int]] = [[]]
        size_bytes = 0
        for number in unknown:
            if size_bytes >= SURVEYED_BYTES:
                groups.append([])
                size_bytes = 0
            groups[-1].append(number)
            size_bytes += self.knowledge.source.objects[number].size_bytes
        # Read as text, nothing is decoded; the evidence tells how it is to be read.
        readings = dict.fromkeys(self.knowledge.readings, Reading.TEXT.value)
        plan = replace(self._make(), readings=readings, surveyed=tuple(map(tuple, groups)))
        return replace(plan, plan_id=compute_ingest_plan_id(plan))

    def make_plan(self, live: Mapping[int, tuple[Segment, ...]]) -> IngestPlan:
        """Make the plan that ingests all objects; ``live``: the segments of the log."""
        arrivals = self.knowledge.list_arrivals()
        total_bytes = sum(obj.size_bytes for obj in self.knowledge.source.objects)
        states = self.state.partitions
        # A partition that the topic does not have is refused by the task, which knows the record.
        beyond = {arrival.partition: PartitionState() for arrival in arrivals if arrival.partition not in states}
        ranges = divide_arrivals(arrivals, choose_range_bytes(total_bytes))
        plan = replace(self._make(), ranges=add_log(ranges, {**states, **beyond}, live))
        return replace(plan, plan_id=compute_ingest_plan_id(plan))

    def _make(self) -> IngestPlan:
        source = self.knowledge.source
        return IngestPlan(
            plan_id="",
            topic=source.topic,
            ingest_id=self.ingest_id,
            folder=locate_ingest_folder(self.location, self.ingest_id),
            layout=source.archive.layout.name,
            source_topic=self.source_topic,
            choices=source.choices.to_document(),
            readings={name: reading.value for name, reading in sorted(self.knowledge.readings.items())},
            partition_count=len(self.state.partitions),
            needs_keys=self.needs_keys,
            segment_bytes=self.segment_bytes,
            objects=tuple(plan_object(number, obj) for number, obj in enumerate(source.objects)),
            winnow_version=__version__,
            erasures=self.erasures,
        )
