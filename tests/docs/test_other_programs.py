"""The recipe for each program: files as it documents them, what `inspect` says of them, and the command of the page."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.docs.runbook import prompt_program, run_block, sections
from tests.support.cli_runner import winnow

PAGE = "other-programs.md"
NOW = 1_795_525_509_123
MOMENT = datetime.fromtimestamp(NOW // 1000, UTC).replace(microsecond=123_000)
FLINK = "part-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d-{}-0"
Expected = Sequence[Mapping[str, Any]]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a prompt ``winnow``."""
    with prompt_program("winnow", tmp_path_factory.mktemp("bin")) as folder:
        yield folder


def expect(offset: int, key: str | None, value: str | None, **others: Any) -> dict[str, Any]:
    """A record as `winnow read --text` gives it; a field that the program does not keep is left out."""
    return {"partition": 1, "offset": offset, "key": key, "value": value, **others}


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_flink(folder: Path) -> Expected:
    """Two subtasks, Parquet with the timestamps of 96 bits that Flink writes, and a file that is not finished."""
    kinds = pa.schema(
        [
            ("customer", pa.binary()),
            ("payload", pa.binary()),
            ("kafka_partition", pa.int32()),
            ("kafka_offset", pa.int64()),
            ("kafka_timestamp", pa.timestamp("ms")),
            ("kafka_headers", pa.map_(pa.string(), pa.binary())),
        ]
    )
    moment = MOMENT.replace(tzinfo=None)
    for subtask, row in enumerate(
        [(b"c1", b"placed", 1, 17, moment, [("trace", b"x")]), (b"c1", None, 1, 18, moment, [])]
    ):
        table = pa.Table.from_pylist([dict(zip(kinds.names, row, strict=True))], kinds)
        pq.write_table(table, folder / FLINK.format(subtask), use_deprecated_int96_timestamps=True)
    (folder / f".{FLINK.format(2)}.inprogress.1").write_bytes(b"PAR1")
    return [
        expect(17, "c1", "placed", timestamp=NOW, headers=[{"key": "trace", "value": "x"}]),
        expect(18, "c1", None, timestamp=NOW, headers=[]),
    ]


def write_snowflake(folder: Path) -> Expected:
    """Parquet; numbers without a fraction are decimals there, whatever their SQL type is called."""
    number = pa.decimal128(38, 0)
    kinds = pa.schema(
        [
            ("partition", number),
            ("offset", number),
            ("createtime", number),
            ("key", pa.string()),
            ("value", pa.string()),
        ]
    )
    rows = [(1, 17, NOW, "c1", '{"state":"placed"}'), (1, 18, NOW + 1, "c1", None)]
    cells = [dict(zip(kinds.names, map(_to_decimal, row), strict=True)) for row in rows]
    pq.write_table(pa.Table.from_pylist(cells, kinds), folder / "data_0_0_0.snappy.parquet")
    return [
        expect(17, "c1", '{"state":"placed"}', timestamp=NOW),
        expect(18, "c1", None, timestamp=NOW + 1),
    ]


def _to_decimal(value: Any) -> Any:
    return Decimal(value) if isinstance(value, int) else value


def write_bigquery(folder: Path) -> Expected:
    """Avro; every column may be null, and structures are records."""

    def optional(kind: Any) -> list[Any]:
        return ["null", kind]

    data = [("topic", "string"), ("partition", "long"), ("offset", "long")]
    kafka = {
        "type": "record",
        "name": "KafkaData",
        "fields": [
            *({"name": name, "type": optional(kind)} for name, kind in data),
            {"name": "insertTime", "type": optional({"type": "long", "logicalType": "timestamp-micros"})},
        ],
    }
    fields = [("id", "string"), ("amount", "long"), ("kafkaData", kafka)]
    schema = {
        "type": "record",
        "name": "Root",
        "fields": [{"name": name, "type": optional(kind)} for name, kind in fields],
    }
    rows = [
        {
            "id": "c1",
            "amount": amount,
            "kafkaData": {"topic": "orders", "partition": 1, "offset": offset, "insertTime": MOMENT},
        }
        for offset, amount in ((17, 5), (18, None))
    ]
    with (folder / "orders000000000000.avro").open("wb") as stream:
        fastavro.writer(stream, schema, rows, codec="deflate")
    return [expect(17, "c1", '{"id":"c1","amount":5}'), expect(18, "c1", '{"id":"c1","amount":null}')]


def write_vector(folder: Path) -> Expected:
    """JSON lines under gzip, members in the order of their names; the object's name is a time and a random id."""
    rows = [
        {
            "headers": {"trace": "x"},
            "message": "a b",
            "message_key": "c1",
            "offset": offset,
            "partition": 1,
            "source_type": "kafka",
            "timestamp": "2026-11-24T13:05:09.123Z",
            "topic": topic,
        }
        for offset, topic in ((17, "orders"), (18, "orders"))
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    name = "1795525509-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d.log.gz"
    (folder / name).write_bytes(gzip.compress(text.encode()))
    headers = [{"key": "trace", "value": "x"}]
    return [expect(offset, "c1", "a b", timestamp=NOW, headers=headers) for offset in (17, 18)]


def write_logstash(folder: Path) -> Expected:
    """JSON lines with Logstash's own members beside those that the filter copied."""
    rows = [
        {
            "@timestamp": "2026-11-24T13:05:10.000Z",
            "@version": "1",
            "event": {"original": message},
            "kafka": {
                "topic": "orders",
                "consumer_group": "logstash",
                "partition": 1,
                "offset": offset,
                "key": "c1",
                "timestamp": NOW,
            },
            "message": message,
        }
        for offset, message in ((17, "a b"), (18, ""))
    ]
    write_lines(folder / "ls.s3.0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d.2026-11-24T13.05.part0.txt", rows)
    return [expect(17, "c1", "a b", timestamp=NOW), expect(18, "c1", None, timestamp=NOW)]


def write_fluent_bit(folder: Path) -> Expected:
    """JSON lines with the six members of its Kafka input, behind the time at which it was read."""
    rows = [
        {"date": 1795525510.123456, "topic": "orders", "partition": 1, "offset": offset, "error": None, **fields}
        for offset, fields in (
            (17, {"key": "c1", "payload": "a b"}),
            (18, {"key": "c1", "payload": None}),
        )
    ]
    write_lines(folder / "fluent-bit-logs-2026-11-24-13-05-10-objectAbCdEfGh", rows)
    return [expect(17, "c1", "a b"), expect(18, "c1", None)]


PROGRAMS = {
    "Flink": (write_flink, "--map offset=kafka_offset --map partition=kafka_partition"),
    "Snowflake": (write_snowflake, "--map offset=offset --map partition=partition --map key=key --map value=value"),
    "BigQuery": (
        write_bigquery,
        "--map offset=kafkaData.offset --map partition=kafkaData.partition --map topic=kafkaData.topic",
    ),
    "Vector": (write_vector, "--map offset=offset --map partition=partition --map key=message_key --map value=message"),
    "Logstash": (
        write_logstash,
        "--map offset=kafka.offset --map partition=kafka.partition --map key=kafka.key --map value=message",
    ),
    "Fluent Bit": (write_fluent_bit, None),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_recipe_gives_the_records_of_the_topic(
    program: str, tmp_path: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, said = PROGRAMS[program]
    folder = tmp_path / program.lower().replace(" ", "-")
    folder.mkdir()
    expected = write(folder)
    if said is None:
        assert "winnow ingest files orders" in winnow("inspect", folder).stdout
    else:
        refused = winnow("inspect", folder, code=3).stderr
        assert "what wrote it is not recognised" in refused
        assert said in refused
    (block,) = sections(PAGE)[program].blocks()
    run_block(block, tmp_path, {}, first_on_path=scripts)
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / ".winnow"))
    found = [json.loads(line) for line in winnow("read", "orders", "--text").stdout.splitlines()]
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert {name: row[name] for name in wanted} == wanted


def test_every_recipe_is_run() -> None:
    assert set(sections(PAGE)) == set(PROGRAMS)
