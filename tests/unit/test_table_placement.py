"""Rows are split by the values that Iceberg's transforms give, whatever they are; none is lost and none moves."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from winnow.files.segments import make_field_id
from winnow.log.table_placement import TablePlacement
from winnow.values.latest_layout import PartitionTerm, TableLayout, Transform

TIME_TRANSFORMS = (Transform.YEAR, Transform.MONTH, Transform.DAY)
KINDS: dict[str, tuple[pa.DataType, IcebergType, st.SearchStrategy[Any], tuple[Transform, ...]]] = {
    "flag": (pa.bool_(), BooleanType(), st.booleans(), (Transform.IDENTITY,)),
    "number": (
        pa.int32(),
        IntegerType(),
        st.integers(-(2**31), 2**31 - 1),
        (Transform.IDENTITY, Transform.BUCKET),
    ),
    "long": (pa.int64(), LongType(), st.integers(-(2**62), 2**62), (Transform.BUCKET, Transform.TRUNCATE)),
    "text": (pa.string(), StringType(), st.text(), (Transform.IDENTITY, Transform.BUCKET, Transform.TRUNCATE)),
    "amount": (
        pa.decimal128(12, 2),
        DecimalType(12, 2),
        st.decimals(-(10**9), 10**9, places=2).map(lambda amount: amount.quantize(Decimal("0.01"))),
        (Transform.IDENTITY, Transform.BUCKET, Transform.TRUNCATE),
    ),
    "day": (pa.date32(), DateType(), st.dates(), (Transform.IDENTITY, Transform.BUCKET, *TIME_TRANSFORMS)),
    "at": (
        pa.timestamp("us", tz="UTC"),
        TimestamptzType(),
        st.datetimes(timezones=st.just(UTC)),
        (Transform.IDENTITY, Transform.BUCKET, *TIME_TRANSFORMS, Transform.HOUR),
    ),
    "local": (pa.timestamp("us"), TimestampType(), st.datetimes(), (Transform.BUCKET, *TIME_TRANSFORMS)),
    "id": (pa.uuid(), UUIDType(), st.uuids(), (Transform.BUCKET,)),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@st.composite
def draw_rows(draw: st.DrawFn) -> tuple[list[dict[str, Any] | None], tuple[PartitionTerm, ...]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    terms = []
    for name in names:
        transform = draw(st.sampled_from(KINDS[name][3]))
        width = draw(st.integers(1, 50)) if transform.has_width else 0
        terms.append(PartitionTerm(transform, f"in.{name}", width))
    values = [st.one_of(st.none(), KINDS[name][2]) for name in names]
    row = st.one_of(st.none(), st.tuples(*values).map(lambda parts: dict(zip(names, parts, strict=True))))
    return draw(st.lists(row, min_size=1, max_size=30)), tuple(terms)


def build_batch(rows: list[dict[str, Any] | None]) -> pa.RecordBatch:
    fields = [
        pa.field(name, kind, metadata=make_field_id(number + 10))
        for number, (name, (kind, *_)) in enumerate(KINDS.items())
    ]
    plain = [
        None
        if row is None
        else {name: value.bytes if isinstance(value, uuid.UUID) else value for name, value in row.items()}
        for row in rows
    ]
    columns = [
        pa.array([None if row is None else row.get(field.name) for row in plain], field.type) for field in fields
    ]
    mask = pa.array([row is None for row in rows])
    struct = pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
    places = pa.array(range(len(rows)), pa.int64())
    schema = pa.schema(
        [
            pa.field("in", struct.type, metadata=make_field_id(1)),
            pa.field("place", pa.int64(), metadata=make_field_id(2)),
        ]
    )
    return pa.RecordBatch.from_arrays([struct, places], schema=schema)


def normalize(value: Any) -> Any:
    """A date or a time as the number that metadata have."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - EPOCH) // (EPOCH.resolution)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


@given(draw_rows())
def test_every_row_is_in_the_part_of_the_values_that_iceberg_gives_it(
    drawn: tuple[list[dict[str, Any] | None], tuple[PartitionTerm, ...]],
) -> None:
    rows, terms = drawn
    placement = TablePlacement("orders", TableLayout(terms), [None] * len(terms))
    batch = build_batch(rows)
    parts = list(placement.split(batch))
    assert len({values for values, _ in parts}) == len(parts)
    assert sorted(place for _, part in parts for place in part.column("place").to_pylist()) == list(range(len(rows)))
    for values, part in parts:
        places = part.column("place").to_pylist()
        assert places == sorted(places)
        assert part.equals(batch.take(pa.array(places)))
        for place in places:
            for term, value in zip(terms, values, strict=True):
                name = term.column.removeprefix("in.")
                transform = parse_transform(term.transform_name).transform(KINDS[name][1])
                assert value == normalize(transform((rows[place] or {}).get(name)))


@given(draw_rows())
def test_bounds_are_the_least_and_the_greatest_value_of_the_columns_that_have_an_order(
    drawn: tuple[list[dict[str, Any] | None], tuple[PartitionTerm, ...]],
) -> None:
    rows, terms = drawn
    placement = TablePlacement("orders", TableLayout(terms), [None] * len(terms))
    bounds = placement.measure(build_batch(rows))
    expected = {}
    for number, name in enumerate(KINDS):
        present = [normalize(row[name]) for row in rows if row is not None and row.get(name) is not None]
        if present and name not in {"flag", "id"} and f"in.{name}" in {term.column for term in terms}:
            expected[number + 10] = (min(present), max(present))
    assert bounds == expected
