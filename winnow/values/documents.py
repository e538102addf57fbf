"""Encodes frozen dataclasses as JSON documents and decodes them; computes plan ids.

Canonical form: keys sorted, no white space, so a digest of the bytes is a digest of the value. The state of ten
thousand partitions is decoded at every read of a topic, so documents are decoded straight into dataclasses.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from typing import Any, TypeVar, cast

import msgspec

from winnow.errors import FormatVersionError, WinnowError
from winnow.values.model import Plan

T = TypeVar("T")

FORMAT_VERSION = 9
"""Newest document format that this version reads."""

_PLACE = re.compile(r"at `\$\.?(.*)`$")

_MISSING = re.compile(r"missing required field `(\w+)`")


class _Versioned(msgspec.Struct):
    format_version: Any = None


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_making_decoder = threading.Lock()


def _get_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(kind)
    if found is None:
        # Two decoders that are made at once share what msgspec has found out of a nested class so far. The one that is
        # ready first then decodes with half of its fields, for ever and without letting another thread run.
        with _making_decoder:
            found = _decoders[kind] = _decoders.get(kind) or msgspec.json.Decoder(kind)
    return found


def convert_to_json_types(value: object) -> Any:
    """Convert ``value`` (a frozen dataclass of the model, or a container of them) to plain JSON types."""
    return msgspec.json.decode(msgspec.json.encode(value))


def dump_json(value: object) -> bytes:
    """Encode a frozen dataclass of the model as canonical JSON."""
    # Numbers keep their historic notation; keys that are numbers are sorted as text.
    plain = msgspec.to_builtins(value, str_keys=True)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def compute_digest(value: object) -> str:
    """Compute the sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(dump_json(value)).hexdigest()


def load_json(kind: type[T], data: bytes) -> T:
    """Decode ``data`` into a value of type ``kind``.

    Raises:
        FormatVersionError: the document was written by a newer Winnow.
        WinnowError: the document is damaged.
    """
    version = _read_version(kind, data)
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FormatVersionError(
            f"A {kind.__name__} document has format {version}; this Winnow reads up to {FORMAT_VERSION}.",
            left="Nothing was changed.",
            next="Use the Winnow that wrote it, or a newer one.",
        )
    try:
        return cast(T, _get_decoder(kind).decode(data))
    except msgspec.DecodeError as problem:
        raise WinnowError(f"A {kind.__name__} document is damaged at: {_describe_place(str(problem))}.") from None


def _read_version(kind: type[Any], data: bytes) -> object:
    try:
        return msgspec.json.decode(data, type=_Versioned).format_version
    except msgspec.ValidationError:
        return None  # not an object: the decoder reports it
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise WinnowError(f"A {kind.__name__} document is damaged: it is not JSON ({problem}).") from None


def _describe_place(message: str) -> str:
    # Show only the position: the rest may quote a value.
    place, missing = _PLACE.search(message), _MISSING.search(message)
    return ".".join(found for found in (place and place[1], missing and missing[1]) if found) or "its beginning"


_FIELDS_OUTSIDE_ID = {"log_end_offset": 0, "expected_records_kept": None, "expected_bytes_out": None}


def compute_plan_id(plan: Plan) -> str:
    """Compute the id of ``plan``: 32 hex digits of the sha256 over everything that was decided.

    Left out are the id itself, the log end offset (an append between two identical decisions changes nothing planned)
    and the estimates, which decide nothing.
    """
    return _compute_id(convert_to_json_types(plan))


def compute_document_id(data: bytes) -> str:
    """Compute the id of the plan in the JSON document ``data``, which must hold one.

    Of the document as it is: a Winnow with fewer or more fields made the id of those that it wrote.
    """
    return _compute_id(json.loads(data))


def _compute_id(plan: dict[str, Any]) -> str:
    partitions = [
        part | {name: value for name, value in _FIELDS_OUTSIDE_ID.items() if name in part}
        for part in plan["partitions"]
    ]
    document = json.dumps(plan | {"plan_id": "", "partitions": partitions}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:32]
