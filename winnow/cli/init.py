"""``winnow init`` and ``winnow settings``: writes a settings file, shows what is in force."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from winnow.cli.options import Json, load_settings_in_force
from winnow.cli.output import print_lines, print_message, print_table, write_json
from winnow.errors import ConfigurationError, UsageError


def settings(as_json: Json = False) -> None:
    """Print the settings in force and where each value came from.

    Secrets are masked. Environment variables override winnow.toml, which overrides the defaults below WINNOW_HOME.

    Example: winnow settings
    """
    rows = load_settings_in_force().rows()
    if as_json:
        write_json([{"name": row.name, "value": row.value, "source": row.source} for row in rows])
        return
    print_table(["setting", "value", "from"], [[row.name, row.value, row.source] for row in rows])


OPTIONS = {
    "home": "--home",
    "warehouse": "--warehouse",
    "staging": "--staging",
    "store_url": "--store-url",
    "catalog.uri": "--catalog-uri",
    "spark.master": "--spark-master",
}
"""What can be chosen: settings by the options that set them."""

STAGING_BESIDE_TABLES = "_staging"
"""The folder of the staging area below a remote warehouse."""


def _option(name: str, metavar: str, help_text: str) -> Any:
    return typer.Option(OPTIONS[name], metavar=metavar, help=help_text, show_default=False)


def init(
    *,
    path: Annotated[
        Path, typer.Option("--path", metavar="FILE", help="The file to write, or the folder to write winnow.toml into.")
    ] = Path("winnow.toml"),
    home: Annotated[str | None, _option("home", "FOLDER", "The folder for everything embedded.")] = None,
    warehouse: Annotated[str | None, _option("warehouse", "URI", "Where the tables live: s3://bucket/winnow.")] = None,
    staging: Annotated[
        str | None, _option("staging", "URI", "Where open runs keep their plans; default: below a remote warehouse.")
    ] = None,
    catalog_uri: Annotated[
        str | None, _option("catalog.uri", "URL", "The Iceberg catalog: postgresql+psycopg://..., https://...")
    ] = None,
    store_url: Annotated[
        str | None, _option("store_url", "URL", "The metadata store: postgresql+psycopg://winnow@host/winnow.")
    ] = None,
    spark_master: Annotated[
        str | None, _option("spark.master", "MASTER", "Where Spark runs: spark://host:7077, local[4].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a settings file with every setting and its default.

    Without options, the file changes no setting. A URL with a password is not written: the file refers to the
    environment variable instead. Only you may read the file. An existing file is kept unless --force is given.

    Example: winnow init --warehouse s3://lake/winnow --store-url postgresql+psycopg://winnow@db/winnow
    """
    target = (path / "winnow.toml" if path.is_dir() else path).absolute()
    given = {
        "home": home,
        "warehouse": warehouse,
        "staging": staging,
        "catalog.uri": catalog_uri,
        "store_url": store_url,
        "spark.master": spark_master,
    }
    choice = _check_choice({name: value for name, value in given.items() if value is not None}, target)
    from winnow.config.initial_file import render_initial_file

    _write(target, render_initial_file(target.parent, choice.written, choice.secret), force=force)
    _report(target, choice, as_json)


@dataclass(frozen=True)
class _Choice:
    """What was chosen: values to write down, and settings whose value must not be."""

    written: Mapping[str, str]
    secret: Sequence[str]


def _check_choice(given: Mapping[str, str], target: Path) -> _Choice:
    """Check the values as they will be read, with relative paths made absolute.

    Raises:
        ConfigurationError: a value is not valid; nothing was written.
    """
    from winnow.config.layers import name_variable
    from winnow.config.masking import mask
    from winnow.config.settings import load_settings

    variables = {name_variable(name): name for name in given}
    try:
        # Read as variables of an empty environment, beside no file.
        settings = load_settings(
            cwd=Path.cwd(), env={"WINNOW_CONFIG": os.devnull, **{v: given[name] for v, name in variables.items()}}
        )
    except ConfigurationError as problem:
        what, to_do = problem.what, problem.next
        for variable, name in variables.items():
            what = what.replace(f"environment {variable}", OPTIONS[name])
            to_do = to_do.replace(f"environment {variable}", OPTIONS[name])
        raise ConfigurationError(what, "Nothing was written.", to_do) from None
    written = dict(given)
    if "home" in given:
        written["home"] = str(settings.home)
    for name in ("warehouse", "staging"):
        if name in given:
            written[name] = str(getattr(settings, name))
    if "warehouse" in given and "staging" not in given and not settings.warehouse.startswith("file:"):
        # Spark's executors read the plans there, and a folder of this machine is none of theirs.
        written["staging"] = f"{settings.warehouse}/{STAGING_BESIDE_TABLES}"
    secret = [name for name, value in written.items() if mask(name, value) != value]
    return _Choice({name: value for name, value in written.items() if name not in secret}, secret)


def _write(target: Path, text: str, *, force: bool) -> None:
    """Write ``text`` so that only its owner may read it.

    Raises:
        UsageError: the file is there, or its folder cannot be written to.
    """
    if target.exists() and not force:
        raise UsageError(
            f"{target} exists already and was not changed.",
            next="Overwrite it with --force, or write elsewhere with --path.",
        )
    try:
        # Made for its owner alone, and moved into place whole.
        handle, draft = tempfile.mkstemp(prefix=".winnow-", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(draft).replace(target)
    except OSError as problem:
        raise UsageError(
            f"{target} could not be written: {problem.strerror}.",
            left="Nothing was changed.",
            next="Choose another file with --path.",
        ) from problem


def _report(target: Path, choice: _Choice, as_json: bool) -> None:
    from winnow.config.layers import CONFIG_FILE, CONFIG_VARIABLE, name_variable

    steps: list[tuple[str, str]] = []
    if target != Path.cwd() / CONFIG_FILE or os.environ.get(CONFIG_VARIABLE):
        steps.append((f"export {CONFIG_VARIABLE}={shlex.quote(str(target))}", "read this file"))
    steps += [(f"export {name_variable(name)}=...", "the URL with its password") for name in choice.secret]
    steps += [
        ("winnow doctor", "what is missing on this machine, and how to fix it"),
        ("winnow topics create orders --partitions 3", "a topic to archive into"),
        ("winnow ingest files orders FILE...", "append records to its log"),
        ("winnow compact orders", "keep the last record of each key"),
        ("python -m winnow.embedded.airflow_home ui", "Airflow with Winnow's DAGs and its page; in a clone: make ui"),
    ]
    if as_json:
        write_json(
            {
                "path": str(target),
                "settings": dict(choice.written),
                "from_environment": [name_variable(name) for name in choice.secret],
                "next": [command for command, _ in steps],
            }
        )
        return
    for name in choice.secret:
        print_message(f"notice: the value of {OPTIONS[name]} holds a password and was not written down.")
    width = max(len(command) for command, _ in steps)
    print_lines(f"Wrote {target}\nNext:")
    for command, why in steps:
        print_lines(f"  {command:{width}}   # {why}")
