"""Takes topic configuration from Kafka: at the creation of a topic, and while it is followed.

What was taken and what Kafka has otherwise is recorded beside the overrides, in the same commit. So an override that is
taken back at Kafka is removed here, and one that a person set here is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from winnow.config.kafka_settings import (
    RETENTION_KEYS,
    KafkaRecord,
    Origin,
    RecordedSetting,
    SourceSetting,
    format_setting,
)
from winnow.config.topic import TopicConfig
from winnow.errors import BadInputError, ConfigurationError, UsageError
from winnow.kafka.cluster import BrokerTopic
from winnow.log.head import Change, Head
from winnow.log.recorded_configuration import make_kafka_property, read_kafka_record
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest.open import CreatedTopics, create_topic
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
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
from winnow.pipeline.topics.topic_view import load_partition_logs
from winnow.planning.kafka_configuration import (
    ConfigurationDecision,
    KeyDifference,
    TakingRules,
    decide_configuration,
    decide_new_configuration,
)
from winnow.report import alert_kinds
from winnow.report.alert_kinds import AlertKind
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.store.audit import AuditAction


def create_from_kafka(
    installation: Installation, topic: str, found: BrokerTopic, rules: TakingRules, created: CreatedTopics
) -> list[str]:
    """Create ``topic`` with the partitions and the policy that ``found`` has; return notices.

    Raises:
        BadInputError: Kafka did not say a policy that Winnow knows; nothing was created.
        ConfigurationError: this cannot be the name of a topic.
    """
    log = installation.log.open(topic)
    try:
        decision = decide_new_configuration(found.settings, parse=log.parse, rules=rules)
    except ConfigurationError as problem:
        raise BadInputError(
            f"Topic {topic} was not created: {problem}.",
            left=NOTHING_INGESTED,
            next=(
                f"Create it yourself, with the policy that it is to have: winnow topics create {topic} --partitions "
                f"{len(found.partitions)} --config cleanup.policy=..."
            ),
        ) from problem
    create_topic(installation, topic, len(found.partitions), created, decision.overrides, kafka=decision.record)
    taken = ", ".join(f"{each.name}={each.after} (from Kafka: {each.kafka.origin})" for each in decision.taken)
    notices = [f"Topic {topic} was created, partitions: {len(found.partitions)}; {taken}."]
    notices += [_describe_difference(each) for each in decision.different]
    return notices + _describe_refused(decision)


def follow_configuration(
    installation: Installation, log: TopicLog, found: BrokerTopic, rules: TakingRules
) -> list[str]:
    """Take from ``found`` what the rules allow, record what is otherwise there, and alert about what waits.

    Returns:
        What was taken, what waits and what differs, key by key.

    Raises:
        ForeignConfigurationError: another tool changed the table's properties.
    """
    return _take(installation, log, found.name, found.settings, rules) if found.settings else []


def accept_held(
    installation: Installation,
    topic: str,
    expected: Mapping[str, str] | None = None,
    *,
    approval: ChangeApproval | None = None,
) -> list[str]:
    """Take the changes at Kafka that are held, as they were last seen there; asks no broker. Return notices.

    Args:
        installation: the installation.
        topic: the topic here.
        expected: the values that somebody saw who decided on it; None: those that are recorded.
        approval: by the second person, where it takes one.

    Raises:
        UsageError: nothing is held, or not these values, or a second person did not approve it. Nothing was changed.
        ForeignConfigurationError: another tool changed the table's properties.
    """
    log = installation.log.open(topic)
    record = read_kafka_record(log.newest_head().table.properties)
    held = {name: each.setting for name, each in record.items() if each.held}
    if not held:
        raise UsageError(
            f"No change of configuration at Kafka waits for acceptance by topic {topic}.",
            left="Nothing was changed.",
            next=f"See what is in force: winnow topics describe {topic}",
        )
    if expected is not None and expected != {name: each.value for name, each in held.items()}:
        raise UsageError(
            f"Nothing of {topic} was changed: other values wait than those that you saw.",
            next=f"See them and decide anew: winnow topics describe {topic}",
        )
    return _take(installation, log, topic, held, TakingRules(takes=True, accepts=True), approval)


def show_held(installation: Installation, topic: str) -> ShownChange:
    """Show what taking the held changes would do, as a second person sees it."""
    log = installation.log.open(topic)
    head = log.newest_head()
    record = read_kafka_record(head.table.properties)
    held = {name: each.setting for name, each in record.items() if each.held}
    decided = _decide_taking(log, head, held, TakingRules(takes=True, accepts=True))
    effects = _describe_effects(installation, log, decided.before, decided.decision.overrides)
    return _show(log, head, decided, notices=effects)


def _decide_taking(log: TopicLog, head: Head, kafka: Mapping[str, SourceSetting], rules: TakingRules) -> _Decided:
    before, record = log.config(head), read_kafka_record(head.table.properties)
    return _Decided(before, record, decide_configuration(before, record, kafka, parse=log.parse, rules=rules))


def _show(log: TopicLog, head: Head, decided: _Decided, *, notices: tuple[str, ...] = ()) -> ShownChange:
    after = log.parse(decided.decision.overrides)
    return show_configuration(log.topic, head, decided.before, after, notices=notices)


def _take(
    installation: Installation,
    log: TopicLog,
    source_topic: str,
    kafka: Mapping[str, SourceSetting],
    rules: TakingRules,
    approval: ChangeApproval | None = None,
) -> list[str]:
    made: list[_Decided] = []

    def build(head: Head) -> Change:
        # Decided anew after each conflict: a person may have set a key meanwhile.
        made[:] = [_decide_taking(log, head, kafka, rules)]
        require_second_person(installation, _show(log, head, made[0]), approval)
        return _build_change(head, made[0].decision)

    decided = _decide_taking(log, log.newest_head(), kafka, rules)
    if decided.changes:
        committed = log.commit(build)
        decided = made[0]
        refresh_overview(installation, log.topic, committed.head)
    notices = _report_taken(installation, log, source_topic, decided, rules, approval) if decided.decision.taken else []
    notices += _report_held(installation, log, source_topic, decided)
    notices += [
        _describe_difference(each)
        for each in decided.decision.different
        if each.is_news or (each.kafka.origin is Origin.TOPIC and not rules.takes)
    ]
    return notices + _describe_refused(decided.decision)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision, and the configuration and the record that it was made on."""

    before: TopicConfig
    record: KafkaRecord
    decision: ConfigurationDecision

    @property
    def changes(self) -> bool:
        """Whether there is anything to commit."""
        return self.decision.overrides != self.before.overrides or self.decision.record != self.record


def _build_change(head: Head, decision: ConfigurationDecision) -> Change:
    changed = {each.name for each in decision.taken}
    return Change(
        state=head.state,
        summary={"winnow.operation": "alter"},
        properties={
            **{name: value for name, value in decision.overrides.items() if name in changed},
            **make_kafka_property(decision.record),
        },
        dropped_properties=tuple(
            name for name in sorted(changed) if name not in decision.overrides and name in head.table.properties
        ),
    )


def _report_taken(
    installation: Installation,
    log: TopicLog,
    source_topic: str,
    decided: _Decided,
    rules: TakingRules,
    approval: ChangeApproval | None,
) -> list[str]:
    """Release marks, audit what was taken, and describe it."""
    decision = decided.decision
    release_marks(installation, log.topic, why="its configuration changed")
    changes = ", ".join(
        _format_change(each)
        + ("" if each.name in decision.overrides else f", no longer set at Kafka's {source_topic}, so reset")
        for each in decision.taken
    )
    accepted = " (accepted by a person)" if rules.accepts or rules.accepted_keys else ""
    detail = ", ".join([f"from Kafka's {source_topic}: {changes}{accepted}", *describe_approval(approval)])
    before, after = decided.before.overrides, decision.overrides
    values = {each.name: (before.get(each.name), after.get(each.name)) for each in decision.taken}
    record_action(installation, AuditAction.ALTER, log.topic, detail=detail, changes={log.topic: values})
    effects = _describe_effects(installation, log, decided.before, decision.overrides)
    effects = effects or (f"What the next run removes because of it: winnow explain {log.topic}",)
    return [f"Taken over from Kafka's {source_topic}: {changes}. {' '.join(effects)}"]


def _describe_effects(
    installation: Installation, log: TopicLog, before: TopicConfig, overrides: Mapping[str, str]
) -> tuple[str, ...]:
    """Describe what the next run does with ``overrides``; nothing if they cannot be had together."""
    try:
        after = log.parse(overrides)
    except ConfigurationError:
        return ()
    return describe_consequences(load_partition_logs(log, log.head()), before, after, now_ms=installation.now_ms())


def _report_held(installation: Installation, log: TopicLog, source_topic: str, decided: _Decided) -> list[str]:
    """Alert about what waits, or end the alert; return a notice about it."""
    topic, kinds = log.topic, {AlertKind.CONFIGURATION_HELD}
    is_open = bool(installation.store.alerts.list_open(kinds, topic))
    decision = decided.decision
    held = {name: each for name, each in decision.record.items() if each.held}
    before = {name: each for name, each in decided.record.items() if each.held}
    changes = _describe_held(held)
    _record_held(installation, log, source_topic, decision, held, before)
    if not held:
        if is_open:
            installation.alerts.recover(topic, kinds, None, "has no change of configuration that waits")
        return []
    if is_open and held != before:
        installation.alerts.supersede(topic, kinds, None)  # it named other values
    kept = {name: value for name, value in decision.overrides.items() if name not in held}
    proposed = {**kept, **{name: each.value for name, each in held.items() if not _is_taken_back(each)}}
    effects = _describe_effects(installation, log, log.parse(decision.overrides), proposed)
    situation = alert_kinds.make_configuration_held(
        topic, source_topic, changes, effect=" ".join(effects), at_ms=installation.now_ms()
    )
    installation.alerts.open_alert(situation)
    return [str(situation.explain())]


def _record_held(
    installation: Installation,
    log: TopicLog,
    source_topic: str,
    decision: ConfigurationDecision,
    held: KafkaRecord,
    before: KafkaRecord,
) -> None:
    """Record in the audit log what waits that did not wait ``before``, and what waits no more and was not taken."""
    news = {name: each for name, each in held.items() if before.get(name) != each}
    taken = {each.name for each in decision.taken}
    ended = [name for name in sorted(before) if name not in held and name not in taken]
    parts = [f"waits for a person: {_describe_held(news)}"] if news else []
    parts += [f"waits no more, as Kafka has another value: {', '.join(ended)}"] if ended else []
    if parts:
        detail = f"from Kafka's {source_topic}: {'; '.join(parts)}"
        record_action(installation, AuditAction.HOLD_CONFIGURATION, log.topic, detail=detail)


def _describe_held(held: KafkaRecord) -> str:
    return ", ".join(
        f"{name}, which was set at Kafka, was taken back there ({format_setting(name, each.value)} is in force, "
        f"{each.origin}), so it would be reset here"
        if _is_taken_back(each)
        else f"{name} is {format_setting(name, each.value)} at Kafka ({each.origin})"
        for name, each in held.items()
    )


def _is_taken_back(recorded: RecordedSetting) -> bool:
    """Check whether an override here was taken from the topic at Kafka, which sets that key no more."""
    return recorded.taken is Origin.TOPIC and recorded.origin is not Origin.TOPIC


def _format_change(each: KeyDifference) -> str:
    return f"{each.name} {_format_value(each.before)} → {_format_value(each.after)}"


def _format_value(value: str | None) -> str:
    return "not set" if value is None else value or "(empty)"


def _describe_difference(each: KeyDifference) -> str:
    """Say what Kafka does and what is done here."""
    there = f"{each.kafka.value} ({each.kafka.origin})"
    if each.known is not None and each.is_news:
        there += f", before {each.known.value} ({each.known.origin})"
    text = f"{each.name} differs: here {_format_value(each.after)}, at Kafka {there}."
    if each.name in RETENTION_KEYS:
        text += " Kafka's value removes nothing here."
    if each.kafka.origin is Origin.TOPIC:
        return f"{text} To take it over: --sync-config"
    return f"{text} To take it over: --sync-config --accept-kafka-config --accept-key {each.name}"


def _describe_refused(decision: ConfigurationDecision) -> list[str]:
    return [f"{name} could not be taken from Kafka: {why}." for name, why in sorted(decision.refused.items())]
