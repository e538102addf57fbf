"""Whatever happened to the log and to its schemas, the typed table's rows are the oracle's winners, decoded plainly."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import mmh3
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.latest_state import compute_latest_state
from tests.integration.test_latest_table import HOUR_MS, STRATEGIES, History, create, draw_steps, update
from tests.integration.test_typed_table import SYSTEM, read_table
from tests.support.in_process_jobs import prefer_tasks, run_latest_job
from tests.support.random_logs import HEADER
from tests.support.world import TOPIC, FakeClock, World, open_world
from winnow.clock import read_wall_clock_ms
from winnow.engine import latest_update, task_planning
from winnow.log.topic_configuration import set_config
from winnow.pipeline.spark import plan_job
from winnow.schemas import row_decoders
from winnow.schemas.documents import SchemaDocument, SchemaId
from winnow.schemas.schema_cache import KeptDocuments
from winnow.values.formats import Format
from winnow.values.model import Record
from winnow.values.strategies import Strategy

_leaf = st.sampled_from(["int", "long", "float", "double", "string", "boolean"])
_type = st.one_of(
    _leaf,
    _leaf.map(lambda kind: {"type": "array", "items": kind}),
    _leaf.map(lambda kind: {"type": "map", "values": kind}),
    st.dictionaries(st.sampled_from(["x", "y"]), _leaf, min_size=1).map(lambda fields: ("record", fields)),
)
_schemas = st.lists(st.dictionaries(st.sampled_from(["a", "b", "C", "c"]), _type, min_size=1), min_size=1, max_size=4)
_appends = st.tuples(
    st.just("append"),
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.integers(-2, 3), st.integers(0, 6)),
        min_size=1,
        max_size=5,
    ),
)


def make_avro_schema(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {
                "name": field,
                "type": ["null", make_avro_schema(kind[1], f"{name}_{field}") if isinstance(kind, tuple) else kind],
            }
            for field, kind in fields.items()
        ],
    }


LAYOUTS: dict[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    "": lambda row: (),
    "bucket(3, key)": lambda row: ((mmh3.hash(row["key"]) & 0x7FFFFFFF) % 3,),
    "hours(__timestamp), bucket(1, key)": lambda row: (int(row["__timestamp"].timestamp()) // 3_600, 0),
    "__timestamp": lambda row: (round(row["__timestamp"].timestamp() * 1_000) * 1_000,),
}
"""Ways to partition, and the place of a row."""
ORDERS = {"bucket(3, key)": "__timestamp desc nulls last"}
"""Ways to sort, by that of partitioning."""

LEAVES: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number - 3,
    "long": lambda number: 2**40 + number,
    "float": lambda number: number + 0.5,
    "double": lambda number: number + 0.1,
    "boolean": lambda number: number % 2 == 0,
    "string": lambda number: f"s{number}",
}


def make_value(kind: Any, number: int) -> Any:
    """A value of that type, or null; the number makes it differ from others."""
    if number % 5 == 4:
        return None
    match kind:
        case {"items": item}:
            return [make_value(item, 2) for _ in range(number % 3)]
        case {"values": item}:
            return {f"k{place}": make_value(item, 2) for place in range(number % 3)}
        case ("record", fields):
            return {name: make_value(inner, number + place) for place, (name, inner) in enumerate(fields.items())}
    return LEAVES[kind](number)


class TypedHistory(History):
    """Values of several schemas, some of which nobody can decode."""

    def __init__(self, world: World, strategy: Strategy, schemas: Sequence[dict[str, Any]]) -> None:
        super().__init__(world, strategy)
        self.schemas = [make_avro_schema(fields, f"Row{number}") for number, fields in enumerate(schemas)]
        self.fields = schemas
        self.layout = ""

    def partition(self, layout: str) -> None:
        """Partition and sort the table in another way from its next update on."""
        self.layout = layout
        wanted = {"winnow.latest.partition_by": layout, "winnow.latest.sort_by": ORDERS.get(layout, "")}
        set_config(self.world.installation.log.open(TOPIC), wanted, [])

    def append(self, wanted: list[tuple[bytes, int, int]]) -> None:  # type: ignore[override]
        ends = [self.world.state(partition).log_end_offset for partition in range(2)]
        rows = []
        for key, choice, rank in wanted:
            partition = self.written % 2
            timestamp_ms = self.world.clock() - 40 * HOUR_MS + rank
            headers = ((HEADER, rank.to_bytes(8, "big")),)
            value = self.encode(choice)
            rows.append(Record(ends[partition], key, value, timestamp_ms, headers, partition=partition))
            ends[partition] += 1
            self.written += 1
        self.world.ingest(sorted(rows, key=lambda row: row.partition))

    def encode(self, choice: int) -> bytes | None:
        """A tombstone (-2), bytes of no schema (-1), or a value of one."""
        if choice == -2:
            return None
        if choice == -1:
            return b"\xff" * (self.written % 9)
        number = choice % len(self.schemas)
        stream = io.BytesIO(b"\x00" + number.to_bytes(4, "big"))
        stream.seek(0, io.SEEK_END)
        value = {name: make_value(kind, self.written) for name, kind in self.fields[number].items()}
        fastavro.schemaless_writer(stream, fastavro.parse_schema(self.schemas[number]), value)
        return stream.getvalue()

    def update(self, _: int) -> None:
        if update(self.world).reflects is not None:
            self.check()
            self.check_places()
            assert not update(self.world).changed

    def check(self) -> None:
        winners = compute_latest_state(self.world.read(), self.strategy, HEADER).values()
        expected = {(winner.partition, winner.offset): winner for winner in winners}
        rows = {(row["__partition"], row["__offset"]): row for row in read_table(self.world)}
        assert rows.keys() == expected.keys()
        for place, winner in expected.items():
            self.check_row(rows[place], winner)

    def check_places(self) -> None:
        """Each file has rows of one place."""
        table = self.world.installation.log.catalog.load_table(("winnow_latest", TOPIC))
        for task in table.scan().plan_files():
            names = ["key", "__timestamp", "__partition"]
            rows = pq.read_table(task.file.file_path.removeprefix("file://"), columns=names).to_pylist()
            place = tuple(task.file.partition[number] for number in range(len(table.spec().fields)))
            assert {(row["__partition"], *LAYOUTS[self.layout](row)) for row in rows} == {place}

    def check_row(self, row: dict[str, Any], winner: Record) -> None:
        columns = {name: value for name, value in row.items() if name not in SYSTEM and name != "key"}
        assert row["key"] == winner.key
        decoded = self.decode(winner.value or b"")
        if decoded is None:
            assert row["__raw"] == winner.value
            assert row["__error"].startswith("value: ")
            decoded = {}
        else:
            assert (row["__raw"], row["__error"]) == (None, None)
        expect_fields(decoded, columns)

    def decode(self, value: bytes) -> dict[str, Any] | None:
        if len(value) < 5 or value[0] != 0:
            return None
        number = int.from_bytes(value[1:5], "big")
        found = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(self.schemas[number]), None)
        assert isinstance(found, dict)
        return found


class JsonHistory(TypedHistory):
    """The same values as JSON, which has no schema."""

    def encode(self, choice: int) -> bytes | None:
        value = super().encode(choice)
        decoded = None if value is None else super().decode(value)
        return value if decoded is None else json.dumps(decoded).encode()

    def decode(self, value: bytes) -> dict[str, Any] | None:
        try:
            found = json.loads(value)
        except ValueError:
            return None
        assert isinstance(found, dict)
        return found


def expect_fields(decoded: dict[str, Any], columns: dict[str, Any]) -> None:
    """Each value that is not null is in exactly one column named after its field, and no column has another."""
    shown = {name: value for name, value in columns.items() if not is_nothing(value)}
    for field, value in decoded.items():
        if is_nothing(value):
            continue
        names = [name for name in shown if name.partition("__")[0] == field and is_equal(value, shown[name])]
        assert names, f"{field} = {value!r} is in no column of {shown}"
        del shown[names[0]]
    assert not shown


def is_nothing(value: Any) -> bool:
    """Null, or a struct of nothing else: which of two columns for structs has it cannot be told. Empty lists, too."""
    return value is None or value == [] or (isinstance(value, dict) and all(map(is_nothing, value.values())))


def is_equal(value: Any, shown: Any) -> bool:
    if isinstance(value, dict) and isinstance(shown, list):  # Arrow's maps are lists of pairs
        return value == dict(shown)
    if isinstance(value, dict) and isinstance(shown, dict):
        try:
            expect_fields(value, shown)
        except AssertionError:
            return False
        return True
    if isinstance(value, bool) or isinstance(shown, bool):
        return value is shown
    return bool(value == shown)


def keep_documents(schemas: Iterable[dict[str, Any]]) -> KeptDocuments:
    documents: dict[SchemaId, SchemaDocument] = {
        number: SchemaDocument("AVRO", json.dumps(schema)) for number, schema in enumerate(schemas)
    }
    return KeptDocuments("the test", documents)


@pytest.mark.parametrize(
    ("kind", "strategy"), [*((Format.AVRO, strategy) for strategy in STRATEGIES), (Format.JSON, Strategy.OFFSET)]
)
@settings(max_examples=settings().max_examples // 16)
@given(
    steps=draw_steps(_appends, 2, 5),
    small_files=st.integers(1, 8),
    schemas=_schemas,
    in_tasks=st.booleans(),
    layouts=st.lists(st.sampled_from(sorted(LAYOUTS)), max_size=2),
)
def test_rows_equal_the_oracle_s_winners_after_any_history(
    steps: list[tuple[str, Any]],
    kind: Format,
    strategy: Strategy,
    small_files: int,
    schemas: list[dict[str, Any]],
    in_tasks: bool,
    layouts: list[str],
) -> None:
    lake = {"WINNOW_SCHEMA_REGISTRY__URL": "http://localhost"}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder), FakeClock(read_wall_clock_ms()), lake) as opened,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(latest_update, "MAXIMUM_SMALL_FILES", small_files)
        patch.setattr(task_planning, "MINIMUM_PART_BYTES", 1)
        patch.setattr(plan_job, "run_job", run_latest_job)
        world = prefer_tasks(opened) if in_tasks else opened
        create(world, 2, cleanup_policy="compact,delete", delete_retention_ms=str(HOUR_MS))
        config = {
            "compaction.strategy": strategy.value,
            "compaction.strategy.header": HEADER,
            "winnow.late.arrival.ms": "0",
            "winnow.retired.grace.ms": str(5 * HOUR_MS),
            "winnow.value.format": kind.value,
        }
        set_config(world.installation.log.open(TOPIC), config, [])
        history = (JsonHistory if kind is Format.JSON else TypedHistory)(world, strategy, schemas)
        patch.setattr(row_decoders, "open_registry", lambda _: keep_documents(history.schemas))
        for place, (step, argument) in enumerate([*steps, ("update", 0)]):
            if place % 4 == 0 and layouts:
                history.partition(layouts.pop())
            getattr(history, step)(argument)
