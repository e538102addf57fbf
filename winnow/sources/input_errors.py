"""Errors for rejected input: they name file, line or row, partition and offset, and show no user bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from winnow.errors import BadInputError, ServiceError, WinnowError
from winnow.files import storage
from winnow.files.record_batch import Integers

NOTHING_INGESTED = "Nothing of this call landed."


class FinerTimestampError(BadInputError):
    """A timestamp is finer than a millisecond, and nobody said that such ones may be rounded."""


@dataclass(frozen=True, slots=True)
class RecordFault:
    """What is wrong with one record and what to do. ``partition`` and ``offset`` are None if unknown."""

    wrong: str
    advice: str
    partition: int | None = None
    offset: int | None = None


def make_record_error(path: str, unit: str, number: int, fault: RecordFault) -> BadInputError:
    """Make the error about record ``number`` (from 1) of ``path``; ``unit`` is ``line`` or ``row``."""
    known = []
    if fault.partition is not None:
        known.append(f"partition {fault.partition}")
    if fault.offset is not None:
        known.append(f"offset {fault.offset}")
    where = f" ({', '.join(known)})" if known else ""
    return _make_error(f"{path}, {unit} {number}{where}: {fault.wrong}", fault.advice)


def make_file_error(path: str, wrong: str, advice: str) -> BadInputError:
    """Make the error about ``path`` as a whole."""
    return _make_error(f"{path}: {wrong}", advice)


def _make_error(what: str, advice: str) -> BadInputError:
    return BadInputError(f"{what}.", NOTHING_INGESTED, f"{advice[:1].upper()}{advice[1:]}." if advice else "")


def require_decodable(path: str) -> None:
    """Raise for a path that Arrow cannot open.

    Raises:
        BadInputError: it is not UTF-8.
    """
    if not storage.is_utf8(path):
        raise make_file_error(storage.format_path(path), "its name is not UTF-8", "rename it")


def make_read_error(path: str, wrong: str, advice: str) -> WinnowError:
    """Make the error for a failed read of ``path``: bad input, or an object store that no longer answers."""
    if not storage.is_local(path):
        try:
            storage.read_size_bytes(path)
        except ServiceError as problem:
            return problem.with_left(NOTHING_INGESTED)
    return make_file_error(path, wrong, advice)


@contextmanager
def open_to_read(path: str) -> Iterator[Any]:
    """Open ``path`` for random reads.

    Raises:
        BadInputError: the file is missing or cannot be read.
        ServiceError: its object store cannot be reached.
    """
    require_decodable(path)
    filesystem, name = storage.open_filesystem(path)
    try:
        stream = filesystem.open_input_file(name)
    except FileNotFoundError:
        raise make_file_error(path, "there is no such file", "check the path") from None
    except OSError:
        raise make_read_error(path, "the file cannot be opened", "check that it is a file and readable") from None
    with stream:
        yield stream


COPY_AGAIN_ADVICE = "copy the object from its source again, or leave it out with --exclude"
DAMAGED_ADVICE = "is the object cut off or damaged? Copy it from its source again, or leave it out with --exclude"


@dataclass(frozen=True, slots=True)
class Place:
    """Where records come from: the object, its unit (``line``, ``row`` or ``record``), and the number of each."""

    uri: str
    unit: str
    rows: Integers

    def make_error(self, index: int, wrong: str, advice: str, **known: int | None) -> BadInputError:
        """Make the error about the record at ``index``; ``known``: its partition and offset."""
        return make_record_error(self.uri, self.unit, int(self.rows[index]), RecordFault(wrong, advice, **known))
