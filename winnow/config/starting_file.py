"""A ``winnow.toml`` to begin with: every setting, its default and a sentence, made from the settings themselves.

A default stands behind a ``#`` without a space: taking the ``#`` away changes nothing until the value is changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from winnow.config.layers import MAPS, make_default_layer, make_folder_uri, name_variable
from winnow.config.reference import SETTINGS
from winnow.config.settings import Settings

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
