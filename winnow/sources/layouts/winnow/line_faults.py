"""Describes the fault of one JSON line; slow, used only after the fast reader failed."""

from __future__ import annotations

import binascii
import json
from typing import Any

from winnow.files.record_batch import MAXIMUM_OFFSET, MAXIMUM_TIMESTAMP_MS, NO_TIMESTAMP_MS, TIMESTAMP_TYPES
from winnow.sources.input_errors import RecordFault
from winnow.sources.topic_filter import TopicFilter

FIELDS = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers", "topic")
IGNORED_FIELDS = ("epoch", "sourceOffset")
"""What `winnow read` says of a record beside its own fields."""
UNKNOWN_FAULT = RecordFault("this is not a record as documented", "compare it with the fields: " + ", ".join(FIELDS))
MAXIMUM_PARTITIONS = 2**31
_SHOWN_CHARACTERS = 60
_DIGITS = 40

Problem = tuple[str, str]


class _Object(dict[str, Any]):
    """A JSON object that remembers the first repeated name."""

    repeated: str | None = None

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        if len(self) < len(pairs):
            names = [name for name, _ in pairs]
            self.repeated = next(name for at, name in enumerate(names) if name in names[:at])


def find_fault(line: bytes, records_of: TopicFilter, partitions: int) -> RecordFault | None:
    """Return the first fault of ``line``, None if it has none; a record of another topic is no fault here.

    ``partitions``: those of the topic of ``records_of``; a record of another topic may name a higher one.
    """
    record = _parse(line)
    if isinstance(record, RecordFault):
        return record
    if not records_of.selects(record.get("topic")):
        partitions = MAXIMUM_PARTITIONS
    problem = (
        _find_field_problem(record)
        or _find_number_problem(record, records_of.topic, partitions)
        or _find_bytes_problem(record)
    )
    if problem is None:
        return None
    partition, offset = record.get("partition"), record.get("offset")
    return RecordFault(
        *problem,
        partition=partition if _is_integer(partition, 0, partitions - 1) else None,
        offset=offset if _is_integer(offset, 0, MAXIMUM_OFFSET) else None,
    )


def _parse(line: bytes) -> _Object | RecordFault:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return RecordFault("this is not valid UTF-8", "write the file as UTF-8, with bytes in base64")
    try:
        record = json.loads(text, object_pairs_hook=_Object, parse_constant=_reject_constant, parse_int=_parse_integer)
    except (ValueError, RecursionError):
        return RecordFault("this is not JSON", "write one JSON object a line; was the file cut off here?")
    return (
        record
        if isinstance(record, _Object)
        else RecordFault("this is not a JSON object", "write one JSON object a line")
    )


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _parse_integer(digits: str) -> int:
    """Parse an integer, cut to 40 digits: Python rejects thousands of digits, and any so long is out of range."""
    return int(digits[:_DIGITS])


def _find_field_problem(record: _Object) -> Problem | None:
    if not record.keys() & {"key", "value"}:
        # Any JSON file may end up here, and its fields may be names and secrets: nothing of it is quoted.
        return "this object has neither a key nor a value, so it is no record", f"the fields are {', '.join(FIELDS)}"
    if record.repeated is not None:
        return f"field {_format_value(record.repeated)} is there twice", "write each field once"
    unknown = next((name for name in record if name not in (*FIELDS, *IGNORED_FIELDS)), None)
    if unknown is not None:
        return f"field {_format_value(unknown)} is not known", f"the fields are {', '.join(FIELDS)}"
    if "value" not in record:
        return "value is missing", "write null for a tombstone"
    if "key" not in record:
        return "key is missing", "write null for a record without a key"
    return None


def _format_value(name: str) -> str:
    return ascii(name if len(name) <= _SHOWN_CHARACTERS else name[:_SHOWN_CHARACTERS] + "...")


def _is_integer(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _find_number_problem(record: _Object, topic: str, partitions: int) -> Problem | None:
    ranges = {
        "partition": (0, partitions - 1, f"topic {topic} has {partitions}, numbered from 0; or leave it out"),
        "offset": (0, MAXIMUM_OFFSET, "write a whole number from 0 to 2^63 - 1, or leave it out"),
        "timestamp": (
            NO_TIMESTAMP_MS,
            MAXIMUM_TIMESTAMP_MS,
            f"write whole milliseconds since the epoch up to {MAXIMUM_TIMESTAMP_MS}, or null or -1 for none",
        ),
        "timestampType": (*TIMESTAMP_TYPES, "write 0 (create time), 1 (log append time) or -1 (none)"),
    }
    for name, (low, high, advice) in ranges.items():
        value = record.get(name)
        if value is None or _is_integer(value, low, high):
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{name} is {'below' if value < low else 'above'} what it can be", advice
        return f"{name} is not a whole number but {_name_kind(value)}", advice
    return None


def _name_kind(value: object) -> str:
    kinds = {bool: "true or false", float: "a number with a fraction or an exponent", str: "a string", list: "a list"}
    return kinds.get(type(value), "an object")


def _find_bytes_problem(record: _Object) -> Problem | None:
    for name in ("key", "value"):
        if not _is_bytes(record[name]):
            return f"{name} is not base64", "write its bytes in standard base64 with padding, or null"
    topic = record.get("topic")
    if topic is not None and not _is_text(topic):
        return "topic is not a string", "leave it out"
    headers = record.get("headers")
    if headers is None:
        return None
    if not isinstance(headers, list):
        return "headers is not a list", 'write a list of {"key": string, "value": base64 or null}, or null'
    return next(
        (found for at, header in enumerate(headers, 1) if (found := _find_header_problem(at, header)) is not None), None
    )


def _find_header_problem(at: int, header: object) -> Problem | None:
    advice = 'write {"key": string, "value": base64 or null}'
    if not isinstance(header, _Object):
        return f"header {at} is not an object", advice
    if header.repeated is not None:
        return f"header {at} has field {_format_value(header.repeated)} twice", advice
    unknown = next((name for name in header if name not in ("key", "value")), None)
    if unknown is not None:
        return f"header {at} has the field {_format_value(unknown)}, which is not known", advice
    if not _is_text(header.get("key")):
        return f"header {at} has no key that is a string", advice
    if "value" not in header:
        return f"header {at} has no value", "write null for a header without one"
    if not _is_bytes(header["value"]):
        return f"the value of header {at} is not base64", "write its bytes in standard base64 with padding, or null"
    return None


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        # Half of a surrogate pair, which UTF-8 cannot represent.
        return False


def _is_bytes(value: object) -> bool:
    """Check whether ``value`` is null or base64 as an encoder writes it, with zero bits left over at the end."""
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        data = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return binascii.b2a_base64(data, newline=False).decode() == value
