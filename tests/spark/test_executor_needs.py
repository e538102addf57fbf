"""Executors have the wheel's base and Spark, nothing else: the driver compacts and ingests with them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.cli_runner import b64, make_topic, winnow, winnow_process
from tests.support.sample_archives import unpack_sample

ABSENT = ("airflow", "alembic", "great_expectations", "pandas", "pydantic", "pyiceberg", "sqlalchemy", "typer")


@pytest.fixture(scope="module")
def executor_python(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel, what it requires, and PySpark; it notes its starts in ``started`` beside it."""
    folder = tmp_path_factory.mktemp("executor")

    def run(*command: str) -> None:
        subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)

    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    pins = [f"{each.name}=={each.version}" for each in metadata.distributions() if each.name != "winnow-log"]
    (folder / "constraints.txt").write_text("\n".join(pins))
    uv = str(Path(sys.executable).parent / "uv")
    run(uv, "venv", "--quiet", "--python", sys.executable, str(folder / "env"))
    run(
        uv, "pip", "install", "--quiet", "--python", str(folder / "env"), "-c", str(folder / "constraints.txt"),
        str(wheel), f"pyspark=={metadata.version('pyspark')}",
    )  # fmt: skip
    python = folder / "executor-python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {folder}/started\nexec {folder}/env/bin/python "$@"\n')
    python.chmod(0o755)
    return python


@pytest.fixture
def spark_conf(executor_python: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings by which tasks run in that Python, and the driver in this one; the notes of its starts."""
    conf = {"spark.pyspark.python": str(executor_python), "spark.pyspark.driver.python": sys.executable}
    for name, value in conf.items():
        monkeypatch.setenv(f"WINNOW_SPARK__CONF__{name}", value)
    started = executor_python.parent / "started"
    started.unlink(missing_ok=True)
    return started


def test_executors_have_nothing_of_the_driver(executor_python: Path) -> None:
    """No scheduler, no database, no validation; a few hundred MB less in every executor's image."""
    code = f"import importlib.util as u; print([n for n in {ABSENT!r} if u.find_spec(n)])"
    found = subprocess.run([str(executor_python), "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_compaction_runs_on_executors_that_have_the_base_alone(tmp_path: Path, spark_conf: Path) -> None:
    """The newest record of each key stays; the driver validates and publishes."""
    make_topic("orders", tmp_path / "orders.jsonl", partitions=2, config=["segment.ms=1000"])
    answer = winnow_process("compact", "orders", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert answer.document[0]["status"] == "published"
    assert spark_conf.read_text()
    for partition in range(2):
        read = [json.loads(line) for line in winnow("read", "orders", "--partition", partition).stdout.splitlines()]
        assert [(each["offset"], each["value"]) for each in read] == [
            (offset, b64("version-1")) for offset in (3, 4, 5)
        ]


def test_ingest_runs_on_executors_that_have_the_base_alone(tmp_path: Path, spark_conf: Path) -> None:
    """As many records as one process appends, and the same."""
    unpack_sample("spark/parquet-by-topic.rich-small", tmp_path / "archive")
    winnow("topics", "create", "rich-small", "--partitions", 3, "--config", "cleanup.policy=delete")
    answer = winnow_process("ingest", "files", "rich-small", tmp_path / "archive", "--on", "spark", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert spark_conf.read_text()
    assert answer.document["records_appended"] == len(winnow("read", "rich-small").stdout.splitlines()) > 0
