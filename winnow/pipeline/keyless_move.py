"""Keyless records that a compaction takes out of the log, into the quarantine: adopted before the log's commit.

The attempt has written them into the quarantine's folder already. A crash between the adoption and the log's commit
leaves rows that nobody sees, because the log's state does not name their ingest id, and the records are still in the
log.
"""

from __future__ import annotations

from winnow.files.quarantine import make_keyless_move_id
from winnow.model import Plan, StagingManifest
from winnow.pipeline.context import Context


def adopt_keyless_files(ctx: Context, plan: Plan, manifest: StagingManifest) -> str | None:
    """Take the attempt's files with keyless records into the quarantine's table.

    The same file is never added twice, so publishing again changes nothing. Call it before the log's commit, and let
    that commit name the result in :attr:`winnow.model.TopicState.quarantine_ingests`.

    Returns:
        The ingest id of the moved records, None when the attempt moved none.

    Raises:
        CommitConflictError: other commits to the quarantine came first too often; nothing moved.
        ServiceError: the catalog cannot be reached.
    """
    files = [file for part in manifest.partitions for file in part.keyless_files]
    if not files:
        return None
    ctx.log.quarantine(plan.topic).adopt(files)
    return make_keyless_move_id(plan.plan_id, manifest.attempt)
