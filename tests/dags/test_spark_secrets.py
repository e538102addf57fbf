"""Spark's settings hold keys: what Airflow starts, and what it logs of it, names a file."""

from __future__ import annotations

import logging
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import build_spark_conf, open_properties_file
from winnow_airflow.tasks.operators import CompactOperator

KEYS = {
    "spark.hadoop.fs.s3a.secret.key": "hunter2",
    "spark.hadoop.fs.s3a.access.key": "hunter2-id",
    "spark.openlineage.transport.auth.apiKey": "hunter2-lineage",
}


def test_the_command_of_the_operator_names_a_file_of_its_own_and_no_key(
    airflow_home: object, installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of the settings, and what a provider adds just before it starts; the file goes with the application."""
    operator = CompactOperator(task_id="compact", batch={})
    operator.conf = {**build_spark_conf(installation.settings), **KEYS}
    with ExitStack() as files, caplog.at_level(logging.INFO):
        operator._file_of = lambda conf: files.enter_context(open_properties_file(installation.settings, conf))
        command = operator._get_hook()._build_spark_submit_command("compact.py")
        assert "hunter2" not in " ".join(command) + caplog.text
        assert "--load-spark-defaults" in command
        path = Path(command[command.index("--properties-file") + 1])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.is_relative_to(installation.settings.home)
        text = path.read_text()
        assert [value for value in KEYS.values() if f"={value}\n" not in text] == []
    assert not path.exists()


def test_a_retry_is_an_attempt_of_its_own_and_never_waits_for_the_driver_of_an_earlier_one(
    airflow_home: object,
) -> None:
    """The earlier driver writes the manifest of its own attempt; and on YARN the provider would refuse to start."""
    assert not CompactOperator(task_id="compact", batch={}).durable
