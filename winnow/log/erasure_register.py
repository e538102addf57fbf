"""The register of erasures: a folder outside of the warehouse that has the document of every erasure, of all topics.

State and documents of a topic lie beside its table, and grow old with it: a backup, an older metadata file or an older
catalog that is put back knows nothing of what was erased since. The register does. A file of it is written once, and
neither changed nor deleted.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from winnow.errors import ConfigurationError, DamagedMetadataError, ServiceError, WinnowError
from winnow.files import storage
from winnow.log.erasures import read_erasure_bytes
from winnow.values import documents
from winnow.values.erasures import ErasureDocument
from winnow.values.topic_state import TopicState

_SUFFIX: Final = ".json"
_MARKER: Final = "winnow-erasures.txt"
_SAYING: Final = (
    b"Winnow's register of erasures. Keep it for as long as any copy of the topics: without it, what was erased can "
    b"come back from an older one.\n"
)
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class ErasureRegister:
    """The register at ``place``, a folder or URI, which need not exist yet."""

    place: str

    def locate_life(self, topic: str, table_uuid: str) -> str:
        """Return the folder of the erasures of one life of a topic."""
        return storage.join(self.place, topic, table_uuid)

    def locate(self, topic: str, table_uuid: str, erasure_id: str) -> str:
        """Return the place of the document of an erasure."""
        return storage.join(self.locate_life(topic, table_uuid), f"{erasure_id}{_SUFFIX}")

    def require_writable(self) -> None:
        """Check that documents can be written, by writing the file that says what the folder is.

        Raises:
            ConfigurationError: they cannot.
        """
        self._write_marker(self.place)

    def begin_life(self, topic: str, table_uuid: str) -> None:
        """Make the folder of one life of a topic known before its first erasure is committed.

        Else a process that dies between that commit and the document leaves a register that seems to be another one.

        Raises:
            ConfigurationError: it cannot be written.
        """
        self._write_marker(self.place)
        self._write_marker(self.locate_life(topic, table_uuid))

    def _write_marker(self, folder: str) -> None:
        try:
            storage.write_bytes(storage.join(folder, _MARKER), _SAYING)
        except (OSError, ServiceError) as problem:
            raise ConfigurationError(
                f"The register of erasures cannot be written to {self.place} ({type(problem).__name__}).",
                left="Nothing was changed.",
                next="Set WINNOW_ERASE__REGISTER_FOLDER to a folder or URI that this user can write.",
            ) from problem

    def complete(self, state: TopicState, table_uuid: str) -> frozenset[str]:
        """Write the document of each erasure that ``state`` names and the register lacks; return the ids of all.

        Raises:
            DamagedMetadataError: a document that is to be written is gone or damaged.
            ServiceError, OSError: the register cannot be reached, or not be written.
        """
        if not state.erasures:
            return frozenset()
        present = set(self._list_ids(state.topic, table_uuid))
        for reference in state.erasures:
            if reference.erasure_id not in present:
                data = read_erasure_bytes(state, reference)
                self.add(state.topic, table_uuid, reference.erasure_id, data)
        return frozenset(each.erasure_id for each in state.erasures)

    def add(self, topic: str, table_uuid: str, erasure_id: str, data: bytes) -> None:
        """Write the document of an erasure, unless it is there."""
        storage.create_bytes(self.locate(topic, table_uuid, erasure_id), data)

    def list_lives(self) -> dict[tuple[str, str], set[str]]:
        """List the ids of all erasures by topic and uuid of the table, with one listing."""
        found: dict[tuple[str, str], set[str]] = {}
        for file in storage.list_files(self.place):
            parts = (storage.find_path_below(self.place, file.uri) or "").split("/")
            if len(parts) == _PARTS and parts[2].endswith(_SUFFIX):
                found.setdefault((parts[0], parts[1]), set()).add(parts[2].removesuffix(_SUFFIX))
        return found

    def read_later(
        self, topic: str, table_uuid: str, known: Collection[str], *, left: str
    ) -> tuple[ErasureDocument, ...]:
        """Read the erasures of one life of a topic that are not among the ids ``known``, in the order of their chain.

        Args:
            topic: the topic.
            table_uuid: the life.
            known: what an older world of it knows.
            left: what an error says of what was left behind.

        Raises:
            ConfigurationError: the register has nothing of this life, although ``known`` names erasures.
            DamagedMetadataError: a document is not what its place says.
            ServiceError: the register cannot be reached.
        """
        folder = self.locate_life(topic, table_uuid)
        try:
            listed = storage.list_files(folder)
            found: dict[str, ErasureDocument] = {}
            for file in listed:
                erasure_id = storage.get_name(file.uri).removesuffix(_SUFFIX)
                if file.uri.endswith(_SUFFIX) and erasure_id not in known:
                    data = storage.read_bytes(file.uri)
                    document = _parse(data, file.uri, topic, table_uuid, erasure_id, left=left)
                    found[hashlib.sha256(data).hexdigest()] = document
        except OSError as problem:
            raise ConfigurationError(
                f"The register of erasures cannot be read at {folder} ({type(problem).__name__}).",
                left=left,
                next="Let this user read it, or set WINNOW_ERASE__REGISTER_FOLDER to where it is.",
            ) from problem
        if known and not listed:
            raise ConfigurationError(
                f"Keys of topic {topic} were erased, and the register of erasures has nothing of it: there is no file "
                f"in {folder}. Later erasures may be missing here.",
                left=left,
                next=(
                    "Set WINNOW_ERASE__REGISTER_FOLDER to where the register is. If it is lost for good, put any file "
                    "into that folder to go on without it."
                ),
            )
        return tuple(_put_in_order(found))

    def _list_ids(self, topic: str, table_uuid: str) -> Iterator[str]:
        for file in storage.list_files(self.locate_life(topic, table_uuid)):
            if file.uri.endswith(_SUFFIX):
                yield storage.get_name(file.uri).removesuffix(_SUFFIX)


def _parse(data: bytes, uri: str, topic: str, table_uuid: str, erasure_id: str, *, left: str) -> ErasureDocument:
    try:
        document = documents.load_json(ErasureDocument, data)
    except WinnowError:
        document = None
    if document is None or (document.topic, document.table_uuid, document.erasure_id) != (
        topic,
        table_uuid,
        erasure_id,
    ):
        raise DamagedMetadataError(
            f"A document in the register of erasures of topic {topic} is damaged, or is not the one that its place "
            f"says: {uri}.",
            left=left,
            next="Restore that file from a copy of the register; the table's folder _winnow/erasures may have one.",
        )
    return document


def _put_in_order(found: dict[str, ErasureDocument]) -> Iterator[ErasureDocument]:
    """Yield documents by their time, and none before one that it names; ``found``: by the sha256 of each."""
    following: dict[str | None, list[ErasureDocument]] = {}
    digests = {document.erasure_id: sha256 for sha256, document in found.items()}
    for document in found.values():
        following.setdefault(document.previous if document.previous in found else None, []).append(document)
    free = [(each.at_ms, each.erasure_id, each) for each in following.get(None, ())]
    heapq.heapify(free)
    while free:
        *_, document = heapq.heappop(free)
        yield document
        for each in following.get(digests[document.erasure_id], ()):
            heapq.heappush(free, (each.at_ms, each.erasure_id, each))
