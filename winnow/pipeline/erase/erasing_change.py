"""Makes the commit of an erasure: files with a key leave, the fence rises, and the state names the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from winnow.log import fence
from winnow.log.head import Change, Head
from winnow.log.table import FENCE_PROPERTY
from winnow.pipeline.admin.leftovers import apply_voided_ingests
from winnow.pipeline.installation import Installation
from winnow.store import OpenIngest
from winnow.values.model import Segment
from winnow.values.topic_state import ERASURE_PREFIX, ErasureReference, RetiredFile

OPERATION: Final = "erase"
"""Value of ``winnow.operation`` in the summary of a snapshot that erased keys and did nothing else."""
ERASURE_PROPERTY: Final = "winnow.erasure"
"""Property of a snapshot's summary: the id of its erasure."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that hold an erased key: live ones, those that left the log; and what takes the place of each live."""

    holding: Sequence[Segment]
    left_log: Sequence[RetiredFile]
    made: Mapping[str, Sequence[Segment]] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The paths of all that hold a key."""
        return [*(segment.path for segment in self.holding), *(file.path for file in self.left_log)]


def add_erasure(
    base: Change,
    head: Head,
    erasure_id: str,
    found: FoundFiles,
    references: Sequence[ErasureReference],
    calls: Sequence[OpenIngest],
    now_ms: int,
) -> Change:
    """Return ``base``, a commit to ``head`` that moves no files, with an erasure.

    Args:
        base: what the commit does besides.
        head: the head.
        erasure_id: under which the files are condemned.
        found: the files that hold a key.
        references: of the documents that the state is to name after those that it has.
        calls: the ingest calls that are open, which become void.
        now_ms: the time of the erasure.
    """
    state, name = base.state, f"{ERASURE_PREFIX}{erasure_id}"
    doomed = [
        *(RetiredFile(segment.path, segment.size_bytes, now_ms, name) for segment in found.holding),
        *(file if file.plan_id.startswith(ERASURE_PREFIX) else replace(file, plan_id=name) for file in found.left_log),
    ]
    gone = {file.path for file in found.left_log}
    after = replace(
        apply_voided_ingests(state, calls, ()) if calls else state,
        retired=tuple(file for file in state.retired if file.path not in gone),
        condemned=(*(file for file in state.condemned if file.path not in gone), *doomed),
    )
    present = int(base.properties.get(FENCE_PROPERTY, 0))
    raised = fence.make_fence_change(replace(head, state=after), [present], operation=OPERATION)
    named = tuple(replace(each, fence=raised.state.fence) for each in references)
    return replace(
        base,
        state=replace(raised.state, erasures=(*state.erasures, *named)),
        add=[segment for after_one in found.made.values() for segment in after_one],
        remove=[segment.path for segment in found.holding],
        remove_from={segment.partition for segment in found.holding},
        summary={**raised.summary, **base.summary, ERASURE_PROPERTY: erasure_id},
        properties={**base.properties, **raised.properties},
    )


def list_other_calls(installation: Installation, topic: str, erasure_id: str) -> list[OpenIngest]:
    """List the open ingest calls of ``topic`` but the row of the erasure itself."""
    return [call for call in installation.store.ingests.list_open(topic) if call.ingest_id != erasure_id]


def note_committed(installation: Installation, head: Head, erasure_id: str) -> None:
    """Record in the store the files that a committed erasure condemned, and which of the open ingest calls it voided.

    Before its own row goes: whoever watches erasures looks where such files, or a call that died, are recorded.
    """
    state, store = head.state, installation.store
    store.retired_files.record_erased(state.topic, state.list_erased_files(), table_uuid=head.table_uuid)
    calls = list_other_calls(installation, state.topic, erasure_id)
    voided = [each.ingest_id for each in calls if state.is_voided(each.ingest_id, each.number)]
    store.ingests.note_voided(voided, installation.now_ms())
