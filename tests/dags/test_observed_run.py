"""One real run of ``compact_topics``, as a StatsD server, an OpenLineage server and a reader of its log see it.

Two topics in one batch: ``orders`` is published, of ``clicks`` a staged record gets lost and validation fails.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.listener import get_listener_manager
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from tests.support.airflow_environment import ENVIRONMENT
from tests.support.dag_topics import build_old_lines, lose_a_record, make_topic
from tests.support.receivers import open_statsd, open_webhook
from winnow.config.settings import Settings
from winnow.pipeline.installation import open_installation
from winnow.report.counters import PHASES
from winnow.report.events import EVENTS
from winnow.values.results import Receipt

NAMESPACE = "tests"


@dataclass(frozen=True)
class Observed:
    """What one run left with those who watch it."""

    receipt: Receipt
    location: str
    warehouse: str
    states: dict[tuple[str, int], str]
    metrics: dict[str, list[str]]
    lineage: list[dict[str, Any]]
    log: str


@contextlib.contextmanager
def lineage_listener() -> Iterator[None]:
    """The provider's listener, as Airflow registers it where a transport is configured, for as long as the block runs.

    Of this process alone: Airflow loads plugins once, so what the provider registered before is left out meanwhile and
    nothing is left behind.
    """
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener

    plugins = get_listener_manager().pm
    for earlier in [each for each in plugins.get_plugins() if isinstance(each, OpenLineageListener)]:
        plugins.unregister(earlier)
    listener: Any = OpenLineageListener()  # type: ignore[no-untyped-call]
    plugins.register(listener)
    try:
        yield
    finally:
        plugins.unregister(listener)
        listener.before_stopping(listener)


@pytest.fixture(scope="module")
def observed(airflow_home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """The run, with every kind of observer on."""
    from airflow.dag_processing.dagbag import DagBag

    folder = tmp_path_factory.mktemp("observed")
    with pytest.MonkeyPatch.context() as patch, open_statsd() as statsd, open_webhook() as server:
        for name, value in {
            "WINNOW_HOME": str(folder / "lake"),
            "WINNOW_SPARK__MASTER": "local[2]",
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_PORT": str(statsd.port),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "http", "url": server.url}),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": NAMESPACE,
        }.items():
            patch.setenv(name, value)
        with open_installation() as installation:
            for topic in ("orders", "clicks"):
                make_topic(installation, folder, topic, [build_old_lines(100, 10)])
            bag = DagBag(dag_folder=ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"])
            dag = bag.dags["compact_topics"]
            for each in dag.tasks:
                each.retries = 0
            dag.task_dict["compact_batch.compact"].on_success_callback = [
                lambda _: lose_a_record(installation, "clicks")
            ]
            stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
            said = io.StringIO()
            try:
                with lineage_listener(), contextlib.redirect_stdout(said):
                    ended = dag.test()
            finally:
                stats.initialize(factory=NoStatsLogger, export_legacy_names=True)
            run = installation.store.runs.list_runs("orders")[0]
            receipt = installation.store.projection.find_receipt(run.plan_id)
            assert receipt is not None
            yield Observed(
                receipt=receipt,
                location=installation.log.open("orders").head().location,
                warehouse=installation.settings.warehouse,
                states={(ti.task_id, ti.map_index): str(ti.state) for ti in ended.get_task_instances()},
                metrics=statsd.lines(),
                lineage=[json.loads(body) for body in server.bodies],
                log=said.getvalue(),
            )


def posts(observed: Observed, task: str, kind: str) -> dict[str, Any]:
    """The one OpenLineage event of a task of the batch."""
    name = f"compact_topics.compact_batch.{task}"
    (event,) = [each for each in observed.lineage if each["eventType"] == kind and each["job"]["name"] == name]
    assert event["job"]["namespace"] == NAMESPACE
    return event


def lines(observed: Observed) -> list[tuple[str, str]]:
    """Name and fields of every event in the log, in order; each is a line of its own."""
    found = re.findall(r"\] (\w+) +\[winnow\.events\] (.*)", observed.log)
    return [(name, fields) for name, fields in found]


def test_one_topic_is_published_and_the_other_fails_validation(observed: Observed) -> None:
    """What the other tests of this module look at."""
    states = {task: state for (task, _), state in observed.states.items() if task.startswith("compact_batch.")}
    assert states == {
        "compact_batch.compact": "success",
        "compact_batch.validate": "failed",
        "compact_batch.publish": "success",
        "compact_batch.report": "success",
    }


def test_statsd_gets_every_outcome_what_was_removed_and_how_long_each_phase_took(observed: Observed) -> None:
    """Counters and timers with tags, from Airflow's own client, each once."""
    sent = observed.metrics
    assert {name: values for name, values in sent.items() if name.startswith("runs,")} == {
        "runs,topic=orders,outcome=published": ["1|c"],
        "runs,topic=clicks,outcome=invalid": ["1|c"],
    }
    assert sent["records-removed,topic=orders,reason=superseded"] == ["90|c"]
    receipt = observed.receipt.partitions[0]
    assert sent["bytes-removed,topic=orders"] == [f"{receipt.bytes_in - receipt.bytes_out}|c"]
    assert sent["alerts,topic=clicks,kind=validation_failed"] == ["1|c"]
    for topic, phases in {
        "orders": {*PHASES} - {"ingest", "sweep"},
        "clicks": {*PHASES} - {"ingest", "sweep", "publish"},
    }.items():
        took = {phase: sent.get(f"phase,topic={topic},phase={phase}", []) for phase in PHASES}
        assert {phase for phase, values in took.items() if len(values) == 1 and values[0].endswith("|ms")} == phases


def test_statsd_gets_gauges_of_every_topic_and_of_all_together(observed: Observed) -> None:
    """As they are after the run."""
    assert observed.metrics["uncleanable-partitions-count,topic=clicks"] == ["1|g"]
    assert observed.metrics["uncleanable-partitions-count,topic=orders"] == ["0|g"]
    assert observed.metrics["total.healthy-topics-count"] == ["1|g"]
    assert observed.metrics["total.uncleanable-topics-count"] == ["1|g"]
    assert observed.metrics["total.invalid-runs-count"] == ["1|g"]


def test_openlineage_gets_the_table_as_input_and_output_of_what_was_published(observed: Observed) -> None:
    """With its version, what remains, the receipt and its name in the catalog; the topic that failed is not there."""
    event = posts(observed, "publish", "COMPLETE")
    (read,), (written,) = event["inputs"], event["outputs"]
    name = ("file", observed.location.removeprefix("file://"))
    assert [(each["namespace"], each["name"]) for each in (read, written)] == [name, name]
    facets, outcome = written["facets"], written["outputFacets"]
    assert facets["version"]["datasetVersion"] == str(observed.receipt.snapshot_id)
    assert facets["symlinks"]["identifiers"] == [
        {"namespace": observed.warehouse, "name": "winnow.orders", "type": "TABLE"}
    ]
    part = observed.receipt.partitions[0]
    statistics = {key: outcome["outputStatistics"][key] for key in ("rowCount", "size")}
    assert statistics == {"rowCount": 10, "size": part.bytes_out}
    told = {key: value for key, value in outcome["winnow_receipt"].items() if not key.startswith("_")}
    assert told == {
        "planId": observed.receipt.plan_id, "attempt": observed.receipt.attempt, "partitions": 1, "recordsIn": 100,
        "recordsKept": 10, "recordsSuperseded": 90, "tombstonesExpired": 0, "recordsKeyless": 0, "recordsRetired": 0,
        "bytesIn": part.bytes_in, "bytesOut": part.bytes_out, "bytesRetired": 0,
    }  # fmt: skip


def get_topic(dataset: str) -> str:
    """The topic of a dataset, which is named after its folder: the topic, a hyphen and a uuid."""
    return dataset.rpartition("/")[2][: -len(f"-{uuid.UUID(int=0)}")]


def test_openlineage_gets_the_verdicts_as_assertions_also_from_a_task_that_failed(observed: Observed) -> None:
    """Each expectation that did not hold, with its partition; the sibling's verdict is that it passed."""
    said = {
        get_topic(each["name"]): each["inputFacets"]["dataQualityAssertions"]["assertions"]
        for each in posts(observed, "validate", "FAIL")["inputs"]
    }
    assert [(each["assertion"], each["success"]) for each in said["orders"]] == [("winnow_verdict", True)]
    verdict, *failures = said["clicks"]
    assert (verdict["assertion"], verdict["success"]) == ("winnow_verdict", False)
    lost = next(each for each in failures if each["assertion"] == "no_key_lost")
    assert (lost["success"], lost["severity"], lost["params"]) == (False, "error", {"partition": 0})


def test_openlineage_gets_what_spark_read(observed: Observed) -> None:
    """Of every topic of the application; nobody reads what it wrote, so that is no output yet."""
    event = posts(observed, "compact", "COMPLETE")
    rows = {get_topic(each["name"]): each["inputFacets"]["inputStatistics"]["rowCount"] for each in event["inputs"]}
    assert (rows, event["outputs"]) == ({"clicks": 100, "orders": 100}, [])


def test_log_has_one_line_with_fields_for_every_step_of_a_run(observed: Observed) -> None:
    """In the order in which it happened; the same plan id leads from one to the next."""
    told = lines(observed)
    assert {name for name, _ in told} <= {event.name for event in EVENTS}
    plan = f"plan_id={observed.receipt.plan_id}"
    assert [name for name, fields in told if plan in fields] == [
        "planned", "compacting", "staged", "validated", "published",
    ]  # fmt: skip
    clicks = [name for name, fields in told if fields.endswith("topic=clicks")]
    assert [name for name in clicks if name not in {"state_changed", "alerted"}] == [
        "assessed", "planned", "compacting", "staged", "invalid",
    ]  # fmt: skip
    assert sorted(set(clicks) & {"state_changed", "alerted"}) == ["alerted", "state_changed"]
    published = dict(told)["published"]
    assert re.search(r"records_in=100 records_kept=10 .*records_superseded=90 ", published)


def test_nothing_that_is_told_to_anybody_holds_a_key_or_a_value(observed: Observed) -> None:
    """Neither the log nor the lineage nor a metric's name."""
    everything = "\n".join([observed.log, json.dumps(observed.lineage), *observed.metrics])
    assert "winnow.orders" in everything
    assert re.search(r"\b(key|value)-\d", everything) is None
