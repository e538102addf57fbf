"""Checks that the files an attempt staged are still there, right before the commit that names them."""

from __future__ import annotations

from winnow.errors import PlanVoidError
from winnow.files import storage
from winnow.files.quarantine import locate_keyless_move_folder
from winnow.model import Plan, StagingManifest


def check_staged_files(plan: Plan, manifest: StagingManifest) -> None:
    """Compare one listing of the plan's folder with the staging manifest: every file is there, with its length.

    Raises:
        PlanVoidError: a file is missing or has another length.
        ServiceError: the object store does not answer.
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
            f"{len(wrong)} file(s) that attempt {manifest.attempt} at plan {plan.plan_id} of topic {plan.topic} staged "
            f"are gone or have another length, {wrong[0]} among them. The plan is void and nothing was published. Run "
            "it again: the next attempt writes them anew."
        )


def _list_plan_files(data_location: str, plan_id: str) -> list[storage.FileEntry]:
    return storage.list_files(storage.join(data_location, plan_id))
