"""Reads the CSV of Aiven's sinks, in which nothing is quoted or escaped and no header names the columns.

Keys are base64, headers are ``name:value;`` each with both in base64, and values are base64 unless the sink was told to
write them as they are. Which fields there are, and in what order, :mod:`winnow.sources.layouts.aiven_csv_fields` finds
out. Null and empty are the same here: an empty key is read as null, an empty value as empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.aiven_csv_fields import CELLS, CsvFields, find_csv_fields
from winnow.sources.layouts.chunks import DAMAGED_ADVICE, HeaderPairs, Place, make_chunk, make_header_column
from winnow.sources.layouts.compression import open_decompressed, read_start
from winnow.sources.layouts.derived import derive_offsets, repeat_partition
from winnow.sources.layouts.encoding import decode_base64
from winnow.sources.layouts.lines import read_line_groups
from winnow.sources.layouts.objects import ArchiveObject, ReadOptions, RecordChunk, StoredObject

SAMPLE_BYTES = 1 << 18
_SAMPLE_LINES = 500

_PLAIN_ADVICE = "set format.output.fields.value.encoding=base64 in the sink, or name another --layout"


def read_csv_sample(obj: StoredObject) -> list[bytes]:
    """Return the first lines of ``obj``; without the last one of the sample, which may be cut off, if it has others.

    Raises:
        BadInputError: the object cannot be read, or its compression is damaged.
        ServiceError: an object store cannot be reached.
    """
    lines = read_start(obj, SAMPLE_BYTES).split(b"\n")
    return (lines[:-1] or lines)[:_SAMPLE_LINES]


def read_aiven_csv(
    archive: ArchiveObject, options: ReadOptions, fields: CsvFields | None = None
) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line.

    ``fields``: those of the archive, found by :func:`find_csv_fields`; None: found from this object alone.

    Raises:
        BadInputError: the object is damaged or cut off, or its values hold what cannot be told from the format.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    if not obj.size_bytes:
        raise make_file_error(obj.uri, "the object is empty", DAMAGED_ADVICE)
    fields = fields or find_csv_fields(read_csv_sample(obj), archive.first_offset, archive.partition)
    if fields is None:
        wrong = "its lines are no CSV of Aiven's sink, or values hold line ends, which nothing tells from those of CSV"
        raise make_file_error(obj.uri, wrong, _PLAIN_ADVICE)
    with open_decompressed(obj) as stream:
        records = 0
        for group in read_line_groups(obj.uri, stream, options.batch_bytes):
            place = Place(obj.uri, "line", group.number())
            yield _make_csv_chunk(archive, place, _split_lines(place, group.lines, fields), records, group.is_last)
            records += len(group.lines)


def _split_lines(place: Place, lines: list[bytes], fields: CsvFields) -> dict[str, Any]:
    """Return the cells of ``lines`` by field."""
    if not fields.has_plain_values:
        try:
            return _split_fast(lines, fields.names)
        except pa.ArrowInvalid:
            pass  # The slow way finds the line.
    match = fields.compile_line().fullmatch
    rows = []
    for index, line in enumerate(lines):
        found = match(line)
        if found is None:
            wrong = f"this line has not the fields {', '.join(fields.names)}"
            advice = "a value with a line end in it, or a cut-off object? " + _PLAIN_ADVICE
            raise place.make_error(index, wrong, advice)
        rows.append(found.groups())
    columns = zip(*rows, strict=True)
    return {name: pa.array(column, pa.binary()) for name, column in zip(fields.names, columns, strict=True)}


def _split_fast(lines: list[bytes], names: tuple[str, ...]) -> dict[str, Any]:
    data = pa.py_buffer(b"\n".join(lines) + b"\n")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=list(names), use_threads=False, block_size=data.size + 1),
        parse_options=csv.ParseOptions(quote_char=False, double_quote=False, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False, quoted_strings_can_be_null=False
        ),
    )
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid("another number of lines")
    return {name: pa.concat_arrays(table.column(name).chunks) for name in names}


def _make_csv_chunk(
    archive: ArchiveObject, place: Place, cells: dict[str, Any], records: int, is_last: bool
) -> RecordChunk:
    count = len(place.rows)
    names = list(cells)
    if is_last and names[-1] == "value":
        _check_last_value(place, cells["value"])
    offset = _read_integers(place, "offset", cells.get("offset"))
    return make_chunk(
        place,
        key=_read_keys(place, cells.get("key")),
        value=cells["value"],
        partition=repeat_partition(archive, count),
        offset=derive_offsets(archive, records, count) if offset is None else offset,
        timestamp=_read_integers(place, "timestamp", cells.get("timestamp")),
        headers=_read_headers(place, cells.get("headers")),
    )


def _check_last_value(place: Place, column: Any) -> None:
    """Raise for a last value that alone is no base64: it was cut off."""
    canonical = decode_base64(column).canonical
    if len(canonical) > 1 and canonical[:-1].all() and not canonical[-1]:
        wrong = "the last value is cut off: it alone is no base64"
        raise place.make_error(len(canonical) - 1, wrong, DAMAGED_ADVICE)


def _read_keys(place: Place, column: Any) -> Any:
    if column is None:
        return None
    read = decode_base64(column)
    if not read.canonical.all():
        raise place.make_error(int(np.argmin(read.canonical)), "its key is not base64", DAMAGED_ADVICE)
    return pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, pa.binary()), read.decoded)


def _read_integers(place: Place, name: str, column: Any) -> Any:
    if column is None:
        return None
    texts = pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, pa.binary()), column)
    try:
        return texts.cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        for index, text in enumerate(texts.to_pylist()):
            if text is not None and not (CELLS[name].fullmatch(text) and int(text) < 2**63):
                raise place.make_error(index, f"{name} is not a whole number", DAMAGED_ADVICE) from None
        raise


def _read_headers(place: Place, column: Any) -> Any:
    if column is None:
        return None
    cells = column.to_pylist()
    names: list[bytes] = []
    values: list[bytes] = []
    counts = []
    for index, cell in enumerate(cells):
        if cell and not CELLS["headers"].fullmatch(cell):
            raise place.make_error(index, "its headers are not name:value; in base64", DAMAGED_ADVICE)
        pairs = cell.split(b";")[:-1]
        counts.append(len(pairs))
        for pair in pairs:
            name, _, value = pair.partition(b":")
            names.append(name)
            values.append(value)
    read_names = decode_base64(pa.array(names, pa.binary())).decoded.to_pylist()
    read_values = decode_base64(pa.array(values, pa.binary())).decoded.to_pylist()
    flat = iter(zip(read_names, read_values, strict=True))
    lists: list[HeaderPairs | None] = []
    for index, count in enumerate(counts):
        try:
            lists.append([(name.decode(), value) for name, value in (next(flat) for _ in range(count))])
        except UnicodeDecodeError:
            raise place.make_error(index, "a header's name is not UTF-8", DAMAGED_ADVICE) from None
    return make_header_column(lists)
