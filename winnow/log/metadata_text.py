"""Serializes a table's metadata, reusing the text of unchanged snapshots.

Most of it is the list of snapshots, and a commit appends one to it. So the text of those that were written before is
kept and put in front; all else is PyIceberg's to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.table.metadata import TableMetadataV2

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_NONE: Final = '"snapshots":[]'
"""Within a value its quotation marks would be escaped, so it is found once at most."""


@dataclass(frozen=True)
class SnapshotsText:
    """Snapshots and their text, commas between them."""

    snapshots: Sequence[Snapshot]
    text: str

    def begins(self, snapshots: Sequence[Snapshot]) -> bool:
        """Whether ``snapshots`` are these very ones and perhaps more. Equal ones do not count: that would be slow."""
        own = self.snapshots
        return 0 < len(own) <= len(snapshots) and all(one is other for one, other in zip(own, snapshots, strict=False))


class MetadataText:
    """Stands for ``metadata`` where PyIceberg writes it.

    Args:
        metadata: to be written.
        known: text of the snapshots before, if there is any.
    """

    def __init__(self, metadata: TableMetadata, known: SnapshotsText | None) -> None:
        self._metadata = metadata
        self._known = known if known is not None and known.begins(metadata.snapshots) else None
        self.written: SnapshotsText | None = None
        """The text of all snapshots, once it was made."""
        self._made: dict[bool, str] = {}

    def model_dump_json(self, *, exclude_none: bool) -> str:
        """The text PyIceberg makes of the metadata; as its method of that name. It is made once."""
        if exclude_none not in self._made:
            self._made[exclude_none] = self._text(exclude_none=exclude_none)
        return self._made[exclude_none]

    def _text(self, *, exclude_none: bool) -> str:
        metadata = self._metadata
        without = metadata.model_copy(update={"snapshots": []}).model_dump_json(exclude_none=exclude_none)
        before, found, after = without.partition(_NONE)
        if not (found and exclude_none and isinstance(metadata, TableMetadataV2)):
            return metadata.model_dump_json(exclude_none=exclude_none)
        before = f'{before}"snapshots":['
        if self._known is None:
            whole = metadata.model_dump_json(exclude_none=True)
            text = whole[len(before) : len(whole) - len(after) - 1]
        else:
            added = metadata.snapshots[len(self._known.snapshots) :]
            text = ",".join([self._known.text, *(each.model_dump_json(exclude_none=True) for each in added)])
            whole = f"{before}{text}]{after}"
        self.written = SnapshotsText(metadata.snapshots, text)
        return whole
