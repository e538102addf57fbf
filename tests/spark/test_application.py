"""What a Spark application of Winnow's does not wait for: compiling PySpark, pandas, and the imports of each worker."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from winnow.embedded.java import find_java, make_spark_environment

PROGRAM = """
import json, sys
from winnow.engine import spark_program
spark_program.prefer_installed_pyspark()
from winnow.engine.spark_application import open_spark_context

def look(_):
    import pyspark
    yield {
        "pyspark": pyspark.__file__,
        "engine": "winnow.engine.compaction_job" in sys.modules,
        "pandas": "pandas" in sys.modules,
    }

with open_spark_context("look") as context:
    seen = context.parallelize([0, 1], 2).mapPartitions(look).collect()
print(json.dumps([next(look(0)), *seen]))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What the driver saw at the end, then what each of two tasks did."""
    folder = tmp_path_factory.mktemp("application")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = make_spark_environment(os.environ, find_java(os.environ, folder / "java"))
    command = ["spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(program)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[dict[str, object]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_driver_and_workers_import_the_pyspark_that_python_has_compiled(seen: list[dict[str, object]]) -> None:
    """From the zip of it every process would compile what it imports."""
    assert len(seen) == 3
    assert not [each for each in seen if ".zip" in str(each["pyspark"])]


def test_workers_begin_with_the_engine_and_nobody_loads_pandas(seen: list[dict[str, object]]) -> None:
    _, *tasks = seen
    assert [each["engine"] for each in tasks] == [True, True]
    assert [each["pandas"] for each in seen] == [False, False, False]
