"""A suite over typed columns, and rows that could not be decoded: what is committed, and what is alerted."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_typed_table import create, encode, read_topic_columns, update, write_schema
from tests.support.world import TOPIC, World, define_world, record
from winnow.errors import ConfigurationError, ValidationBrokenError, ValidationFailedError
from winnow.pipeline.monitor.watch import watch_topics
from winnow.pipeline.topics.definition import alter_topic
from winnow.values.results import OpenAlert

world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""

SECRET = "moon-of-jupiter"
"""A value that no message, page or alert may show."""
SHOP = {
    "type": "record",
    "name": "Shop",
    "fields": [
        {"name": "city", "type": ["null", "string"]},
        {"name": "visits", "type": ["null", "long"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "opened", "type": {"type": "int", "logicalType": "date"}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "owner", "type": {"type": "record", "name": "Owner", "fields": [{"name": "code", "type": "string"}]}},
    ],
}
BETWEEN, NOT_NULL = "expect_column_values_to_be_between", "expect_column_values_to_not_be_null"
IN_SET, MATCH = "expect_column_values_to_be_in_set", "expect_column_values_to_match_regex"


def expect(kind: str, column: str, severity: str = "critical", **kwargs: object) -> dict[str, Any]:
    return {
        "id": f"{column.replace('.', '_').lower()}_holds",
        "type": kind,
        "severity": severity,
        "kwargs": {"column": column, **kwargs},
        "meta": {"sentence": f"{column} is as agreed."},
    }


def install(world: World, *expectations: dict[str, Any]) -> None:
    folder = world.folder / "suites"
    folder.mkdir(exist_ok=True)
    suite = {"name": "shop_rows", "expectations": expectations}
    (folder / "shop_rows.json").write_text(json.dumps(suite))
    settings = world.installation.settings.model_copy(update={"expectations": folder})
    world.installation = replace(world.installation, settings=settings)


def create_shop(world: World, tmp_path: Path, *expectations: dict[str, Any]) -> None:
    install(world, *expectations)
    schema = write_schema(tmp_path, SHOP)
    create(world, winnow_value_format="avro", winnow_value_schema=schema, winnow_latest_expectations="shop_rows")


def make_shop(**fields: object) -> bytes:
    shop = {
        "city": "Kiel",
        "visits": 1,
        "price": Decimal("9.50"),
        "opened": 19_000,
        "seen": 10**12,
        "owner": {"code": "A1"},
    }
    return encode(SHOP, shop | fields)


def list_open(world: World) -> list[OpenAlert]:
    return [row for row in world.installation.store.alerts.list_open() if row.kind.startswith("latest_")]


@pytest.mark.parametrize(
    ("expectation", "bad"),
    [
        (expect(BETWEEN, "visits", min_value=0, max_value=2**53 + 1), {"visits": 2**53 + 2}),
        (expect(BETWEEN, "price", min_value=0), {"price": Decimal("-0.01")}),
        (expect(BETWEEN, "opened", min_value="2000-01-01"), {"opened": 0}),
        (expect(BETWEEN, "seen", min_value="2000-01-01T00:00:00"), {"seen": 0}),
        (expect(NOT_NULL, "city"), {"city": None}),
        (expect(IN_SET, "city", value_set=["Kiel", "Bonn"]), {"city": SECRET}),
        (expect(MATCH, "owner.code", regex="^[A-Z][0-9]$"), {"owner": {"code": SECRET}}),
    ],
    ids=["whole", "decimal", "date", "timestamp", "null", "set", "nested"],
)
def test_rows_that_violate_the_suite_are_not_shown_and_named_by_field_count_and_offset(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, expectation: dict[str, Any], bad: dict[str, Any]
) -> None:
    """The alert, the error and the page say where they are, and nothing of what they are."""
    create_shop(world, tmp_path, expectation)
    column = expectation["kwargs"]["column"]
    world.ingest([record(0, b"a", make_shop()), record(1, b"b", make_shop(visits=None))])
    update(world)
    before = read_topic_columns(world)
    world.ingest([record(2, b"c", make_shop()), record(3, b"d", make_shop(**bad)), record(4, b"e", make_shop(**bad))])
    with pytest.raises(ValidationFailedError) as caught:
        update(world)
    said = f"Field {column}: violated in 2 of 3 rows that were written, the first at offset 3, 4"
    assert said in str(caught.value)
    assert read_topic_columns(world) == before
    (alert,) = list_open(world)
    assert (alert.kind, alert.partition) == ("latest_rejected", 0)
    assert said in alert.message
    pages = [path for path in (world.folder / "home").rglob("*.html") if "shop_rows" in path.read_text()]
    assert pages
    shown = "".join(path.read_text() for path in (world.folder / "home").rglob("*.html"))
    assert not any(SECRET in text for text in (shown, caplog.text, str(caught.value), alert.message))
    world.ingest([record(5, b"d", make_shop()), record(6, b"e", make_shop())])
    assert update(world).rows == 5
    assert list_open(world) == []


def test_rows_that_violate_an_expectation_of_severity_warning_are_shown_and_alerted_once(
    world: World, tmp_path: Path
) -> None:
    create_shop(world, tmp_path, expect(NOT_NULL, "city", "warning"))
    world.ingest([record(0, b"a", make_shop(city=None))])
    assert update(world).rows == 1
    (alert,) = list_open(world)
    assert (alert.kind, alert.partition) == ("latest_suspect", 0)
    assert "Field city: violated in 1 of 1 rows that were written, the first at offset 0" in alert.message
    world.ingest([record(1, b"a", make_shop())])
    update(world)
    assert list_open(world) == []


def test_rows_that_could_not_be_decoded_are_no_matter_of_the_suite(world: World, tmp_path: Path) -> None:
    """They have no fields; their own limit counts them."""
    create_shop(world, tmp_path, expect(NOT_NULL, "city"))
    world.ingest([record(0, b"a", make_shop()), record(1, b"b", b"\xff")])
    assert update(world).rows_not_decoded == 1


def test_a_suite_that_names_a_column_that_there_is_not_leaves_the_table_as_it_was(world: World, tmp_path: Path) -> None:
    """It would hold for ever, and judge nothing."""
    create_shop(world, tmp_path, expect(BETWEEN, "owner.age", min_value=0))
    world.ingest([record(0, b"a", make_shop())])
    with pytest.raises(ConfigurationError, match=r"names the column owner\.age"):
        update(world)
    assert world.installation.log.latest_table(TOPIC).table() is None


def test_a_check_that_raises_leaves_the_table_as_it_was(world: World, tmp_path: Path) -> None:
    create_shop(world, tmp_path, expect(BETWEEN, "owner", min_value=0))
    world.ingest([record(0, b"a", make_shop())])
    with pytest.raises(ValidationBrokenError, match="nothing is known about the data"):
        update(world)
    assert [alert.kind for alert in list_open(world)] == ["latest_rejected"]


def test_undecoded_rows_are_alerted_above_the_limit_with_their_partition_and_first_offsets(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """They are in the table all the same, and nothing of their bytes is told."""
    create(world, winnow_value_format="json", winnow_latest_max_undecoded_ratio="0.5")
    world.ingest([record(number, b"%d" % number, b"{}" if number < 5 else SECRET.encode()) for number in range(10)])
    with caplog.at_level(logging.DEBUG):
        update(world)
        assert list_open(world) == []
        world.ingest([record(10, b"0", SECRET.encode())])
        assert update(world).rows == 10
    (alert,) = list_open(world)
    assert (alert.kind, alert.partition) == ("latest_suspect", 0)
    assert "6 of 10 rows could not be decoded, the first at offset 5, 6, 7" in alert.message
    assert SECRET not in caplog.text + alert.message
    world.ingest([record(0, b"x", b"{}", partition=1)])
    update(world)
    assert len(list_open(world)) == 1
    world.ingest([record(11, b"0", b"{}")])
    update(world)
    assert list_open(world) == []


def test_one_undecoded_row_is_alerted_where_nothing_is_allowed(world: World) -> None:
    create(world, winnow_value_format="json")
    world.ingest([record(number, b"%d" % number, b"{}") for number in range(99)] + [record(99, b"k", b"{")])
    update(world)
    (alert,) = list_open(world)
    assert "1 of 100 rows could not be decoded, the first at offset 99" in alert.message
    alter_topic(world.installation, TOPIC, {"winnow.latest.table": "false"}, [])
    watch_topics(world.installation)
    assert list_open(world) == []
