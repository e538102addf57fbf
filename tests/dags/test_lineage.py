"""Lineage without its provider, and how a table is named with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.airflow_environment import ENVIRONMENT
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.config.settings import Settings
from winnow.pipeline.installation import Installation
from winnow_airflow import lineage, lineage_facets
from winnow_airflow.xcom_values import BatchRow, PlanRow

WITHOUT_PROVIDER = """
import importlib.abc, json, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        # What Airflow reads of every installed distribution stays; there is none of it where none is installed.
        said = {"airflow.providers.openlineage", "airflow.providers.openlineage.get_provider_info"}
        provider = name.startswith("airflow.providers.openlineage") and name not in said
        if provider or name.split(".")[0] == "openlineage":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
from winnow_airflow import lineage
tasks = sorted(task.task_id for task in bag.dags["compact_topics"].tasks)
told = sorted(
    task.task_id for task in bag.dags["compact_topics"].tasks
    if callable(getattr(task, "get_openlineage_facets_on_complete", None))
)
loaded = sorted(name for name in sys.modules if name.split(".")[0] == "openlineage")
print(json.dumps({"errors": bag.import_errors, "tasks": tasks, "told": told, "loaded": loaded,
                  "facets": "winnow_airflow.lineage_facets" in sys.modules}))
"""


def test_without_the_provider_nothing_of_it_is_imported_and_the_dags_are_the_same(
    airflow_home: Settings, dagbag: object
) -> None:
    """The tasks carry what the provider would ask for, and nobody asks."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PROVIDER, ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"]],
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": ENVIRONMENT["AIRFLOW__CORE__PLUGINS_FOLDER"]},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["errors"], found["loaded"], found["facets"]) == ({}, [], False)
    assert found["told"] == ["compact_batch.compact", "compact_batch.publish", "compact_batch.validate"]
    assert found["tasks"] == sorted(task.task_id for task in dagbag.dags["compact_topics"].tasks)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("s3://archive/warehouse/winnow/orders", ("s3://archive", "warehouse/winnow/orders")),
        ("s3a://archive/warehouse/winnow/orders", ("s3://archive", "warehouse/winnow/orders")),
        ("gs://archive/winnow/orders", ("gs://archive", "winnow/orders")),
        (
            "abfss://lake@account.dfs.core.windows.net/w/orders",
            ("abfss://lake@account.dfs.core.windows.net", "w/orders"),
        ),
        ("hdfs://nn:8020/warehouse/orders", ("hdfs://nn:8020", "/warehouse/orders")),
        ("file:///lake/ware%20house/orders", ("file", "/lake/ware house/orders")),
        ("/lake/warehouse/orders", ("file", "/lake/warehouse/orders")),
    ],
)
def test_dataset_is_named_by_the_store_and_the_place_in_it(location: str, name: tuple[str, str]) -> None:
    """As OpenLineage's rules have it, so that other engines' events meet at the same dataset."""
    assert lineage_facets.build_dataset_name(location) == name


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("postgresql+psycopg://winnow:secret@db:5432/catalog?password=secret", "postgresql+psycopg://db:5432/catalog"),
        ("https://user:secret@catalog.example.org/v1", "https://catalog.example.org/v1"),
    ],
)
def test_uri_of_a_catalog_is_told_without_its_secrets(uri: str, told: str) -> None:
    """Lineage servers are read by many."""
    assert lineage_facets.remove_credentials(uri) == told


def test_batch_whose_plans_were_not_published_has_no_output_and_a_task_without_a_batch_says_nothing(
    installation: Installation, tmp_path: Path
) -> None:
    """Nothing is told that did not happen; what was to be judged is named without a verdict."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    row = PlanRow(
        topic="orders", plan_id="p", uri=f"{tmp_path}/p/plan.json", partitions=1, size_bytes=0, deadline_ms=None
    )
    batch = BatchRow(label="orders", attempt="a", plans=[row], error=None)

    class Task:
        op_args = (batch,)

    assert lineage.find_batch(Task()) is batch
    assert lineage.find_batch(object()) is None
    assert lineage_facets.published(installation, batch).outputs == []
    (judged,) = lineage_facets.judged(installation, batch).inputs
    (read,) = lineage_facets.compacted(installation, batch).inputs
    assert (judged.name, judged.inputFacets, read.inputFacets) == (read.name, {}, {})
