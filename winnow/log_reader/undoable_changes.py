"""Questions about undo: the changes of a topic's log, newest first, and what taking each back would bring now."""

from __future__ import annotations

from typing import Final

from winnow.log_reader.documents import Document, describe
from winnow.log_reader.question import Answer, Parameters
from winnow.pipeline.installation import Installation
from winnow.pipeline.undo.listing import list_undoable

MAXIMUM_CHANGES: Final = 100
"""Each is decided over all that came after it, partition by partition."""
MAXIMUM_PARTITIONS_PER_CHANGE: Final = 50


def list_changes(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """List the newest ``limit`` changes; ``has_more``: there are older ones."""
    limit = max(1, min(parameters.number("limit"), MAXIMUM_CHANGES))
    # One more than is shown, since nothing counts deletions of records and runs together.
    found = list_undoable(installation, topic, limit=limit + 1)
    changes: list[Document] = []
    for change in found.changes[:limit]:
        document = describe(change)
        document["partitions_total"] = len(change.partitions)
        document["undone_total"] = len(change.undone_partitions)
        for name in ("partitions", "undone_partitions"):
            document[name] = document[name][:MAXIMUM_PARTITIONS_PER_CHANGE]
        changes.append(document)
    return Answer(
        {
            "topic": topic,
            "grace_ms": found.grace_ms,
            "has_more": len(found.changes) > limit,
            "changes": changes,
        }
    )
