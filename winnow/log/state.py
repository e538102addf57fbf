"""Reads and writes the carried state: one immutable file per table snapshot.

It holds everything that must outlive snapshots. It is written before the commit that names it and never changed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from winnow.errors import DamagedMetadataError, ForeignTableError
from winnow.log.document_copies import Document, read_document, write_document
from winnow.log.document_places import DocumentKind, DocumentPlaces
from winnow.values import documents
from winnow.values.results import Receipt
from winnow.values.reversal import PartitionReversal, PublishedRun, encode_reversals
from winnow.values.topic_state import PartitionState, ReceiptReference, TopicState

T = TypeVar("T", bound=Receipt)

STATE_PROPERTY = "winnow.state"
PLAN_PROPERTY = "winnow.plan-id"
MOVE_PROPERTY = "winnow.keyless-move"
"""Property of a snapshot's summary: the ingest id of the keyless records that its run moved into the quarantine."""
UNDONE_MOVES_PROPERTY = "winnow.undone-moves"
"""Property of a snapshot's summary: those that an undo took back, separated by commas."""
STATE_FORMAT = 1
CHAIN_FORMAT = 3
"""Format of the links of older references."""
TOPIC_STATE_FORMAT = 9
"""Format of every written state: 4 added the fence, 5 deleted topics, 6 epochs, 7 epochs that begin
within a Kafka topic, with its leader epochs, 8 what was undone, 9 erasures and kept schemas. A Winnow that
does not know them must stop."""


@dataclass(frozen=True, slots=True)
class StateReference:
    """The location of a snapshot's state, its digest, and the folder of the table's copies; None: there are none."""

    path: str
    sha256: str
    copies: str | None = None

    def to_property(self) -> str:
        """Make the value of ``winnow.state`` in a snapshot summary."""
        copies = {} if self.copies is None else {"copies": self.copies}
        return json.dumps({"format": STATE_FORMAT, "path": self.path, "sha256": self.sha256, **copies}, sort_keys=True)

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
                "state.",
                left="Nothing was changed.",
                next=(
                    f"Roll the table back to the last snapshot whose summary has '{STATE_PROPERTY}' (and stop the "
                    "other writer), then run it again."
                ),
            )
        try:
            plain = json.loads(text)
            copies = plain.get("copies")
            return cls(str(plain["path"]), str(plain["sha256"]), None if copies is None else str(copies))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DamagedMetadataError(
                f"The metadata of topic {topic} are damaged: the newest snapshot's summary names no state that can be "
                f"read ('{STATE_PROPERTY}').",
                left="Nothing was changed.",
                next=(
                    "Restore the table's metadata file from a backup or the object store's versions, then run it again."
                ),
            ) from problem


def make_empty_state(topic: str, partitions: int) -> TopicState:
    """Make the state of a topic to which nothing was appended."""
    return TopicState(topic=topic, partitions={number: PartitionState() for number in range(partitions)})


def write_state(places: DocumentPlaces, state: TopicState) -> StateReference:
    """Write ``state`` to a new document; nothing refers to it yet."""
    data = documents.dump_json(replace(state, format_version=TOPIC_STATE_FORMAT))
    written = write_document(places, DocumentKind.STATE, f"{uuid.uuid4().hex}.json", data)
    return StateReference(written.path, written.sha256, places.copies)


def read_state(topic: str, reference: StateReference) -> TopicState:
    """Read the state behind ``reference``.

    Raises:
        DamagedMetadataError: the file and its copy are missing or differ from the committed one.
    """
    return documents.load_json(TopicState, read_document(topic, make_state_document(reference), reference.copies))


def make_state_document(reference: StateReference) -> Document:
    """Return the state behind ``reference`` as a document."""
    return Document(DocumentKind.STATE, reference.path, reference.sha256)


def write_receipt(
    places: DocumentPlaces, receipt: Receipt, reversal: Sequence[PartitionReversal] = ()
) -> ReceiptReference:
    """Write the receipt of a publish beside the table, so that the store can be rebuilt, and the run be taken back."""
    assert receipt.plan_id is not None
    name = f"{receipt.plan_id}-{uuid.uuid4().hex[:8]}.json"
    values = {each.name: getattr(receipt, each.name) for each in fields(Receipt)}
    published = PublishedRun(**values, reversal=encode_reversals(reversal))
    written = write_document(places, DocumentKind.RECEIPT, name, documents.dump_json(published))
    return ReceiptReference(receipt.plan_id, written.path, written.sha256, receipt.finished_at_ms)


def read_receipt(state: TopicState, reference: ReceiptReference) -> Receipt:
    """Read the receipt behind a ``reference`` of ``state``; raises as :func:`read_state`."""
    return _read_receipt(state, reference, Receipt)


def read_published_run(state: TopicState, reference: ReceiptReference) -> PublishedRun:
    """Read a receipt with what taking the run back needs; raises as :func:`read_state`."""
    return _read_receipt(state, reference, PublishedRun)


def _read_receipt(state: TopicState, reference: ReceiptReference, kind: type[T]) -> T:
    document = Document(DocumentKind.RECEIPT, reference.path, reference.sha256)
    return documents.load_json(kind, read_document(state.topic, document, state.copies))
