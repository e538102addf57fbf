"""Changes a topic's configuration and its number of partitions, each in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.errors import ConfigurationError
from winnow.log import recorded_configuration as recorded
from winnow.log.head import Change
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY, read_overrides
from winnow.values.topic_state import PartitionsAdded, PartitionState

if TYPE_CHECKING:
    from winnow.log.head import Committed, Head
    from winnow.log.topic_log import TopicLog
    from winnow.values.topic_state import TopicState


def add_partitions(log: TopicLog, count: int, *, now_ms: int) -> Committed:
    """Grow the topic to ``count`` partitions: state and table property change in one commit.

    Raises:
        ConfigurationError: the topic has as many or more already.
    """

    def change(head: Head) -> Change:
        log.config(head)  # changes made by another tool are not accepted along with it
        before = len(head.state.partitions)
        if count <= before:
            raise ConfigurationError(
                f"Topic {log.topic} currently has {before} partitions, which is higher than or equal to the "
                f"requested {count}.",
                left="Nothing was changed; partitions cannot be taken away.",
            )
        return Change(
            state=_add_partitions(head.state, count, now_ms),
            summary={"winnow.operation": "add-partitions"},
            properties={PARTITIONS_PROPERTY: str(count)},
        )

    return log.commit(change)


def set_config(
    log: TopicLog,
    changes: dict[str, str],
    deletions: Sequence[str],
    *,
    check: Callable[[Head], None] = lambda _: None,
) -> Committed:
    """Change topic configuration: table properties, in a snapshot without files.

    It makes a snapshot, so that a publish that read the old configuration conflicts and reads it again. Keys that
    a person changes no longer count as taken from Kafka. ``check`` raises for a head that the change must not follow.
    """

    def change(head: Head) -> Change:
        check(head)
        recorded.check_recorded(
            log.topic, head.state.configuration, head.table.properties, head.table.metadata_location
        )
        current = read_overrides(head.table.properties)
        # Another change may have come in between; both together must be valid too.
        log.parse({key: text for key, text in {**current, **changes}.items() if key not in deletions})
        present = tuple(key for key in deletions if key in head.table.properties)
        return Change(
            state=head.state,
            summary={"winnow.operation": "alter"},
            properties={
                **changes,
                **recorded.make_property_of_person(head.table.properties, {*changes, *deletions}),
            },
            dropped_properties=present,
        )

    return log.commit(change)


def accept_config(
    log: TopicLog,
    changes: Mapping[str, str],
    deletions: Sequence[str],
    *,
    now_ms: int,
    check: Callable[[Head], None] = lambda _: None,
) -> Committed:
    """Accept the configuration in the table's properties, with ``changes`` to it, as this topic's.

    Partitions cannot be removed: if the properties name fewer than there are, or no number, the number stays.
    ``check`` raises for a head that the change must not follow.

    Raises:
        ConfigurationError: the configuration would not be valid.
    """

    def change(head: Head) -> Change:
        check(head)
        present = {**head.table.properties, **changes}
        log.parse({key: text for key, text in read_overrides(present).items() if key not in deletions})
        before = len(head.state.partitions)
        text = present.get(PARTITIONS_PROPERTY, "")
        count = max(before, int(text) if text.isdecimal() else 0)
        return Change(
            state=_add_partitions(head.state, count, now_ms) if count > before else head.state,
            summary={"winnow.operation": "accept-config"},
            properties={
                **changes,
                **recorded.make_property_of_person(
                    head.table.properties,
                    {*changes, *deletions, *(each.key for each in head.configuration_differences)},
                ),
                PARTITIONS_PROPERTY: str(count),
            },
            dropped_properties=tuple(key for key in deletions if key in head.table.properties),
            accepts_configuration=True,
        )

    return log.commit(change)


def _add_partitions(state: TopicState, count: int, now_ms: int) -> TopicState:
    before = len(state.partitions)
    return replace(
        state,
        partitions={**state.partitions, **{number: PartitionState() for number in range(before, count)}},
        partitions_added=(*state.partitions_added, PartitionsAdded(now_ms, before, count)),
    )
