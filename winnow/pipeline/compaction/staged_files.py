"""Checks that the files of a staging manifest belong to its attempt and still exist.

A staging manifest is written where others may write, and publishing it adds its files to the table. So they must be
where only this attempt at this plan writes: below the table's own folder, under plan id and attempt.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from winnow.errors import PlanVoidError
from winnow.files import storage
from winnow.files.quarantine_files import locate_keyless_move_folder
from winnow.values.counts import format_count
from winnow.values.model import PartitionPlan, Plan, Segment
from winnow.values.results import StagedPartition, StagingManifest


def check_staged_files(plan: Plan, manifest: StagingManifest) -> None:
    """Check one listing of the plan's folder against the staging manifest: every file exists with its length.

    Raises:
        PlanVoidError: a file is missing or has another length.
        ServiceError: the object store cannot be reached.
    """
    outputs = [output for part in manifest.partitions for rewrite in part.rewrites for output in rewrite.outputs]
    keyless = [path for part in manifest.partitions for path in part.keyless_files]
    wrong: list[str] = []
    if outputs:
        found = {entry.uri: entry.size_bytes for entry in _list_plan_files(plan.data_location, plan.plan_id)}
        wrong += [output.path for output in outputs if found.get(output.path) != output.size_bytes]
    if keyless and plan.quarantine_location is not None:
        there = {
            entry.uri
            for entry in storage.list_files(locate_keyless_move_folder(plan.quarantine_location, plan.plan_id))
        }
        wrong += [path for path in keyless if path not in there]
    if wrong:
        raise PlanVoidError(
            f"Gone, or of another length: {format_count(len(wrong), 'file')} that attempt {manifest.attempt} at plan "
            f"{plan.plan_id} of topic {plan.topic} staged, {wrong[0]} among them.",
            left="The plan is void and nothing was published.",
            next="Run it again: the next attempt writes them anew.",
        )


def _list_plan_files(data_location: str, plan_id: str) -> list[storage.FileEntry]:
    return storage.list_files(storage.join(data_location, plan_id))


_FILE_NAME = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\.parquet")
"""Folders and file below an attempt: no leading dots and no escapes, so no path leads outside."""


def is_below_attempt(path: str, data_folder: str, plan_id: str, attempt: str) -> bool:
    """Check whether ``path`` is a file of ``attempt`` at a plan, below ``data_folder``.

    The tasks of an attempt write into the folder of that name, or into folders whose names begin with it and a hyphen.
    """
    folder = f"{storage.join(data_folder, plan_id)}/"
    if not path.startswith(folder):
        return False
    below = path[len(folder) :]
    top, slash, _ = below.partition("/")
    mine = top == attempt or top.startswith(f"{attempt}-")
    return bool(slash) and mine and _FILE_NAME.fullmatch(below) is not None


def find_foreign_files(
    plan: Plan, manifest: StagingManifest, staged: StagedPartition, *, location: str, quarantine_location: str
) -> list[str]:
    """Find paths of new segments and keyless files of ``staged`` that this attempt cannot have written, sorted.

    ``location`` and ``quarantine_location``: the folders of the topic's own tables, not those in the plan.
    """
    segments = [segment.path for rewrite in staged.rewrites for segment in rewrite.outputs]
    places = (
        (storage.join(location, "data"), segments),
        (storage.join(quarantine_location, "data"), staged.keyless_files),
    )
    return sorted(
        path
        for folder, paths in places
        for path in paths
        if not is_below_attempt(path, folder, plan.plan_id, manifest.attempt)
    )


def find_misfits(partition: PartitionPlan, staged: StagedPartition) -> list[str]:
    """Describe errors in the replacements of one partition, by the manifest's own figures; empty if there are none.

    Inputs must be planned segments of this partition, each once. New segments must bear this partition's number, have
    rising offset ranges that do not meet, and lie within the offsets of the segments that they replace.
    """
    found: list[str] = []
    planned = {segment.path: segment for segment in partition.segments}
    times = Counter(path for rewrite in staged.rewrites for path in rewrite.inputs)
    found += [f"{path} is replaced and was not planned" for path in times if path not in planned]
    found += [f"{path} is replaced {count} times" for path, count in times.items() if count > 1]
    for rewrite in staged.rewrites:
        inputs = [planned[path] for path in rewrite.inputs if path in planned]
        found += [
            problem
            for output in rewrite.outputs
            if (problem := _describe_misfit(partition, inputs, output)) is not None
        ]
    outputs = [segment for rewrite in staged.rewrites for segment in rewrite.outputs]
    found += [f"{path} is named twice" for path, count in Counter(s.path for s in outputs).items() if count > 1]
    staying = [segment for segment in partition.segments if segment.path not in times]
    spans = sorted((segment.first_offset, segment.last_offset) for segment in (*outputs, *staying))
    found += [f"two segments hold offset {after[0]}" for before, after in pairwise(spans) if after[0] <= before[1]]
    in_order = all(before.last_offset < after.first_offset for before, after in pairwise(outputs))
    if not in_order:
        found.append("the new segments are not in the order of their offsets")
    return found


def _describe_misfit(partition: PartitionPlan, inputs: list[Segment], output: Segment) -> str | None:
    if output.partition != partition.partition:
        return f"{output.path} is said to be of partition {output.partition}"
    if output.records < 1 or output.first_offset > output.last_offset:
        return f"{output.path} is said to hold no record"
    lowest = min((segment.first_offset for segment in inputs), default=0)
    highest = max((segment.last_offset for segment in inputs), default=-1)
    if not lowest <= output.first_offset <= output.last_offset <= highest:
        return f"{output.path} holds offsets that the segments it replaces do not"
    return None


def count_misfits(
    plan: Plan, manifest: StagingManifest, *, location: str, quarantine_location: str
) -> dict[int, tuple[int, int]]:
    """Count, per planned or staged partition, foreign files and other errors of the staged replacements."""
    planned = {partition.partition: partition for partition in plan.partitions}
    found = dict.fromkeys(planned, (0, 0))
    for staged in manifest.partitions:
        foreign, wrong = found.get(staged.partition, (0, 0))
        partition = planned.get(staged.partition)
        found[staged.partition] = (
            foreign
            + len(
                find_foreign_files(plan, manifest, staged, location=location, quarantine_location=quarantine_location)
            ),
            wrong + (1 if partition is None else len(find_misfits(partition, staged))),
        )
    for number, count in Counter(staged.partition for staged in manifest.partitions).items():
        if count > 1:
            found[number] = (found[number][0], found[number][1] + 1)
    for number in planned.keys() - {staged.partition for staged in manifest.partitions}:
        found[number] = (found[number][0], found[number][1] + 1)
    return found
