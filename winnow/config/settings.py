"""The settings of an installation: locations of catalog, data and metadata, and the limits of one task.

Each comes from the environment, else from ``winnow.toml``, else from the defaults embedded below ``WINNOW_HOME``
(:mod:`winnow.config.layers` has the spelling rules). Topic configuration is separate: :mod:`winnow.config.topic`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PrivateAttr, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from winnow.config.broker import TopicDefault, make_engine_layer, make_topic_defaults, merge_broker_values
from winnow.config.layers import Layer, make_default_layer, read_environment_layer, read_file_layer
from winnow.config.masking import MASK, mask
from winnow.config.setting_fields import AirflowSettings, SettingFields
from winnow.errors import ConfigurationError

_PREFIX_NAME = "airflow.dag_prefix"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of ``winnow settings``: secrets masked, with the origin of the value."""

    name: str
    value: str
    source: str


class Settings(SettingFields):
    """All settings, frozen. Made by :func:`load_settings`; never reads the environment by itself.

    :attr:`topic_defaults`: the topic defaults that ``kafka`` sets.
    """

    _layers: tuple[Layer, ...] = PrivateAttr(default=())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Accept arguments only: the environment comes in through a layer, or ``home`` would be read from HOME."""
        return (init_settings,)

    @property
    def airflow_home(self) -> Path:
        """Airflow's home folder in the embedded installation."""
        return self.home / "airflow"

    def name_dag(self, name: str) -> str:
        """Return the id that the DAG ``name`` has in this installation's Airflow."""
        return f"{self.airflow.dag_prefix}{name}"

    @property
    def data_docs(self) -> Path:
        """The folder in which Great Expectations builds its Data Docs."""
        return self.home / "data_docs"

    @property
    def places(self) -> tuple[str, ...]:
        """All places that an installation writes to: paths and URIs."""
        databases = tuple(str(path.parent) for path in self.embedded_databases)
        return (str(self.home), self.warehouse, self.staging, self.engine.spill_folder, *databases)

    @property
    def private_folder(self) -> Path:
        """The folder for files with secrets while a started process needs them."""
        return self.home / "run"

    @property
    def embedded_databases(self) -> tuple[Path, ...]:
        """The SQLite files of store and catalog below ``home``."""
        urls = (self.store_url, self.catalog.get("uri", ""))
        paths = [Path("/", url.removeprefix("sqlite:///")) for url in urls if url.startswith("sqlite:///")]
        return tuple(path for path in paths if path.is_relative_to(self.home))

    @property
    def spill_folder_is_default(self) -> bool:
        """Whether the spill folder is the default; on other machines tasks do not have that folder."""
        return self.engine.spill_folder == str(self.home / "spill")

    @property
    def topic_defaults(self) -> dict[str, TopicDefault]:
        """The installation's defaults of topic keys, each with its origin."""
        return make_topic_defaults(self.kafka, {name: self._find_source(f"kafka.{name}") for name in self.kafka})

    @property
    def notices(self) -> tuple[str, ...]:
        """Harmless oddities as sentences: environment variables that begin like settings but are unknown."""
        return tuple(notice for layer in self._layers for notice in layer.notices)

    def rows(self) -> list[SettingRow]:
        """Return the settings in force with their origins, secrets masked; in the order of the fields."""
        rows: list[SettingRow] = []
        for name in type(self).model_fields:
            rows += self._list_rows_of(name, getattr(self, name))
        derived = "default" if self._find_source("home") == "default" else "below home"
        rows.append(SettingRow("airflow_home", str(self.airflow_home), derived))
        rows.append(SettingRow("data_docs", str(self.data_docs), derived))
        return rows

    def _list_rows_of(self, name: str, value: object) -> list[SettingRow]:
        if isinstance(value, BaseModel):
            fields = type(value).model_fields
            return [row for inner in fields for row in self._list_rows_of(f"{name}.{inner}", getattr(value, inner))]
        if isinstance(value, tuple):
            return [SettingRow(name, ", ".join(map(str, value)), self._find_source(name))]
        if isinstance(value, dict):
            return [row for key in sorted(value) for row in self._list_rows_of(f"{name}.{key}", value[key])]
        shown = MASK if isinstance(value, SecretStr) else "" if value is None else mask(name, str(value))
        return [SettingRow(name, shown, self._find_source(name))]

    def _find_source(self, name: str) -> str:
        return next((layer.origins[name] for layer in self._layers if name in layer.origins), "default")


class _LayerSource(PydanticBaseSettingsSource):
    """One layer, as pydantic-settings merges it."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(Settings)
        self._tree = layer.tree()

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._tree.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._tree


def load_settings(*, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Load the settings in force: environment over ``winnow.toml`` over defaults.

    Args:
        cwd: the folder that relative paths and ``winnow.toml`` belong to; the current one when left out.
        env: the environment; the process's when left out.

    Raises:
        ConfigurationError: a value is not valid (the message names the place it came from, and never the value, broker
            names excepted), the file that ``WINNOW_CONFIG`` names is missing, or ``winnow.toml`` holds an unknown key.
    """
    folder = (cwd or Path.cwd()).absolute()
    variables = os.environ if env is None else env
    chosen = (read_environment_layer(variables, folder), read_file_layer(variables, folder))
    home = _find_home(chosen, folder)
    _check_utf8(home)
    catalog = {
        name.removeprefix("catalog."): value
        for layer in chosen
        for name, value in layer.values.items()
        if name.startswith("catalog.")
    }
    kafka, origins = merge_broker_values(chosen)
    make_topic_defaults(kafka, origins)  # Refuse invalid values before anything else is done.
    layers = (*chosen, make_engine_layer(kafka, origins, chosen), make_default_layer(home, catalog))
    # Type checkers derive the constructor of a pydantic class from its fields alone and miss this argument.
    make: Callable[..., Settings] = Settings
    try:
        settings = make(_build_sources=(tuple(map(_LayerSource, layers)), {}))
    except ValidationError as problem:
        raise _describe_problem(problem, layers) from None
    settings._layers = layers
    return settings


def read_dag_prefix(*, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Read the setting ``airflow.dag_prefix`` alone: where another one is not valid, DAGs keep their ids all the same.

    Raises:
        ConfigurationError: it is not valid, or the file with the settings cannot be read.
    """
    folder = (cwd or Path.cwd()).absolute()
    variables = os.environ if env is None else env
    for layer in (read_environment_layer(variables, folder), read_file_layer(variables, folder)):
        if _PREFIX_NAME in layer.values:
            try:
                return AirflowSettings(dag_prefix=layer.values[_PREFIX_NAME]).dag_prefix
            except ValidationError as problem:
                reason = problem.errors()[0]["msg"].removeprefix("Value error, ")
                raise ConfigurationError(
                    f"{_PREFIX_NAME} ({layer.origins[_PREFIX_NAME]}) is not valid: {reason}."
                ) from None
    return ""


def _find_home(layers: tuple[Layer, ...], folder: Path) -> Path:
    for layer in layers:
        if "home" in layer.values:
            home = layer.values["home"]
            if not isinstance(home, str) or not home.strip():
                raise ConfigurationError(f"home ({layer.origins['home']}) is not valid: it must be a path.")
            return Path(home)
    return folder / ".winnow"


def _check_utf8(home: Path) -> None:
    try:
        str(home).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(home).decode(errors="backslashreplace")
        raise ConfigurationError(
            f"home {shown} is not valid: its path is not UTF-8, so neither tables nor files can be named in it.",
            next="Choose another with WINNOW_HOME, or rename the folder.",
        ) from None


def _describe_problem(problem: ValidationError, layers: tuple[Layer, ...]) -> ConfigurationError:
    # Names of places, never values: a database URL or a webhook is a secret.
    sentences: list[str] = []
    for error in problem.errors(include_url=False, include_input=False, include_context=False):
        name = ".".join(str(part) for part in error["loc"] if part != "[key]")
        reason = error["msg"].removeprefix("Value error, ")
        sentences.append(f"{name} ({_describe_origin(name, layers)}) is not valid: {reason}.")
    return ConfigurationError(" ".join(sentences))


def _describe_origin(name: str, layers: tuple[Layer, ...]) -> str:
    # An error about a group as a whole has no place of its own; its members have.
    # The elements of a list have no place of their own either; the list has.
    found = [
        origin
        for layer in layers
        for key, origin in layer.origins.items()
        if f"{key}.".startswith(f"{name}.") or f"{name}.".startswith(f"{key}.")
    ]
    return found[0] if found else "default"
