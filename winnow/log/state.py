"""Reads and writes the carried state: one immutable file per table snapshot.

It holds everything that must outlive snapshots. It is written before the commit that names it and never changed.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from winnow import documents
from winnow.errors import DamagedMetadataError, ForeignTableError
from winnow.files import storage
from winnow.log.document_places import DocumentKind, DocumentPlaces
from winnow.log.file_checksums import make_missing_path_error
from winnow.model import PartitionState, ReceiptReference, TopicState
from winnow.results import Receipt

STATE_PROPERTY = "winnow.state"
PLAN_PROPERTY = "winnow.plan-id"
STATE_FORMAT = 1
CHAIN_FORMAT = 3
"""Format of the links of older references."""
TOPIC_STATE_FORMAT = 6
"""Format of every written state: 4 added the fence, 5 deleted topics, 6 epochs. A Winnow that does not
know them must stop."""


@dataclass(frozen=True, slots=True)
class StateReference:
    """The location of a snapshot's state, and its digest."""

    path: str
    sha256: str

    def to_property(self) -> str:
        """Make the value of ``winnow.state`` in a snapshot summary."""
        return json.dumps({"format": STATE_FORMAT, "path": self.path, "sha256": self.sha256}, sort_keys=True)

    @classmethod
    def from_summary(cls, topic: str, summary: Mapping[str, str | None]) -> StateReference:
        """Read the reference from a snapshot's summary.

        Raises:
            ForeignTableError: the summary names none: another tool made this snapshot.
            DamagedMetadataError: the reference is not valid.
        """
        text = summary.get(STATE_PROPERTY)
        if not text:
            raise ForeignTableError(
                f"The newest snapshot of topic {topic} was committed by somebody else: its summary names no Winnow "
                "state. Nothing was changed. Roll the table back to the last snapshot whose summary has "
                f"'{STATE_PROPERTY}' (and stop the other writer), then run it again."
            )
        try:
            plain = json.loads(text)
            return cls(str(plain["path"]), str(plain["sha256"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise DamagedMetadataError(
                f"The metadata of topic {topic} are damaged: the newest snapshot's summary names no state that can be "
                f"read ('{STATE_PROPERTY}'). Nothing was changed. Restore the table's metadata file from a backup or "
                "the object store's versions, then run it again."
            ) from problem


def make_empty_state(topic: str, partitions: int) -> TopicState:
    """Make the state of a topic to which nothing was appended."""
    return TopicState(topic=topic, partitions={number: PartitionState() for number in range(partitions)})


def write_state(places: DocumentPlaces, state: TopicState) -> StateReference:
    """Write ``state`` to a new document; nothing refers to it yet."""
    data = documents.dump_json(replace(state, format_version=TOPIC_STATE_FORMAT))
    path = places.locate(DocumentKind.STATE, f"{uuid.uuid4().hex}.json")
    storage.write_bytes(path, data)
    return StateReference(path, hashlib.sha256(data).hexdigest())


def read_state(topic: str, reference: StateReference) -> TopicState:
    """Read the state behind ``reference``.

    Raises:
        DamagedMetadataError: the file is missing or differs from the committed one.
    """
    data = read_checked(topic, "state", reference.path, reference.sha256)
    return documents.load_json(TopicState, data)


def write_receipt(places: DocumentPlaces, receipt: Receipt) -> ReceiptReference:
    """Write the receipt of a publish beside the table, so that the metadata store can be rebuilt."""
    assert receipt.plan_id is not None
    data = documents.dump_json(receipt)
    path = places.locate(DocumentKind.RECEIPT, f"{receipt.plan_id}-{uuid.uuid4().hex[:8]}.json")
    storage.write_bytes(path, data)
    return ReceiptReference(receipt.plan_id, path, hashlib.sha256(data).hexdigest(), receipt.finished_at_ms)


def read_receipt(topic: str, reference: ReceiptReference) -> Receipt:
    """Read the receipt behind ``reference``; raises as :func:`read_state`."""
    return documents.load_json(Receipt, read_checked(topic, "receipt", reference.path, reference.sha256))


def read_checked(topic: str, what: str, path: str, sha256: str) -> bytes:
    """Read a file that the table refers to, checked against the committed digest.

    Raises:
        DamagedMetadataError: it is missing or differs.
    """
    try:
        with make_missing_path_error(path):
            data = storage.read_bytes(path)
    except FileNotFoundError as problem:
        raise DamagedMetadataError(
            f"The {what} file of topic {topic} is gone: {path}. The table still refers to it; nothing was changed. "
            "Restore that file from a backup or the object store's versions."
        ) from problem
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedMetadataError(
            f"The {what} file of topic {topic} is not the one that was committed: {path}. Nothing was changed. "
            "Restore that file from a backup or the object store's versions."
        )
    return data
