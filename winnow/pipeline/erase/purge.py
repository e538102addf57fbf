"""Erases keys from a topic that is deleted: it is removed for good, and the register remembers the keys."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from winnow.errors import EraseRefusedError
from winnow.log.head import Head
from winnow.pipeline.admin.erasure_progress import open_register
from winnow.pipeline.erase.complete import require_registered
from winnow.pipeline.erased_keys import load_secret
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import get_actor_name, record_action
from winnow.pipeline.topics.deletion import delete_topic
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.store.audit import AuditAction
from winnow.values import documents
from winnow.values.counts import format_count
from winnow.values.erasures import ErasureDocument, KeyDigester, compute_key_id, encode_digests


@dataclass(frozen=True, slots=True)
class PurgedTopic:
    """A deleted topic that was removed for good. ``erasure_id``: of the document that only the register has."""

    topic: str
    erasure_id: str
    keys: int
    files_deleted: int
    bytes_deleted: int


def purge_deleted_topic(
    installation: Installation, topic: str, keys: Sequence[bytes], reason: str
) -> PurgedTopic | None:
    """Remove ``topic`` for good if it is deleted, after its erasures are registered; None: it is not deleted.

    Killed at any line, the next call goes on, until the topic is unknown.

    Raises:
        EraseRefusedError: an erasure takes two persons here.
        ConfigurationError: the secret is missing or another one, or the register cannot be written.
        UnknownTopicError: there is no such topic, or no longer.
        Also the errors of :func:`winnow.pipeline.topics.deletion.delete_topic`.
    """
    head = installation.log.open(topic).newest_head(even_deleted=True)
    if head.state.deleted_at_ms is None:
        return None
    if installation.settings.erase.approvals > 1:
        raise EraseRefusedError(
            f"Topic {topic} is deleted, and erasing keys takes two persons (erase.approvals).",
            left=NOTHING_ERASED,
            next=f"Remove it for good: winnow topics delete {topic} --now; or undelete it and ask for the erasure.",
        )
    register = open_register(installation)
    register.require_writable()
    document = _make_document(installation, head, keys, reason)
    require_registered(installation, head)
    register.add(topic, head.table_uuid, document.erasure_id, documents.dump_json(document))
    removed = delete_topic(installation, topic, now=True)
    detail = (
        f"{document.erasure_id}: {format_count(document.keys, 'key')}; the topic was deleted, and is removed for good: "
        f"{format_count(removed.files_deleted, 'file')}"
    )
    record_action(installation, AuditAction.ERASE, topic, detail=detail, reason=reason)
    return PurgedTopic(topic, document.erasure_id, document.keys, removed.files_deleted, removed.bytes_deleted)


def _make_document(installation: Installation, head: Head, keys: Sequence[bytes], reason: str) -> ErasureDocument:
    state = head.state
    secret = load_secret(installation, state, left=NOTHING_ERASED, makes=True)
    digests = set(map(KeyDigester(secret, head.table_uuid).compute, keys))
    return ErasureDocument(
        erasure_id=uuid.uuid4().hex,
        topic=state.topic,
        table_uuid=head.table_uuid,
        at_ms=installation.now_ms(),
        by=get_actor_name(installation),
        reason=reason,
        key_id=compute_key_id(secret),
        keys=len(digests),
        keys_found=0,
        hashes=encode_digests(digests),
        ends={number: part.log_end_offset for number, part in state.partitions.items()},
        previous=state.erasures[-1].sha256 if state.erasures else None,
    )
