"""Turns archives into the values of an ingest plan, and back in the task that reads them."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.sources.archive import Archive, ArchiveInput, PassFindings
from winnow.sources.choices import Choices
from winnow.sources.formats.encoding import EncodingEvidence, FieldEvidence, Reading
from winnow.sources.layouts.all_layouts import get_layout
from winnow.sources.objects import ArchiveObject, FieldForm, Offsets, StoredObject
from winnow.values.ingest_plans import FieldCounts, IngestPlan, PlannedObject, PlannedPart, TaskFindings


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
    restored = tuple(restore_object(plan.layout, each) for each in objects)
    archive = Archive(layout, restored, ())
    choices = Choices().fill_from(plan.choices)
    source = ArchiveInput(archive, restored, plan.topic, plan.source_topic, choices)
    source.readings |= {name: Reading(reading) for name, reading in plan.readings.items()}
    return source


def count_evidence(evidence: EncodingEvidence) -> dict[str, FieldCounts]:
    """Return ``evidence`` as a result has it; fields without values are left out."""
    return {
        name: FieldCounts(each.values, each.canonical, each.showing, each.structured)
        for name, each in evidence.fields.items()
        if each.values or each.structured
    }


def restore_findings(found: TaskFindings) -> PassFindings:
    """Return what a task found, as a pass of this process would have it."""
    restored = EncodingEvidence()
    for name, each in found.evidence.items():
        restored.fields[name].add(FieldEvidence(each.values, each.canonical, each.showing, each.structured))
    return PassFindings(restored, found.empty_values, found.deletions, dict(found.left_out), frozenset(found.rendered))


def _plan_part(part: StoredObject) -> PlannedPart:
    return PlannedPart(part.uri, part.size_bytes, part.modified_ns)


def _restore_part(part: PlannedPart) -> StoredObject:
    return StoredObject(part.uri, part.size_bytes, part.modified_ns)
