"""Reads keys that are to be erased: one a line, as they are typed at a shell. No message repeats one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from winnow.errors import BadInputError, ConfigurationError, UsageError
from winnow.files import storage
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.sources.ingest_roots import find_below_roots
from winnow.values.typed_keys import parse_key

MAXIMUM_KEYS: Final = 1_000_000
"""Maximum keys of one erasure."""


def read_key_file(uri: str) -> list[bytes]:
    """Read the keys in the file at ``uri``.

    Raises:
        BadInputError: there is no such file, or a line is malformed; nothing was erased.
        ServiceError: the object store does not answer.
    """
    try:
        data = storage.read_bytes(uri)
    except (FileNotFoundError, IsADirectoryError):
        raise BadInputError(
            f"There is no file with keys at {uri}.", left=NOTHING_ERASED, next="Check the path."
        ) from None
    return parse_key_lines(data.split(b"\n"), uri)


def read_permitted_key_file(uri: str, roots: Sequence[str]) -> list[bytes]:
    """Read the keys in the file at ``uri``, which somebody else than this process's user names, below ``roots``.

    Raises:
        ConfigurationError: there are no roots.
        UsageError: the file does not lie below one, or a link leads out; whether it is there is not said.
        BadInputError, ServiceError: as :func:`read_key_file` says.
    """
    if not roots:
        raise ConfigurationError(
            "DAG runs may read no file with keys: the setting erase.roots names no folder.",
            left=NOTHING_ERASED,
            next="Set WINNOW_ERASE__ROOTS to the folder of these files, for scheduler and workers, and restart them.",
        )
    place = find_below_roots(uri, roots)
    if place is None:
        raise UsageError(
            f"{storage.format_path(uri)} is not below a folder in which DAG runs may read keys ({', '.join(roots)}), "
            "or a link in it leads out of there.",
            left=NOTHING_ERASED,
            next="Put the file there, or add its folder to the setting erase.roots and restart Airflow.",
        )
    return read_key_file(place)


def parse_key_lines(lines: Iterable[bytes], source: str) -> list[bytes]:
    """Parse lines with a key each: text, or hex:… or base64:… where it is no text. Each key is returned once.

    An empty line is malformed, but at the end; the empty key is ``text:``.

    Raises:
        BadInputError: a line is malformed, or there is no key, or there are more than :data:`MAXIMUM_KEYS`.
    """
    keys: dict[bytes, None] = {}
    empty: int | None = None
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\r")
        if not text:
            empty = empty or number
            continue
        if empty is not None:
            raise _make_error(source, empty, "the line is empty; the empty key is written text:")
        try:
            keys[parse_key(text.decode()).key] = None
        except UnicodeDecodeError:
            raise _make_error(source, number, "this is not UTF-8; write its bytes as hex: or base64:") from None
        except UsageError:
            raise _make_error(source, number, "what follows hex: or base64: is not that") from None
    if not keys:
        raise BadInputError(f"{source} has no key.", left=NOTHING_ERASED, next="Write one key a line.")
    if len(keys) > MAXIMUM_KEYS:
        raise BadInputError(
            f"{source} has {len(keys):,} keys; one erasure takes {MAXIMUM_KEYS:,} at most.",
            left=NOTHING_ERASED,
            next="Divide them over several calls.",
        )
    return list(keys)


def _make_error(source: str, number: int, wrong: str) -> BadInputError:
    return BadInputError(f"{source}, line {number}: {wrong}.", left=NOTHING_ERASED, next="Mend that line.")
