"""Warehouse and staging on an S3 server: every step reads and writes there, and says so when it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.support import in_process_spark
from tests.support.cli_runner import find_location, make_topic, winnow
from tests.support.foreign_tables import create_kafka_table, make_catalog, make_rows
from tests.support.key_changes import read_offset_changes
from tests.support.object_store import REGION, ObjectStore, find_free_port, start_object_store
from tests.support.path_watch import may_be_named
from tests.support.world import (
    TOPIC,
    FakeClock,
    build_versions,
    compute_survivors,
    json_line,
    list_visible_rows,
    open_world,
    record,
)
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.engine.damage import explain_failure
from winnow.engine.latest_records import build_latest_plan
from winnow.engine.winners import build_scan_sql
from winnow.errors import ServiceError, ValidationBrokenError, ValidationFailedError, WinnowError
from winnow.files import duckdb_connection, object_store, storage
from winnow.log import document_copies
from winnow.log.snapshot_expiry import collect_references
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.explain.changes import OffsetBounds
from winnow.pipeline.installation import open_installation
from winnow.pipeline.latest.records import read_latest_batches
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.adoption import adopt_all
from winnow.pipeline.topics.recovery import recover_topic
from winnow.pipeline.topics.topic_view import load_topic_view

BUCKET = "lake"
LAKE = {"WINNOW_WAREHOUSE": f"s3://{BUCKET}/warehouse", "WINNOW_STAGING": f"s3://{BUCKET}/staging"}
OTHER_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    """One S3 server for the tests of this file."""
    with start_object_store() as store:
        yield store


@pytest.fixture
def bucket(server: ObjectStore, monkeypatch: pytest.MonkeyPatch, winnow_home: Path) -> Iterator[ObjectStore]:
    """The server with an empty bucket, which the environment names as the lake."""
    for name in OTHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in (server.variables | LAKE).items():
        monkeypatch.setenv(name, value)
    server.create_bucket(BUCKET)
    yield server
    if server.has_bucket(BUCKET):
        server.remove_bucket(BUCKET)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """``winnow compact`` starts no JVM; all its other steps are the real ones."""
    monkeypatch.setattr(driver, "submit_plans", in_process_spark.submit)


def live_files() -> set[str]:
    """Every file that topic and quarantine refer to, as they spell it."""
    with open_installation() as installation:
        table = installation.log.open(TOPIC).head().table
        found = collect_references(table)
        named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        return named | found.data | found.manifests | found.manifest_lists | found.states


def test_a_topic_on_s3_is_ingested_from_s3_compacted_judged_read_and_swept(
    bucket: ObjectStore, without_spark: None
) -> None:
    """Record for record what the oracle keeps, and after the sweep no data file but those that the table names."""
    records = build_versions(0, 40) + build_versions(0, 40, partition=1)
    storage.write_bytes(
        f"s3://{BUCKET}/incoming/day 1 [a]%.jsonl".replace("%", "%25"),
        "".join(f"{json_line(each)}\n" for each in records).encode(),
    )
    winnow(
        "topics", "create", TOPIC, "--partitions", 2,
        "--config", "segment.ms=1000", "--config", "winnow.retired.grace.ms=0",
    )  # fmt: skip

    winnow("ingest", "files", TOPIC, f"s3://{BUCKET}/incoming")
    assert [row["eligible"] for row in winnow("assess", TOPIC, "--json").document] == [True, True]
    (receipt,) = winnow("compact", TOPIC, "--json").document
    read = [json.loads(line) for line in winnow("read", TOPIC).stdout.splitlines()]

    assert receipt["status"] == "published"
    kept = compute_survivors(records)
    assert [(each["partition"], each["offset"]) for each in read] == [(each.partition, each.offset) for each in kept]
    assert read == [json.loads(json_line(each)) for each in kept]
    swept = winnow("sweep", TOPIC, "--json").document[0]
    assert (swept["files_deleted"] > 0, swept["files_waiting"]) == (True, 0)
    there = {f"s3://{BUCKET}/{key}" for key in bucket.keys(BUCKET)}
    live = live_files()
    assert live <= there
    data = f"{find_location(TOPIC)}/data/"
    assert {uri for uri in there if uri.startswith(data)} == {uri for uri in live if uri.startswith(data)}
    assert read == [json.loads(line) for line in winnow("read", TOPIC).stdout.splitlines()]


def test_a_store_that_answers_again_when_it_is_asked_why_is_no_fault_of_a_partition(
    bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was away while the engine read, so the next run tries again and nothing is marked uncleanable."""
    make_topic(TOPIC, tmp_path / "in.jsonl")
    with open_installation() as installation:
        log = load_topic_view(installation, TOPIC).partitions[0]
    plan = build_latest_plan(0, 0, 0, log.state.log_end_offset, log.segments)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{find_free_port()}")
    with (
        duckdb_connection.open_connection(
            memory_limit_bytes=256 << 20, threads=1, spill_folder=str(tmp_path), uris=[plan.segments[0].path]
        ) as connection,
        pytest.raises(duckdb.Error) as failed,
    ):
        connection.execute(f"SELECT count(*) FROM {build_scan_sql(plan.segments)}")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.endpoint)
    assert isinstance(explain_failure(failed.value, TOPIC, plan), ServiceError)


def test_only_keys_that_a_record_can_name_are_written_and_deleted(
    bucket: ObjectStore, without_spark: None, tmp_path: Path
) -> None:
    """Seen in the server's requests, whichever library made them; objects of others beside the topic's stay."""
    before = len(bucket.list_changes(BUCKET))
    make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000", "winnow.retired.grace.ms=0"])
    folder, plans = find_location(TOPIC), f"s3://{BUCKET}/staging/plans/{TOPIC}"
    foreign = [f"{folder}/data/notes.txt", f"{folder}/metadata/notes.json", f"{folder}/notes.csv", f"{plans}/mine"]
    for each in foreign:
        storage.write_bytes(each, b"somebody else's")
    winnow("compact", TOPIC)
    for _ in range(3):
        winnow("sweep", TOPIC)
    answer = winnow("topics", "delete", TOPIC, "--now", "--yes")
    own = {each.removeprefix(f"s3://{BUCKET}/") for each in foreign}
    changes = [(method, key) for method, key in bucket.list_changes(BUCKET)[before:] if key not in own]
    assert {method for method, _ in changes} >= {"PUT", "DELETE"}
    places = [key.partition("/") for _, key in changes]
    assert [key for lake, _, key in places if key and not may_be_named(lake, key)] == []
    assert [storage.read_bytes(each) for each in foreign] == [b"somebody else's"] * len(foreign)
    assert [key for method, key in bucket.list_changes(BUCKET) if key in own and method == "DELETE"] == []
    assert " 3 paths that no record of the topic names: left in " in answer.stdout


def test_documents_on_s3_are_read_from_their_copies_and_put_back(
    bucket: ObjectStore, without_spark: None, tmp_path: Path
) -> None:
    """Every object that Iceberg does not know is taken out of the table's folder; a sweep writes it again."""
    make_topic(TOPIC, tmp_path / "orders.jsonl")
    read = winnow("read", TOPIC).stdout
    with open_installation() as installation:
        head = installation.log.open(TOPIC).head()
    documents = [file.uri for file in storage.list_files(head.documents.folder)]
    copies = [file.uri for file in storage.list_files(head.copies)]
    assert [storage.read_bytes(each) for each in documents] == [storage.read_bytes(each) for each in copies] != []
    for each in documents:
        storage.delete(each)
    document_copies.forget_read_from_copies(TOPIC)
    answer = winnow("read", TOPIC)
    assert (answer.stdout, head.copies in answer.stderr) == (read, True)
    assert winnow("sweep", TOPIC, "--json").document[0]["documents_restored"] == len(documents) > 1
    assert [file.uri for file in storage.list_files(head.documents.folder)] == documents


def test_nothing_in_the_lake_or_the_store_says_how_the_object_store_is_reached(
    bucket: ObjectStore, without_spark: None, tmp_path: Path, winnow_home: Path
) -> None:
    """Neither endpoint nor credentials are in a plan, a manifest, a state, a table or the metadata store."""
    make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000"])
    said = winnow("compact", TOPIC, "--json")
    told = [said.stdout.encode(), said.stderr.encode(), winnow("settings").stdout.encode()]
    objects = [storage.read_bytes(f"s3://{BUCKET}/{key}") for key in bucket.keys(BUCKET)]
    databases = [path.read_bytes() for path in winnow_home.rglob("*") if path.is_file()]

    assert len(objects) > 5
    for access in (bucket.endpoint, *(bucket.variables[name] for name in bucket.variables if "KEY" in name)):
        assert not [text for text in (*told, *objects, *databases) if access.encode() in text]


def test_keyless_records_move_to_the_quarantine_on_s3(bucket: ObjectStore, tmp_path: Path) -> None:
    """Written by the engine, adopted by the commit, read back by whoever asks."""
    with open_world(tmp_path, lake=LAKE) as world:
        world.create(1, cleanup_policy="delete", winnow_keyless="quarantine", min_cleanable_dirty_ratio="0")
        world.ingest([record(0, b"a", b"1"), record(1, None, b"keyless"), record(2, b"a", b"2")])
        set_config(world.installation.log.open(TOPIC), {"cleanup.policy": "compact"}, ())

        receipt = world.compact()

        assert receipt is not None
        log = world.installation.log
        rows = list_visible_rows(log.quarantine(TOPIC), world.head().state)
        assert [each.offset for each in world.read()] == [2]
        aside = f"{log.quarantine(TOPIC).location}/data/".removeprefix(f"s3://{BUCKET}/")
    assert rows.column("value").to_pylist() == [b"keyless"]
    assert [key for key in bucket.keys(BUCKET) if key.startswith(aside)]


def test_latest_state_and_changes_are_read_from_s3(bucket: ObjectStore, tmp_path: Path) -> None:
    """By DuckDB over Arrow's client, as a compaction reads."""
    with open_world(tmp_path, lake=LAKE) as world:
        world.create()
        world.ingest([record(0, b"a", b"x"), record(1, b"b", b"y")])
        world.ingest([record(2, b"a", b"z"), record(3, b"b", None)])
        latest = [row for batch in read_latest_batches(world.installation, TOPIC) for row in batch.to_pylist()]
        changed = read_offset_changes(world.installation, TOPIC, OffsetBounds(2), OffsetBounds())
        changes = [(row["change"], row["key"]) for batch in changed for row in batch.to_pylist()]
    assert [(row["key"], row["value"]) for row in latest] == [(b"a", b"z")]
    assert changes == [("deleted", b"b"), ("updated", b"a")]


def test_table_of_the_latest_state_is_kept_and_swept_on_s3(bucket: ObjectStore, tmp_path: Path) -> None:
    """Files that hold a changed row are found by their names, written anew, and deleted after their grace."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), lake=LAKE) as world:
        world.create(1, segment_ms="1", min_cleanable_dirty_ratio="0", winnow_retired_grace_ms="1000")
        set_config(world.installation.log.open(TOPIC), {"winnow.latest.table": "true"}, [])
        world.ingest([record(0, b"a", b"x"), record(1, b"b", b"y")])
        update_latest_table(world.installation, TOPIC)
        world.ingest([record(2, b"a", b"z"), record(3, b"b", None), record(4, b"c", b"n")])
        assert world.compact() is not None
        table = world.installation.log.latest_table(TOPIC).table()
        assert table is not None
        rows = table.scan().to_arrow().to_pylist()
        world.clock.now_ms += 3_600_000
        sweep_topics(world.installation, [TOPIC])
        assert table.refresh().scan().to_arrow().to_pylist() == rows
        folder = f"{world.installation.log.latest_table(TOPIC).location}/data/".removeprefix(f"s3://{BUCKET}/")
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [(2, b"a", b"z"), (4, b"c", b"n")]
    assert len([key for key in bucket.keys(BUCKET) if key.startswith(folder) and key.endswith(".parquet")]) == 1


def test_validation_on_s3_finds_a_staged_file_that_lost_a_byte(bucket: ObjectStore, tmp_path: Path) -> None:
    """The second computation reads the objects, not what the engine remembers of them."""
    with open_world(tmp_path, lake=LAKE) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        world.ingest(build_versions(0, 12))
        plan = world.plan(world.clock())
        assert plan is not None
        (staged,) = world.stage(plan).partitions[0].rewrites[0].outputs
        storage.write_bytes(staged.path, storage.read_bytes(staged.path)[:-1])

        with pytest.raises(ValidationFailedError) as caught:
            validate_attempt(world.installation, plan.plan_id, "a1")

    assert not isinstance(caught.value, ValidationBrokenError)
    assert f"{TOPIC}-0" in str(caught.value)


def test_a_missing_bucket_is_a_sentence_and_exit_six(bucket: ObjectStore, tmp_path: Path) -> None:
    """Before there is a topic, and after the bucket of a topic was taken away."""
    bucket.remove_bucket(BUCKET)
    created = winnow("topics", "create", TOPIC, "--partitions", 1, code=6)
    assert "NO_SUCH_BUCKET" in created.stderr
    assert "nothing was begun or changed" in created.stderr

    bucket.create_bucket(BUCKET)
    make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000"])
    location = find_location(TOPIC)
    bucket.remove_bucket(BUCKET)
    for command in (("assess", TOPIC), ("compact", TOPIC), ("read", TOPIC), ("sweep", TOPIC)):
        answer = winnow(*command, code=6)
        assert f"{location}/metadata/".removeprefix("s3://") in answer.stderr, command
        assert "bucket" in answer.stderr, command
        assert "Traceback" not in answer.stderr, command


def test_a_staging_bucket_that_is_missing_stops_the_run_and_leaves_the_log_as_it_was(
    bucket: ObjectStore, without_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan could not be written; once the bucket is there, the same command goes through."""
    make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000"])
    before = bucket.keys(BUCKET)
    monkeypatch.setenv("WINNOW_STAGING", "s3://scratch/winnow")

    refused = winnow("compact", TOPIC, code=6)

    assert "does not serve s3://scratch/winnow/plans/orders/" in refused.stderr
    assert bucket.keys(BUCKET) == before
    bucket.create_bucket("scratch")
    assert winnow("compact", TOPIC, "--json").document[0]["status"] == "published"


def test_an_object_store_that_is_away_is_a_sentence_and_exit_six(
    bucket: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the command wanted of it."""
    path = make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000"])
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{find_free_port()}")
    for command in (("assess", TOPIC), ("ingest", "files", TOPIC, path), ("read", TOPIC)):
        answer = winnow(*command, code=6)
        assert "object store does not serve" in answer.stderr, command
        assert "AWS_ENDPOINT_URL_S3" in answer.stderr, command


def test_properties_of_the_catalog_reach_what_is_beside_the_tables_and_started_processes(
    bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch, without_spark: None, tmp_path: Path
) -> None:
    """An installation that says ``s3.endpoint`` once, as PyIceberg's users do, needs no AWS variable."""
    names = ("ENDPOINT", "REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    for name, (variable, value) in zip(names, bucket.variables.items(), strict=True):
        # Set before it is unset, so that what the command exports goes with the test.
        monkeypatch.setenv(variable, value)
        monkeypatch.delenv(variable)
        monkeypatch.setenv(f"WINNOW_CATALOG__S3__{name}", value)

    make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000"])

    assert winnow("compact", TOPIC, "--json").document[0]["status"] == "published"
    said = "import os, json; print(json.dumps({n: v for n, v in os.environ.items() if n.startswith('AWS_')}))"
    inherited = subprocess.run([sys.executable, "-c", said], capture_output=True, check=True).stdout
    assert bucket.variables.items() <= json.loads(inherited).items()


def test_files_are_spelled_as_they_were_written_whatever_the_name(bucket: ObjectStore) -> None:
    """A listing names what a writer named, and DuckDB reads exactly that file and no pattern's."""
    folder = f"s3://{BUCKET}/odd"
    names = ["a[1]*.csv", "a1x.csv", "space ü.csv", "deep/er/b.csv"]
    for number, name in enumerate(names):
        storage.write_bytes(storage.join(folder, name), f"n\n{number}\n".encode())

    assert {entry.uri for entry in storage.list_files(folder)} == {storage.join(folder, name) for name in names}
    assert {entry.size_bytes for entry in storage.list_files(folder)} == {4}
    connection = duckdb_connection.connect(memory_limit_bytes=64 << 20, spill_folder="/nowhere-yet", uris=[folder])
    try:
        for number, name in enumerate(names):
            files = duckdb_connection.quote_file_list([storage.join(folder, name)])
            assert duckdb_connection.fetch_one_row(connection, f"SELECT n FROM read_csv({files})") == (number,)
        loaded = "SELECT extension_name FROM duckdb_extensions() WHERE loaded"
        assert "httpfs" not in {name for (name,) in connection.execute(loaded).fetchall()}
    finally:
        connection.close()


def test_deleting_is_done_once_and_a_missing_file_is_fine(bucket: ObjectStore) -> None:
    """The sweep may be killed and begun again."""
    uri = f"s3://{BUCKET}/a/b"
    storage.write_bytes(uri, b"x")
    storage.delete(uri)
    storage.delete(uri)
    assert (storage.exists(uri), storage.read_size_bytes(uri), storage.list_files(f"s3://{BUCKET}/a")) == (
        False,
        None,
        [],
    )
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(uri)


def test_a_refusal_names_the_place_and_no_credentials(bucket: ObjectStore) -> None:
    """What the object store answered is said once, with what to look at."""
    with pytest.raises(ServiceError, match="does not serve s3://nowhere/x") as caught:
        storage.write_bytes("s3://nowhere/x", b"")
    assert bucket.variables["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


@pytest.mark.parametrize(
    ("catalog", "env", "expected"),
    [
        ({}, {}, {}),
        ({}, {"AWS_REGION": "eu-west-1"}, {"s3.region": "eu-west-1"}),
        ({}, {"AWS_DEFAULT_REGION": "eu-west-1"}, {"s3.region": "eu-west-1"}),
        ({}, {"AWS_ENDPOINT_URL": "http://a"}, {"s3.endpoint": "http://a", "s3.region": "us-east-1"}),
        (
            {},
            {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b", "AWS_REGION": "r"},
            {"s3.endpoint": "http://b", "s3.region": "r"},
        ),
        (
            {"s3.endpoint": "http://c"},
            {"AWS_ENDPOINT_URL": "http://a"},
            {"s3.endpoint": "http://c", "s3.region": "us-east-1"},
        ),
        ({"client.region": "x"}, {"AWS_REGION": "r"}, {"client.region": "x"}),
    ],
)
def test_the_catalog_is_told_endpoint_and_region_and_nothing_secret(
    catalog: dict[str, str], env: dict[str, str], expected: dict[str, str]
) -> None:
    """The catalog's own properties win; credentials are for Arrow's client to find."""
    secret = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
    assert object_store.add_store_properties(catalog, env | secret) == expected


@pytest.mark.parametrize("location", ["s3://lake/a%20b", "s3://lake/a?b", "s3://lake/#1", "file:///srv/50%"])
def test_a_location_that_readers_would_spell_in_two_ways_is_refused(
    monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    """Tables, and the files beside them, must lie in one place."""
    monkeypatch.setenv("WINNOW_WAREHOUSE", location)
    assert "must not hold '%', '#' or '?'" in winnow("topics", "list", code=2).stderr


def test_a_lake_under_the_name_that_hadoop_gives_it_is_the_same_lake(
    bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch, without_spark: None, tmp_path: Path
) -> None:
    """Tables of Spark users are often spelled so."""
    monkeypatch.setenv("WINNOW_WAREHOUSE", f"s3a://{BUCKET}/warehouse")
    make_topic(TOPIC, tmp_path / "in.jsonl", config=["segment.ms=1000"])
    assert winnow("compact", TOPIC, "--json").document[0]["status"] == "published"
    assert len(winnow("read", TOPIC).stdout.splitlines()) == 3


def test_settings_of_the_lake_stay_as_they_were_spelled(bucket: ObjectStore) -> None:
    """What tables remember is what was configured."""
    settings = load_settings()
    assert (settings.warehouse, settings.staging) == tuple(LAKE.values())


def test_an_iceberg_table_on_the_server_is_ingested_by_its_name_and_by_its_place(
    bucket: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog's own configuration names no endpoint: the environment's counts, as for all else."""
    place = {"s3.endpoint": bucket.endpoint, "s3.region": REGION}
    catalog = make_catalog(tmp_path / "catalog", monkeypatch, f"s3://{BUCKET}/foreign", **place)
    table = create_kafka_table(catalog)
    table.append(make_rows(build_versions(0, 5)))
    done = winnow("ingest", "iceberg", "orders", "lake.shop.orders", "--create", "--json").document
    assert done["records_appended"] == 5
    table.append(make_rows(build_versions(5, 2)))
    again = winnow("ingest", "iceberg", "orders", table.metadata_location, "--json").document
    assert again["records_appended"] == 2
    (entry,) = winnow("inspect", table.metadata_location, "--json").document
    assert entry["records"] == 7


def test_a_topic_is_adopted_and_recovered_from_a_bucket(bucket: ObjectStore, tmp_path: Path) -> None:
    """What lies there is found by listing, and proven as on a disk."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), bucket.variables | LAKE) as world:
        world.create(1, min_cleanable_dirty_ratio="0")
        world.ingest(build_versions(0, 6))
        location, catalog, identifier = (
            world.head().location,
            world.installation.log.catalog,
            world.installation.log.identify(TOPIC),
        )
        older = world.head().table.metadata_location
        world.compact()
        world.ingest(build_versions(6, 3))
        before = world.read()
        assert isinstance(catalog, LogSqlCatalog)
        catalog.swap_metadata(identifier, world.head().table.metadata_location, older)
        recover_topic(world.installation, TOPIC, run=True)
        assert world.read() == before
        catalog.drop_table_at(identifier, world.head().table.metadata_location)
        ((folder, report),) = adopt_all(world.installation, run=True)
        assert storage.get_name(folder.location) == storage.get_name(location)
        assert not isinstance(report, WinnowError)
        assert world.read() == before


def test_lake_and_its_backup_in_object_stores_are_restored_by_one_command(
    bucket: ObjectStore, winnow_home: Path, tmp_path: Path
) -> None:
    """The bucket of the lake is lost with everything; a damaged object of the backup is named."""
    make_topic(TOPIC, tmp_path / "in.jsonl")
    before = winnow("read", TOPIC).stdout
    bucket.create_bucket("backups")
    destination = "s3://backups/winnow"
    made = winnow("backup", "create", destination, "--json").document
    assert winnow("backup", "create", destination, "--json").document["files_copied"] == 0
    assert made["files_copied"] == made["files"]
    bucket.remove_bucket(BUCKET)
    bucket.create_bucket(BUCKET)
    winnow_home.rename(tmp_path / "lost")
    (path,) = [entry.uri for entry in storage.list_files(destination) if entry.uri.endswith(".parquet")]
    content = storage.read_bytes(path)
    storage.write_bytes(path, content[:-1] + b"?")
    assert path.rpartition("/")[2] in winnow("backup", "verify", destination, code=4).stdout
    assert path.rpartition("/")[2] in winnow("backup", "restore", destination, code=4).stderr
    assert winnow("topics", "list", "--json").document == []
    storage.write_bytes(path, content)
    winnow("backup", "restore", destination)
    assert winnow("read", TOPIC).stdout == before
    bucket.remove_bucket("backups")
