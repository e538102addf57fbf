"""Every setting by its dotted name, as the fields of :mod:`winnow.config.setting_fields` define it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from winnow.config.setting_fields import SettingExtra, SettingFields


@dataclass(frozen=True, slots=True)
class SettingDefinition:
    """One setting by its dotted name. ``default`` None: none, or one below the home.

    The others: :func:`winnow.config.setting_fields.describe_setting`.
    """

    name: str
    is_map: bool
    sentence: str
    in_file: str
    example: str | None
    default: Any
    from_home: Callable[[Path], Any] | None
    relative_to: str | None


def _define_settings(model: type[BaseModel], above: str = "") -> Iterator[SettingDefinition]:
    for field, info in model.model_fields.items():
        name = f"{above}{field}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _define_settings(info.annotation, f"{name}.")
        else:
            yield _define_setting(name, info)


def _define_setting(name: str, info: FieldInfo) -> SettingDefinition:
    (extra,) = [each for each in info.metadata if isinstance(each, SettingExtra)]
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    return SettingDefinition(
        name=name,
        is_map=get_origin(info.annotation) is dict,
        sentence=info.description or "",
        in_file=extra.in_file or (info.description or "").replace("`", ""),
        example=info.examples[0] if info.examples else None,
        default=default if isinstance(default, bool) else default or None,
        from_home=extra.from_home,
        relative_to=extra.relative_to,
    )


SETTINGS = {each.name: each for each in _define_settings(SettingFields)}
"""Every setting by name, in the order of the fields."""

NAMES = tuple(name for name, each in SETTINGS.items() if not each.is_map)

MAPS = tuple(name for name, each in SETTINGS.items() if each.is_map)
"""Open maps; everything below them is one key, dots included."""
