"""The head of a topic's log (snapshot and state), and the changes of one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winnow.errors import (
    ForeignTableError,
)
from winnow.log import recorded_configuration as recorded
from winnow.log.document_places import DocumentPlaces
from winnow.log.recorded_configuration import ConfigurationDifference
from winnow.log.table import FENCE_PROPERTY
from winnow.values.model import Segment
from winnow.values.results import Receipt
from winnow.values.reversal import PartitionReversal
from winnow.values.topic_state import TopicState

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Head:
    """A snapshot of a topic's table, the newest unless it says otherwise, and the state that it names.

    ``snapshot_id`` None: no commit yet. ``copies``: the folder of the copies of its documents.
    """

    table: Table
    snapshot_id: int | None
    state: TopicState
    copies: str

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot; None: no commit yet."""
        return None if self.snapshot_id is None else self.table.snapshot_by_id(self.snapshot_id)

    @property
    def location(self) -> str:
        """The table's folder."""
        return str(self.table.location())

    @property
    def documents(self) -> DocumentPlaces:
        """The places of its documents."""
        return DocumentPlaces(self.location, self.copies)

    @property
    def configuration_differences(self) -> tuple[ConfigurationDifference, ...]:
        """Differences between the table's properties and the configuration that Winnow committed."""
        return recorded.list_differences(self.state.configuration, self.table.properties)

    @property
    def table_uuid(self) -> str:
        """Identity of the table; a topic that was dropped and created again has another."""
        return str(self.table.metadata.table_uuid)

    @property
    def fence(self) -> int:
        """The topic's fence, 0 until it is first raised (:mod:`winnow.log.fence`).

        The state remembers it too, in case another tool removed the property.

        Raises:
            ForeignTableError: the property is not a number.
        """
        text = self.table.properties.get(FENCE_PROPERTY, "0")
        if not text.isdecimal():
            raise ForeignTableError(
                f"The table property {FENCE_PROPERTY} of topic {self.state.topic} is not a number that Winnow wrote.",
                left="Nothing was changed.",
                next=f"Remove the property; the fence is {self.state.fence} then.",
            )
        return max(int(text), self.state.fence)


@dataclass(frozen=True)
class Change:
    """The changes of one commit: files in, files out (by path), table properties, and the new state.

    ``remove_from``: the partitions of the removed files, if known; manifests of other partitions are not opened.
    ``receipt`` makes the receipt once the snapshot's id is known; it is written beside the table and referenced from
    the state, with ``reversal``: what taking the change back needs. ``accepts_configuration``: the table's properties
    become the topic's configuration from now on, no matter which tool wrote it. ``above_sequence_number``: the commit's
    snapshot gets a higher one.
    ``begun_ms``: when it began to be built, by this machine's clock: what it dates is not older; None: not said.
    """

    state: TopicState
    add: Sequence[Segment] = ()
    remove: Sequence[str] = ()
    remove_from: Collection[int] | None = None
    summary: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    dropped_properties: tuple[str, ...] = ()
    receipt: Callable[[int], Receipt] | None = None
    reversal: Sequence[PartitionReversal] = ()
    accepts_configuration: bool = False
    above_sequence_number: int = 0
    begun_ms: int | None = None


@dataclass(frozen=True)
class Committed:
    """A successful commit. ``head``: the head of the log that it made."""

    snapshot_id: int
    state: TopicState
    receipt: Receipt | None
    head: Head
