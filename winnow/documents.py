"""Frozen dataclasses to JSON documents and back: plans, staging manifests, state files, receipts.

Canonical: keys sorted, no white space, so that a digest of the bytes is a digest of the value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from winnow.errors import FormatVersionError, WinnowError

T = TypeVar("T")
FORMAT_VERSION = 2
"""The newest document format this version reads and writes."""


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def jsonable(value: object) -> Any:
    """``value`` (a frozen dataclass of the model, or a container of them) as plain JSON types."""
    return _adapter(type(value)).dump_python(value, mode="json")


def dump_json(value: object) -> bytes:
    """Canonical JSON of a frozen dataclass of the model."""
    return json.dumps(jsonable(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: object) -> str:
    """sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(dump_json(value)).hexdigest()


def load_json(kind: type[T], data: bytes) -> T:
    """The value of type ``kind`` in ``data``.

    Raises:
        FormatVersionError: the document was written by a newer Winnow.
        WinnowError: the document is damaged.
    """
    try:
        plain = json.loads(data)
    except ValueError as problem:
        raise WinnowError(f"A {kind.__name__} document is damaged: it is not JSON ({problem}).") from problem
    version = plain.get("format_version", FORMAT_VERSION) if isinstance(plain, dict) else FORMAT_VERSION
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FormatVersionError(
            f"A {kind.__name__} document has format {version}; this Winnow reads up to {FORMAT_VERSION}. "
            "Nothing was changed. Use the Winnow that wrote it, or a newer one."
        )
    try:
        return cast(T, _adapter(kind).validate_python(plain))
    except ValidationError as problem:
        where = "; ".join(".".join(map(str, error["loc"])) for error in problem.errors()[:3])
        raise WinnowError(f"A {kind.__name__} document is damaged at: {where}.") from problem
