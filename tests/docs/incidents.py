"""Incidents of docs/operations.md, each produced for real in a lake."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support import in_process_spark
from tests.support.world import TOPIC, World, build_versions, record, write_jsonl
from winnow.config.kafka_settings import Origin, SourceSetting
from winnow.errors import CommitUnknownError, RunAgainError, ValidationBrokenError, ValidationFailedError
from winnow.files import storage
from winnow.files.segments import ARROW_SCHEMA
from winnow.kafka.cluster import BrokerTopic
from winnow.pipeline.admin.scrub import open_scrub
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction import plan as planning_step
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.ingest.kafka.configuration import follow_configuration
from winnow.pipeline.installation import open_installation
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.monitor.watch import watch_topics
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions
from winnow.pipeline.topics.sources import record_gone
from winnow.planning.kafka_configuration import TakingRules
from winnow.planning.plans import PlanReference, plan_partition
from winnow.report import alert_kinds
from winnow.values.model import PartitionPlan, Status

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
BROKEN_SUITE = {
    "name": "broken",
    "expectations": [
        {
            "id": "broken",
            "type": "expect_column_values_to_match_regex",
            "kwargs": {"column": "timestamp", "regex": "("},
            "severity": "critical",
            "meta": {"sentence": "Nobody can say."},
        }
    ],
}

PATIENCE_MS = 1_000
"""How long a sweep may be late before somebody is told."""

STRICT_SUITE = {
    "name": "strict",
    "expectations": [
        {
            "id": "value_known",
            "type": "expect_column_values_to_be_in_set",
            "severity": "critical",
            "kwargs": {"column": "value", "value_set": ["value-0-10", "value-0-11"]},
            "meta": {"sentence": "Every value is known."},
        }
    ],
}
"""A suite that one of the three newest values violates."""

Env = dict[str, str]


def lake_settings(folder: Path) -> Env:
    """The variables under which the lake in ``folder`` is found, by this process and by a shell."""
    suites = folder / "suites"
    suites.mkdir(exist_ok=True)
    for suite in (BROKEN_SUITE, STRICT_SUITE):
        (suites / f"{suite['name']}.json").write_text(json.dumps(suite))
    return {
        "WINNOW_HOME": str(folder / "home"),
        "WINNOW_EXPECTATIONS": str(suites),
        "WINNOW_SPARK__MASTER": "local[2]",
        "WINNOW_ALERT__SWEEP_STUCK_MS": str(PATIENCE_MS),
    }


def prepare(world: World, partitions: int = 1, **config: str) -> None:
    """The topic, with two versions of each key in segments that are closed."""
    rules = {"min_cleanable_dirty_ratio": "0", "segment_ms": "1", **config}
    world.create(partitions, **rules)
    for number in range(partitions):
        world.ingest(build_versions(0, 12, partition=number))


def _plan(world: World) -> PlanReference:
    plan = world.plan(world.clock())
    assert plan is not None
    return plan


def failed_validation(world: World) -> Env:
    """A staged file lost its last byte."""
    prepare(world)
    plan = _plan(world)
    (part,) = world.stage(plan).partitions
    path = storage.parse_local_path(part.rewrites[0].outputs[0].path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValidationFailedError):
        validate_attempt(world.installation, plan.plan_id, "a1")
    return {}


def failed_suite(world: World) -> Env:
    """The topic's suite knows two values; a run keeps three."""
    prepare(world)
    alter_topic(world.installation, TOPIC, {"winnow.expectations": "strict"}, [])
    plan = _plan(world)
    world.stage(plan)
    with pytest.raises(ValidationFailedError):
        validate_attempt(world.installation, plan.plan_id, "a1")
    return {}


def failed_limit(world: World) -> Env:
    """A planner with a mistake moves the log start, which no retention explains."""
    prepare(world)

    def move_log_start(*arguments: Any, **named: Any) -> PartitionPlan:
        return replace(plan_partition(*arguments, **named), log_start_offset=4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning_step, "plan_partition", move_log_start)
        plan = _plan(world)
    world.stage(plan)
    with pytest.raises(ValidationFailedError, match="retention_due"):
        validate_attempt(world.installation, plan.plan_id, "a1")
    return {}


def broken_validation(world: World) -> Env:
    """The topic's suite asks for what cannot be asked."""
    prepare(world)
    alter_topic(world.installation, TOPIC, {"winnow.expectations": "broken"}, [])
    plan = _plan(world)
    world.stage(plan)
    with pytest.raises(ValidationBrokenError):
        validate_attempt(world.installation, plan.plan_id, "a1")
    return {}


def damaged_segment(world: World) -> Env:
    """A segment was cut short; its copy is in the backup."""
    prepare(world)
    path = _damage(world, -1)
    return {"SEGMENT": str(path), "BACKUP": str(world.folder / "backup")}


def flipped_value(world: World) -> Env:
    """A bit of a value changed, and a scrub has met it; the copy is in the backup."""
    prepare(world)
    path = storage.parse_local_path(world.segments(0)[-1].path)
    backup = world.folder / "backup"
    backup.mkdir()
    shutil.copy(path, backup)
    chunk = pq.read_metadata(path).row_group(0).column(ARROW_SCHEMA.get_field_index("value"))
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 2] ^= 1
    path.write_bytes(data)
    assert open_scrub(world.installation, [TOPIC])[0].findings
    return {"SEGMENT": str(path), "BACKUP": str(backup)}


def lost_segment(world: World) -> Env:
    """The second of three segments was cut short."""
    prepare(world)
    for first in (12, 24):
        world.ingest(build_versions(first, 12))
    _damage(world, 1)
    return {"BEFORE": "12", "BEHIND": "24"}


def _damage(world: World, number: int) -> Path:
    path = storage.parse_local_path(world.segments(0)[number].path)
    backup = world.folder / "backup"
    backup.mkdir()
    shutil.copy(path, backup)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "submit_plans", in_process_spark.submit)
        (receipt,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock()).receipts
    assert receipt.status is Status.INVALID
    return path


def _with_deadline(world: World, in_ms: int) -> None:
    """A partition whose oldest record has waited for a day in ``in_ms`` ms."""
    world.create(1, min_cleanable_dirty_ratio="0", segment_ms="1", max_compaction_lag_ms=str(DAY_MS))
    at_ms = world.clock() - DAY_MS + in_ms
    world.ingest([record(n, f"key-{n % 3}".encode(), f"value-{n}".encode(), at_ms) for n in range(12)])


def near_deadline(world: World) -> Env:
    """Somebody paused a partition, half an hour before its deadline."""
    _with_deadline(world, 30 * MINUTE_MS)
    pause_partitions(world.installation, TOPIC, [0], by="anna")
    return run_watch(world)


def missed_deadline(world: World) -> Env:
    """Nobody compacted a partition until an hour after its deadline."""
    _with_deadline(world, -60 * MINUTE_MS)
    return run_watch(world)


def run_watch(world: World) -> Env:
    """What every run of ``compact_topics`` ends with."""
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    watch_topics(world.installation)
    return {}


def unknown_commit(world: World) -> Env:
    """The catalog went away in the middle of a publish."""
    prepare(world)
    plan = _plan(world)
    world.stage(plan)
    world.accept(plan)

    def commit(*_: object, **__: object) -> object:
        raise ConnectionError("connection reset by peer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.installation.log.catalog, "commit_table", commit)
        with pytest.raises(CommitUnknownError):
            publish_attempt(world.installation, plan.plan_id, "a1")
    return {}


def stuck_sweep(world: World) -> Env:
    """Files were replaced, their grace has passed, and nobody swept."""
    # Iceberg dates its snapshots by the real clock, so grace and patience are short instead of long ago.
    prepare(world, winnow_retired_grace_ms="1")
    world.compact()
    world.clock.now_ms += 2 * PATIENCE_MS
    return run_watch(world)


def late_run(world: World) -> Env:
    """A run was planned half a day ago, and its process is gone."""
    world.clock.now_ms -= 12 * HOUR_MS
    prepare(world)
    _plan(world)
    world.clock.now_ms += 12 * HOUR_MS
    return run_watch(world)


def unfinished_erasure(world: World) -> Env:
    """Two hours ago a run had the topic when the files of an erasure should go."""
    world.clock.now_ms -= 2 * HOUR_MS
    prepare(world)
    settings = world.installation.settings
    with (
        open_installation(settings, now_ms=world.clock, holder="a run") as other,
        hold_lease(other, TOPIC),
        pytest.raises(RunAgainError),
    ):
        erase_keys(world.installation, EraseRequest(TOPIC, [b"key-1"], "request 4711"))
    world.clock.now_ms += 2 * HOUR_MS
    return run_watch(world)


def two_partitions(world: World) -> Env:
    """A topic that is well."""
    prepare(world, 2)
    world.compact()
    return {}


def dead_run(world: World) -> Env:
    """A process of this machine died while it held the topic, with a plan that nobody carries out."""
    prepare(world)
    _plan(world)
    program = "from winnow.pipeline.installation import name_process; print(name_process())"
    named = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    holder = named.stdout.strip()
    world.installation.store.leases.acquire(TOPIC, holder, world.clock(), 60 * MINUTE_MS)
    return {}


def no_store(world: World) -> Env:
    """The file of the store is gone."""
    two_partitions(world)
    world.installation.store.close()
    for path in (world.folder / "home").glob("store.db*"):
        path.unlink()
    return {}


def foreign_commit(world: World) -> Env:
    """Another engine appended a record."""
    import pyarrow as pa

    two_partitions(world)
    rows = [{"partition": 0, "offset": 12, "timestampType": 0, "key": b"k", "value": b"v"}]
    table = world.installation.log.catalog.load_table(("winnow", TOPIC))
    table.append(pa.Table.from_pylist(rows, schema=ARROW_SCHEMA))
    return {}


def foreign_configuration(world: World) -> Env:
    """Another engine set a retention."""
    two_partitions(world)
    with world.installation.log.catalog.load_table(("winnow", TOPIC)).transaction() as change:
        change.set_properties({"retention.ms": "1"})
    return {}


def held_configuration(world: World) -> Env:
    """At Kafka a tombstone is to stay for a second from now on."""
    two_partitions(world)
    settings = {"delete.retention.ms": SourceSetting("1000", Origin.TOPIC)}
    found = BrokerTopic(TOPIC, None, {}, settings=settings)
    follow_configuration(world.installation, world.installation.log.open(TOPIC), found, TakingRules(takes=True))
    return {}


def removed_orphans(world: World) -> Env:
    """Another engine removed every file that no snapshot names."""
    two_partitions(world)
    shutil.rmtree(storage.parse_local_path(world.head().documents.folder))
    return {}


def damaged_manifest_list(world: World) -> Env:
    """A bit of the newest manifest list flipped; its copy is in the backup."""
    two_partitions(world)
    snapshot = world.head().table.current_snapshot()
    assert snapshot is not None
    path = storage.parse_local_path(snapshot.manifest_list)
    backup = world.folder / "backup"
    backup.mkdir()
    shutil.copy(path, backup)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return {"FILE": str(path), "BACKUP": str(backup)}


def no_catalog(world: World) -> Env:
    """The file of the catalog is gone; the topic has a quarantine, too."""
    prepare(world, 2, winnow_keyless="quarantine")
    world.ingest([record(12, None, b"no key")])
    world.compact()
    for path in (world.folder / "home").glob("catalog.db*"):
        path.unlink()
    return {}


def uncompacted(world: World) -> Env:
    """Two partitions that nobody has compacted."""
    prepare(world, 2)
    return {}


def failed_ingest(world: World) -> Env:
    """A followed topic was created again, and refused."""
    prepare(world)
    words = "Topic orders is another one than was ingested before."
    world.installation.alerts.open_alert(
        alert_kinds.make_ingest_failed(TOPIC, words, dag_id="ingest_topics", at_ms=world.clock())
    )
    return {}


def gone_source(world: World) -> Env:
    """A followed topic is not at the brokers any more."""
    prepare(world)
    record_gone(world.installation, [TOPIC], {}, {TOPIC: world.head().table.metadata_location})
    return {}


def late_table(world: World) -> Env:
    """The table of the latest state lacks records of an hour ago, which it may not."""
    prepare(world, 2)
    _keep_table(world, winnow_latest_max_age_ms="60000")
    world.clock.now_ms += 3_600_000
    watch_topics(world.installation)
    return {}


def _keep_table(world: World, **config: str) -> None:
    named = {name.replace("_", "."): text for name, text in config.items()}
    alter_topic(world.installation, TOPIC, {"winnow.latest.table": "true", **named}, [])


def rejected_rows(world: World) -> Env:
    """The topic's suite over typed columns refuses a row that an update would have shown."""
    prepare(world)
    _keep_table(world, winnow_value_format="string", winnow_latest_expectations="strict")
    with pytest.raises(ValidationFailedError):
        update_latest_table(world.installation, TOPIC)
    return {}


def undecoded_rows(world: World) -> Env:
    """Values that are no JSON, and a file with newer ones that are."""
    prepare(world)
    _keep_table(world, winnow_value_format="json")
    update_latest_table(world.installation, TOPIC)
    newer = [record(12 + number, f"key-{number}".encode(), b"{}") for number in range(3)]
    return {"FILE": write_jsonl(world.folder / "newer.jsonl", newer)}


@dataclass(frozen=True)
class Case:
    """How a section's subject comes about, which alert tells of it, and a command that its message gives.

    ``newest``: offsets of the newest record of each key of partition 0, as readers of ``topic`` see them after the
    section; in ``home``.
    """

    cause: Callable[[World], Env]
    alert: str | None = None
    command: str | None = None
    topic: str = TOPIC
    home: str = "home"
    newest: frozenset[int] = frozenset({9, 10, 11})


CASES: dict[str, Case] = {
    "validation_failed": Case(failed_validation, "validation_failed", "winnow partitions release orders --partition 0"),
    "validation_failed by a content suite": Case(
        failed_suite, "validation_failed", "winnow topics alter orders --delete-config winnow.expectations"
    ),
    "validation_failed by a limit": Case(
        failed_limit, "validation_failed", "winnow partitions release orders --partition 0"
    ),
    "validation_broken": Case(broken_validation, "validation_broken", "winnow compact orders"),
    "uncleanable_partition": Case(
        damaged_segment, "uncleanable_partition", "winnow partitions release orders --partition 0"
    ),
    "deadline_near": Case(near_deadline, "deadline_near", "winnow partitions resume orders --partition 0 --all"),
    "deadline_missed": Case(missed_deadline, "deadline_missed", "winnow compact orders"),
    "commit_unknown": Case(unknown_commit, "commit_unknown", "winnow compact orders"),
    "sweep_stuck": Case(stuck_sweep, "sweep_stuck", "winnow sweep orders"),
    "run_late": Case(late_run, "run_late", "winnow receipts orders"),
    "erasure_unfinished": Case(
        unfinished_erasure, "erasure_unfinished", "winnow sweep orders", newest=frozenset({9, 11})
    ),
    "segment_damaged": Case(flipped_value, "segment_damaged", "winnow scrub orders"),
    "ingest_failed": Case(failed_ingest, "ingest_failed"),
    "source_gone": Case(gone_source, "source_gone", "winnow topics describe orders"),
    "configuration_held": Case(
        held_configuration, "configuration_held", "winnow topics alter orders --accept-kafka-config"
    ),
    "latest_late": Case(late_table, "latest_late", "winnow latest-table update orders"),
    "latest_rejected": Case(rejected_rows, "latest_rejected", "winnow latest-table update orders"),
    "latest_suspect": Case(
        undecoded_rows, "latest_suspect", "winnow schemas list orders", newest=frozenset({12, 13, 14})
    ),
    "recovered": Case(two_partitions),
    "A segment is gone for good": Case(lost_segment, topic="orders-2", newest=frozenset({33, 34, 35})),
    "Pausing before maintenance": Case(two_partitions),
    "A run is stuck": Case(dead_run),
    "The metadata store is lost": Case(no_store),
    "Another program committed to a table": Case(foreign_commit),
    "Another engine removed orphan files": Case(removed_orphans),
    "Another tool changed a topic's configuration": Case(foreign_configuration),
    "Metadata are damaged": Case(damaged_manifest_list),
    "The catalog is lost, or older than the warehouse": Case(no_catalog),
    "Nothing runs any more": Case(uncompacted),
    "The disk is full": Case(stuck_sweep),
    "Backup and restore": Case(two_partitions),
    "Moving a warehouse": Case(two_partitions, home="new-lake"),
    "Capacity": Case(near_deadline),
    "Upgrading": Case(two_partitions),
    "Backfill": Case(uncompacted),
}
"""Every section of docs/operations.md that has blocks of commands."""
