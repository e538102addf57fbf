"""Topics whose files only vended credentials open: Iceberg's own REST catalog, and a store that checks each request.

No environment has a key of the store. The store serves a vended session within its table's folder, until it ends.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from tests.support import in_process_spark
from tests.support.cli_runner import find_location, winnow, winnow_process
from tests.support.guarded_object_store import ADMIN_KEY, ADMIN_SECRET, GuardedObjectStore, start_guarded_store
from tests.support.iceberg_rest_server import serve_iceberg_rest
from tests.support.object_store import REGION
from tests.support.vending_front import LOGIN, NAME, VendingFront, serve_vending_front
from tests.support.world import FakeClock, compute_survivors, json_line, record, write_jsonl
from winnow.clock import Clock, read_wall_clock_ms
from winnow.engine import rewrite
from winnow.errors import ConfigurationError, ServiceError
from winnow.files import storage
from winnow.files.parquet_writer import RollingParquetWriter
from winnow.files.vended_credentials import RestCatalogClient, TableName, VendedFileSystem, VendedStores
from winnow.pipeline.compaction import batch, driver, publish
from winnow.pipeline.doctor.check_runner import CheckStatus
from winnow.pipeline.installation import open_installation

pytestmark = pytest.mark.timeout(900)

WAREHOUSE = "s3://lake/warehouse"
SHARED = f"{WAREHOUSE}/winnow_shared/documents/_winnow"
FAILED = CheckStatus.FAILURE.value
SETTINGS = ("--config", "segment.ms=1000", "--config", "winnow.retired.grace.ms=0")
RECORDS = [
    record(
        offset, f"key-{offset % 5}".encode(), None if offset % 7 == 0 else f"value-{offset}".encode(), 1_700_000_000_000
    )
    for offset in range(60)
]


@pytest.fixture(scope="module")
def store() -> Iterator[GuardedObjectStore]:
    """The store with its bucket."""
    with start_guarded_store() as running:
        running.create_bucket("lake")
        yield running


@pytest.fixture(scope="module")
def server(store: GuardedObjectStore) -> Iterator[VendingFront]:
    """The catalog, which alone has a key of its own."""
    s3 = {
        "s3.endpoint": store.endpoint,
        "s3.access-key-id": ADMIN_KEY,
        "s3.secret-access-key": ADMIN_SECRET,
        "s3.path-style-access": "true",
        "client.region": REGION,
    }
    with (
        tempfile.TemporaryDirectory(prefix="winnow-vended-") as folder,
        serve_iceberg_rest(Path(folder), WAREHOUSE, s3) as catalog,
        serve_vending_front(catalog.uri, store.endpoint) as front,
    ):
        yield front


@pytest.fixture(autouse=True)
def catalog(server: VendingFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VendingFront:
    """The front as it is at first, and the settings for it: no key of the store anywhere."""
    server.lifetime, server.vends, server.available = timedelta(hours=1), True, True
    for name in [name for name in os.environ if name.startswith(("AIRFLOW", "AWS_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "WINNOW_HOME": str(tmp_path / "home"),
        "WINNOW_CATALOG__TYPE": "rest",
        "WINNOW_CATALOG__URI": server.uri,
        "WINNOW_CATALOG__CREDENTIAL": LOGIN,
        "WINNOW_CATALOG__WAREHOUSE": NAME,
        "WINNOW_NAMESPACE": "winnow",
        "WINNOW_WAREHOUSE": WAREHOUSE,
        "WINNOW_STAGING": f"{SHARED}/staging",
        "WINNOW_VENDED_CREDENTIALS": "true",
        # Each home is an installation of its own, and the server has one warehouse for all tests.
        "WINNOW_WAREHOUSE_SHARED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """``winnow compact`` starts no JVM; all its other steps are the real ones."""
    monkeypatch.setattr(driver, "submit_plans", in_process_spark.submit)


def make(topic: str, folder: Path, *settings: str) -> None:
    """A topic with the records of this file."""
    winnow("topics", "create", topic, "--partitions", "1", *SETTINGS, *settings)
    winnow("ingest", "files", topic, write_jsonl(folder / f"{topic}.jsonl", RECORDS))


def offsets(topic: str) -> list[int]:
    """The offsets of a topic's records."""
    return [json.loads(line)["offset"] for line in winnow("read", topic).stdout.splitlines()]


def find_segment(topic: str) -> str:
    """One file of a topic's records."""
    with open_installation() as installation:
        log = installation.log.open(topic)
        return log.segments(log.head())[0][0].path


def open_stores(catalog: VendingFront, now_ms: Clock) -> VendedStores:
    """The stores of a process that begins, with the catalog's list of what it vended emptied."""
    catalog.vended.clear()
    client = RestCatalogClient({"uri": catalog.uri, "credential": LOGIN}, NAME)
    return VendedStores(client, WAREHOUSE, "winnow", open_own=fail, env={}, now_ms=now_ms)


def fail(bucket: str) -> fs.FileSystem:
    """Nothing is outside of the warehouse."""
    raise AssertionError(f"{bucket} was opened with access of its own")


def read_all_of(path: str) -> Callable[[fs.FileSystem], bytes]:
    """Reads the file at ``path``."""

    def read(filesystem: fs.FileSystem) -> bytes:
        with filesystem.open_input_file(path) as stream:
            data: bytes = stream.read()
        return data

    return read


def before_publishing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have ``act`` done when a run has been validated."""

    def publish_later(*arguments: Any, **named: Any) -> Any:
        act()
        return publish.publish_attempt(*arguments, **named)

    monkeypatch.setattr(batch, "publish_attempt", publish_later)


def test_a_topic_lives_and_goes_with_vended_credentials_alone(
    store: GuardedObjectStore, catalog: VendingFront, tmp_path: Path, without_spark: None
) -> None:
    """Created, ingested, compacted with keyless records put aside, looked up in its latest table, swept, deleted."""
    make("whole", tmp_path, "--config", "winnow.latest.table=true")
    winnow("compact", "whole")
    read = winnow("read", "whole").stdout.splitlines()
    assert [json.loads(line) for line in read] == [json.loads(json_line(each)) for each in compute_survivors(RECORDS)]
    latest = winnow("latest", "whole").stdout.splitlines()
    assert len(latest) == len({each.key for each in compute_survivors(RECORDS) if each.value is not None})
    winnow("sweep", "whole")
    checks = winnow("doctor", "--json").document
    assert [each for each in checks if each["status"] == FAILED] == []
    place = find_location("whole").removeprefix("s3://lake/")
    assert any(key.startswith(f"{place}/data/") for key in store.keys("lake"))
    assert any(key.startswith("warehouse/winnow_latest/whole-") for key in store.keys("lake"))
    winnow("topics", "delete", "whole", "--now", "--yes")
    left = [key for key in store.keys("lake") if "whole-" in key]
    assert left == []
    assert {name.partition("-")[0] for name in catalog.vended} >= {"whole", "documents"}


def test_no_file_and_no_output_has_a_vended_secret(
    store: GuardedObjectStore, catalog: VendingFront, tmp_path: Path, without_spark: None
) -> None:
    """Neither the home, nor any object of the lake, nor what commands print."""
    make("secretive", tmp_path)
    printed = "".join(winnow(*words).stdout for words in (["compact", "secretive", "--json"], ["settings"], ["doctor"]))
    secrets = [*catalog.secrets, LOGIN.partition(":")[2], *catalog.tokens]
    assert len(catalog.secrets) > 3
    assert [each for each in secrets if each in printed] == []
    texts = [path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()]
    texts += [store.client.open_input_file(f"lake/{key}").read() for key in store.keys("lake")]
    assert [each for each in secrets for text in texts if each.encode() in text] == []


def test_keyless_records_reach_the_quarantine_before_it_has_a_commit(
    catalog: VendingFront, tmp_path: Path, without_spark: None
) -> None:
    """Tasks write below a table that the catalog has to know by then."""
    winnow("topics", "create", "keyless", "--partitions", "1", "--config", "cleanup.policy=delete", *SETTINGS)
    records = [*RECORDS, record(60, None, b"no key", 1_700_000_000_000), record(61, b"last", b"x", 1_700_000_000_000)]
    winnow("ingest", "files", "keyless", write_jsonl(tmp_path / "keyless.jsonl", records))
    winnow("topics", "alter", "keyless", "--config", "cleanup.policy=compact", "--config", "winnow.keyless=quarantine")
    (receipt,) = winnow("compact", "keyless", "--json").document
    assert (receipt["status"], receipt["partitions"][0]["records_keyless"]) == ("published", 1)
    assert any(name.startswith("keyless-") for name in catalog.vended)


def test_credentials_are_asked_for_again_five_minutes_before_they_expire(catalog: VendingFront, tmp_path: Path) -> None:
    """By the clock, so by a process that was paused too; not at each file, and not while the catalog is away."""
    make("lasting", tmp_path)
    path = find_segment("lasting").removeprefix("s3://")
    now = FakeClock(read_wall_clock_ms())
    stores = open_stores(catalog, now)
    for _ in range(3):
        stores.run(path, read_all_of(path))
    assert len(catalog.vended) == 1
    now.now_ms += 54 * 60_000
    stores.run(path, read_all_of(path))
    assert len(catalog.vended) == 1
    now.now_ms += 2 * 60_000
    catalog.available = False
    stores.run(path, read_all_of(path))
    catalog.available = True
    stores.run(path, read_all_of(path))
    assert len(catalog.vended) == 2
    now.now_ms += 61 * 60_000
    catalog.available = False
    with pytest.raises(ServiceError, match="vended no credentials: it answered with the status 503"):
        stores.run(path, read_all_of(path))


def test_a_session_that_ended_early_is_replaced_at_the_next_use(
    store: GuardedObjectStore, catalog: VendingFront, tmp_path: Path
) -> None:
    """Whatever its answer said; so is the token of the catalog. A table that was loaded before works as well."""
    make("ended", tmp_path)
    with open_installation() as installation:
        table = installation.log.open("ended").head().table
        segment = find_segment("ended")
        before = storage.read_bytes(segment)
        store.end_sessions()
        catalog.tokens.clear()
        assert storage.read_bytes(segment) == before
        store.end_sessions()
        assert table.io.new_input(table.metadata_location).exists()
        store.end_sessions()
        storage.write_bytes(f"{SHARED}/staging/probe", b"written")
        store.end_sessions()
        storage.delete(f"{SHARED}/staging/probe")


def test_sessions_that_end_before_a_publish_are_replaced(
    store: GuardedObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_spark: None
) -> None:
    """One run, and what the oracle keeps."""
    make("renewed", tmp_path)
    before_publishing(monkeypatch, store.end_sessions)
    winnow("compact", "renewed")
    assert offsets("renewed") == [each.offset for each in compute_survivors(RECORDS)]


def test_credentials_that_expire_while_publishing_lose_nothing(
    store: GuardedObjectStore,
    catalog: VendingFront,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    without_spark: None,
) -> None:
    """Where the catalog vends no others: it ends as a service that is away, readers see the log as it was."""
    make("refused", tmp_path)

    def stop() -> None:
        store.end_sessions()
        catalog.available = False

    before_publishing(monkeypatch, stop)
    answer = winnow("compact", "refused", code=6)
    assert "cannot be reached" in answer.stderr or "vended no credentials" in answer.stderr
    catalog.available = True
    assert offsets("refused") == list(range(60))
    before_publishing(monkeypatch, lambda: None)
    winnow("compact", "refused")
    assert offsets("refused") == [each.offset for each in compute_survivors(RECORDS)]
    for _ in range(2):
        winnow("sweep", "refused")
    assert offsets("refused") == [each.offset for each in compute_survivors(RECORDS)]


def test_sessions_that_end_between_the_files_of_a_rewrite_are_replaced(
    store: GuardedObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_spark: None
) -> None:
    """Each file is opened with what is valid then."""
    make("midway", tmp_path)
    group = rewrite.copy_group

    def copy_later(*arguments: Any, **named: Any) -> Any:
        store.end_sessions()
        return group(*arguments, **named)

    monkeypatch.setattr(rewrite, "copy_group", copy_later)
    winnow("compact", "midway")
    assert offsets("midway") == [each.offset for each in compute_survivors(RECORDS)]


def test_a_session_that_ends_while_a_file_is_written_fails_the_task_and_loses_nothing(
    store: GuardedObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_spark: None
) -> None:
    """An open file keeps its session; the store refuses the upload, and no manifest names the file."""
    make("halfway", tmp_path)
    close = RollingParquetWriter._close

    def end_and_close(writer: RollingParquetWriter) -> None:
        store.end_sessions()
        close(writer)

    with monkeypatch.context() as patch:
        patch.setattr(RollingParquetWriter, "_close", end_and_close)
        answer = winnow("compact", "halfway", code=6)
    assert "The object store does not serve" in answer.stderr
    assert offsets("halfway") == list(range(60))
    winnow("compact", "halfway")
    assert offsets("halfway") == [each.offset for each in compute_survivors(RECORDS)]


@pytest.mark.parametrize(
    ("command", "written"), [("compact", "ingest-"), ("compact", "a-"), ("read", ""), ("scrub", ""), ("why", "")]
)
def test_a_session_that_ends_while_a_file_is_read_is_no_damage(
    store: GuardedObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    without_spark: None,
    command: str,
    written: str,
) -> None:
    """It is a service that is away: nothing is marked or published, and the next try works.

    ``written``: which files, by a part of their paths; those of an attempt are read first when it is validated.
    """
    topic = f"amid.{command}.{written}"
    make(topic, tmp_path)
    opening = VendedFileSystem.open_input_file

    def open_and_end(filesystem: VendedFileSystem, path: str) -> Any:
        stream = opening(filesystem, path)
        if path.endswith(".parquet") and f"/{written}" in f"/{path.rpartition('/data/')[2]}":
            store.end_sessions()
        return stream

    words = [command, topic, *(["--key", "text:key-1"] if command == "why" else [])]
    with monkeypatch.context() as patch:
        patch.setattr(VendedFileSystem, "open_input_file", open_and_end)
        answer = winnow(*words, code=6)
    assert "object store" in answer.stderr
    with open_installation() as installation:
        assert installation.log.open(topic).head().state.partitions[0].uncleanable is None
    winnow(*words)
    assert offsets(topic) == (
        [each.offset for each in compute_survivors(RECORDS)] if command == "compact" else list(range(60))
    )


def test_an_archive_elsewhere_is_read_with_access_of_ones_own(
    store: GuardedObjectStore, catalog: VendingFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which opens nothing else: the lake is written with what is vended."""
    store.create_bucket("archive")
    with store.client.open_output_stream("archive/in.jsonl") as stream:
        stream.write("".join(f"{json_line(each)}\n" for each in RECORDS).encode())
    own = catalog.assume_role("s3://archive")
    for name, value in {
        "AWS_ENDPOINT_URL_S3": store.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": own["s3.access-key-id"],
        "AWS_SECRET_ACCESS_KEY": own["s3.secret-access-key"],
        "AWS_SESSION_TOKEN": own["s3.session-token"],
    }.items():
        monkeypatch.setenv(name, value)
    winnow("topics", "create", "mixed", "--partitions", "1", *SETTINGS)
    winnow("ingest", "files", "mixed", "s3://archive/in.jsonl")
    assert offsets("mixed") == list(range(60))


def test_a_warehouse_that_the_catalog_does_not_know_is_named(catalog: VendingFront) -> None:
    """Before any table is asked for."""
    client = RestCatalogClient({"uri": catalog.uri, "credential": LOGIN}, "another")
    with pytest.raises(ConfigurationError, match="has no warehouse another"):
        client.load_table(TableName("winnow", "orders"))


def test_a_credential_opens_its_table_and_no_other(catalog: VendingFront, tmp_path: Path) -> None:
    """Each table is asked for by itself; a folder of which the catalog has no table gets none, not a namesake's."""
    make("one", tmp_path)
    make("two", tmp_path)
    one, two = (find_segment(topic).removeprefix("s3://") for topic in ("one", "two"))
    stores = open_stores(catalog, read_wall_clock_ms)
    stores.run(one, read_all_of(one))
    stores.run(two, read_all_of(two))
    assert [name.partition("-")[0] for name in catalog.vended] == ["one", "two"]
    former = re.sub(r"one-[0-9a-f]{8}", "one-00000000", one)
    with pytest.raises(ServiceError, match=r"The catalog has no table winnow.one at s3://lake/warehouse/winnow/one-0"):
        stores.run(former, read_all_of(former))
    with pytest.raises(ConfigurationError, match="is in no table's folder"):
        stores.run("lake/warehouse/winnow", read_all_of("lake/warehouse/winnow"))


def test_what_needs_the_whole_warehouse_is_done_with_a_key_of_ones_own(
    store: GuardedObjectStore, catalog: VendingFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore of a backup, and the adoption of a lost topic: refused at first, and afterwards all is vended."""
    for name, value in {"WINNOW_NAMESPACE": "saved", "WINNOW_STAGING": str(tmp_path / "staging")}.items():
        monkeypatch.setenv(name, value)
    make("kept", tmp_path)
    place = find_location("kept")
    winnow("backup", "create", tmp_path / "backup")
    winnow("topics", "delete", "kept", "--now", "--yes")
    own = {
        "WINNOW_VENDED_CREDENTIALS": "false",
        "AWS_ENDPOINT_URL_S3": store.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ADMIN_KEY,
        "AWS_SECRET_ACCESS_KEY": ADMIN_SECRET,
    }

    def run_with_own_key(*words: object, code: int, told: str) -> None:
        refused = winnow_process(*words)
        assert (refused.exit_code, told in refused.stderr) == (code, True), refused.stderr
        with monkeypatch.context() as patch:
            for name, value in own.items():
                patch.setenv(name, value)
            done = winnow_process(*words)
        assert done.exit_code == 0, done.stderr

    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "restored"))
    run_with_own_key("backup", "restore", tmp_path / "backup", code=2, told="is in no table's folder")
    assert offsets("kept") == list(range(60))
    load_catalog("other", type="rest", uri=catalog.uri, credential=LOGIN, warehouse=NAME, scope="catalog").drop_table(
        ("saved", "kept")
    )
    run_with_own_key("topics", "adopt", "kept", place, "--yes", code=6, told="The catalog has no table saved.kept")
    assert offsets("kept") == list(range(60))
    winnow("sweep", "kept")
    assert offsets("kept") == list(range(60))


def test_erasing_keys_asks_the_bucket_with_a_key_of_ones_own(
    store: GuardedObjectStore, catalog: VendingFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is vended for a table does not say whether the bucket keeps versions, nor go without asking."""
    make("person", tmp_path)
    erasing = ("erase", "person", "--key", "key-1", "--reason", "request 1")
    refused = winnow(*erasing, code=6).stderr
    assert "s3:GetBucketVersioning" in refused
    assert len(offsets("person")) == 60
    with monkeypatch.context() as patch:
        for name, value in {
            "WINNOW_VENDED_CREDENTIALS": "false",
            "AWS_ENDPOINT_URL_S3": store.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ADMIN_KEY,
            "AWS_SECRET_ACCESS_KEY": ADMIN_SECRET,
        }.items():
            patch.setenv(name, value)
        done = winnow_process(*erasing, "--json")
        assert done.exit_code == 0, done.stderr
        assert done.document["deleted"] is True
    assert offsets("person") == [each for each in range(60) if each % 5 != 1]


def test_a_catalog_that_vends_nothing_is_named(catalog: VendingFront) -> None:
    """With what has to be done, and without a topic that nobody could use."""
    catalog.vends = False
    answer = winnow_process("topics", "create", "none", "--partitions", "1")
    assert answer.exit_code == 2
    assert "vends no credentials for the table" in answer.stderr
    checks = json.loads(winnow_process("doctor", "--json").stdout)
    failed = {each["check"]: each["detail"] for each in checks if each["status"] == FAILED}
    assert {"warehouse", "staging"} <= set(failed)
    assert "vends no credentials for the table winnow_shared.documents" in failed["warehouse"]


@pytest.mark.skipif("REAL_CLUSTERS" not in os.environ, reason="starts Spark: make cluster-test")
def test_executors_of_their_own_ask_the_catalog_themselves(
    catalog: VendingFront, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's master starts executors as processes; plans and manifests are in the shared folder of the warehouse."""
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local-cluster[2,1,1024]")
    monkeypatch.setenv("WINNOW_SPARK__CONF__spark__pyspark__python", sys.executable)
    make("spread", tmp_path)
    done = winnow_process("compact", "spread", "--json")
    assert done.exit_code == 0, done.stderr
    assert [entry["status"] for entry in json.loads(done.stdout)] == ["published"]
    assert [each for each in catalog.secrets if each in done.stdout + done.stderr] == []
    assert offsets("spread") == [each.offset for each in compute_survivors(RECORDS)]
    judged = json.loads(winnow_process("doctor", "--spark", "--json").stdout)
    assert [each for each in judged if each["status"] == FAILED] == []
    winnow("sweep", "spread")
    assert offsets("spread") == [each.offset for each in compute_survivors(RECORDS)]
