"""What doctor says of executors that lack something: real Spark, executors with another Python than the driver's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from winnow.config.settings import Settings, load_settings
from winnow.engine.executor_probe import probe_executor, try_places
from winnow.files import storage
from winnow.pipeline.doctor.check_runner import CheckResult, CheckStatus
from winnow.pipeline.doctor.executors import judge_executors
from winnow.pipeline.doctor.machine import check_java_and_spark
from winnow.pipeline.spark.submit import build_spark_conf

HERE = ".".join(map(str, sys.version_info[:2]))
EXPECTED = {"winnow": "1.2.3", "pyspark": "4.1.3", "pyarrow": "26.0.1", "duckdb": "2.0.0"}


def with_executors(tmp_path: Path, python: str) -> Settings:
    """Settings whose tasks run in ``python``."""
    conf = {"WINNOW_SPARK__CONF__spark__pyspark__python": python, "WINNOW_SPARK__MASTER": "local[2]"}
    return load_settings(env={"WINNOW_HOME": str(tmp_path / "home"), **conf})


def ask(settings: Settings) -> CheckResult:
    """What doctor says of Spark; an executor inherits nothing of this process's path of imports."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return check_java_and_spark(settings, env, 180, start=True)[-1]


def test_packages_that_executors_lack_are_named_with_the_line_that_installs_them(tmp_path: Path) -> None:
    """A Python of the driver's version with nothing in it, not even Winnow, which asks."""
    bare = tmp_path / "bare"
    subprocess.run([Path(sys.base_prefix, "bin", "python3"), "-m", "venv", "--without-pip", bare], check=True)
    finding = ask(with_executors(tmp_path, f"{bare}/bin/python"))
    assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 2)
    assert "lack" in finding.detail
    assert {"duckdb", "pyarrow"} <= set(finding.detail.replace(",", " ").replace(".", " ").split())
    assert f"{bare}/bin/python -m pip install" in finding.fix
    assert "duckdb==" in finding.fix


def test_a_python_that_executors_do_not_have_is_named(tmp_path: Path) -> None:
    """The driver keeps its own."""
    finding = ask(with_executors(tmp_path, "/nowhere/python"))
    assert "have no /nowhere/python" in finding.detail
    assert f"Install Python {HERE}" in finding.fix


def answer(**changes: Any) -> dict[str, Any]:
    """An event of one executor that is well, but for ``changes``."""
    well = {
        "host": "node-7",
        "python": HERE,
        "executable": "/opt/env/bin/python",
        "versions": EXPECTED,
        "unreachable": {},
    }
    return {"spark": "4.1.3", "tasks": 2, "expected": EXPECTED, "executors": [{**well, **changes}]}


def judge(tmp_path: Path, event: dict[str, Any]) -> CheckResult:
    """The finding for ``event``."""
    return judge_executors(event, load_settings(env={"WINNOW_HOME": str(tmp_path)}))


def test_executors_that_lack_nothing_are_well(tmp_path: Path) -> None:
    """With Spark's version and the master."""
    finding = judge(tmp_path, answer())
    assert (finding.status, finding.fix) == (CheckStatus.OK, "")
    assert "Spark 4.1.3 ran 2 tasks" in finding.detail


def test_another_winnow_on_the_executors_is_a_failure_and_another_library_a_warning(tmp_path: Path) -> None:
    """Driver and tasks speak with one another; a library only has to be there."""
    other = judge(tmp_path, answer(versions={**EXPECTED, "winnow": "1.1.0"}))
    assert other.status is CheckStatus.FAILURE
    assert "on node-7 have winnow-log 1.1.0 for 1.2.3" in other.detail
    assert other.fix == "On node-7: /opt/env/bin/python -m pip install winnow-log==1.2.3"
    library = judge(tmp_path, answer(versions={**EXPECTED, "duckdb": "1.9.0"}))
    assert library.status is CheckStatus.WARNING
    assert "duckdb 1.9.0 for 2.0.0" in library.detail


@pytest.mark.parametrize("theirs", ["3.5.1", "4.2.0"])
def test_the_clusters_spark_stays_and_the_driver_gets_its_version(tmp_path: Path, theirs: str) -> None:
    """Older or newer than the driver's: nothing is installed on the executors but Winnow."""
    finding = judge(tmp_path, answer(versions={**EXPECTED, "winnow": "1.1.0", "pyspark": theirs}))
    assert finding.status is CheckStatus.FAILURE
    assert f"pyspark {theirs} for 4.1.3" in finding.detail
    driver, executors = finding.fix.split("; ")
    assert driver == f"Give the driver the cluster's Spark: {sys.executable} -m pip install pyspark=={theirs}"
    assert executors == "On node-7: /opt/env/bin/python -m pip install winnow-log==1.2.3"


def test_another_python_on_the_executors_is_a_failure_on_whatever_way_it_is_found(tmp_path: Path) -> None:
    """By a task, or by Spark before there is one."""
    for event in (answer(python="3.8"), {**answer(), "executors": [], "broken": {"pythons": ["3.8", HERE]}}):
        finding = judge(tmp_path, event)
        assert f"The driver has Python {HERE}, the executors" in finding.detail
        assert "3.8" in finding.detail
        assert "WINNOW_SPARK__CONF__spark__pyspark__python" in finding.fix


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://lake/w", "AWS_ENDPOINT_URL_S3"),
        ("hdfs://nn/w", "HADOOP_CONF_DIR"),
        ("/srv/lake", "Mount that folder on node-7"),
    ],
)
def test_a_folder_that_executors_cannot_use_is_named_with_the_reason(tmp_path: Path, uri: str, words: str) -> None:
    """A matter of a service: exit code 6."""
    finding = judge(tmp_path, answer(unreachable={uri: "permission denied"}))
    assert (finding.status, finding.exit_code) == (CheckStatus.FAILURE, 6)
    assert f"on node-7 cannot use {uri}: permission denied." in finding.detail
    assert words in finding.fix


def test_a_folder_of_the_same_name_on_another_machine_is_not_the_drivers(tmp_path: Path) -> None:
    """The driver's file is not there; in the right folder nothing stays behind."""
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    storage.write_bytes(str(right / "theirs"), b"x")
    found = dict(try_places([(str(wrong), "theirs", "mine"), (str(right), "theirs", "mine")]))
    assert list(found) == [str(wrong)]
    assert "another folder" in found[str(wrong)]
    assert [path.name for path in right.iterdir()] == ["theirs"]


def test_a_module_that_is_not_there_has_no_version() -> None:
    """Others say theirs."""
    (seen,) = probe_executor(["pyarrow", "no_such_module"], [])
    assert seen["versions"]["no_such_module"] is None
    assert seen["versions"]["pyarrow"]


@pytest.mark.parametrize(
    ("master", "shell", "deploy_mode", "is_set"),
    [
        ("yarn", True, None, True),
        ("yarn", False, None, False),
        ("yarn", True, "cluster", False),
        ("spark://m:1", False, None, True),
    ],
)
def test_the_drivers_python_is_this_one_where_the_driver_runs_here(
    tmp_path: Path, master: str, shell: bool, deploy_mode: str | None, is_set: bool
) -> None:
    """A Python that the settings name is the executors'; a driver on the cluster gets the cluster's."""
    env = {
        "WINNOW_HOME": str(tmp_path),
        "WINNOW_SPARK__MASTER": master,
        "WINNOW_SPARK__CONF__spark__pyspark__python": "/p",
    }
    if deploy_mode is not None:
        env["WINNOW_SPARK__CONF__spark__submit__deployMode"] = deploy_mode
    conf = build_spark_conf(load_settings(env=env), is_from_shell=shell)
    assert conf["spark.pyspark.python"] == "/p"
    assert conf.get("spark.pyspark.driver.python") == (sys.executable if is_set else None)
