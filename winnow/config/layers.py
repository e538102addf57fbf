"""Reads settings from environment, ``winnow.toml`` and embedded defaults; the first one wins.

A layer maps a setting's dotted name to a value, and remembers where each value came from. Three settings are open maps
whose keys another product defines:

``catalog.*`` (PyIceberg's properties)
    Environment names are lower-cased. ``__`` becomes ``.``, then ``_`` becomes ``-``, so
    ``WINNOW_CATALOG__S3__ACCESS_KEY_ID`` is ``s3.access-key-id``. The few properties that PyIceberg itself spells with
    ``_`` keep it. In ``winnow.toml`` the same holds: ``access_key_id`` and ``access-key-id`` are one, and a table
    ``[catalog.s3]`` gives ``s3.``.
``spark.conf.*`` (Spark's properties)
    Case is kept. Shells cannot set a name with dots, so ``__`` becomes ``.`` here too:
    ``WINNOW_SPARK__CONF__spark__executor__memory`` is ``spark.executor.memory``.
``kafka.*`` (a broker's names: :mod:`winnow.config.broker`)
    Environment names are lower-cased, and ``_`` becomes ``.`` as in Kafka's own container images:
    ``WINNOW_KAFKA__LOG_RETENTION_HOURS`` is ``log.retention.hours``. In ``winnow.toml`` names are as in
    ``server.properties``, quoted: ``"log.retention.hours" = 168``.

An environment variable that is empty counts as not set. Relative paths begin at the current folder, those in
``winnow.toml`` at the folder of that file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from winnow.config.names import find_nearest
from winnow.config.setting_fields import make_folder_uri
from winnow.config.setting_names import MAPS, NAMES, SETTINGS
from winnow.errors import ConfigurationError

PREFIX = "WINNOW_"
CONFIG_VARIABLE = "WINNOW_CONFIG"
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, "WINNOW_DEBUG", "WINNOW_UI_PORT"})
"""Variables of Winnow that are read elsewhere."""
CONFIG_FILE = "winnow.toml"

_GROUPS = tuple(dict.fromkeys(name.split(".")[0] for name in (*NAMES, *MAPS) if "." in name))
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_UNDERSCORED_PROPERTIES = frozenset({"pool_pre_ping", "init_catalog_tables", "schema_version", "hdfs.kerberos_ticket"})


@dataclass(frozen=True)
class Layer:
    """Settings of one origin: ``values`` by dotted name, and where each came from."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def tree(self) -> dict[str, Any]:
        """Return the values as nested dictionaries, the open maps flat."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            path = split_setting_name(name)
            place = found
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = value
        return found


def split_setting_name(name: str) -> tuple[str, ...]:
    """Split a setting's name into steps; the key within an open map is one step, even with dots in it."""
    for each in MAPS:
        if name.startswith(f"{each}."):
            return (*each.split("."), name.removeprefix(f"{each}."))
    return tuple(name.split("."))


def name_variable(name: str) -> str:
    """Return the environment variable of a setting that is in no open map."""
    return PREFIX + name.upper().replace(".", "__")


def read_environment_layer(env: Mapping[str, str], cwd: Path) -> Layer:
    """Read the settings among the variables of ``env``; unknown ``WINNOW_`` variables become notices."""
    names = {name_variable(name): name for name in NAMES}
    known = [*names, *(f"{name_variable(each)}__*" for each in MAPS), CONFIG_VARIABLE]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    notices: list[str] = []
    for variable, text in sorted(env.items()):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        name = names.get(variable) or _find_name_in_map(variable)
        if name is None:
            notices.append(
                f"The environment variable {variable} is no setting of Winnow and has no effect. "
                f"The nearest known name is {find_nearest(variable, known)}."
            )
        elif text:
            origin = f"environment {variable}"
            if name in values:
                raise ConfigurationError(
                    f"{origins[name]} and {origin} both set {name}.",
                    next="Unset one of them.",
                )
            values[name] = _make_paths_absolute(name, text, cwd, origin)
            origins[name] = origin
    return Layer(values, origins, tuple(notices))


def read_file_layer(env: Mapping[str, str], cwd: Path) -> Layer:
    """Read the settings in the file that ``WINNOW_CONFIG`` names, else in ``winnow.toml`` in ``cwd`` if it exists.

    Raises:
        ConfigurationError: the named file is missing, or the file cannot be read or holds an unknown key.
    """
    named = env.get(CONFIG_VARIABLE)
    path = _make_absolute(CONFIG_VARIABLE, named, cwd, "environment") if named else cwd / CONFIG_FILE
    if not named and not path.exists():
        return Layer()
    label = str(path) if named else CONFIG_FILE
    values: dict[str, Any] = {}
    for name, value in _flatten(_read(path, label), label):
        if name in values:
            raise ConfigurationError(
                f"{label} sets {name} twice, spelled in two ways.",
                next="Remove one of them.",
            )
        values[name] = _make_paths_absolute(name, value, path.parent, label)
    return Layer(values, dict.fromkeys(values, label))


def make_default_layer(home: Path, chosen_catalog: Mapping[str, Any]) -> Layer:
    """Return the defaults of everything embedded below ``home``, an absolute folder.

    The embedded catalog is left out where any catalog setting is given, because two catalogs cannot be mixed.
    """
    values = {name: each.from_home(home) if each.from_home else each.default for name, each in SETTINGS.items()}
    values = {name: value for name, value in values.items() if value is not None}
    if not chosen_catalog.keys() & {"uri", "py-catalog-impl"} and chosen_catalog.get("type", "sql") == "sql":
        values |= {"catalog.type": "sql", "catalog.uri": f"sqlite:///{home / 'catalog.db'}"}
    return Layer(values, dict.fromkeys(values, "default"))


def _find_name_in_map(variable: str) -> str | None:
    for each in MAPS:
        prefix = f"{name_variable(each)}__"
        if variable.startswith(prefix) and variable != prefix:
            return f"{each}.{_convert_key(each, variable.removeprefix(prefix).replace('__', '.'))}"
    return None


def _convert_key(name: str, key: str) -> str:
    if name == "kafka":
        return key.lower().replace("_", ".")
    return _convert_property(key.lower()) if name == "catalog" else key


def _convert_property(key: str) -> str:
    snake_case = key.replace("-", "_")
    return snake_case if snake_case in _UNDERSCORED_PROPERTIES else key.replace("_", "-")


def _read(path: Path, label: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigurationError(
            f"The settings file {label} cannot be read ({problem.strerror}).",
            next=f"Fix that, or unset {CONFIG_VARIABLE} if it should not be read.",
        ) from problem
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"The settings file {label} is not UTF-8 text.",
            next="Save it as UTF-8.",
        ) from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigurationError(f"The settings file {label} is not valid TOML: {problem}.") from None


def _flatten(tree: Mapping[str, Any], label: str, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{above}{key}"
        if name in MAPS:
            if not isinstance(value, dict):
                raise ConfigurationError(f"{name} in {label} must be a table: [{name}].")
            for inner, leaf in _list_leaves(value, name, label):
                yield f"{name}.{_convert_property(inner) if name == 'catalog' else inner}", leaf
        elif name in NAMES:
            yield name, value
        elif name in _GROUPS:
            if not isinstance(value, dict):
                raise ConfigurationError(f"{name} in {label} must be a table: [{name}].")
            yield from _flatten(value, label, f"{name}.")
        else:
            near = find_nearest(name, (*NAMES, *MAPS, *_GROUPS))
            raise ConfigurationError(f"Unknown setting {name} in {label}.", next=f"The nearest known name is {near}.")


def _list_leaves(tree: Mapping[str, Any], name: str, label: str, above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _list_leaves(value, name, label, f"{above}{key}.")
        elif isinstance(value, bool):
            yield f"{above}{key}", str(value).lower()
        elif isinstance(value, str | int | float):
            yield f"{above}{key}", str(value)
        else:
            raise ConfigurationError(f"{name}.{above}{key} in {label} must be text, a number, or true or false.")


def _make_paths_absolute(name: str, value: Any, folder: Path, origin: str) -> Any:
    if not isinstance(value, str) or not value:
        return value
    relative_to = SETTINGS[name].relative_to if name in SETTINGS else None
    if relative_to == "folder":
        return str(_make_absolute(name, value, folder, origin))
    if relative_to == "uri" and not _URI.match(value):
        return make_folder_uri(_make_absolute(name, value, folder, origin), f"{name} ({origin})")
    return value


def _make_absolute(name: str, text: str, folder: Path, origin: str) -> Path:
    try:
        path = folder / Path(text).expanduser()
    except RuntimeError as problem:
        raise ConfigurationError(f"{name} ({origin}) begins with '~', but there is no such user's folder.") from problem
    # The target of '..' depends on symbolic links. Tables store the path, so a place must have one spelling.
    return path.resolve() if ".." in path.parts else path
