"""The types of settings: how a value is parsed and how a valid one is described.

No message repeats the value: a database URL or a webhook is a secret.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr

MINIMUM_SIZE_BYTES = 1_000_000

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE | re.ASCII)


def _check_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("it must be text, and not empty")
    return value.strip()


def _namespace(value: object) -> str:
    name = _check_text(value)
    if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
        raise ValueError("it must be at most 64 letters, digits and underscores")
    if re.search(r"_(quarantine|latest|latest_views|copies|deleted|installation|shared)$", name, re.IGNORECASE):
        raise ValueError("it must not end like the names that Winnow makes of it: _quarantine, _latest, _copies, ...")
    return name


def _dag_prefix(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{0,100}", value):
        raise ValueError("it must be at most 100 letters, digits, underscores, dots and hyphens")
    return value


def _count(value: object) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value) else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError("it must be a whole number of at least 1")
    return number


def _approvals(value: object) -> int:
    number = _count(value)
    if number > 2:  # noqa: PLR2004 - one or two persons
        raise ValueError("it must be 1 or 2")
    return number


def _parse_size(value: object) -> float | None:
    found = _SIZE.fullmatch(str(value).strip()) if isinstance(value, str | int) else None
    if found is None:
        return None
    power = " KMGT".index(found[2].upper() or " ")
    return float(found[1]) * float((1024 if found[3] else 1000) ** power)


def _size_bytes(value: object) -> int:
    size = _parse_size(value)
    if size is None:
        raise ValueError("it must be a size like 1073741824, 512MB or 1GiB")
    size_bytes = int(size)
    if size_bytes < MINIMUM_SIZE_BYTES:
        raise ValueError("it must be at least 1MB; a number without a unit counts bytes")
    return size_bytes


def parse_size_bytes(text: str) -> int:
    """Parse a size of at least one byte in human notation: ``1073741824``, ``512MB``, ``1GiB``.

    Raises:
        ValueError: it is not a size.
    """
    size = _parse_size(text)
    if size is None or size < 1:
        raise ValueError("it must be a size like 1073741824, 512MB or 1GiB")
    return int(size)


def _bytes_per_second(value: object) -> float:
    rate = value if isinstance(value, float) else _parse_size(value)
    if rate is None or not 1 <= rate < math.inf:
        raise ValueError("it must be a number of bytes per second of at least 1, like 50000000 or 50MB")
    return rate


def _location(value: object) -> str:
    location = _check_text(value).rstrip("/")
    scheme, _, rest = location.partition("://")
    if not rest or (scheme == "file" and not rest.startswith("/")):
        raise ValueError("it must be a path, file:///folder (three slashes), or a URI like s3://bucket/folder")
    if re.search(r"[%#?]", rest):
        # Some readers treat these as escapes and some as literal characters, so the same path would name two places.
        raise ValueError("it must not hold '%', '#' or '?'; choose a folder without them")
    return location


def _database_url(value: object) -> str:
    url = _check_text(value)
    if not re.match(r"[A-Za-z][A-Za-z0-9_]*(\+[A-Za-z0-9_]+)?://", url):
        raise ValueError("it must be a SQLAlchemy URL like postgresql+psycopg://user:password@host/database")
    return url


def _webhook(value: object) -> str:
    url = _check_text(value)
    if not re.match(r"https?://[^/\s]", url):
        raise ValueError("it must be a URL that begins with https:// or http://")
    return url


def _page_url(value: object) -> str:
    return _webhook(value).rstrip("/")


def _registry_url(value: object) -> str:
    url = _webhook(value).rstrip("/")
    if re.search(r"[@?#\s]", url):
        raise ValueError("it must hold neither a user nor '?' or '#'; user and password are settings of their own")
    return url


def _dotted(value: object) -> str:
    path = _check_text(value)
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", path, re.ASCII):
        raise ValueError(
            "it must be the dotted path of a class, like airflow.providers.smtp.notifications.smtp.SmtpNotifier"
        )
    return path


def _notifiers(value: object) -> object:
    wanted = 'it must be a list of {"class": "package.Notifier", "arguments": {...}}'
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(f"it is not JSON; {wanted}") from None
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(wanted)
    return value


def _split_list(value: object) -> object:
    """Split the text of a list: a JSON list where it begins as one, else parts between commas."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        return value.split(",")
    try:
        return json.loads(value)
    except ValueError:
        return None


def _folders(value: object) -> tuple[str, ...]:
    parts = _split_list(value)
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError("it must be a list of folders and URIs, in the environment separated by commas or as JSON")
    return tuple(map(_check_folder, parts))


def _check_folder(value: object) -> str:
    folder = _check_text(value).rstrip("/")
    return folder if folder.startswith("/") else _location(folder)


def _regex(value: object) -> str:
    text = _check_text(value)
    try:
        re.compile(text)
    except re.error:
        raise ValueError("it must be a regular expression, like orders|payments.*") from None
    return text


def _recreated(value: object) -> str:
    text = _check_text(value)
    if text not in {"refuse", "new_epoch"}:
        raise ValueError("it must be refuse or new_epoch")
    return text


def _names(value: object) -> tuple[str, ...]:
    parts = _split_list(value)
    if not isinstance(parts, list | tuple) or not all(isinstance(each, str) and each.strip() for each in parts):
        raise ValueError("it must be a list of names, in the environment separated by commas or as JSON")
    return tuple(each.strip() for each in parts)


def _regexes(value: object) -> tuple[str, ...]:
    wanted = 'it must be a list of regular expressions, in the environment as JSON: ["[0-9]{16}"]'
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(wanted) from None
    if not isinstance(value, list | tuple):
        raise ValueError(wanted)
    return tuple(map(_regex, value))


def _spark_name(name: str) -> str:
    if not name.startswith("spark."):
        raise ValueError("Spark ignores it; the names of its properties begin with 'spark.', in lower case")
    return name


Text = Annotated[str, BeforeValidator(_check_text)]
"""Text that is not empty; white space at the ends is removed."""

Namespace = Annotated[str, BeforeValidator(_namespace)]
"""A name in the catalog and of folders in the warehouse."""

DagPrefix = Annotated[str, BeforeValidator(_dag_prefix)]
"""What stands before the ids of DAGs; may be empty."""

FolderPath = Annotated[Path, BeforeValidator(_check_text)]
"""A local folder; it need not exist yet."""

Count = Annotated[int, BeforeValidator(_count)]
"""A whole number of at least 1."""

Approvals = Annotated[int, BeforeValidator(_approvals)]
"""1 or 2."""

SizeBytes = Annotated[int, BeforeValidator(_size_bytes)]
"""``536870912``, ``512MB`` or ``512M`` (powers of 1000), ``512MiB`` (powers of 1024), any case; at least 1 MB."""

BytesPerSecond = Annotated[float, BeforeValidator(_bytes_per_second)]
"""Bytes per second, spelled like a size: ``50000000``, ``50MB``, ``48MiB``; at least 1."""

Location = Annotated[str, BeforeValidator(_location)]
"""The URI of a folder, without a slash at the end."""

Folders = Annotated[tuple[str, ...], BeforeValidator(_folders)]
"""Absolute paths and URIs of folders, without a slash at the end: a list, or text with commas, or JSON."""

DatabaseUrl = Annotated[str, BeforeValidator(_database_url)]
"""SQLAlchemy's URL."""

Webhook = Annotated[SecretStr | None, BeforeValidator(_webhook)]
"""An http or https URL, itself a secret."""

Secret = Annotated[SecretStr | None, BeforeValidator(_check_text)]
"""Text that is never shown."""

PageUrl = Annotated[str | None, BeforeValidator(_page_url)]
"""An http or https URL, without a slash at the end."""

RegistryUrl = Annotated[str | None, BeforeValidator(_registry_url)]
"""An http or https URL without credentials, and without a slash at the end."""

Regex = Annotated[str, BeforeValidator(_regex)]
"""A regular expression."""

RecreatedTopics = Annotated[str, BeforeValidator(_recreated)]
"""``refuse`` or ``new_epoch``."""

Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Names: a list, or text with commas, or JSON."""

Regexes = Annotated[tuple[str, ...], BeforeValidator(_regexes)]
"""Regular expressions: a list, or in the environment the same as JSON."""

Dotted = Annotated[str, BeforeValidator(_dotted)]
"""``package.module.Class``."""

Notifiers = BeforeValidator(_notifiers)
"""A list of tables, or in the environment the same as JSON."""

SparkConf = dict[Annotated[str, AfterValidator(_spark_name)], str]
"""Spark's properties; Spark ignores names that do not begin with ``spark.``."""
