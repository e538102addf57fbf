"""Renders the ``winnow.toml`` of a new installation from the tables of settings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from winnow.config.layers import make_default_layer, name_variable
from winnow.config.setting_fields import make_folder_uri
from winnow.config.setting_names import SETTINGS

LINE_WIDTH = 110

HEAD = """\
# The settings of a Winnow installation. `winnow settings` prints what is in force and where it came from,
# `winnow doctor` tries it out.
#
# A line with a # and no space after it is a default: remove the # to change it. Environment variables, in
# brackets below, come before this file. Relative paths begin at its folder. Secrets belong in the environment. Even
# so, only the owner may read this file at first: make it readable for the users who run Winnow.
"""


def render_initial_file(folder: Path, chosen: Mapping[str, str], from_environment: Collection[str] = ()) -> str:
    """Render a ``winnow.toml`` for ``folder`` in which ``chosen`` is set, by dotted names.

    ``from_environment``: settings whose value holds a secret; the text refers to their variables instead.
    """
    home = folder / chosen.get("home", ".winnow")
    defaults = {name: _make_portable(value, folder) for name, value in make_default_layer(home, {}).values.items()}
    lines = [HEAD.rstrip()]
    for group, fields in _group_settings().items():
        if group:
            lines += ["", "", f"[{group}]"]
        for name in fields:
            lines += ["", *(f"# {line}" for line in wrap(_get_sentence(name), LINE_WIDTH, break_on_hyphens=False))]
            lines += _render_lines(name, group, defaults, chosen, from_environment)
    return "\n".join(lines) + "\n"


def _group_settings() -> dict[str, list[str]]:
    """Group settings by their TOML table; the top level comes first, as TOML requires."""
    groups: dict[str, list[str]] = {"": []}
    for name, setting in SETTINGS.items():
        group = name if setting.is_map else name.rpartition(".")[0]
        groups.setdefault(group, []).append(name)
    return groups


def _make_portable(value: Any, folder: Path) -> Any:
    """Make a path below the file's folder relative, where relative paths are allowed."""
    if isinstance(value, str):
        for start in (f"{make_folder_uri(folder, 'the folder')}/", f"{folder}/"):
            value = value.removeprefix(start)
    return value


def _get_sentence(name: str) -> str:
    variable = name_variable(name) + ("__*" if SETTINGS[name].is_map else "")
    return f"{SETTINGS[name].in_file} [{variable}]"


def _render_lines(
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
        f"{each.removeprefix(below)} = {_format_toml(chosen[each])}"
        if each in chosen
        else f"#{each.removeprefix(below)} = {_format_toml(defaults[each])}"
        for each in mine
    ]
    return found or [f"# For example: {SETTINGS[name].example}"]


def _format_toml(value: Any) -> str:
    # JSON's notation of text, numbers and lists is valid TOML.
    return json.dumps(value, ensure_ascii=False)
