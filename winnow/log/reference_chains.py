"""Chains of receipt and ingest-ledger references: old ones move to immutable files, so that the state stays small.

Every commit writes the whole state, and planning reads it. So of the receipts and of the ingest ledgers only the
newest stay in the state itself. Older ones go, ``LINK_REFERENCES`` at a time, into a file that names the file
before it; the state names the last one. Nothing is ever taken out: a link is written once, before the commit that
names it, and no sweep lists or deletes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from winnow.errors import WinnowError
from winnow.log.document_copies import Document, read_document, write_document
from winnow.log.document_places import DocumentKind, DocumentPlaces, make_ledger_name
from winnow.log.state import CHAIN_FORMAT
from winnow.values import documents
from winnow.values.epochs import KAFKA_LAYOUT
from winnow.values.topic_state import ChainReference, IngestLedger, IngestReference, ReceiptReference, TopicState

R = TypeVar("R", ReceiptReference, IngestReference)

MAXIMUM_LINK_REFERENCES: Final = 50
"""Maximum references per link; the state itself holds fewer than twice as many of each kind."""


@dataclass(frozen=True, slots=True)
class _Receipts:
    """One link of the receipts, oldest first."""

    references: tuple[ReceiptReference, ...]
    previous: ChainReference | None = None
    format_version: int = CHAIN_FORMAT


@dataclass(frozen=True, slots=True)
class _Ingests:
    """One link of the ingest ledgers, oldest first."""

    references: tuple[IngestReference, ...]
    previous: ChainReference | None = None
    format_version: int = CHAIN_FORMAT


def shorten_chains(places: DocumentPlaces, state: TopicState) -> tuple[TopicState, list[str]]:
    """Move older references of ``state`` into links; return the new state and the paths of the written links.

    Nothing refers to them until the commit that carries the state.
    """
    written: list[str] = []
    while len(state.receipts) >= 2 * MAXIMUM_LINK_REFERENCES:
        older, newer = state.receipts[:MAXIMUM_LINK_REFERENCES], state.receipts[MAXIMUM_LINK_REFERENCES:]
        times = [each.finished_at_ms for each in older]
        newest_ms = None if None in times else max(time for time in times if time is not None)
        link = _write_link(places, _Receipts(older, state.older_receipts), newest_ms)
        state = replace(state, receipts=newer, older_receipts=link)
        written.append(link.path)
    while len(state.ingests) >= 2 * MAXIMUM_LINK_REFERENCES:
        older_ingests, newer_ingests = state.ingests[:MAXIMUM_LINK_REFERENCES], state.ingests[MAXIMUM_LINK_REFERENCES:]
        link = _write_link(places, _Ingests(older_ingests, state.older_ingests), None)
        state = replace(state, ingests=newer_ingests, older_ingests=link)
        written.append(link.path)
    return state, written


def list_receipt_references(
    state: TopicState, *, since_ms: int | None = None, newest: int | None = None
) -> list[ReceiptReference]:
    """List references to the receipts of all published plans, oldest first.

    Args:
        state: the carried state.
        since_ms: stop at the first link whose receipts were all finished before that; None: read all links.
        newest: read no further link once there are as many as that; fewer are all that there are.

    Raises:
        DamagedMetadataError: a link is missing or differs from the committed one.
    """
    found = list(state.receipts)
    link = state.older_receipts
    while link is not None and (since_ms is None or link.newest_ms is None or link.newest_ms >= since_ms):
        if newest is not None and len(found) >= newest:
            break
        read = documents.load_json(_Receipts, _read_link(state, link))
        found[:0] = read.references
        link = read.previous
    return found


def list_ingest_references(state: TopicState, *, newest: int | None = None) -> list[IngestReference]:
    """List references to the ledgers of all ingest calls, oldest first; ``newest`` as :func:`list_receipt_references`.

    Raises:
        DamagedMetadataError: a link is missing or differs from the committed one.
    """
    found = list(state.ingests)
    link = state.older_ingests
    while link is not None and (newest is None or len(found) < newest):
        read = documents.load_json(_Ingests, _read_link(state, link))
        found[:0] = read.references
        link = read.previous
    return found


def contains_history(state: TopicState, earlier: TopicState) -> bool:
    """Check whether the log of ``state`` came from that of ``earlier`` by appends, publishes and raised log starts.

    It did if the last ingest call and the last publish of ``earlier`` are in the history of ``state``, no ingest call
    was undone in between, and no log start or end is lower than before: then no other program has rolled the table back
    past it. That is known for ever, while parents of snapshots expire.

    Raises:
        DamagedMetadataError: a link is missing or differs from the committed one.
    """
    if state.undone_ingests != earlier.undone_ingests:
        return False
    for number, before in earlier.partitions.items():
        now = state.partitions.get(number)
        if now is None or now.log_start_offset < before.log_start_offset or now.log_end_offset < before.log_end_offset:
            return False
    publish, ingest = earlier.receipts[-1:], earlier.ingests[-1:]
    return (
        not publish
        or publish[0] in state.receipts
        or publish[0] in list_receipt_references(state, since_ms=publish[0].finished_at_ms)
    ) and (not ingest or ingest[0] in state.ingests or ingest[0] in list_ingest_references(state))


def count_receipts(state: TopicState) -> int:
    """Count the receipts of all published plans; reads no file."""
    return _count_references(state.receipts, state.older_receipts)


def drop_ingest_reference(places: DocumentPlaces, state: TopicState, ingest_id: str) -> TopicState:
    """Return ``state`` without the reference to the ledger of ``ingest_id``.

    Links are immutable: if a link has the reference, it and those after it are written anew without it. Nothing refers
    to the new links until the commit that carries the state; the old ones stay for older snapshots.
    """
    if any(each.ingest_id == ingest_id for each in state.ingests):
        return replace(state, ingests=tuple(each for each in state.ingests if each.ingest_id != ingest_id))
    newer: list[tuple[IngestReference, ...]] = []
    link = state.older_ingests
    while link is not None:
        read = documents.load_json(_Ingests, _read_link(state, link))
        kept = tuple(each for each in read.references if each.ingest_id != ingest_id)
        newer.append(kept)
        link = read.previous
        if len(kept) < len(read.references):
            break
    for references in reversed(newer):
        if references:
            link = _write_link(places, _Ingests(references, link), None)
    return replace(state, older_ingests=link)


def list_links(state: TopicState) -> Iterator[ChainReference]:
    """List the links of both chains, newest first, up to the first unreadable one: the last one may be damaged."""
    kinds: tuple[tuple[ChainReference | None, type[_Receipts | _Ingests]], ...] = (
        (state.older_receipts, _Receipts),
        (state.older_ingests, _Ingests),
    )
    for newest, kind in kinds:
        link = newest
        while link is not None:
            yield link
            try:
                data = _read_link(state, link)
            except WinnowError:
                break
            link = documents.load_json(kind, data).previous


def list_documents(state: TopicState) -> list[Document]:
    """List the documents that ``state`` refers to: links, receipts, ledgers, newest first, erasures, kept schemas.

    Of a chain those up to the first unreadable link.
    """
    found = [make_link_document(link) for link in list_links(state)]
    kinds: tuple[tuple[DocumentKind, Any, Any], ...] = (
        (DocumentKind.RECEIPT, list_receipt_references, state.receipts),
        (DocumentKind.LEDGER, list_ingest_references, state.ingests),
    )
    for kind, listed, named in kinds:
        try:
            references = listed(state)
        except WinnowError:
            references = named  # a link is damaged, which its own check finds
        found += [Document(kind, each.path, each.sha256) for each in reversed(references)]
    found += [Document(DocumentKind.ERASURE, each.path, each.sha256) for each in reversed(state.erasures)]
    return [*found, *(Document(DocumentKind.SCHEMAS, each.path, each.sha256) for each in reversed(state.schemas))]


def has_same_ingests(one: TopicState, other: TopicState) -> bool:
    """Check whether both states name the same ingest calls, in the state or in links; read no file."""
    return (_count_references(one.ingests, one.older_ingests), one.ingests[-1:]) == (
        _count_references(other.ingests, other.older_ingests),
        other.ingests[-1:],
    )


def _count_references(references: Sequence[object], link: ChainReference | None) -> int:
    return len(references) + (link.count if link is not None else 0)


def _write_link(places: DocumentPlaces, link: _Receipts | _Ingests, newest_ms: int | None) -> ChainReference:
    data = documents.dump_json(link)
    kind = "receipts" if isinstance(link, _Receipts) else "ingests"
    written = write_document(places, DocumentKind.CHAIN, f"{kind}-{uuid.uuid4().hex}.json", data)
    count = _count_references(link.references, link.previous)
    archives = 0
    if isinstance(link, _Ingests):
        before = 0 if link.previous is None else link.previous.archives
        archives = before + sum(each.layout is not None for each in link.references)
    return ChainReference(written.path, written.sha256, count, newest_ms, archives)


def _read_link(state: TopicState, link: ChainReference) -> bytes:
    return read_document(state.topic, make_link_document(link), state.copies)


def make_link_document(link: ChainReference) -> Document:
    """Return the link behind a reference as a document."""
    return Document(DocumentKind.CHAIN, link.path, link.sha256)


def write_ledger(places: DocumentPlaces, ledger: IngestLedger, as_of_ms: int) -> IngestReference:
    """Write the ledger of one ingest call; nothing refers to it until the commit that carries the reference."""
    data = documents.dump_json(ledger)
    written = write_document(places, DocumentKind.LEDGER, make_ledger_name(ledger.ingest_id), data)
    # Objects of an archive are looked up in the ledgers of archives; what was read from brokers has none.
    layout = None if ledger.layout == KAFKA_LAYOUT else ledger.layout
    return IngestReference(ledger.ingest_id, written.path, written.sha256, as_of_ms, layout)


def read_ledger(state: TopicState, reference: IngestReference) -> IngestLedger:
    """Read the ledger behind a ``reference`` of ``state``.

    Raises:
        DamagedMetadataError: the file and its copy are missing or differ from the committed one.
    """
    document = Document(DocumentKind.LEDGER, reference.path, reference.sha256)
    return documents.load_json(IngestLedger, read_document(state.topic, document, state.copies))


def read_ledgers(state: TopicState, *, of_archives: bool = False) -> Iterator[IngestLedger]:
    """Read the ledgers of all ingest calls, oldest first; raises as :func:`list_receipt_references`.

    ``of_archives``: only of calls whose input was of another layout than Winnow's own.
    """
    for reference in _list_archive_references(state) if of_archives else list_ingest_references(state):
        yield read_ledger(state, reference)


def _list_archive_references(state: TopicState) -> list[IngestReference]:
    """List references to ledgers of archives, oldest first; read only links that have such or stand before such."""
    found = [each for each in state.ingests if each.layout is not None]
    link = state.older_ingests
    while link is not None and link.archives:
        read = documents.load_json(_Ingests, _read_link(state, link))
        found[:0] = [each for each in read.references if each.layout is not None]
        link = read.previous
    return found


def list_seen_digests(state: TopicState, partition: int) -> set[str]:
    """List digests of every slice ever added to ``partition``. Reads all ledgers: only when offsets are missing."""
    return {entry.digest for ledger in read_ledgers(state) for entry in ledger.slices.get(partition, ())}
