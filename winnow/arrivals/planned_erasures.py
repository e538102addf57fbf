"""Opens in a task what a topic's erasures leave out of its input.

A plan names the documents of the erasures, which have keyed digests, and the secret comes with the task. Neither a key
nor a digest is in a plan, an argument or Spark's configuration. The digests do not travel with tasks, either: a million
of them would make PySpark write what each task carries, the secret with it, to a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache

from winnow.arrivals.erased_records import ErasedRecords, list_lifted_keys, select_counting_erasures
from winnow.errors import ConfigurationError, DamagedMetadataError
from winnow.files import storage
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values import documents
from winnow.values.erasures import ErasureDocument, KeyDigester, compute_key_id
from winnow.values.ingest_plans import IngestPlan


def open_planned_erasures(plan: IngestPlan, secret: bytes | None) -> ErasedRecords | None:
    """Open what is left out of the input of ``plan``; None: no key was erased.

    Raises:
        ConfigurationError: ``secret`` is missing, or another one than that of the digests.
        DamagedMetadataError: the document of an erasure is gone or damaged.
        ServiceError: the object store does not answer.
    """
    planned = plan.erasures
    if planned is None:
        return None
    places = tuple((each.places, each.sha256) for each in planned.documents)
    key_ids, erasures, lifted = _read_erasures(plan.topic, places)
    if secret is None or key_ids != {compute_key_id(secret)}:
        raise ConfigurationError(
            f"Keys of topic {plan.topic} were erased, and a task has no secret that tells their old copies.",
            left=NOTHING_INGESTED,
            next="Run it again; with --engine local it is read by one process.",
        )
    return ErasedRecords(
        KeyDigester(secret, planned.table_uuid),
        erasures,
        lifted,
        needs_timestamps=planned.needs_timestamps,
        lowered_ends={each.erasure_id: each.lowered_ends for each in planned.documents},
    )


@lru_cache(maxsize=1)  # a worker process carries out many ranges of a plan
def _read_erasures(
    topic: str, places: tuple[tuple[tuple[str, ...], str], ...]
) -> tuple[frozenset[str], Mapping[bytes, ErasureDocument], frozenset[bytes]]:
    """Read documents; return which secrets made their digests, the erasures that count, and the keys lifted."""
    found = [documents.load_json(ErasureDocument, _read_document(topic, *each)) for each in places]
    key_ids = frozenset(each.key_id for each in found)
    return key_ids, select_counting_erasures(found), list_lifted_keys(found)


def _read_document(topic: str, places: tuple[str, ...], sha256: str) -> bytes:
    for place in places:
        try:
            data = storage.read_bytes(place)
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
    raise DamagedMetadataError(
        f"The document of an erasure of topic {topic} is not what was committed, nor is its copy: {places[0]}.",
        left=NOTHING_INGESTED,
        next="Restore that file from a backup or the object store's versions.",
    )
