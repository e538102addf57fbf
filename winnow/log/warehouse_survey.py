"""Surveys the folder of one table: which metadata files lie there, and which of them the catalog has had.

A listing proves nothing: it finds candidates, and each of them has to be this table's by its own content. A metadata
file is written before the catalog names it, so a file may belong to a commit that lost its race, or died before it
landed. What landed is known by two things: a later metadata file names it as its predecessor, which every commit reads
from the catalog, or something outside of the folder (the store's record) names it.

No link is followed, and nothing is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from winnow.errors import WinnowError
from winnow.files import storage
from winnow.log.file_checksums import read_table_metadata
from winnow.log.head_checks import find_contradiction
from winnow.log.places import is_below, is_same_place
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY
from winnow.log.state import STATE_PROPERTY, StateReference, read_state
from winnow.log.table import FENCE_PROPERTY
from winnow.values.topic_state import TopicState

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

MAXIMUM_READERS: Final = 8
"""Maximum metadata files that are read at a time."""
MAXIMUM_DIGITS: Final = 15
"""No sequence number or fence that commits reach has more; one that does was forged."""

_AMBIGUOUS: Final = 2
_NAME: Final = re.compile(r"v?(\d{1,15})[-.](?:[^/]*\.)?metadata\.json(?:\.gz)?")
"""As catalogs (00003-UUID.metadata.json) and Hadoop (v3.metadata.json) name them, compressed or not."""


@dataclass(frozen=True)
class FoundMetadata:
    """One metadata file of a table's folder. ``number``: the one in its name, 0 if it has none.

    ``fault``: why it is not this table's, or cannot be believed; ``metadata`` is None where it could not be read.
    """

    location: str
    number: int
    metadata: TableMetadata | None
    fault: str | None

    @property
    def name(self) -> str:
        """The file's name, by which metadata files are compared."""
        return storage.get_name(self.location)

    @property
    def previous(self) -> str | None:
        """Name of the metadata file that the catalog had when this one was written; None: the table's first."""
        log = self.metadata.metadata_log if self.metadata is not None else []
        return storage.get_name(log[-1].metadata_file) if log else None

    @property
    def history(self) -> tuple[str, ...]:
        """Names of the metadata files before this one, as far as it names them, and its own; oldest first."""
        log = self.metadata.metadata_log if self.metadata is not None else []
        return (*(storage.get_name(each.metadata_file) for each in log), self.name)

    @property
    def sequence_number(self) -> int:
        """Sequence number of the newest commit."""
        return getattr(self.metadata, "last_sequence_number", 0)

    @property
    def fence(self) -> int:
        """The fence in the table's properties; 0: it was never raised, or is no number."""
        text = self.metadata.properties.get(FENCE_PROPERTY, "0") if self.metadata is not None else "0"
        return int(text) if _is_possible(text) else 0

    @property
    def table_uuid(self) -> str | None:
        """Identity of the table; None where the file could not be read."""
        return str(self.metadata.table_uuid) if self.metadata is not None else None

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None: there was no commit."""
        return self.metadata.current_snapshot() if self.metadata is not None else None

    @property
    def rank(self) -> tuple[int, int, int]:
        """What decides which of two is the newer one."""
        updated_ms = self.metadata.last_updated_ms if self.metadata is not None else 0
        return self.sequence_number, self.number, updated_ms


@dataclass(frozen=True)
class WarehouseSurvey:
    """The metadata files of one table's folder, oldest first.

    ``known``: names of metadata files that something outside of the folder says landed.
    """

    location: str
    found: tuple[FoundMetadata, ...]
    known: frozenset[str] = frozenset()

    @cached_property
    def candidates(self) -> tuple[FoundMetadata, ...]:
        """Those that are this table's, oldest first."""
        return tuple(each for each in self.found if each.fault is None)

    @cached_property
    def landed(self) -> tuple[FoundMetadata, ...]:
        """Candidates that the catalog has had, oldest first: a later one names them, or they are known."""
        names = self.known.union(*(each.history[:-1] for each in self.candidates))
        return tuple(each for each in self.candidates if each.name in names)

    @cached_property
    def unproven(self) -> tuple[FoundMetadata, ...]:
        """Candidates of which nothing says that they landed, though nothing says that they did not, oldest first.

        A commit over the newest landed metadata may have come last. One over an older one lost its race.
        """
        return tuple(each for each in self.candidates if each not in self.landed and not self._has_lost(each))

    @property
    def lost(self) -> tuple[FoundMetadata, ...]:
        """Candidates that did not land, oldest first: another commit was made from what they were made from."""
        return tuple(each for each in self.candidates if each not in self.landed and self._has_lost(each))

    def _has_lost(self, leaf: FoundMetadata) -> bool:
        newest = self.landed[-1] if self.landed else None
        return newest is not None and (leaf.rank < newest.rank or leaf.previous in newest.history[:-1])

    @cached_property
    def rivals(self) -> tuple[FoundMetadata, ...]:
        """Landed candidates of another history than the newest one's, which was not raised above them, oldest first.

        Two histories arise when an older catalog is put back and committed to. Winnow then raises all numbers above
        those of the history that is given up; where another program committed, nothing says which of the two counts.
        """
        return tuple(each for each in self.landed if self._is_rival(each))

    def _is_rival(self, other: FoundMetadata) -> bool:
        history = self.landed[-1].history
        if other.name in history:
            return False
        common = [name for name in other.history if name in history]
        after = history[history.index(common[-1]) + 1 if common else 0]
        first = next((each for each in self.candidates if each.name == after), self.landed[-1])
        return first.rank[:2] <= other.rank[:2]  # raised numbers are higher, not only later

    @property
    def newest(self) -> FoundMetadata | None:
        """The table's newest metadata; None: there is none, or several could be it.

        A single commit over the newest landed one is taken: its caller may have been told that it landed, and if it did
        not, it is what somebody asked for, made from exactly that log, and nothing came after it. It is not taken where
        something outside of the folder knows the newest landed one, since that would have been told of the commit.
        """
        if self.rivals:
            return None
        if self.landed and self.landed[-1].name in self.known:
            return self.landed[-1]
        return next(reversed([*self.landed, *self.unproven]), None) if len(self.unproven) < _AMBIGUOUS else None

    @property
    def newest_metadata_location(self) -> str | None:
        """Location of the highest candidate, whether it landed or not; None: there is none."""
        return self.candidates[-1].location if self.candidates else None

    @property
    def highest_metadata_number(self) -> int:
        """The highest number of a metadata file; 0: there is none."""
        return max((each.number for each in self.candidates), default=0)

    @property
    def highest_sequence_number(self) -> int:
        """The highest sequence number of any commit, landed or not; 0: there is none."""
        return max((each.sequence_number for each in self.candidates), default=0)

    @cached_property
    def highest_fence(self) -> int:
        """The highest fence that any metadata file, or a state that it names, has."""
        states = [state.fence for state in self.states.values()]
        return max([each.fence for each in self.candidates] + states, default=0)

    @cached_property
    def highest_ingest_number(self) -> int:
        """The highest number of an ingest call that any state names, as valid or as void."""
        states = self.states.values()
        voided = [each.number for state in states for each in state.voided_ingests]
        return max([state.first_valid_ingest for state in states] + voided, default=0)

    @cached_property
    def states(self) -> dict[str, TopicState]:
        """The carried states of the candidates' newest snapshots that can be read, by name of the metadata file."""
        with ThreadPoolExecutor(MAXIMUM_READERS, thread_name_prefix="states") as pool:
            read = pool.map(lambda each: _find_state(self.location, each), self.candidates)
            pairs = zip(self.candidates, read, strict=True)
            return {found.name: state for found, state in pairs if state is not None}


def survey_table(
    io: FileIO, location: str, *, table_uuid: str | None = None, known: Collection[str] = (), is_log: bool = True
) -> WarehouseSurvey:
    """Survey the folder of one table.

    Args:
        io: access to the files, as the catalog opens them.
        location: the table's folder.
        table_uuid: identity of the table; None: whatever lies there (:attr:`FoundMetadata.table_uuid` tells).
        known: locations of metadata files that landed, from outside of the folder.
        is_log: it has to be a topic's log; else any table may lie there.

    Raises:
        ServiceError: the object store does not serve the folder.
    """
    listed = list(_list_metadata_files(location))
    with ThreadPoolExecutor(MAXIMUM_READERS, thread_name_prefix="metadata") as pool:
        found = list(
            pool.map(
                lambda each: _read_candidate(
                    io, partial(find_fault, location=location, table_uuid=table_uuid, is_log=is_log), *each
                ),
                listed,
            )
        )
    names = frozenset(storage.get_name(each) for each in known)
    return WarehouseSurvey(location, tuple(sorted(found, key=lambda each: (each.rank, each.name))), names)


def _list_metadata_files(location: str) -> Iterator[tuple[str, bool]]:
    """List the metadata files of a table's folder; with each, whether it is a plain file."""
    folder = storage.join(location, "metadata")
    if not storage.is_local(location):
        names = (entry.uri.removeprefix(f"{folder}/") for entry in storage.list_files(folder))
        yield from ((storage.join(folder, name), True) for name in names if _is_metadata_name(name))
        return
    path = storage.parse_local_path(folder)
    if path.is_symlink() or path.parent.is_symlink() or not path.is_dir():
        return
    with os.scandir(path) as entries:
        for each in entries:
            if _is_metadata_name(each.name):
                yield storage.join(folder, each.name), each.is_file(follow_symlinks=False)


def _is_metadata_name(name: str) -> bool:
    return storage.is_utf8(name) and not name.startswith(".") and _NAME.fullmatch(name) is not None


def read_metadata_number(location: str) -> int:
    """Read the number in the name of a metadata file; 0: it has none."""
    named = _NAME.fullmatch(storage.get_name(location))
    return int(named[1]) if named is not None else 0


def read_metadata(io: FileIO, location: str, path: str) -> FoundMetadata:
    """Read the metadata file at ``path`` of the topic's table at ``location``."""
    return _read_candidate(io, partial(find_fault, location=location), path, True)


def _read_candidate(
    io: FileIO, find_fault_in: Callable[[TableMetadata], str | None], path: str, is_plain: bool
) -> FoundMetadata:
    number = read_metadata_number(path)
    if not is_plain:
        return FoundMetadata(path, number, None, "it is a link, or no plain file")
    try:
        metadata = read_table_metadata(io, path)
    except WinnowError:
        return FoundMetadata(path, number, None, "its content is damaged or cut off")
    except FileNotFoundError:
        return FoundMetadata(path, number, None, "it was deleted meanwhile")
    return FoundMetadata(path, number, metadata, find_fault_in(metadata))


def find_fault(
    metadata: TableMetadata, location: str, table_uuid: str | None = None, *, is_log: bool = True
) -> str | None:
    """Find why ``metadata`` is not that of the topic's table at ``location``; None: nothing speaks against it."""
    checks: tuple[Callable[[], str | None], ...] = (
        lambda: _compare_table(metadata, location, table_uuid),
        lambda: _find_other_contents(metadata) if is_log else None,
        lambda: _find_place_outside(metadata, location),
        lambda: _find_impossible_number(metadata),
    )
    return next(filter(None, (check() for check in checks)), None)


def _compare_table(metadata: TableMetadata, location: str, table_uuid: str | None) -> str | None:
    if table_uuid is not None and str(metadata.table_uuid) != table_uuid:
        return f"it is of another table ({metadata.table_uuid})"
    if not is_same_place(metadata.location, location):
        return f"it is of a table in another folder ({metadata.location})"
    return None


def _find_other_contents(metadata: TableMetadata) -> str | None:
    current = metadata.current_snapshot()
    is_winnows = current is not None and _has_state(current)
    if PARTITIONS_PROPERTY not in metadata.properties and not is_winnows:
        return "the table is not a topic"
    return find_contradiction(metadata)


def _has_state(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and STATE_PROPERTY in snapshot.summary.additional_properties


def _find_place_outside(metadata: TableMetadata, location: str) -> str | None:
    places = [each.metadata_file for each in metadata.metadata_log] + [
        each.manifest_list for each in metadata.snapshots
    ]
    for place in places:
        if not is_below(place, location):
            return f"it names a file outside of the table's folder ({place})"
    return None


def _find_impossible_number(metadata: TableMetadata) -> str | None:
    if not _is_possible(str(getattr(metadata, "last_sequence_number", 0))):
        return "its sequence number is none that commits reach"
    if not _is_possible(metadata.properties.get(FENCE_PROPERTY, "0")):
        return f"its property {FENCE_PROPERTY} is none that commits reach"
    return None


def _is_possible(number: str) -> bool:
    return number.isascii() and number.isdecimal() and len(number) <= MAXIMUM_DIGITS


def _find_state(location: str, found: FoundMetadata) -> TopicState | None:
    snapshot = found.snapshot
    if snapshot is None or snapshot.summary is None:
        return None
    try:
        name = storage.get_name(location)
        reference = StateReference.from_summary(name, snapshot.summary.additional_properties)
        return read_state(name, reference) if is_below(reference.path, location) else None
    except (OSError, WinnowError):
        return None
