"""The ledgers of ingest calls: which slices were ever added, for offsets that come again and are gone."""

from __future__ import annotations

import hashlib

from winnow import documents
from winnow.files import storage
from winnow.log.chains import list_ingest_references
from winnow.log.state import read_checked
from winnow.model import IngestLedger, IngestReference, TopicState


def write_ledger(table_location: str, ledger: IngestLedger, as_of_ms: int) -> IngestReference:
    """Write the ledger of one ingest call; nothing refers to it until the commit that carries the reference."""
    data = documents.dump_json(ledger)
    path = storage.join(table_location, "winnow", "ingests", f"{ledger.ingest_id}.json")
    storage.write_bytes(path, data)
    return IngestReference(ledger.ingest_id, path, hashlib.sha256(data).hexdigest(), as_of_ms)


def list_seen_digests(state: TopicState, partition: int) -> set[str]:
    """Digests of every slice ever added to ``partition``. Reads all ledgers: only when offsets are missing."""
    seen: set[str] = set()
    for reference in list_ingest_references(state):
        data = read_checked(state.topic, "ingest ledger", reference.path, reference.sha256)
        ledger = documents.load_json(IngestLedger, data)
        seen.update(entry.digest for entry in ledger.slices.get(partition, ()))
    return seen
