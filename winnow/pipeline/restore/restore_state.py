"""What a restore commits beside its records: how far it is, and what it restores into which topic.

It is the metadata of the committed offsets, one document per target partition, and the only memory of a restore. A
restore that finds another identity there than its own goes no further.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from winnow.errors import BadInputError, FormatVersionError
from winnow.kafka.transactional_writer import CommittedPosition

FORMAT_VERSION = 2
"""1, without a number of shares, is written by a restore in one process, so that an older Winnow can go on with it."""
MAXIMUM_SHARES = 8
"""How many processes may write into one target."""


class Phase(StrEnum):
    """How far a restore is."""

    WRITING = "writing"
    """Records are being written, or read back."""
    VERIFIED = "verified"
    """Everything was read back; the target's own configuration is not yet set."""
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a restore restores, and into what.

    ``restore_id``: names the snapshot's pin. ``table_uuid``, ``snapshot_id``: the log. ``bound``: the wish as text.
    ``target_id``: Kafka's id of the target. ``sets_configuration``: the target was created by the restore, which gives
    it the topic's configuration at the end. ``drops_timestamps``: times that Kafka's clients cannot write are left out.
    ``shares``: how many processes write, each under a name of its own; 1: only the one that restores.
    """

    restore_id: str
    topic: str
    table_uuid: str
    snapshot_id: int | None
    bound: str
    target_id: str | None
    sets_configuration: bool
    drops_timestamps: bool
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one partition is.

    ``next_offset``: of the log. ``end_offset``: where the restore of this partition ends. ``records``: restored so far.
    ``target_start``: the target's offset from which on the restored records stand.
    """

    next_offset: int
    end_offset: int
    records: int
    target_start: int


@dataclass(frozen=True, slots=True)
class RestoreState:
    """Everything that a restore has committed."""

    identity: Identity
    phase: Phase
    partitions: Mapping[int, Progress]

    @property
    def records(self) -> int:
        """Records that are committed in the target."""
        return sum(progress.records for progress in self.partitions.values())

    def advance(self, moved: Mapping[int, Progress], phase: Phase | None = None) -> RestoreState:
        """Return the state with partitions moved, and in another phase if one is given."""
        return replace(self, partitions={**self.partitions, **moved}, phase=phase or self.phase)

    def to_positions(self, partitions: Mapping[int, Progress] | None = None) -> dict[int, CommittedPosition]:
        """Return what is committed for ``partitions``, or for all."""
        return {
            number: CommittedPosition(each.next_offset, self._format(each))
            for number, each in (self.partitions if partitions is None else partitions).items()
        }

    def _format(self, progress: Progress) -> str:
        own = self.identity
        shared = {} if own.shares == 1 else {"shares": own.shares}
        return json.dumps(
            {
                "format_version": FORMAT_VERSION if shared else 1,
                "winnow": "restore",
                "id": own.restore_id,
                "phase": self.phase.value,
                "topic": own.topic,
                "table": own.table_uuid,
                "snapshot": own.snapshot_id,
                "bound": own.bound,
                "target": own.target_id,
                "configures": own.sets_configuration,
                "drops_timestamps": own.drops_timestamps,
                **shared,
                "end": progress.end_offset,
                "records": progress.records,
                "target_start": progress.target_start,
            },
            separators=(",", ":"),
        )


def parse_state(topic: str, target: str, positions: Mapping[int, CommittedPosition]) -> RestoreState:
    """Parse what was committed for the target's partitions.

    Raises:
        BadInputError: it is not a restore's, or contradicts itself.
        FormatVersionError: a newer Winnow wrote it.
    """
    phases: dict[int, Phase] = {}
    identities: set[Identity] = set()
    partitions: dict[int, Progress] = {}
    for number, position in positions.items():
        found = _parse_document(target, position.metadata)
        try:
            identities.add(
                Identity(
                    restore_id=found["id"],
                    topic=found["topic"],
                    table_uuid=found["table"],
                    snapshot_id=found["snapshot"],
                    bound=found["bound"],
                    target_id=found["target"],
                    sets_configuration=found["configures"],
                    drops_timestamps=found["drops_timestamps"],
                    shares=_parse_shares(found),
                )
            )
            phases[number] = Phase(found["phase"])
            partitions[number] = Progress(position.offset, found["end"], found["records"], found["target_start"])
        except (KeyError, TypeError, ValueError):
            raise _make_foreign_error(target) from None
    # Only a phase that all partitions reached in one transaction says something; writing is committed one by one.
    if len(identities) != 1 or len(set(phases.values())) != 1:
        raise _make_foreign_error(target)
    identity = next(iter(identities))
    if identity.topic != topic:
        raise BadInputError(
            f"Topic {target} holds a restore of topic {identity.topic}, not of {topic}.",
            left="Nothing was written.",
            next="Choose another --target-topic.",
        )
    return RestoreState(identity, next(iter(phases.values())), partitions)


def _parse_shares(found: Mapping[str, Any]) -> int:
    shares = found["shares"] if found["format_version"] > 1 else 1
    if not isinstance(shares, int) or not 1 <= shares <= MAXIMUM_SHARES:
        raise ValueError(shares)
    return shares


def _parse_document(target: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _make_foreign_error(target) from None
    if not isinstance(found, dict) or found.get("winnow") != "restore":
        raise _make_foreign_error(target)
    if found.get("format_version") not in range(1, FORMAT_VERSION + 1):
        raise FormatVersionError(
            f"A newer Winnow began to restore into topic {target}.",
            left="Nothing was written.",
            next="Go on with that version.",
        )
    return found


def _make_foreign_error(target: str) -> BadInputError:
    return BadInputError(
        f"The committed offsets of the restore into topic {target} are not what Winnow committed.",
        left="Nothing was written.",
        next="Delete the topic, or choose another --target-topic, and begin anew.",
    )
