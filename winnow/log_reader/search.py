"""The search of records: a bounded part of it per question, in what the records would show, never behind a mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import UsageError
from winnow.log_reader.key_text import KeyEncoding, parse_key
from winnow.log_reader.question import Answer, Parameters
from winnow.log_reader.records import MAXIMUM_LISTED_VALUE_BYTES, MAXIMUM_RECORDS, collect_records, describe_places
from winnow.log_reader.shown_records import ShownRecords
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.browse import open_partition
from winnow.pipeline.read.record_search import (
    SearchPlace,
    SearchScope,
    SearchTerms,
    SearchWindow,
    ShownContent,
    matches,
    open_scope,
)
from winnow.pipeline.read.records import read_log_segment
from winnow.pipeline.topics.topic_view import load_topic_view

MAXIMUM_READ_BYTES: Final = 64 << 20
"""Of records in memory that one question looks through: a few seconds' work."""
_ROWS: Final = 500
_SLICE_BYTES: Final = 8 << 20


def search(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Search records; ``place`` of the answer is where the next question goes on, None at the end.

    Parameters: ``partition`` (none: all), ``limit``, ``place``, and the terms: ``key_prefix`` with ``encoding``,
    ``value_text``, ``field``, ``field_value``, ``header``, ``header_value``, ``from_ms``, ``until_ms``. With
    ``newest_first`` ``before_offsets`` stands for ``place``: by partition, the offset below which it goes on.
    """
    terms = _parse_terms(parameters)
    view = load_topic_view(installation, topic)
    only = parameters.optional_number("partition")
    numbers = range(len(view.partitions)) if only is None else [only]
    scope = open_scope([open_partition(view, number) for number in numbers], terms)
    shown = collect_records(installation, view, MAXIMUM_LISTED_VALUE_BYTES, decodes=parameters.flag("decoded"))
    limit = max(1, min(parameters.number("limit"), MAXIMUM_RECORDS))
    place: SearchPlace | None = None
    before: dict[int, int] | None = None
    if parameters.flag("newest_first"):
        before = _search_newest(scope, parameters.numbers_by_number("before_offsets"), terms, shown, limit)
    else:
        place = _search_from(scope, _parse_place(parameters), terms, shown, limit)
    searched = scope.total_bytes
    if place is not None:
        searched = scope.compute_searched_bytes(place)
    elif before is not None:
        searched = scope.compute_bytes_from(before)
    document = {
        "topic": topic,
        "partition": only,
        "partitions": len(view.partitions),
        "records": shown.documents,
        "searched_bytes": searched,
        "total_bytes": scope.total_bytes,
        "place": None if place is None else {"partition": place.partition, "offset": str(place.offset)},
        "before_offsets": None if before is None else {str(number): str(offset) for number, offset in before.items()},
        "has_formats": view.config.row_shape.is_typed,
    }
    where = "all partitions" if only is None else f"partition {only}"
    return Answer(document, f"{topic}: search of {where}, {describe_places(shown.documents)}")


def _parse_terms(parameters: Parameters) -> SearchTerms:
    texts = {name: parameters.optional_text(name) for name in ("value_text", "field_value", "field", "header_value")}
    prefix, header = parameters.optional_text("key_prefix"), parameters.optional_text("header")
    try:
        encoding = KeyEncoding(parameters.optional_text("encoding") or "text")
    except ValueError:
        raise UsageError(f"A key is given as {', '.join(KeyEncoding)}.") from None
    terms = SearchTerms(
        key_prefix=parse_key(prefix, encoding)[0] if prefix else b"",
        value_text=texts["value_text"].encode(),
        field=texts["field"],
        field_value=texts["field_value"],
        header=header,
        header_value=texts["header_value"].encode(),
        from_ms=parameters.optional_number("from_ms"),
        until_ms=parameters.optional_number("until_ms"),
    )
    if terms == SearchTerms(field_value=terms.field_value, header_value=terms.header_value):
        raise UsageError("A search needs something to look for: a key, a text, a field, a header or a time.")
    return terms


def _parse_place(parameters: Parameters) -> SearchPlace:
    place = parameters.values.get("place")
    if place is None:
        return SearchPlace(0, 0)
    if not isinstance(place, dict):
        raise UsageError("place must have a partition and an offset.")
    return SearchPlace(Parameters(place).number("partition"), Parameters(place).number("offset"))


def _search_from(
    scope: SearchScope, begin: SearchPlace, terms: SearchTerms, shown: ShownRecords, limit: int
) -> SearchPlace | None:
    """Collect matches into ``shown`` until there are ``limit``, or enough was read; return where to go on."""
    left_bytes = MAXIMUM_READ_BYTES
    for window in scope.list_from(begin):
        for rows in _read_window(window):
            for row, offset in _find_matches(rows, terms, shown):
                shown.add([rows.slice(row, 1)])
                if shown.is_full:
                    return SearchPlace(window.partition, offset)
                if len(shown.documents) >= limit:
                    return SearchPlace(window.partition, offset + 1)
            left_bytes -= rows.nbytes
            if left_bytes <= 0:
                return SearchPlace(window.partition, rows.column("offset")[-1].as_py() + 1)
    return None


def _search_newest(
    scope: SearchScope, before: dict[int, int], terms: SearchTerms, shown: ShownRecords, limit: int
) -> dict[int, int] | None:
    """Collect matches into ``shown`` from the newest on, as :func:`_search_from`; return below what to go on."""
    left_bytes = MAXIMUM_READ_BYTES
    ends = {browsed.partition.partition: browsed.log_end_offset for browsed, _ in scope.partitions} | before
    for window in scope.list_newest(before):
        if left_bytes <= 0:
            return ends
        matched: list[tuple[int, pa.RecordBatch]] = []
        for rows in _read_window(window):
            matched += [(offset, rows.slice(row, 1)) for row, offset in _find_matches(rows, terms, shown)]
            left_bytes -= rows.nbytes
        for offset, record in reversed(matched):
            shown.add([record])
            if shown.is_full:
                return ends | {window.partition: offset + 1}
            if len(shown.documents) >= limit:
                return ends | {window.partition: offset}
        ends[window.partition] = window.start
    return None


def _read_window(window: SearchWindow) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``window``, a few at a time, in offset order."""
    with window.browsed.explain_errors():
        for batch in read_log_segment(window.browsed.log, window.segment, window.start, -1):
            first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
            if first >= window.end:
                return
            below = batch if last < window.end else batch.filter(pc.less(batch.column("offset"), window.end))
            yield from _split(below)


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of ``batch``, of few rows where these are large: they are copied."""
    rows = max(1, min(_ROWS, _SLICE_BYTES * batch.num_rows // max(batch.nbytes, 1)))
    yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _find_matches(rows: pa.RecordBatch, terms: SearchTerms, shown: ShownRecords) -> Iterator[tuple[int, int]]:
    """Yield row and offset of the matches among ``rows``."""
    times_us = rows.column("timestamp").cast(pa.int64()).to_pylist()
    wanted = [
        row for row, time_us in enumerate(times_us) if terms.includes_time(None if time_us is None else time_us // 1000)
    ]
    if not wanted:
        return
    for row, content in zip(wanted, _show(rows.take(pa.array(wanted, pa.int64())), shown), strict=True):
        if matches(terms, content):
            yield row, rows.column("offset")[row].as_py()


def _show(rows: pa.RecordBatch, shown: ShownRecords) -> Iterator[ShownContent]:
    """Yield what each of ``rows`` shows. The search looks at nothing else: a match would tell what a mask hides."""
    mask, reading = shown.masks.apply, shown.reading
    headers = rows.column("headers").to_pylist()
    if reading is not None and reading.hides:
        headers = [None] * rows.num_rows
    listed: list[list[tuple[str, bytes | None]]] = [
        [(each["key"] or "", _mask(each["value"], mask)) for each in of_row or [] if each is not None]
        for of_row in headers
    ]
    if reading is not None:
        for text, names in zip(reading.write(rows, mask), listed, strict=True):
            yield ShownContent(_mask(text.key, mask), _mask(text.value, mask), names)
        return
    for key, value, names in zip(rows.column("key"), rows.column("value"), listed, strict=True):
        yield ShownContent(_mask(key.as_py(), mask), _mask(value.as_py(), mask), names)


def _mask(content: bytes | None, mask: Any) -> bytes | None:
    return None if content is None else mask(content)
