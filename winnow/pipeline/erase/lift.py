"""Lifts the erasure of keys: their records may be ingested again. What was erased does not come back by that."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from winnow.arrivals.erased_records import select_counting_erasures
from winnow.errors import UsageError
from winnow.log.erasures import read_erasures, write_erasure
from winnow.log.head import Change, Head
from winnow.pipeline.admin.erasure_progress import open_register
from winnow.pipeline.erase.complete import require_registered
from winnow.pipeline.erase.later_erasures import read_later
from winnow.pipeline.erased_keys import load_secret_of
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import get_actor_name, record_action
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count
from winnow.values.erasures import ErasureDocument, KeyDigester, compute_key_id, encode_digests


@dataclass(frozen=True, slots=True)
class LiftReport:
    """What lifting did. ``keys``: whose erasure counted until now. ``not_erased``: that no erasure counted for."""

    topic: str
    erasure_id: str
    keys: int
    not_erased: int


def lift_erasure(installation: Installation, topic: str, keys: list[bytes], reason: str) -> LiftReport:
    """Lift the erasure of ``keys`` in ``topic``, by a document of its own in the chain.

    Raises:
        UsageError: none of the keys is erased.
        ConfigurationError: the secret is missing or another one, or the register cannot be written.
        RunAgainError: it is lifted, and not yet in the register.
        Also the errors of :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    open_register(installation).require_writable()
    log = installation.log.open(topic)
    lifted: list[ErasureDocument] = []

    def build(head: Head) -> Change:
        state = head.state
        # Also of an erasure that only the register knows, so that it can be decided against before it is applied.
        later = read_later(installation, head)
        if not state.erasures and not later:
            raise UsageError(f"No key was ever erased in topic {topic}.", left=NOTHING_ERASED)
        key_ids = {each.key_id for each in state.erasures} | {each.key_id for each in later}
        secret = load_secret_of(installation, topic, key_ids, left=NOTHING_ERASED)
        counting = select_counting_erasures([*read_erasures(state), *later])
        digester = KeyDigester(secret, head.table_uuid)
        found = [digest for digest in map(digester.compute, keys) if digest in counting]
        if not found:
            raise UsageError(
                f"None of the {format_count(len(keys), 'key')} is erased in topic {topic}.", left="Nothing was changed."
            )
        document = ErasureDocument(
            erasure_id=uuid.uuid4().hex,
            topic=topic,
            table_uuid=head.table_uuid,
            at_ms=installation.now_ms(),
            by=get_actor_name(installation),
            reason=reason,
            key_id=compute_key_id(secret),
            keys=len(found),
            keys_found=0,
            hashes=encode_digests(found),
            ends={number: part.log_end_offset for number, part in state.partitions.items()},
            previous=state.erasures[-1].sha256 if state.erasures else None,
            lifts=True,
        )
        lifted[:] = [document]
        installation.guard.require_own()
        reference = write_erasure(head.documents, document)
        return Change(
            state=replace(state, erasures=(*state.erasures, reference)), summary={"winnow.operation": "lift-erasure"}
        )

    committed = log.commit(build)
    require_registered(installation, committed.head)
    (document,) = lifted
    detail = f"{document.erasure_id}: the erasure of {format_count(document.keys, 'key')} was lifted"
    record_action(installation, AuditAction.ERASE, topic, detail=detail, reason=reason)
    return LiftReport(topic, document.erasure_id, document.keys, len(keys) - document.keys)
