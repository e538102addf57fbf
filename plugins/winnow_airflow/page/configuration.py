"""Configuration routes: the keys of topic configuration, and the check of a topic that somebody wants to create."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from winnow.config.definitions import BY_NAME, DEFINITIONS, Definition
from winnow.config.names import validate_topic_name
from winnow.config.topic import TopicConfig, make_unknown_key_error
from winnow.config.units import convert_unit, convert_units
from winnow.config.values import OneOf, ValueType, parse_value
from winnow.errors import ConfigurationError
from winnow.store.rows import TopicFilter
from winnow_airflow.page.access import may_view, own_request, require_right_to
from winnow_airflow.page.dependencies import InstallationDep, NowDep
from winnow_airflow.page.request_body import RequestBody
from winnow_airflow.page.responses import Document

MAXIMUM_KEYS = 100
MAXIMUM_VALUE_CHARACTERS = 1_000
Values = dict[str, Annotated[str, Field(max_length=MAXIMUM_VALUE_CHARACTERS)]]

LAGS: Final = frozenset(
    {
        *("min.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms", "winnow.retired.grace.ms"),
        *("winnow.late.arrival.ms", "winnow.latest.max.age.ms"),
    }
)
"""Keys about when something is due, or may go."""
WITHOUT_EFFECT: Final = frozenset(
    {
        *("segment.jitter.ms", "segment.index.bytes", "file.delete.delay.ms", "max.message.bytes"),
        *("remote.storage.enable", "internal.segment.bytes"),
    }
)
"""Kafka's keys that an archive keeps for the topic's sake, or that are for tests."""
LATEST_TABLE: Final = ("winnow.latest.", "winnow.key.", "winnow.value.")
"""What the keys of the table of the latest state begin with."""

router = APIRouter(prefix="/api/configuration", dependencies=[may_view])


class WantedTopic(RequestBody):
    """A topic that somebody wants to create."""

    topic: str = Field(max_length=MAXIMUM_VALUE_CHARACTERS)
    config: Values = Field(default={}, max_length=MAXIMUM_KEYS)


class WantedValues(RequestBody):
    """Values that somebody types."""

    config: Values = Field(default={}, max_length=MAXIMUM_KEYS)


@router.get("")
def list_keys(installation: InstallationDep) -> Document:
    """Return every key with its type, its valid values and its default on this installation."""
    defaults = installation.settings.topic_defaults
    return {
        "keys": [
            _describe_key(each, defaults[each.name].text if each.name in defaults else None) for each in DEFINITIONS
        ]
    }


@router.get("/commonest")
def list_commonest(
    installation: InstallationDep,
    now_ms: NowDep,
    tag: Annotated[str, Query(max_length=50)] = "",
    without: Annotated[str, Query(max_length=249)] = "",
) -> Document:
    """Return of each key the value that most topics with ``tag`` (empty: all) have, by themselves or by default.

    ``topics``: how many there are, besides the topic ``without``. ``is_default``: that value is not set by them.
    """
    values: defaultdict[str, Counter[tuple[str, bool]]] = defaultdict(Counter)
    topics = 0
    for seen in installation.store.overview.stream_topics(now_ms, only=TopicFilter(tag=tag)):
        if seen.overview.topic == without:
            continue
        topics += 1
        for entry in json.loads(seen.overview.configuration):
            values[entry["name"]][entry["value"], entry["is_default"]] += 1
    return {"topics": topics, "keys": {name: _find_commonest(found) for name, found in values.items()}}


def _find_commonest(found: Counter[tuple[str, bool]]) -> Document:
    texts: Counter[str] = Counter()
    for (text, _), count in found.items():
        texts[text] += count
    # Of values that equally many have, the same one at every look.
    value, count = min(texts.items(), key=lambda each: (-each[1], each[0]))
    return {"value": value, "count": count, "is_default": found[value, True] > found[value, False]}


@router.post("/check", dependencies=[own_request, require_right_to("configure")])
def check_topic(installation: InstallationDep, wanted: WantedTopic) -> Document:
    """Check name and configuration of a topic that does not exist yet. ``error`` None: both are valid."""
    try:
        validate_topic_name(wanted.topic)
        TopicConfig.parse(convert_units(wanted.config), installation.settings.topic_defaults)
    except ConfigurationError as problem:
        return {"error": str(problem)}
    if installation.store.overview.find_recorded(wanted.topic) is not None:
        return {"error": f"Topic {wanted.topic} exists already."}
    return {"error": None}


@router.post("/values", dependencies=[own_request, require_right_to("configure")])
def check_values(wanted: WantedValues) -> Document:
    """Check each value by itself. ``value``: in Kafka's unit; ``error`` None: it is valid."""
    return {"values": {name: _check_value(name, convert_unit(name, text)) for name, text in wanted.config.items()}}


def _check_value(name: str, text: str) -> Document:
    try:
        definition = BY_NAME.get(name)
        if definition is None:
            raise make_unknown_key_error(name)
        parse_value(name, text, definition.kind, definition.validator)
    except ConfigurationError as problem:
        return {"value": text, "error": str(problem)}
    return {"value": text, "error": None}


def _describe_key(definition: Definition, default: str | None) -> Document:
    """Describe a key. ``group``: usual, lags, latest_table or kafka_only.

    ``choices``: its valid values, or for a list the valid elements; None: any of its type.
    """
    valid = definition.validator
    choices = list(valid.values) if isinstance(valid, OneOf) else None
    if definition.kind is ValueType.BOOLEAN:
        choices = ["true", "false"]
    return {
        "name": definition.name,
        "group": _choose_group(definition.name),
        "type": definition.kind.value,
        "is_list": definition.kind is ValueType.LIST,
        "choices": choices,
        "default": default if default is not None else definition.default,
        "unit": definition.unit,
        "sentence": definition.sentence,
    }


def _choose_group(name: str) -> str:
    if name in WITHOUT_EFFECT:
        return "kafka_only"
    if name in LAGS:
        return "lags"
    return "latest_table" if name.startswith(LATEST_TABLE) else "usual"
