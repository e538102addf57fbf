"""The epochs of a log: from which life of a Kafka topic the offsets of a part of it come.

A topic that is deleted and created again, or mirrored, has another topic id, and its offsets begin again. A log goes on
where it ended: the offsets of each epoch lie above those of the epoch before, and an offset of the log is that at the
brokers plus the epoch's base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

KAFKA_LAYOUT = "kafka"
"""What ledgers name as the layout of records that were read from brokers."""


def format_topic_id(text: str) -> str:
    """Format a topic id as brokers and their log directories do: base64 with ``-`` and ``_`` (Kafka's ``Uuid``).

    librdkafka writes the other two characters of plain base64 in their place.
    """
    return text.replace("+", "-").replace("/", "_")


@dataclass(frozen=True, slots=True)
class Epoch:
    """One life of a source topic.

    ``topic``: its name at the brokers. ``topic_id``: Kafka's; both are None for records of files, which tell neither.
    ``bases``: per partition the offset of the log where this epoch begins, which is offset 0 at the brokers; 0 where a
    partition is not named. ``ends``: per partition the offset of the log up to which the brokers were read.
    ``ingest_id``: of the call that began it.
    """

    topic: str | None = None
    topic_id: str | None = None
    bases: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    ingest_id: str = ""

    def __post_init__(self) -> None:
        """Have the id in Kafka's own alphabet: states that an earlier Winnow wrote may hold the client's."""
        if self.topic_id is not None:
            object.__setattr__(self, "topic_id", format_topic_id(self.topic_id))

    def get_base(self, partition: int) -> int:
        """Return what is added to an offset of ``partition`` at the brokers to make that of the log."""
        return self.bases.get(partition, 0)


def find_epoch(epochs: Sequence[Epoch], partition: int, offset: int) -> int:
    """Return the number, from 1, of the epoch that ``offset`` of the log belongs to; 1 if the log has none."""
    found = [number for number, each in enumerate(epochs, 1) if offset >= each.get_base(partition)]
    return found[-1] if found else 1


def find_epoch_end(epochs: Sequence[Epoch], number: int, partition: int) -> int | None:
    """Return the offset of the log where epoch ``number`` ends in ``partition``; None for the newest one."""
    return None if number >= len(epochs) else epochs[number].get_base(partition)


def restore_offset(epochs: Sequence[Epoch], partition: int, offset: int) -> int:
    """Return the offset that a record at ``offset`` of the log has at its brokers."""
    if not epochs:
        return offset
    return offset - epochs[find_epoch(epochs, partition, offset) - 1].get_base(partition)


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
