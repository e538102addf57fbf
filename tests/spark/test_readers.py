"""What ``winnow connect`` and ``winnow latest`` print works when it is pasted: read by Spark, as the oracle has it."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from oracle.latest_state import compute_latest_state
from tests.support.iceberg_spark import ask_spark, run_spark
from tests.support.object_store import start_object_store
from tests.support.reader_environments import find_environment, list_requirements
from tests.support.rest_catalog import serve_rest_catalog
from tests.support.world import World, build_versions, open_world, record
from winnow.log.namespaces import DEFAULT_NAMESPACE
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.connect.connect import WRITERS, write_connection
from winnow.pipeline.connect.table_access import StoreKind, describe_access
from winnow.pipeline.latest.reader_names import ReaderName, SqlEngine
from winnow.pipeline.latest.records import build_query, choose_table
from winnow.pipeline.latest.sql import build_latest_sql
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.value_columns import parse_columns
from winnow.pipeline.latest.view import replace_view
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.values.model import Record
from winnow.values.strategies import Strategy

HEADER = "it's v"


def fill(world: World, topic: str, strategy: Strategy, seed: int) -> None:
    """Two partitions with late versions, tombstones and headers of every kind, partly compacted."""
    chosen = random.Random(seed)
    more = {"compaction_strategy_header": HEADER} if strategy is Strategy.HEADER else {}
    world.create(
        2,
        topic,
        cleanup_policy="compact,delete",
        segment_ms="1",
        min_cleanable_dirty_ratio="0",
        compaction_strategy=strategy.value,
        **more,
    )
    for part in range(2):
        records = [_make_record(chosen, n + 40 * part, partition) for partition in range(2) for n in range(40)]
        world.ingest(records, topic=topic)
        if part == 0:
            world.compact(topic=topic)


def _make_record(chosen: random.Random, offset: int, partition: int) -> Record:
    version = chosen.choice([-(2**63), -1, 0, 1, 5, 2**56]).to_bytes(8, "big", signed=True)
    headers = [("x", b"1"), (HEADER, chosen.choice([version, version, version, None, b"", b"nine byte"]))]
    value = None if chosen.random() < 0.3 else json.dumps({"n": offset, "s": f"v{offset}"}).encode()
    return Record(
        offset,
        chosen.choice([b"a", b"b", b"c", b"d", b"e", b"\xff"]),
        value,
        chosen.choice([None, *range(5)]),
        tuple(headers[: chosen.randrange(3)]) or None,
        partition=partition,
    )


def expect(world: World, topic: str, strategy: Strategy) -> set[tuple[Any, ...]]:
    """Partition, key, value and offset of the latest state, by the oracle, of what readers see."""
    latest = compute_latest_state(world.read(topic=topic), strategy, HEADER)
    assert 4 < len(latest) < 12
    return {(place[0], place[1].hex(), (each.value or b"").hex(), each.offset) for place, each in latest.items()}


def as_state(rows: list[list[Any]]) -> set[tuple[Any, ...]]:
    """Rows of partition, key, value, offset and timestamp, without the last."""
    assert len(rows) == len({(row[0], row[1]) for row in rows})
    return {tuple(row[:4]) for row in rows}


def test_spark_reads_the_latest_state_of_the_embedded_catalog_under_every_strategy(tmp_path: Path) -> None:
    """Settings and queries as printed, and the side table; with a log start inside a file, and a name in quotes."""
    with open_world(tmp_path) as world:
        topics = {strategy: f"shop.{strategy.value}-1" for strategy in Strategy}
        for seed, (strategy, topic) in enumerate(topics.items()):
            fill(world, topic, strategy, seed)
        delete_records(world.installation, topics[Strategy.OFFSET], {0: 61, 1: 3})
        queries = []
        for topic in topics.values():
            query = build_query(
                load_topic_view(world.installation, topic), choose_table(SqlEngine.SPARK, DEFAULT_NAMESPACE, topic)
            )
            queries.append(build_latest_sql(SqlEngine.SPARK, query))
        columns = parse_columns(["n:long", "s:string", "missing:double"])
        typed = build_query(
            load_topic_view(world.installation, topic), choose_table(SqlEngine.SPARK, DEFAULT_NAMESPACE, topic), columns
        )
        queries.append(build_latest_sql(SqlEngine.SPARK, typed, as_text=True))
        for topic in topics.values():
            set_config(world.installation.log.open(topic), {"winnow.latest.table": "true"}, [])
            update_latest_table(world.installation, topic)
            queries.append(f"SELECT partition, key, value, offset, timestamp FROM winnow.winnow_latest.`{topic}`")

        answers = ask_spark(tmp_path, write_connection(world.installation, topic, ReaderName.SPARK), queries)

        *by_query, as_text = answers[: len(topics) + 1]
        by_table = answers[len(topics) + 1 :]
        for (strategy, topic), queried, table in zip(topics.items(), by_query, by_table, strict=True):
            assert as_state(queried) == as_state(table) == expect(world, topic, strategy), strategy
        wanted = expect(world, topics[Strategy.HEADER], Strategy.HEADER)
        assert {(row[0], row[2], row[3], row[4]) for row in as_text} == {
            (partition, offset, f"v{offset}", None) for partition, _, _, offset in wanted
        }


def test_spark_reads_the_view_that_a_rest_catalog_holds(tmp_path: Path) -> None:
    """The catalog has views: the latest state is one, and it is replaced when it is created again."""
    with serve_rest_catalog() as (_, address), open_world(tmp_path, lake={"WINNOW_CATALOG__URI": address}) as world:
        fill(world, "orders", Strategy.TIMESTAMP, 7)
        view = load_topic_view(world.installation, "orders")
        assert replace_view(world.installation, view, (), as_text=True) == "winnow_latest_views.orders"
        name = replace_view(world.installation, view, (), as_text=False)
        program = write_connection(world.installation, "orders", ReaderName.SPARK)
        document = f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) FROM winnow.{create_typed_view(world)}"

        answers = ask_spark(tmp_path, program, [f"SELECT * FROM winnow.{name}", document])

        assert as_state(answers[0]) == expect(world, "orders", Strategy.TIMESTAMP)
        shown = [(row["city"], row["address"], row["__offset"]) for row in (json.loads(line) for (line,) in answers[1])]
        assert shown == [("Ulm", {"street": "Hof"}, 0), ("Bonn", None, 2)]
        assert "__raw" not in answers[1][0][0]


def create_typed_view(world: World) -> str:
    """A view of a topic with typed columns, one of whose values is no JSON."""
    topic = "shop.typed"
    world.create(1, topic, winnow_latest_table="true", winnow_value_format="json")
    values = [b'{"city": "Ulm", "address": {"street": "Hof"}}', b"no json", b'{"city": "Bonn"}']
    world.ingest([record(n, b"key-%d" % n, value) for n, value in enumerate(values)], topic=topic)
    update_latest_table(world.installation, topic)
    replace_view(world.installation, load_topic_view(world.installation, topic), (), as_text=False)
    return f"winnow_latest_views.`{topic}`"


SITUATIONS = ("empty", "shop.or-ders", "deleted", "partitioned", "binary", "typed")
RUN_HERE = (ReaderName.PYICEBERG, ReaderName.PANDAS, ReaderName.POLARS, ReaderName.DUCKDB)
"""Programs of packages that are among the project's own."""

RUN_PROGRAMS = """
import runpy, sys

for name in sys.argv[1:]:
    print("program", name)
    runpy.run_path(name, run_name="__main__")
"""

ASK_CHDB = """
import os, pathlib, sys
from chdb import session

os.chdir(pathlib.Path(__file__).parent)  # only what is below may be read
log = session.Session()
for statement in pathlib.Path(sys.argv[1]).read_text().split(";\\n"):
    if statement.strip():
        sys.stdout.write(log.query(statement, "TSV").bytes().decode("latin1"))
"""


@dataclass(frozen=True)
class Programs:
    """What ``winnow connect`` prints by reader and topic, and the values that readers see by topic.

    ``newest_ms``: the newest timestamp of the typed topic.
    """

    texts: Mapping[ReaderName, Mapping[str, str]]
    values: Mapping[str, list[str]]
    latest_sql: Mapping[str, str]
    newest_ms: int
    folder: Path


def fill_situations(world: World) -> None:
    """Topics without a record, with a dot, after delete-records, of several files, of bytes, and of typed columns."""
    world.create(2, "empty")
    world.create(1, "shop.or-ders")
    world.ingest(build_versions(0, 5), topic="shop.or-ders")
    world.create(1, "deleted", cleanup_policy="compact,delete")
    world.ingest(build_versions(0, 9), topic="deleted")
    delete_records(world.installation, "deleted", {0: 4})
    world.create(3, "partitioned", segment_ms="1", min_cleanable_dirty_ratio="0")
    world.ingest(build_versions(0, 8), topic="partitioned")
    world.compact(topic="partitioned")
    world.ingest([*build_versions(0, 4, partition=2), *build_versions(8, 2)], topic="partitioned")
    world.create(1, "binary")
    world.ingest([record(n, b"key-%d" % n, b"\x00\xffvalue-0-%d" % n) for n in range(3)], topic="binary")
    world.create(1, "typed", winnow_latest_table="true", winnow_key_format="string", winnow_value_format="json")
    fields: list[dict[str, Any]] = [{}, {"n": 1}, {"inner": {"list": [1]}}, {"inner": {"list": [2], "later": "x"}}]
    for n, more in enumerate(fields):
        world.ingest([record(n, b"key-%d" % n, json.dumps({"said": f"value-0-{n}", **more}).encode())], topic="typed")
        update_latest_table(world.installation, "typed")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """The programs for each topic; Trino's is not among them, since it cannot read SQLite."""
    folder = tmp_path_factory.mktemp("readers")
    with open_world(folder) as world:
        fill_situations(world)
        readers = [reader for reader in ReaderName if reader is not ReaderName.TRINO]
        yield Programs(
            {
                reader: {each: write_connection(world.installation, each, reader) for each in SITUATIONS}
                for reader in readers
            },
            {topic: read_values(world, topic) for topic in SITUATIONS},
            {topic: write_latest_sql(world, topic) for topic in SITUATIONS if topic != "typed"},
            max(found.timestamp_ms or 0 for found in world.read(topic="typed")),
            folder,
        )


def read_values(world: World, topic: str) -> list[str]:
    values = b" ".join(found.value or b"" for found in world.read(topic=topic))
    return [name.decode() for name in re.findall(rb"value-\d-\d", values)]


def write_latest_sql(world: World, topic: str) -> str:
    table = choose_table(SqlEngine.CLICKHOUSE, DEFAULT_NAMESPACE, topic)
    return build_latest_sql(SqlEngine.CLICKHOUSE, build_query(load_topic_view(world.installation, topic), table))


def test_topics_hold_the_records_that_are_expected_of_readers(programs: Programs) -> None:
    """Else the tests below would compare nothing; a file holds records below the log start."""
    assert programs.values == {
        "empty": [],
        "shop.or-ders": [f"value-0-{n}" for n in range(5)],
        "deleted": [f"value-0-{n}" for n in range(4, 9)],
        "partitioned": [f"value-{p}-{n}" for p, numbers in ((0, range(5, 10)), (2, range(4))) for n in numbers],
        "binary": [f"value-0-{n}" for n in range(3)],
        "typed": [f"value-0-{n}" for n in range(4)],
    }
    assert '"offset" < 4' in programs.texts[ReaderName.DUCKDB]["deleted"]


def check_answer(programs: Programs, topic: str, answer: str) -> None:
    """Each value that readers see is there once, in order, and as text where it is text."""
    spelled = r"76 ?61 ?6C ?75 ?65 ?2D ?3(\d) ?2D ?3(\d)"
    shown = re.sub(spelled, r"value-\1-\2", answer, flags=re.IGNORECASE) if topic == "binary" else answer
    assert re.findall(r"value-\d-\d", shown) == programs.values[topic], (topic, answer)
    assert topic == "empty" or "key-" in answer, (topic, answer)
    assert topic == "binary" or "b'" not in answer, (topic, answer)


def run_in_python(programs: Mapping[str, str], folder: Path, python: str | Path = sys.executable) -> dict[str, str]:
    """Run programs, by topic, as files of their own in one Python; what each printed."""
    folder.mkdir(parents=True)
    for topic, text in programs.items():
        (folder / f"{topic}.py").write_text(text)
    names = [f"{topic}.py" for topic in programs]
    printed = run(RUN_PROGRAMS, folder / "all", python, "-W", "ignore", "pasted", *(f"../{name}" for name in names))
    answers = re.split(r"^program .*$", printed, flags=re.MULTILINE)[1:]
    return dict(zip(programs, answers, strict=True))


def run_each(programs: Programs, reader: ReaderName, *command: str | Path, path: Path | None = None) -> None:
    """Run the program for each topic in a folder of its own, and check what it prints."""
    for topic, text in programs.texts[reader].items():
        folder = programs.folder / reader.value / topic
        check_answer(programs, topic, run(text, folder, *command, folder / "pasted", path=path))


def run(program: str, folder: Path, *command: str | Path, path: Path | None = None) -> str:
    """Run ``command`` in ``folder``, in which ``pasted`` is the program; ``path``: where commands are looked for."""
    folder.mkdir(parents=True)
    (folder / "pasted").write_text(program)
    env = {**os.environ, "COLUMNS": "200", "PATH": f"{path or folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(each) for each in command], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("reader", RUN_HERE)
def test_python_readers_print_records_when_they_are_pasted(
    programs: Programs, tmp_path: Path, reader: ReaderName
) -> None:
    """In every situation, as in a notebook."""
    for topic, answer in run_in_python(programs.texts[reader], tmp_path / "programs").items():
        check_answer(programs, topic, answer)


def test_daft_prints_records_when_its_program_is_pasted(programs: Programs, tmp_path: Path) -> None:
    """In an environment with what its first line names, and nothing else."""
    python = find_environment(list_requirements(programs.texts[ReaderName.DAFT]["empty"])) / "python"
    for topic, answer in run_in_python(programs.texts[ReaderName.DAFT], tmp_path / "programs", python).items():
        check_answer(programs, topic, answer)


def test_dbt_builds_and_shows_its_model_when_its_project_is_pasted(programs: Programs) -> None:
    """In an environment with what its first line names, and nothing else; it knows how old the newest typed row is."""
    commands = find_environment(list_requirements(programs.texts[ReaderName.DBT]["empty"]))
    run_each(programs, ReaderName.DBT, "sh", path=commands)
    found = json.loads((programs.folder / "dbt" / "typed" / "winnow_dbt" / "target" / "sources.json").read_text())
    (freshness,) = found["results"]
    newest = datetime.fromtimestamp(programs.newest_ms / 1000, UTC)
    assert datetime.fromisoformat(freshness["max_loaded_at"]) == newest
    assert freshness["status"] == "warn"


def test_clickhouse_prints_records_when_its_statements_are_pasted(programs: Programs) -> None:
    """By the ClickHouse that is in chdb; and the latest state over its view of the table."""
    commands = find_environment(["chdb"])
    (programs.folder / "ask.py").write_text(ASK_CHDB)
    asked = [commands / "python", programs.folder / "ask.py"]
    run_each(programs, ReaderName.CLICKHOUSE, *asked)
    for topic, query in programs.latest_sql.items():
        program = programs.texts[ReaderName.CLICKHOUSE][topic].partition("SELECT partition")[0] + query
        folder = programs.folder / "latest" / topic
        answer = run(program, folder, *asked, folder / "pasted")
        assert sorted(re.findall(r"value-\d-\d", answer)) == LATEST[topic], topic


LATEST = {
    "empty": [],
    "shop.or-ders": ["value-0-2", "value-0-3", "value-0-4"],
    "deleted": ["value-0-6", "value-0-7", "value-0-8"],
    "partitioned": ["value-0-7", "value-0-8", "value-0-9", "value-2-1", "value-2-2", "value-2-3"],
    "binary": ["value-0-0", "value-0-1", "value-0-2"],
}


def test_spark_prints_records_when_its_programs_are_pasted(programs: Programs, tmp_path: Path) -> None:
    """One after the other in one session, as in a notebook."""
    printed = run_spark(tmp_path, programs.texts[ReaderName.SPARK].values())
    answers = re.split(r"\|partition\|offset\|timestamp|\|said +\|", printed)
    for topic, answer in zip(SITUATIONS, answers[1:], strict=True):
        check_answer(programs, topic, answer)


@pytest.mark.parametrize("reader", [ReaderName.POLARS, ReaderName.DUCKDB])
def test_programs_for_azure_read_through_fsspec(programs: Programs, tmp_path: Path, reader: ReaderName) -> None:
    """As they are printed for Azure, over files: fsspec finds the store by the address."""
    with open_world(programs.folder) as world:
        accesses = {
            each: describe_access(world.installation.settings, load_topic_view(world.installation, each))
            for each in SITUATIONS
        }
    texts = {each: WRITERS[reader](replace(access, store=StoreKind.AZURE)) for each, access in accesses.items()}
    assert all("fsspec" in text or "reader_override" in text for text in texts.values())
    for topic, answer in run_in_python(texts, tmp_path / "programs").items():
        check_answer(programs, topic, answer)


def test_python_readers_print_records_of_a_lake_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the endpoint in the program, and credentials from the environment."""
    with start_object_store() as objects:
        for name, value in objects.variables.items():
            monkeypatch.setenv(name, value)
        objects.create_bucket("lake")
        lake = {"WINNOW_WAREHOUSE": "s3://lake/warehouse", "WINNOW_STAGING": "s3://lake/staging"}
        with open_world(tmp_path, lake=lake) as world:
            world.create(1, "empty")
            world.create(2, "shop.orders")
            world.ingest([*build_versions(0, 4), *build_versions(0, 3, partition=1)], topic="shop.orders")
            programs = {
                reader: {each: write_connection(world.installation, each, reader) for each in ("empty", "shop.orders")}
                for reader in (*RUN_HERE, ReaderName.DAFT)
            }
        expected = {"empty": [], "shop.orders": [f"value-0-{n}" for n in range(4)] + [f"value-1-{n}" for n in range(3)]}
        for reader, texts in programs.items():
            python = Path(sys.executable)
            if reader is ReaderName.DAFT:
                python = find_environment(list_requirements(texts["empty"])) / "python"
            for topic, answer in run_in_python(texts, tmp_path / reader.value, python).items():
                assert re.findall(r"value-\d-\d", answer) == expected[topic], (reader, answer)
