"""What every DAG owes its readers and the scheduler."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import CronTriggerTimetable

from tests.support.airflow_environment import ENVIRONMENT
from winnow.config.settings import Settings
from winnow.embedded.airflow_home import POOLS, migrate

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import DAG

DAGS = (
    "backfill_topics",
    "change_many",
    "change_partitions",
    "change_topics",
    "compact_now",
    "compact_topics",
    "erase_keys",
    "example_consumer",
    "ingest_topics",
    "scrub_topics",
    "sweep_topics",
    "watch_topics",
)

PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
heavy = {"pyspark", "pyiceberg", "great_expectations", "duckdb", "pyarrow", "pandas", "winnow.store", "winnow.pipeline"}
seconds = max(each.duration.total_seconds() for each in bag.dagbag_stats)
print(json.dumps({"errors": bag.import_errors, "heavy": sorted(heavy & sys.modules.keys()), "seconds": seconds}))
"""


@pytest.fixture(params=DAGS)
def dag(request: pytest.FixtureRequest, dagbag: DagBag) -> DAG:
    return dagbag.dags[request.param]


def test_every_dag_file_parses(dagbag: DagBag) -> None:
    """No import error, and the DAGs are those that are documented."""
    assert dagbag.import_errors == {}
    assert sorted(dagbag.dags) == sorted(DAGS)


PARSE_IN_INSTALLATION = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
from winnow_airflow.health import check_dags
bag = DagBag(dag_folder=sys.argv[1])
conditions = [dag.timetable.asset_condition for dag in bag.dags.values()]
assets = {asset.uri for each in conditions for asset in getattr(each, "objects", ())}
aliases = {each.name for dag in bag.dags.values() for task in dag.tasks for each in task.outlets}
print(json.dumps({
    "dags": {name: sorted(dag.tags) for name, dag in bag.dags.items()},
    "errors": [str(each).strip().splitlines()[-1] for each in bag.import_errors.values()],
    "assets": sorted(assets), "aliases": sorted(aliases), "doctor": check_dags(Path(sys.argv[1]))[0],
}))
"""


def parse_in_installation(settings: Settings, **env: str) -> dict[str, Any]:
    """What Airflow makes of the DAG files of an installation with further settings."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARSE_IN_INSTALLATION, ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"]],
        env={**os.environ, **ENVIRONMENT, "WINNOW_HOME": str(settings.home), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_a_prefix_names_dags_tag_and_assets_so_that_two_installations_live_in_one_airflow(
    airflow_home: Settings,
) -> None:
    """Neither starts, shows or is started by what is the other's. Another setting that is not valid changes no id."""
    found = parse_in_installation(airflow_home, WINNOW_AIRFLOW__DAG_PREFIX="sales_", WINNOW_LEASE_MS="not a number")
    assert sorted(found["dags"]) == found["doctor"] == [f"sales_{name}" for name in sorted(DAGS)]
    assert all("sales_winnow" in tags and "winnow" not in tags for tags in found["dags"].values())
    assert found["assets"] == ["winnow://sales_topic/aircraft"]
    assert found["aliases"] == ["sales_winnow_compacted"]
    assert found["errors"] == []


def test_a_prefix_that_is_not_valid_leaves_no_dag_rather_than_one_of_another_name(airflow_home: Settings) -> None:
    """A DAG of another name would be unpaused, and start by itself."""
    found = parse_in_installation(airflow_home, WINNOW_AIRFLOW__DAG_PREFIX="a b")
    assert found["dags"] == {}
    assert len(found["errors"]) >= 8
    assert all("airflow.dag_prefix" in error and "letters, digits" in error for error in found["errors"])


def test_parsing_loads_no_heavy_library(airflow_home: Settings) -> None:
    """What a DAG file imports is paid for at every parse, so Spark, Iceberg and GX wait until a task runs."""
    ended = subprocess.run(
        [sys.executable, "-c", PARSE, ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"]],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["errors"] == {}
    assert said["heavy"] == []
    assert said["seconds"] < 20


def test_a_dag_says_whose_it_is_and_what_it_does(dag: DAG) -> None:
    """Owner, tags and a text for people, on the DAG and on each of its tasks."""
    assert "winnow" in dag.tags
    assert dag.doc_md
    assert [t.task_id for t in dag.tasks if t.owner != "winnow"] == []
    assert [t.task_id for t in dag.tasks if not (t.doc_md or "").strip()] == []


def test_a_dag_has_a_name_for_people_with_its_id_a_link_and_an_end(dag: DAG) -> None:
    """A run that hangs is ended, but not before its tasks could use all their tries."""
    assert dag.dag_display_name.endswith(f" ({dag.dag_id})")
    assert dag.dag_display_name[0].isupper()
    assert set(dag.owner_links) == {"winnow"}
    assert dag.dagrun_timeout is not None
    longest = max((task.execution_timeout or timedelta(0)) * (1 + (task.retries or 0)) for task in dag.tasks)
    assert dag.dagrun_timeout >= longest


def test_a_dag_does_not_catch_up(dag: DAG) -> None:
    """An archive is compacted as it is now; the past is compacted by a backfill that somebody asks for."""
    assert dag.catchup is False


def test_tasks_are_tried_again_with_growing_delay_and_only_when_it_can_help(dag: DAG) -> None:
    """All but the task that fails the run on purpose have retries, back-off and the retry policy."""
    for each in dag.tasks:
        assert (each.retries or 0) >= (0 if each.task_id == "outcome" else 1)
        assert each.retry_exponential_backoff == 2.0
        assert each.retry_policy is not None


def test_pools_of_all_tasks_exist_after_migrate(airflow_home: Settings, dagbag: DagBag) -> None:
    """A pool that does not exist fails nothing: its tasks wait for ever."""
    with sqlite3.connect(airflow_home.airflow_home / "airflow.db") as database:
        pools = dict(database.execute("SELECT pool, slots FROM slot_pool").fetchall())
    assert {each.pool for dag in dagbag.dags.values() for each in dag.tasks} <= pools.keys()
    assert {name: pools[name] for name in POOLS} == {name: pool["slots"] for name, pool in POOLS.items()}
    assert pools["winnow_spark"] == 2


def test_a_second_migrate_changes_nothing(airflow_home: Settings) -> None:
    """It finds its stamp and starts no Airflow command."""
    log = airflow_home.airflow_home / "prepare.log"
    before = log.stat().st_size
    migrate(airflow_home)
    assert log.stat().st_size == before


def test_compactions_run_one_at_a_time_every_quarter_of_an_hour(dagbag: DagBag) -> None:
    """One run at a time, and a run's data interval ends where the next begins."""
    dag = dagbag.dags["compact_topics"]
    assert dag.max_active_runs == 1
    assert isinstance(dag.timetable, CronTriggerTimetable)
    assert dag.timetable.expression == "*/15 * * * *"
    assert dag.timetable.interval == timedelta(minutes=15)


def test_spark_waits_in_its_own_pool(dagbag: DagBag) -> None:
    """Two applications at a time, and one that hangs is ended."""
    compact = dagbag.dags["compact_topics"].task_dict["compact_batch.compact"]
    assert compact.pool == "winnow_spark"
    assert compact.execution_timeout is not None


def test_every_mapped_task_has_a_name_for_people(dag: DAG) -> None:
    """A topic, or the first and the last of several; never a bare number."""
    mapped = [each for each in dag.tasks if each.is_mapped or list(each.iter_mapped_task_groups())]
    assert [each.task_id for each in mapped if not each.map_index_template] == []


def test_the_trigger_form_explains_every_param(dag: DAG) -> None:
    """A title and a sentence each; of a form with several, the sections are named."""
    params = {name: dag.params.get_param(name) for name in dag.params}
    assert [name for name, each in params.items() if not each.description or not each.schema.get("title")] == []


def test_strategies_are_compared_before_anything_is_compacted(dagbag: DagBag) -> None:
    """Afterwards the losers of the strategy in force are gone, and there is nothing left to choose from."""
    for dag_id in ("compact_topics", "backfill_topics"):
        compact = dagbag.dags[dag_id].task_dict["compact_batch.compact"]
        assert "compare_strategy" in compact.get_flat_relative_ids(upstream=True)


def test_the_example_waits_for_somebody_who_wants_it(dagbag: DagBag) -> None:
    """The embedded Airflow starts every DAG as soon as it is parsed; an example must not run by itself."""
    assert [dag_id for dag_id, dag in dagbag.dags.items() if dag.is_paused_upon_creation] == ["example_consumer"]
