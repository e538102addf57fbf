"""Decides which configuration a log takes from its topic at Kafka, and what waits for a person. Pure.

``cleanup.policy`` is taken as it is in force there, whether the topic sets it or not; every other key where the topic
itself sets it. An override that was taken and that the topic no longer sets is removed here. A change that would remove
records which otherwise stay is held until a person accepts it; everything else is taken meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from winnow.config import values
from winnow.config.definitions import BY_NAME, DEFINITIONS
from winnow.config.kafka_settings import KafkaRecord, Origin, RecordedSetting, SourceSetting
from winnow.config.topic import TopicConfig, list_entries
from winnow.errors import ConfigurationError
from winnow.planning.removing_changes import removes_more

POLICY = "cleanup.policy"
REMOVING_KEYS = (POLICY, "retention.ms", "retention.bytes", "delete.retention.ms", "min.compaction.lag.ms")
"""Keys whose change can remove records that would otherwise stay, in the order in which they are tried."""

Parse = Callable[[Mapping[str, str]], TopicConfig]
"""Parses the configuration of a topic that sets these overrides; raises ConfigurationError."""


@dataclass(frozen=True, slots=True)
class TakingRules:
    """What a call may take.

    Args:
        takes: whether anything but the policy of a new topic is taken.
        accepts: whether changes that an earlier call held are taken; for a new topic, all that is in force at Kafka.
        accepted_keys: keys that are taken as they are in force at Kafka, if an earlier call said that value.
    """

    takes: bool = False
    accepts: bool = False
    accepted_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """One key here and at Kafka. ``before`` and ``after``: its value here; None: none. ``known``: Kafka's before."""

    name: str
    before: str | None
    after: str | None
    kafka: SourceSetting
    known: SourceSetting | None = None

    @property
    def is_news(self) -> bool:
        """Whether Kafka has another value than when it was asked last."""
        return self.kafka != self.known


@dataclass(frozen=True, slots=True)
class ConfigurationDecision:
    """What becomes of a topic's configuration.

    Args:
        overrides: what the topic sets afterwards.
        record: what is recorded of Kafka afterwards.
        taken: the keys that change here.
        held: those that would remove records and wait for a person.
        different: those that stay different here and are not held.
        refused: of keys that cannot be taken beside the others, why.
    """

    overrides: Mapping[str, str]
    record: KafkaRecord
    taken: tuple[KeyDifference, ...] = ()
    held: tuple[KeyDifference, ...] = ()
    different: tuple[KeyDifference, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def decide_new_configuration(
    kafka: Mapping[str, SourceSetting], *, parse: Parse, rules: TakingRules
) -> ConfigurationDecision:
    """Decide the configuration of a topic that is created here for one at Kafka.

    Raises:
        ConfigurationError: Kafka did not say its cleanup.policy, or Winnow does not know that policy: no other one is
            assumed, because the wrong one removes records.
    """
    if POLICY not in kafka:
        raise ConfigurationError("Kafka did not say the cleanup.policy in force, and no other is assumed")
    here = parse({})
    present = _list_values(here)
    targets: dict[str, str | None] = {
        name: setting.value
        for name, setting in kafka.items()
        if name == POLICY
        or (
            not _is_same(name, present.get(name), setting.value)
            and (rules.accepts or name in rules.accepted_keys or (rules.takes and setting.origin is Origin.TOPIC))
        )
    }
    overrides, _, refused = _apply(here, targets, forced=set(targets), parse=parse)
    if POLICY in refused:
        raise ConfigurationError(refused[POLICY])
    return _build_decision(here, {}, kafka, parse(overrides), targets, (), refused)


def decide_configuration(
    here: TopicConfig,
    record: KafkaRecord,
    kafka: Mapping[str, SourceSetting],
    *,
    parse: Parse,
    rules: TakingRules,
) -> ConfigurationDecision:
    """Decide what the topic ``here`` takes of what is in force at ``kafka``; keys that Kafka did not name stay."""
    targets = _choose_targets(here, record, kafka, rules) if rules.takes else {}
    forced = {
        name
        for name in targets
        if name in record
        and record[name].setting == kafka[name]
        and (name in rules.accepted_keys or (rules.accepts and record[name].held))
    }
    overrides, held, refused = _apply(here, targets, forced=forced, parse=parse)
    if not rules.takes:
        # Nothing is decided here; what waits goes on waiting while Kafka has that value.
        held = {name for name, each in record.items() if each.held and kafka.get(name) == each.setting}
    return _build_decision(here, record, kafka, parse(overrides), targets, held, refused)


def _choose_targets(
    here: TopicConfig, record: KafkaRecord, kafka: Mapping[str, SourceSetting], rules: TakingRules
) -> dict[str, str | None]:
    """Choose the values to take; None: the override goes."""
    targets: dict[str, str | None] = {}
    present = _list_values(here)
    for name, setting in kafka.items():
        recorded = record.get(name)
        taken = recorded.taken if recorded is not None and name in here.overrides else None
        is_set_by_hand = name in here.overrides and taken is None
        if setting.origin is Origin.UNKNOWN:
            continue  # proves nothing about what the topic sets
        if setting.origin is Origin.TOPIC or (recorded is not None and name in rules.accepted_keys):
            targets[name] = setting.value
        elif name == POLICY:
            if not is_set_by_hand:
                targets[name] = setting.value
        elif taken is Origin.TOPIC:
            targets[name] = None
        elif taken is not None:
            targets[name] = setting.value  # accepted as in force there, so it follows what is in force
    return {
        name: value for name, value in targets.items() if value is None or not _is_same(name, present.get(name), value)
    }


def _apply(
    here: TopicConfig, targets: Mapping[str, str | None], *, forced: Collection[str], parse: Parse
) -> tuple[dict[str, str], set[str], dict[str, str]]:
    """Apply ``targets`` key by key; return the overrides, what would remove records, and what cannot be with the rest.

    One key may become possible or harmless by another, so it goes on until nothing more can be applied.
    """
    overrides, config = dict(here.overrides), here
    waiting = sorted(targets, key=lambda name: REMOVING_KEYS.index(name) if name in REMOVING_KEYS else -1)
    while True:
        held: set[str] = set()
        refused: dict[str, str] = {}
        has_progress = False
        for name in tuple(waiting):
            candidate = {key: value for key, value in overrides.items() if key != name}
            value = targets[name]
            if value is not None:
                candidate[name] = value
            try:
                after = parse(candidate)
            except ConfigurationError as problem:
                refused[name] = str(problem)
                continue
            if name not in forced and removes_more(config, after):
                held.add(name)
                continue
            overrides, config = candidate, after
            waiting.remove(name)
            has_progress = True
        if not has_progress:
            return overrides, held, refused


def _list_values(config: TopicConfig) -> dict[str, str]:
    return {entry.name: entry.value for entry in list_entries(config)}


def _is_same(name: str, here: str | None, there: str) -> bool:
    """Check whether two texts are one value, as Kafka reads them."""
    if here is None:
        return False
    kind, validator = BY_NAME[name].kind, BY_NAME[name].validator
    try:
        first, second = (values.parse_value(name, text, kind, validator) for text in (here, there))
    except ConfigurationError:
        return here == there
    if isinstance(first, tuple) and isinstance(second, tuple):
        return set(first) == set(second)
    if name == "retention.bytes":
        return first == second or (int(here) < 0 and int(there) < 0)
    return first == second


def _build_decision(
    here: TopicConfig,
    record: KafkaRecord,
    kafka: Mapping[str, SourceSetting],
    after: TopicConfig,
    targets: Mapping[str, str | None],
    held: Collection[str],
    refused: Mapping[str, str],
) -> ConfigurationDecision:
    present, future = _list_values(here), _list_values(after)
    found: dict[str, RecordedSetting] = {name: each for name, each in record.items() if name not in kafka}
    taken, waiting, different = list[KeyDifference](), list[KeyDifference](), list[KeyDifference]()
    for name in (each.name for each in DEFINITIONS if each.name in kafka):
        setting, earlier = kafka[name], record.get(name)
        is_applied = name in targets and name not in held and name not in refused
        if is_applied:
            came = None if targets[name] is None else setting.origin
        else:
            came = earlier.taken if earlier is not None and name in after.overrides else None
        is_same = _is_same(name, future.get(name), setting.value)
        known = None if earlier is None else earlier.setting
        difference = KeyDifference(name, present.get(name), future.get(name), setting, known)
        if is_applied and (present.get(name) != future.get(name) or name == POLICY):
            taken.append(difference)
        if name in held and not is_same:
            waiting.append(difference)
        elif not is_same:
            different.append(difference)
        if name == POLICY or came is not None or not is_same:
            found[name] = RecordedSetting(setting.value, setting.origin, came, held=name in held and not is_same)
    return ConfigurationDecision(
        dict(after.overrides), found, tuple(taken), tuple(waiting), tuple(different), dict(refused)
    )
