"""Creates, describes and changes topics, and describes the effect of a change on the next run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.clock import format_ms
from winnow.config.names import has_collision
from winnow.config.topic import ConfigEntry, TopicConfig, is_topic_key, list_entries, make_unknown_key_error
from winnow.errors import ConfigurationError
from winnow.log.head import Head
from winnow.log.recorded_configuration import describe_differences, read_kafka_record, read_overrides
from winnow.log.topic_configuration import accept_config, add_partitions, set_config
from winnow.log.topic_log import TopicLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action, record_creation
from winnow.pipeline.topics.configuration_undo import ConfigurationUndo, describe_undo, require_as_left
from winnow.pipeline.topics.consequences import describe_consequences
from winnow.pipeline.topics.marks import release_marks
from winnow.pipeline.topics.overview import refresh_overview
from winnow.pipeline.topics.second_person import (
    ChangeApproval,
    ShownChange,
    describe_approval,
    require_second_person,
    show_configuration,
)
from winnow.pipeline.topics.topic_view import TopicView, build_rules, load_partition_logs, load_topic_view
from winnow.store.audit import AuditAction
from winnow.store.source_states import SourceState
from winnow.values.topic_state import PartitionsAdded, PartitionState


@dataclass(frozen=True)
class TopicDescription:
    """A topic for people: configuration with sources, and size and state per partition.

    ``last_checked_ms`` and ``oldest_checked_ms``: the newest and the oldest last check among the live segments; None:
    none was checked. ``segments_unchecked``: those never checked. ``source``: what became of its Kafka topic; None: as
    far as is known that is there and followed, or never was.
    """

    name: str
    partitions: int
    location: str
    config: tuple[ConfigEntry, ...]
    notices: tuple[str, ...]
    states: dict[int, PartitionState]
    bytes: dict[int, int]
    records: dict[int, int]
    last_checked_ms: int | None
    oldest_checked_ms: int | None
    segments_unchecked: int
    scrub_findings: int
    source: SourceState | None = None


def list_topics(installation: Installation) -> list[str]:
    """List all topics, sorted by name."""
    return installation.log.names()


def create_topic(
    installation: Installation, name: str, partitions: int, overrides: Mapping[str, str]
) -> TopicDescription:
    """Create a topic; raises ConfigurationError as :meth:`winnow.log.topics.TopicLogs.create`."""
    notices = tuple(
        f"Topic {name} collides with {other} in metric names: '.' and '_' are the same there."
        for other in installation.log.names()
        if other != name and has_collision(name, other)
    )
    installation.log.create(name, partitions, overrides)
    record_creation(installation, name, partitions, overrides)
    refresh_overview(installation, name)
    return describe_topic(installation, name, notices=notices)


def describe_topic(installation: Installation, name: str, *, notices: Sequence[str] = ()) -> TopicDescription:
    """Return configuration with sources and sentences, and per partition offsets, bytes and records.

    If the table's properties differ from the configuration that Winnow committed, the committed one is described, with
    a notice about the difference.
    """
    log = installation.log.open(name)
    head = log.head()
    differences = head.configuration_differences
    if differences:
        notices = (*notices, describe_differences(name, differences, head.table.metadata_location))
    config = _load_committed_config(log, head)
    segments = log.segments(head)
    checks = installation.store.segment_checks.list_checks(name)
    live = [checks.get(segment.path) for each in segments.values() for segment in each]
    times_ms = [check.checked_at_ms for check in live if check is not None]
    return TopicDescription(
        name=name,
        partitions=log.partitions(head),
        location=head.location,
        config=list_entries(config, read_kafka_record(head.table.properties)),
        notices=(*notices, *(_describe_added_partitions(name, added) for added in head.state.partitions_added)),
        states=dict(head.state.partitions),
        bytes={p: sum(s.size_bytes for s in found) for p, found in segments.items()},
        records={p: sum(s.records for s in found) for p, found in segments.items()},
        last_checked_ms=max(times_ms, default=None),
        oldest_checked_ms=min(times_ms, default=None),
        segments_unchecked=len(live) - len(times_ms),
        scrub_findings=sum(check.finding is not None for check in checks.values()),
        source=installation.store.source_states.find(name),
    )


def _load_committed_config(log: TopicLog, head: Head) -> TopicConfig:
    if head.configuration_differences:
        return log.parse(read_overrides(head.state.configuration or {}))
    return log.config(head)


def _describe_added_partitions(name: str, added: PartitionsAdded) -> str:
    return (
        f"{name} grew from {added.before} to {added.after} partitions at {format_ms(added.at_ms)}. Since then a key "
        "may be in two partitions: compaction never merges across partitions, so both keep a latest record. Receipts "
        "count the keys that Kafka's default partitioner would now put into another partition (keys_elsewhere)."
    )


def alter_topic(
    installation: Installation,
    name: str,
    changes: Mapping[str, str],
    deletions: Sequence[str],
    *,
    partitions: int | None = None,
    accept_present: bool = False,
    approval: ChangeApproval | None = None,
    undoes: ConfigurationUndo | None = None,
) -> TopicDescription:
    """Change topic configuration, and add ``partitions``; notices describe the effect.

    The result as a whole is checked before anything is written. A changed configuration releases uncleanable
    partitions: the cause of their failure may be gone.

    ``accept_present``: accept the table's current properties, with the changes of this call; without it a topic whose
    properties another tool changed is an error. ``approval``: by the second person, where the change takes one.
    ``undoes``: the entry of the audit log that this change undoes, while its keys have the values that it gave them.

    Raises:
        ConfigurationError: a key or value is not valid, a key is both set and deleted, or the topic has as many
            partitions already.
        ForeignConfigurationError: another tool changed the table's properties, and that is not accepted.
        UsageError: the change takes a second person, who did not approve it, or approved another one.
        UndoRefusedError: a key of what is undone has another value by now.
    """
    log = installation.log.open(name)
    head = log.newest_head()
    after = _parse_changed_config(log, head, changes, deletions)
    before = _find_config_before(log, head, accept_present=accept_present)
    checked: list[ShownChange] = []

    def check(found: Head) -> None:
        if undoes is not None:
            require_as_left(installation, undoes, read_overrides(found.table.properties))
        shown = _show_change(log, found, changes, deletions, accept_present=accept_present)
        require_second_person(installation, shown, approval)
        checked.append(shown)  # the last one is of the head that the commit follows

    check(head)  # before partitions are added
    if accept_present:
        accepted = accept_config(log, dict(changes), list(deletions), now_ms=installation.now_ms(), check=check)
        installation.store.projection.record_states(
            name, accepted.state.partitions, installation.now_ms(), table_uuid=accepted.head.table_uuid
        )
    if partitions is not None:
        grown = add_partitions(log, partitions, now_ms=installation.now_ms())
        installation.store.projection.record_states(
            name, grown.state.partitions, installation.now_ms(), table_uuid=grown.head.table_uuid
        )
        record_action(installation, AuditAction.ADD_PARTITIONS, name, detail=f"{partitions:,} partitions")
    notices: tuple[str, ...] = ()
    if (changes or deletions) and not accept_present:
        set_config(log, dict(changes), list(deletions), check=check)
    if changes or deletions or accept_present:
        keys = [f"{key}={value}" for key, value in sorted(changes.items())] + [f"reset {key}" for key in deletions]
        accepted_too = ["accepted what another tool changed"] if accept_present else []
        details = [*describe_undo(undoes), *keys, *accepted_too, *describe_approval(approval)]
        values = {name: checked[-1].values}
        record_action(installation, AuditAction.ALTER, name, detail=", ".join(details), changes=values)
        logs = load_partition_logs(log, log.head())
        notices = describe_consequences(logs, before or after, after, now_ms=installation.now_ms())
    if after != before:
        notices += _release_marks(installation, name)
    else:
        refresh_overview(installation, name)
    return describe_topic(installation, name, notices=notices)


def _find_config_before(log: TopicLog, head: Head, *, accept_present: bool) -> TopicConfig | None:
    """Find what is in force; None: a default of the installation contradicts the topic, and a change repairs it."""
    try:
        return _load_committed_config(log, head) if accept_present else log.config(head)
    except ConfigurationError:
        return None


def _show_change(
    log: TopicLog, head: Head, changes: Mapping[str, str], deletions: Sequence[str], *, accept_present: bool
) -> ShownChange:
    before = _find_config_before(log, head, accept_present=accept_present)
    return show_configuration(log.topic, head, before, _parse_changed_config(log, head, changes, deletions))


def _parse_changed_config(
    log: TopicLog, head: Head, changes: Mapping[str, str], deletions: Sequence[str]
) -> TopicConfig:
    both = sorted(set(changes) & set(deletions))
    if both:
        raise ConfigurationError(f"Topic {log.topic} was not changed: {', '.join(both)} is both set and deleted.")
    for key in deletions:
        if not is_topic_key(key):
            raise make_unknown_key_error(key)
    current = read_overrides(head.table.properties)
    return log.parse({key: value for key, value in {**current, **changes}.items() if key not in deletions})


@dataclass(frozen=True, slots=True)
class ConfigPreview:
    """What a change of topic configuration would do. ``before`` and ``after``: the topic with either configuration.

    ``shown``: as a second person sees it.
    """

    before: TopicView
    after: TopicView
    shown: ShownChange


def preview_config(
    installation: Installation, name: str, changes: Mapping[str, str], deletions: Sequence[str]
) -> ConfigPreview:
    """Check a change of topic configuration as :func:`alter_topic` does, and describe it; changes nothing.

    Raises:
        ConfigurationError, ForeignConfigurationError: as :func:`alter_topic`.
    """
    view = load_topic_view(installation, name)
    config = _parse_changed_config(view.log, view.head, changes, deletions)
    after = replace(view, config=config, rules=build_rules(config))
    notices = describe_consequences(view.partitions, view.config, config, now_ms=view.now_ms)
    return ConfigPreview(view, after, show_configuration(name, view.head, view.config, config, notices=notices))


def _release_marks(installation: Installation, name: str) -> tuple[str, ...]:
    released = release_marks(installation, name, why="its configuration changed")
    if not released:
        return ()
    partitions = ", ".join(f"{name}-{number}" for number in released)
    return (f"Released of the mark uncleanable, and tried again by the next run: {partitions}.",)
