"""Renders the configuration reference and the initial ``winnow.toml`` from the program's own tables.

python -m winnow.config.reference > docs/configuration.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from winnow.config.broker import BROKER_DEFINITIONS, BROKER_KEYS_WITHOUT_MEANING, BYTES_PER_SECOND, BrokerDefinition
from winnow.config.definitions import DEFINITIONS, KAFKA_KEYS_WITHOUT_MEANING, MAXIMUM_LONG, BrokerName, Definition
from winnow.config.layers import MAPS, NAMES, make_default_layer, make_folder_uri, name_variable
from winnow.config.settings import Settings
from winnow.config.values import BytesPerSecond, OneOf, Range, SuiteName, Validator, ValueType

SETTINGS: dict[str, str] = {
    "home": "Folder of everything embedded: catalog, warehouse, staging area, metadata store, Airflow's home.",
    "warehouse": "Where the tables live: a path, or a URI like `s3://bucket/folder`.",
    "staging": "Where plans and staging manifests live: a path or a URI.",
    "store_url": "The metadata store, as SQLAlchemy's URL.",
    "spark.master": "The master that spark-submit is given.",
    "engine.memory_bytes": "What one task may use before it spills to disk: bytes, or a size like `512MB` or `2GiB`.",
    "engine.threads": "Threads of one task's engine.",
    "engine.spill_folder": "Where a task spills and an ingest keeps its spool: in a folder below it that its user "
    "alone can read. Left out, executors of a cluster use Spark's local folders instead, and a process that may not "
    "write to `home` the system's temporary folder.",
    "engine.tasks": "How many partitions one Spark application compacts or compares at once, at most; without it "
    "Spark's cores decide.",
    "engine.bytes_per_second": "What all tasks of one Spark application read and write per second, together and on "
    "average: a number of at least 1, or a size like `50MB`.",
    "engine.giant_bytes": "From this size on a topic partition may be cut over several tasks: bytes, or a size like "
    "`512MB`. One is cut where cores of its Spark application would be idle otherwise, and never under "
    "`engine.bytes_per_second`.",
    "facts.workers": "How many partitions validation recomputes at once in one process, each within the engine's "
    "memory; without it one a core, and four at most.",
    "facts.spark_from_bytes": "A topic of which validation would read at least that much is recomputed in a Spark "
    "application instead of the process that validates.",
    "expectations": "Folder with content suites of your own.",
    "alert.webhook": "Who receives a JSON document for each alert: an http or https URL.",
    "alert.page_url": "Airflow's address, for the links of alerts that are raised outside of Airflow; inside, its own "
    "`[api] base_url` is taken.",
    "alert.notifiers": "Airflow's notifiers that are told as well (Slack, e-mail and others): a list of "
    '`{"class": "package.Notifier", "arguments": {…}}`, in the environment as JSON. Arguments are templates over the '
    "alert: `{{ alert.text }}`, `{{ alert.kind }}`, `{{ alert.topic }}`, `{{ alert.link }}`. Secrets belong into "
    "Airflow's connections.",
    "alert.deadline_warning_ms": "How long before a deadline it is near, in ms; never more than a quarter of the "
    "topic's `max.compaction.lag.ms`.",
    "alert.deadline_grace_ms": "How long after a deadline it counts as missed, in ms: a partition is only due once its "
    "deadline has passed, so the run that follows needs some time.",
    "alert.sweep_stuck_ms": "How much longer than their grace retired files may wait before their sweep counts as "
    "stuck, in ms.",
    "metrics.most_topics": "With more topics than that, Airflow's metrics get figures of all topics together and "
    "none of single ones.",
    "scrub.bytes_per_day": "What `winnow scrub` and the DAG `scrub_topics` read within 24 hours, at most: bytes, or a "
    "size like `50GB`; without it whatever there is. One file is read even if it is larger.",
    "scrub.bytes_per_second": "What a scrub reads per second on average: a number of at least 1, or a size like "
    "`50MB`.",
    "history.retention_ms": "How long the metadata store keeps its history, in ms: assessments, runs that ended, "
    "verdicts with their Data Docs pages, and what is known of deleted files. Sweeps remove what is older; receipts, "
    "checkpoints, open runs and the newest assessment of each partition stay.",
    "lease_ms": "How long a run holds a topic without renewing, in ms.",
    "catalog": "PyIceberg's catalog properties, `catalog.uri` for one. A `py-io-impl` of yours stays; for a local "
    "warehouse derive it from `winnow.log.file_io.SyncedFileIO`, which syncs what it writes.",
    "spark.conf": "Spark's properties, `spark.executor.memory` for one.",
    "kafka": "A broker's names: [above](#broker-names).",
}

_INTRODUCTION = """\
# Configuration

Written by `python -m winnow.config.reference` from the tables that Winnow itself reads; do not edit.

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

Names, ranges and error messages are Kafka's; keys that begin with `winnow.` are Winnow's own. A topic's own value \
comes first, then the first of the broker names that is set, then the default. Where the default is not Kafka's, \
Kafka's stands beside it. Together, these are refused on one topic, whether a value is the topic's own or a default: \
`min.compaction.lag.ms` above `max.compaction.lag.ms`; `remote.storage.enable=true` with `compact` in the policy; \
`compaction.strategy=header` without `compaction.strategy.header`.
"""

_KAFKA_ONLY = """
Topic keys of Kafka that mean nothing to an archive, refused with a sentence: {}.
"""

_BROKER = """
## Broker names

What a broker's `server.properties` says about its logs can be said in the same words, quoted, in `winnow.toml`:

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
early leaves its share unused, so the average stays at or below the rate. Speculative tasks of Spark would come on \
top, and the check that follows a rewrite reads outside of the rate. A comparison counts whole segments once. Without \
a rate nothing waits.

Keys of brokers that mean nothing to an archive, refused with a sentence: {}.
"""

_SETTINGS = """
## Settings

In `winnow.toml` under these names, a dot being a table; in the environment under the variable, which wins. An unknown \
name in the file is refused; an unknown variable that begins with `WINNOW_` is noticed. `WINNOW_CONFIG` names another \
file than `winnow.toml` in the current folder.
"""


def render_reference() -> str:
    """The reference as Markdown, ending with a newline."""
    topic_rows = [
        (
            _code(each.name),
            _names(each.broker_names),
            _default(each),
            _describe_valid_values(each.kind, each.validator),
            each.sentence,
        )
        for each in DEFINITIONS
    ]
    broker_rows = [
        (
            _code(each.name),
            _broker_default(each),
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
            _table(("key", "broker names, the first wins", "default", "valid", "what it does"), topic_rows),
            _KAFKA_ONLY.format(_format_list(KAFKA_KEYS_WITHOUT_MEANING)),
            _BROKER,
            _table(("broker name", "Kafka's default", "valid", "what it does in Kafka", "in Winnow"), broker_rows),
            _BROKER_ONLY.format(_format_list(BROKER_KEYS_WITHOUT_MEANING)),
            _SETTINGS,
            _table(("setting", "environment", "default", "what it is"), _setting_rows()),
        )
    )


def _setting_rows() -> list[tuple[str, ...]]:
    defaults = make_default_layer(Path("/HOME"), {}).values
    shown = {key: _code(str(value).replace("/HOME", "<home>")) for key, value in defaults.items()}
    shown |= {"home": "`.winnow` in the current folder"}
    rows: list[tuple[str, ...]] = [
        (_code(name), _code(name_variable(name)), shown.get(name, "none"), SETTINGS[name]) for name in NAMES
    ]
    for name in MAPS:
        inner = [f"{_code(key)} is {text}" for key, text in shown.items() if key.startswith(f"{name}.")]
        variable = _code(f"{name_variable(name)}__*")
        rows.append((_code(f"{name}.*"), variable, ", ".join(inner) or "none", SETTINGS[name]))
    return rows


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`"


def _format_list(names: Iterable[str]) -> str:
    return ", ".join(map(_code, sorted(names)))


def _names(names: Iterable[BrokerName]) -> str:
    units = {60_000: " (minutes)", 3_600_000: " (hours)"}
    return ", ".join(f"{_code(each.name)}{units.get(each.factor, '')}" for each in names) or "none"


def _default(definition: Definition) -> str:
    ours = _value(definition.default, definition.unit)
    if definition.kafka_default is None:
        return ours
    return f"{ours}; Kafka: {_value(definition.kafka_default, definition.unit)}"


def _broker_default(definition: BrokerDefinition) -> str:
    return "no limit" if definition.name == BYTES_PER_SECOND else _value(definition.default, definition.unit)


def _value(text: str | None, unit: str) -> str:
    if text is None:
        return "none"
    if text == "":
        return "empty"
    if text == str(MAXIMUM_LONG):
        return "2^63 - 1 (never)"
    return f"{_code(text)}{_explain_value(int(text), unit) if unit else ''}"


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
            words = ", ".join(map(_code, allowed))
            return f"any of {words}, separated by commas" if kind is ValueType.LIST else f"one of {words}"
        case Range(minimum, None):
            return f"{_KINDS[kind]}, at least {minimum}"
        case Range(minimum, maximum):
            return f"{_KINDS[kind]} from {minimum} to {maximum}"
        case BytesPerSecond():
            return f"{_KINDS[kind]}, at least 1"
        case SuiteName():
            return "letters, digits, `_` and `-`"
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

LINE_WIDTH = 110

HEAD = """\
# The settings of a Winnow installation. `winnow settings` prints what is in force and where it came from,
# `winnow doctor` tries it out.
#
# A line with a # and no space after it is a default: take the # away to change it. Environment variables, in
# brackets below, come before this file. Relative paths begin at its folder. Secrets belong into the environment;
# all the same only its owner may read this file: let those read it who run Winnow.
"""

MAP_SENTENCES: Mapping[str, str] = {
    "catalog": "PyIceberg's catalog properties. Another uri, like postgresql+psycopg://winnow@host/catalog or "
    "https://host/catalog, makes it another catalog than the embedded one; s3.endpoint, s3.region and their like "
    "stand here too. Keys and passwords are better left to the environment or to the machine's role.",
    "spark.conf": "Spark's properties, as Spark spells them.",
    "kafka": "Defaults for all topics under the broker's names, as in server.properties.",
}
"""What is said of the open maps, whose keys belong to somebody else."""

EXAMPLES: Mapping[str, str] = {
    "spark.conf": '"spark.executor.memory" = "2g"',
    "engine.tasks": "tasks = 2",
    "engine.bytes_per_second": 'bytes_per_second = "50MB"',
    "facts.workers": "workers = 2",
    "expectations": 'expectations = "suites"',
    "alert.webhook": 'webhook = "https://hooks.example.com/winnow"',
    "alert.page_url": 'page_url = "https://airflow.example.com"',
    "alert.notifiers": 'notifiers = [{ class = "airflow.providers.smtp.notifications.smtp.SmtpNotifier", '
    'arguments = { to = "oncall@example.com", subject = "{{ alert.severity }}: {{ alert.kind }} of {{ alert.topic }}", '
    'html_content = "<pre>{{ alert.text | e }}</pre>" } }]',
    "scrub.bytes_per_day": 'bytes_per_day = "200GB"',
    "scrub.bytes_per_second": 'bytes_per_second = "50MB"',
    "kafka": '"log.cleaner.min.cleanable.ratio" = 0.3',
}
"""A line for everything that has no default."""


def render_initial_file(folder: Path, chosen: Mapping[str, str], from_environment: Collection[str] = ()) -> str:
    """The text of a ``winnow.toml`` for ``folder`` in which ``chosen`` is set, by dotted names.

    ``from_environment``: settings whose value holds a secret; the text refers to their variables instead.
    """
    home = folder / chosen.get("home", ".winnow")
    defaults = {
        name: _portable(value, folder) for name, value in _defaults(home).items() if value not in (None, {}, [], ())
    }
    lines = [HEAD.rstrip()]
    for group, fields in _groups(Settings).items():
        if group:
            lines += ["", "", f"[{group}]"]
        for name in fields:
            lines += ["", *(f"# {line}" for line in wrap(_sentence(name), LINE_WIDTH, break_on_hyphens=False))]
            lines += _lines(name, group, defaults, chosen, from_environment)
    return "\n".join(lines) + "\n"


def _groups(model: type[BaseModel], above: str = "") -> dict[str, list[str]]:
    """Settings by the TOML table in which they stand; the top level comes first, as TOML wants it."""
    groups: dict[str, list[str]] = {above: []}
    for name, kind in _fields(model, above):
        if name in MAPS:
            groups[name] = [name]
        elif isinstance(kind.annotation, type) and issubclass(kind.annotation, BaseModel):
            groups |= _groups(kind.annotation, name)
        else:
            groups[above].append(name)
    return groups


def _fields(model: type[BaseModel], above: str) -> Iterator[tuple[str, FieldInfo]]:
    for field, info in model.model_fields.items():
        yield (f"{above}.{field}" if above else field), info


def _defaults(home: Path) -> dict[str, Any]:
    """Defaults by dotted name: those of the embedded installation, and those that a field has of itself."""

    def of_fields(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, Any]]:
        for name, info in _fields(model, above):
            if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
                yield from of_fields(info.annotation, name)
            elif not info.is_required():
                yield name, info.get_default(call_default_factory=True)

    return {**dict(of_fields(Settings)), **make_default_layer(home, {}).values}


def _portable(value: Any, folder: Path) -> Any:
    """Below the folder of the file without naming it, where relative paths are allowed."""
    if isinstance(value, str):
        for start in (f"{make_folder_uri(folder, 'the folder')}/", f"{folder}/"):
            value = value.removeprefix(start)
    return value


def _sentence(name: str) -> str:
    if name in MAPS:
        return f"{MAP_SENTENCES[name]} [{name_variable(name)}__*]"
    return f"{SETTINGS[name].replace('`', '')} [{name_variable(name)}]"


def _lines(
    name: str,
    group: str,
    defaults: Mapping[str, Any],
    chosen: Mapping[str, str],
    from_environment: Collection[str],
) -> list[str]:
    if name in from_environment:
        return [f"# Holds a password, so it comes from the environment: export {name_variable(name)}=..."]
    below = f"{group}." if group else ""
    mine = sorted({each for each in (*defaults, *chosen) if each == name or each.startswith(f"{name}.")})
    found = [
        f"{each.removeprefix(below)} = {_toml(chosen[each])}"
        if each in chosen
        else f"#{each.removeprefix(below)} = {_toml(defaults[each])}"
        for each in mine
    ]
    return found or [f"# For example: {EXAMPLES[name]}"]


def _toml(value: Any) -> str:
    # What JSON writes of text, numbers and lists is TOML too.
    return json.dumps(value, ensure_ascii=False)
