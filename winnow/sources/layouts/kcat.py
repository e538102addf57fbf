"""What ``kcat -J`` writes: a JSON object a line, in which bytes that are not UTF-8 stand as they are.

Null and empty differ there; headers are a flat list of names and values. What ``kcat -f`` and ``kcat -K`` write is
refused: headers end at a NUL byte or are missing, and separators in values are not escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Raw

from winnow.sources.envelope import make_chunk
from winnow.sources.formats.column_values import HeaderPairs, make_header_column
from winnow.sources.formats.compression import START_BYTES, read_start
from winnow.sources.formats.json_records import UNREADABLE, Int64, decode_lines
from winnow.sources.formats.json_text import render_json
from winnow.sources.formats.lines import find_first_line, read_lines
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Layout, list_files
from winnow.sources.objects import BYTES, ArchiveObject, ReadOptions, RecordChunk, StoredObject

_TIMESTAMP_TYPES = {"create": 0, "logappend": 1}

_NO_TIMESTAMP_TYPE = -1

_QUOTE = b'"'

_OTHER_FORMS_ADVICE = (
    "write the archive with `kcat -J`; what `kcat -f` and `kcat -K` write cannot be taken apart again for certain"
)


class _Line(msgspec.Struct, gc=False):
    topic: str
    partition: Int64
    offset: Int64
    key: Raw
    payload: Raw
    ts: Int64 | None = None
    tstype: str | None = None
    headers: list[Raw] | None = None


_decode = msgspec.json.Decoder(_Line).decode_lines

_decode_text = msgspec.json.Decoder(str).decode


def is_kcat(line: bytes) -> bool:
    """Check whether ``line`` is what ``kcat -J`` writes."""
    try:
        return len(_decode(line)) == 1
    except UNREADABLE:
        return False


def read_kcat(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line.

    Raises:
        BadInputError: this is not what ``kcat -J`` writes, or it is damaged or cut off.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    is_begun = False
    for place, lines in read_lines(obj, options.batch_bytes):
        if not is_begun and not is_kcat(lines[0]):
            raise make_file_error(obj.uri, "its first line is not what kcat -J writes", _OTHER_FORMS_ADVICE)
        is_begun = True
        yield _read_lines(place, lines)


def _read_lines(place: Place, lines: list[bytes]) -> RecordChunk:
    records = decode_lines(place, lines, _decode)
    return make_chunk(
        place,
        key=_make_bytes(place, [record.key for record in records]),
        value=_make_bytes(place, [record.payload for record in records]),
        headers=make_header_column([_pair_headers(place, at, record.headers) for at, record in enumerate(records)]),
        partition=pa.array([record.partition for record in records], pa.int64()),
        offset=pa.array([record.offset for record in records], pa.int64()),
        timestamp=pa.array([record.ts for record in records], pa.int64()),
        timestamp_type=pa.array(
            [_TIMESTAMP_TYPES.get(record.tstype or "", _NO_TIMESTAMP_TYPE) for record in records], pa.int64()
        ),
        topics=pa.array([record.topic for record in records], pa.string()),
    )


def _make_bytes(place: Place, raws: list[Raw]) -> Any:
    values: list[bytes | None] = []
    for index, raw in enumerate(raws):
        try:
            values.append(unescape(bytes(raw)))
        except (ValueError, RecursionError):
            raise place.make_error(index, "its key or payload cannot be read as JSON", DAMAGED_ADVICE) from None
    return pa.array(values, pa.binary())


def unescape(raw: bytes) -> bytes | None:
    """Return the bytes of a JSON string that may hold other bytes than UTF-8; a structure (``kcat -s``) as JSON text.

    None for ``null``.
    """
    if raw[:1] != _QUOTE:
        return render_json(raw)
    if b"\\" not in raw:
        return raw[1:-1]
    try:
        return _decode_text(raw).encode()
    except UnicodeDecodeError:
        pass
    text: str = json.loads(raw.decode("utf-8", "surrogateescape"), strict=False)
    return text.encode("utf-8", "surrogateescape")


def _pair_headers(place: Place, index: int, flat: list[Raw] | None) -> HeaderPairs | None:
    if not flat:
        return None
    if len(flat) % 2:
        raise place.make_error(index, "a header has a name and no value", DAMAGED_ADVICE)
    try:
        values = [unescape(bytes(raw)) for raw in flat]
        return [((name or b"").decode(), value) for name, value in zip(values[::2], values[1::2], strict=True)]
    except (ValueError, RecursionError):
        raise place.make_error(index, "a header's name is not UTF-8, or its value no JSON", DAMAGED_ADVICE) from None


NAME = "kcat"


def recognise_kcat(obj: StoredObject) -> bool:
    """Check whether the first line of ``obj`` is what ``kcat -J`` writes."""
    return is_kcat(find_first_line(read_start(obj, START_BYTES)))


def arrange_kcat(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; lines name topic, partition and offset."""
    return Arrangement(list_files(NAME, stored, BYTES))


KCAT = Layout(
    NAME,
    Description(
        title="kcat",
        recognised_by="each line is what `kcat -J` prints: a JSON object with topic, partition, offset, key and "
        "payload. Bytes that are not UTF-8 are read as they are.",
        loses=("nothing",),
        settings=("kcat -C -J -e -b BROKER -t TOPIC > orders.json",),
        settings_note="What `kcat -f` and `kcat -K` print cannot be taken apart again for certain and is refused.",
    ),
    recognise_kcat,
    arrange_kcat,
    read_kcat,
)
