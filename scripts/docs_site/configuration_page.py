"""Renders docs/configuration.md from the program's own tables.

python -m scripts.docs_site.configuration_page > docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from winnow.config.broker import BROKER_DEFINITIONS, BROKER_KEYS_WITHOUT_MEANING, BYTES_PER_SECOND, BrokerDefinition
from winnow.config.definitions import DEFINITIONS, KAFKA_KEYS_WITHOUT_MEANING, MAXIMUM_LONG, BrokerName, Definition
from winnow.config.layers import make_default_layer, name_variable
from winnow.config.setting_names import MAPS, NAMES, SETTINGS
from winnow.config.values import BytesPerSecond, OneOf, Range, ShortText, SuiteName, Tag, Validator, ValueType

_INTRODUCTION = """\
# Configuration

Written by `make docs` from the tables that Winnow itself reads; do not edit.

| what | who it is for | where it is set |
|---|---|---|
| [topic keys](#topic-keys) | one topic | `winnow topics create` and `alter`, with `--config KEY=VALUE` |
| [broker names](#broker-names) | every topic that does not set the key itself, and the engine | table `[kafka]` of \
`winnow.toml`, or the environment |
| [settings](#settings) | the installation | `winnow.toml`, or the environment |

`winnow topics describe TOPIC` shows what is in force for a topic, `winnow settings` for the installation, both with \
the place it comes from.
"""

_TOPIC = """
## Topic keys

Names, ranges and error messages are Kafka's; keys that begin with `winnow.` are Winnow's own. Where a key counts \
milliseconds or bytes, `--config` and the page take a unit, too: `2d` (ms, s, min, h, d, w), `1GiB` (B, KiB, MiB, GiB, \
TiB, kB, MB, GB, TB), and `never` where there is no limit; what is kept is Kafka's number. A topic's own value \
comes first, then the first of the broker names that is set, then the default. Where the default is not Kafka's, \
Kafka's stands beside it. Together, these are refused on one topic, whether a value is the topic's own or a default: \
`min.compaction.lag.ms` above `max.compaction.lag.ms`; `remote.storage.enable=true` with `compact` in the policy; \
`compaction.strategy=header` without `compaction.strategy.header`.
"""

_KAFKA_ONLY = """
Kafka's topic keys that have no meaning for an archive and are refused: {}.
"""

_BROKER = """
## Broker names

A broker's log settings in `server.properties` can be copied to `winnow.toml` under the same names, quoted:

```toml
[kafka]
"log.cleaner.min.cleanable.ratio" = 0.3
"log.retention.hours" = 720
"log.cleaner.threads" = 2
"winnow.keyless" = "quarantine"
```

or in the environment, upper case and with `_` for `.`, as Kafka's container images have it: \
`WINNOW_KAFKA__LOG_RETENTION_HOURS=720`. The environment wins over the file, name by name. Where a key has several \
broker names, the first in the table above wins, wherever it is set. Broker names of hours and minutes are turned into \
the key's unit; a negative retention time is no limit, 0 is refused. Winnow's own topic keys are their own broker \
names. A bad value is refused when settings are read, in Kafka's words and with the place it comes from; so is an \
unknown name.

These have no topic key:
"""

_BROKER_ONLY = """
The rate counts as Kafka does: whole segments once for the winners and once for the rewrite, and what is written. Each \
of an application's tasks gets an equal share, and with a rate there are no more tasks than cores; a task that ends \
early leaves its share unused, so the average stays at or below the rate. Spark's speculative tasks and the check \
after a rewrite are not counted. A comparison counts whole segments once. Without a rate there is no limit.

Broker keys that have no meaning for an archive and are refused: {}.
"""

_SETTINGS = """
## Settings

In `winnow.toml` under these names, a dot being a table; in the environment under the variable, which wins. An unknown \
name in the file is refused; an unknown variable that begins with `WINNOW_` is noticed. `WINNOW_CONFIG` names another \
file than `winnow.toml` in the current folder.
"""


def render_reference() -> str:
    """Render the reference as Markdown, ending with a newline."""
    topic_rows = [
        (
            _quote(each.name),
            _format_names(each.broker_names),
            _format_default(each),
            _describe_valid_values(each.kind, each.validator),
            each.sentence,
        )
        for each in DEFINITIONS
    ]
    broker_rows = [
        (
            _quote(each.name),
            _format_broker_default(each),
            _describe_valid_values(each.kind, each.validator),
            each.sentence,
            each.effect,
        )
        for each in BROKER_DEFINITIONS
    ]
    return "".join(
        (
            _INTRODUCTION,
            _TOPIC,
            _make_table(("key", "broker names, the first wins", "default", "valid", "what it does"), topic_rows),
            _KAFKA_ONLY.format(_format_list(KAFKA_KEYS_WITHOUT_MEANING)),
            _BROKER,
            _make_table(("broker name", "Kafka's default", "valid", "what it does in Kafka", "in Winnow"), broker_rows),
            _BROKER_ONLY.format(_format_list(BROKER_KEYS_WITHOUT_MEANING)),
            _SETTINGS,
            _make_table(("setting", "environment", "default", "what it is"), _build_setting_rows()),
        )
    )


def _build_setting_rows() -> list[tuple[str, ...]]:
    defaults = make_default_layer(Path("/HOME"), {}).values
    shown = {key: _quote(_format_default_setting(value)) for key, value in defaults.items()}
    shown |= {"home": "`.winnow` in the current folder"}
    rows: list[tuple[str, ...]] = [
        (_quote(name), _quote(name_variable(name)), shown.get(name, "none"), SETTINGS[name].sentence) for name in NAMES
    ]
    for name in MAPS:
        inner = [f"{_quote(key)} is {text}" for key, text in shown.items() if key.startswith(f"{name}.")]
        variable = _quote(f"{name_variable(name)}__*")
        rows.append((_quote(f"{name}.*"), variable, ", ".join(inner) or "none", SETTINGS[name].sentence))
    return rows


def _format_default_setting(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return text.replace("/HOME", "<home>")


def _make_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _quote(text: str) -> str:
    return f"`{text}`"


def _format_list(names: Iterable[str]) -> str:
    return ", ".join(map(_quote, sorted(names)))


def _format_names(names: Iterable[BrokerName]) -> str:
    units = {60_000: " (minutes)", 3_600_000: " (hours)"}
    return ", ".join(f"{_quote(each.name)}{units.get(each.factor, '')}" for each in names) or "none"


def _format_default(definition: Definition) -> str:
    ours = _format_value(definition.default, definition.unit)
    if definition.kafka_default is None:
        return ours
    return f"{ours}; Kafka: {_format_value(definition.kafka_default, definition.unit)}"


def _format_broker_default(definition: BrokerDefinition) -> str:
    return "no limit" if definition.name == BYTES_PER_SECOND else _format_value(definition.default, definition.unit)


def _format_value(text: str | None, unit: str) -> str:
    if text is None:
        return "none"
    if text == "":
        return "empty"
    if text == str(MAXIMUM_LONG):
        return "2^63 - 1 (never)"
    return f"{_quote(text)}{_explain_value(int(text), unit) if unit else ''}"


def _explain_value(number: int, unit: str) -> str:
    scales = {
        "ms": (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)),
        "bytes": (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)),
    }
    for word, size in scales[unit]:
        if number > 0 and number % size == 0:
            count = number // size
            plural = "s" if unit == "ms" and count > 1 else ""
            return f" ({count} {word}{plural})"
    return ""


def _describe_valid_values(kind: ValueType, validator: Validator | None) -> str:
    match validator:
        case OneOf(allowed):
            words = ", ".join(map(_quote, allowed))
            return f"any of {words}, separated by commas" if kind is ValueType.LIST else f"one of {words}"
        case Range(minimum, None):
            return f"{_KINDS[kind]}, at least {minimum}"
        case Range(minimum, maximum):
            return f"{_KINDS[kind]} from {minimum} to {maximum}"
        case BytesPerSecond():
            return f"{_KINDS[kind]}, at least 1"
        case SuiteName():
            return "letters, digits, `_` and `-`"
        case ShortText(maximum_characters):
            return f"printable text, at most {maximum_characters} characters"
        case Tag(maximum_characters):
            words = f"letters, digits, `_`, `.`, `:` and `-`, at most {maximum_characters} characters each"
            return f"{words}, separated by commas"
        case _:
            return _KINDS[kind]


_KINDS = {
    ValueType.BOOLEAN: "`true` or `false`",
    ValueType.STRING: "any text",
    ValueType.INT: "32-bit number",
    ValueType.LONG: "64-bit number",
    ValueType.DOUBLE: "number",
    ValueType.LIST: "any list",
}

if __name__ == "__main__":
    sys.stdout.write(render_reference())
