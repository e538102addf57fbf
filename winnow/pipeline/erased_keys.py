"""Opens what a topic's erasures leave out of every later input, for which the secret of the installation is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from winnow.arrivals.erased_records import ErasedRecords, list_lifted_keys, select_counting_erasures
from winnow.errors import ConfigurationError
from winnow.files import private_files
from winnow.files.erase_secret import make_secret, read_secret
from winnow.log.document_places import locate_copy
from winnow.log.erasures import read_erasures
from winnow.log.head import Head
from winnow.pipeline.installation import Installation
from winnow.values.erasures import KeyDigester, compute_key_id
from winnow.values.ingest_plans import PlannedErasure, PlannedErasures
from winnow.values.topic_state import TopicState


def load_secret(installation: Installation, state: TopicState, *, left: str, makes: bool = False) -> bytes:
    """Load the secret with which the digests of the topic's erased keys were made.

    Args:
        installation: where.
        state: of the topic.
        left: what an error says of what was left behind.
        makes: make one if there is none, and the topic has no erasure.

    Raises:
        ConfigurationError: there is none, or it is another one.
    """
    return load_secret_of(installation, state.topic, {each.key_id for each in state.erasures}, left=left, makes=makes)


def load_secret_of(
    installation: Installation, topic: str, key_ids: Collection[str], *, left: str, makes: bool = False
) -> bytes:
    """Load the secret of the erasures of ``topic`` that name their secret ``key_ids``; as :func:`load_secret`."""
    settings = installation.settings.erase
    given = None if settings.secret is None else settings.secret.get_secret_value()
    secret = read_secret(given, settings.hmac_key_file)
    if secret is None and makes and not key_ids:
        secret = make_secret(settings.hmac_key_file)
    if secret is None:
        raise ConfigurationError(
            f"Keys of topic {topic} were erased, and the secret that tells their old copies is not here: neither "
            f"erase.secret is set, nor is there the file {settings.hmac_key_file}."
            if key_ids
            else f"There is no secret of erasures: neither erase.secret is set, nor is there {settings.hmac_key_file}.",
            left=left,
            next="Set WINNOW_ERASE__SECRET to the secret of the installation that erased them.",
        )
    key_id = compute_key_id(secret)
    others = sorted(set(key_ids) - {key_id})
    if others:
        raise ConfigurationError(
            f"Keys of topic {topic} were erased with another secret ({', '.join(others)}) than this "
            f"installation has ({key_id}), so their old copies cannot be told.",
            left=left,
            next="Set WINNOW_ERASE__SECRET to the secret of the installation that erased them.",
        )
    return secret


@contextmanager
def open_secret_file(installation: Installation, secret: bytes) -> Iterator[list[str]]:
    """Write ``secret`` into a file that only its owner can read, for a block; yield the arguments for a Spark program.

    The driver reads it, and the executors get it with the code of the tasks.

    Raises:
        ServiceError: the file cannot be written.
    """
    with private_files.make_private_folder(installation.settings.private_folder) as folder:
        yield ["--erase-secret", str(private_files.write_file(folder / "erase.secret", secret.decode()))]


def open_erased_records(installation: Installation, head: Head, *, left: str) -> ErasedRecords | None:
    """Open what is left out of an input of the topic of ``head``; None: no key was erased. ``left``: as above.

    Raises:
        ConfigurationError: the secret is missing, or it is another one.
        DamagedMetadataError: the document of an erasure is gone or damaged.
    """
    state = head.state
    if not state.erasures:
        return None
    secret = load_secret(installation, state, left=left)
    erasures = list(read_erasures(state))
    return ErasedRecords(
        KeyDigester(secret, head.table_uuid),
        select_counting_erasures(erasures),
        list_lifted_keys(erasures),
        needs_timestamps=bool(state.epochs),
        lowered_ends={each.erasure_id: each.lowered_ends for each in state.erasures},
    )


def plan_erasures(head: Head, *, of_brokers: bool = False) -> PlannedErasures | None:
    """Return what tasks need to leave out old copies as :func:`open_erased_records` does, but the secret.

    None: no key was erased. ``of_brokers``: the input is a topic at brokers, which may be another life than what the
    log holds, so that offsets alone never tell that a record is new.
    """
    state = head.state
    if not state.erasures:
        return None
    copies = head.documents.copies
    return PlannedErasures(
        head.table_uuid,
        tuple(
            PlannedErasure(each.erasure_id, (each.path, locate_copy(copies, each.path)), each.sha256, each.lowered_ends)
            for each in state.erasures
        ),
        needs_timestamps=of_brokers or bool(state.epochs),
    )


def list_remaining_tombstones(state: TopicState) -> dict[int, frozenset[int]]:
    """List per partition the offsets at which a tombstone may stand in the place of an erased record.

    Where the log is compared with what it was read from, these offsets tell nothing.

    Raises:
        DamagedMetadataError: the document of an erasure is gone or damaged.
    """
    offsets: dict[int, set[int]] = {}
    for erasure in read_erasures(state):
        for tombstone in erasure.tombstones:
            offsets.setdefault(tombstone.partition, set()).add(tombstone.offset)
    return {partition: frozenset(found) for partition, found in offsets.items()}


def has_same_erasures(state: TopicState, other: TopicState) -> bool:
    """Check whether two states of a topic name the same erasures; how far one has come since decides nothing."""
    return [(each.erasure_id, each.sha256) for each in state.erasures] == [
        (each.erasure_id, each.sha256) for each in other.erasures
    ]
