"""The epochs of a log: from which life of a Kafka topic the offsets of a part of it come.

A topic that is deleted and created again, or mirrored, has another topic id, and its offsets begin again. A log goes on
where it ended: the offsets of each epoch lie above those of the epoch before, and an offset of the log is that at the
brokers plus the epoch's base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

KAFKA_LAYOUT = "kafka"
"""What ledgers name as the layout of records that were read from brokers."""


def format_topic_id(text: str) -> str:
    """Format a topic id as brokers and their log directories do: base64 with ``-`` and ``_`` (Kafka's ``Uuid``).

    librdkafka writes the other two characters of plain base64 in their place.
    """
    return text.replace("+", "-").replace("/", "_")


MAXIMUM_LEADER_EPOCHS = 8
"""Newest leader epochs that are kept per partition. Only the newest is given to brokers; those before it are for what
an undo leaves."""
UNKNOWN_LEADER_EPOCH = -1
"""Where a broker does not tell the leader epoch of a record."""


@dataclass(frozen=True, slots=True)
class LeaderEpoch:
    """Records of a partition that were read from its brokers and written under one leader.

    ``number``: Kafka's leader epoch, -1 where the brokers do not tell it. ``start``: offset at the brokers of the first
    such record. ``end``: the offset after the last one. All records from ``start`` to ``end`` came from brokers.
    """

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """One life of a source topic.

    ``topic``: its name at the brokers. ``topic_id``: Kafka's; both are None for records of files, which tell neither.
    ``bases``: per partition the offset of the log where this epoch begins, which is offset 0 at the brokers; 0 where a
    partition is not named. ``ends``: per partition the offset of the log up to which the brokers were read.
    ``ingest_id``: of the call that began it. ``begins``: per partition the offset of the log from which on records are
    of this epoch; the base where a partition is not named. They differ where the brokers lost the end of a partition
    and wrote another one: such an epoch has the topic id of the one before. ``leader_epochs``: per partition, oldest
    first, without a hole up to the newest record that was read.
    """

    topic: str | None = None
    topic_id: str | None = None
    bases: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    ingest_id: str = ""
    begins: dict[int, int] = field(default_factory=dict)
    leader_epochs: dict[int, tuple[LeaderEpoch, ...]] = field(default_factory=dict)

    def get_base(self, partition: int) -> int:
        """Return what is added to an offset of ``partition`` at the brokers to make that of the log."""
        return self.bases.get(partition, 0)

    def get_begin(self, partition: int) -> int:
        """Return the offset of the log from which on records of ``partition`` are of this epoch."""
        return self.begins.get(partition, self.get_base(partition))

    def find_leader_epoch(self, partition: int) -> LeaderEpoch | None:
        """Return the leader epoch of the newest record that was read of ``partition``; None if it is not known."""
        known = self.leader_epochs.get(partition, ())
        return known[-1] if known else None


def find_epoch(epochs: Sequence[Epoch], partition: int, offset: int) -> int:
    """Return the number, from 1, of the epoch that ``offset`` of the log belongs to; 1 if the log has none."""
    found = [number for number, each in enumerate(epochs, 1) if offset >= each.get_begin(partition)]
    return found[-1] if found else 1


def find_epoch_end(epochs: Sequence[Epoch], number: int, partition: int) -> int | None:
    """Return the offset of the log where epoch ``number`` ends in ``partition``; None for the newest one."""
    return None if number >= len(epochs) else epochs[number].get_begin(partition)


def restore_offset(epochs: Sequence[Epoch], partition: int, offset: int) -> int:
    """Return the offset that a record at ``offset`` of the log has at its brokers."""
    if not epochs:
        return offset
    return offset - epochs[find_epoch(epochs, partition, offset) - 1].get_base(partition)


def locate_offset(epochs: Sequence[Epoch], partition: int, offset: int) -> int:
    """Return the offset in the log of what is at ``offset`` at the brokers of the newest epoch.

    Below the place where that epoch left the one before, it is that one's.
    """
    for number in range(len(epochs) - 1, 0, -1):
        place = offset + epochs[number].get_base(partition)
        if place >= epochs[number].get_begin(partition):
            return place
        if epochs[number].topic_id != epochs[number - 1].topic_id:
            return place
    return offset + (epochs[0].get_base(partition) if epochs else 0)


def append_leader_epochs(
    known: Sequence[LeaderEpoch], observed: Sequence[LeaderEpoch], *, joins: bool
) -> tuple[LeaderEpoch, ...]:
    """Return ``known`` with what was read after it; the newest :data:`MAXIMUM_LEADER_EPOCHS`.

    ``joins``: whether no record of another source lies between the two; else ``known`` tells nothing any more.
    """
    merged = list(known) if joins or not observed else []
    for part in observed:
        if merged and merged[-1].number == part.number:
            merged[-1] = replace(merged[-1], end=part.end)
        else:
            merged.append(part)
    return tuple(merged[-MAXIMUM_LEADER_EPOCHS:])


def shorten_leader_epochs(known: Sequence[LeaderEpoch], end: int) -> tuple[LeaderEpoch, ...]:
    """Return ``known`` without what is at or beyond ``end``, an offset at the brokers."""
    return tuple(replace(part, end=min(part.end, end)) for part in known if part.start < end)


def shorten_newest_epoch(epochs: Sequence[Epoch], ends: Mapping[int, int]) -> tuple[Epoch, ...]:
    """Return ``epochs`` with what was read of the newest one at or beyond ``ends`` counted as unread.

    ``ends``: per partition that ends earlier now, the offset of the log where it does.
    """
    if not epochs:
        return ()
    newest = epochs[-1]
    read = {number: min(end, ends.get(number, end)) for number, end in newest.ends.items()}
    known = {
        number: shorten_leader_epochs(parts, ends[number] - newest.get_base(number)) if number in ends else parts
        for number, parts in newest.leader_epochs.items()
    }
    return (*epochs[:-1], replace(newest, ends=read, leader_epochs=known))


def drop_epochs_of(epochs: Sequence[Epoch], ingest_id: str) -> tuple[Epoch, ...]:
    """Return ``epochs`` without the one that an ingest call began."""
    return tuple(each for each in epochs if each.ingest_id != ingest_id)


def describe_offset(epochs: Sequence[Epoch], partition: int, offset: int) -> Mapping[str, int]:
    """Return epoch and offset at the brokers, as the fields that readers show; empty while there is one epoch."""
    if len(epochs) <= 1:
        return {}
    return {
        "epoch": find_epoch(epochs, partition, offset),
        "source_offset": restore_offset(epochs, partition, offset),
    }
