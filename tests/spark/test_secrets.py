"""Keys in Spark's settings: they reach the application, and no command line on the way."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from winnow.config.settings import load_settings
from winnow.pipeline.spark.submit import run_job

SECRET = "hunter2=\\: #! \u00fc\U0001f511 'x'"
"""Every character that a file of Java's properties could take for something else."""

_PROGRAM = """
import json, sys
from pathlib import Path
from pyspark import SparkContext
context = SparkContext.getOrCreate()
task = context.parallelize([0], 1).map(lambda _: "ran").collect()
conf = dict(context.getConf().getAll())
java = context._jvm.java.lang.System
told = {
    "secret": conf["spark.hadoop.fs.s3a.secret.key"],
    "default": conf["spark.hadoop.from.the.defaults"],
    "both": conf["spark.hadoop.in.both"],
    "password": java.getProperty("trust.store.password"),
    "spaced": java.getProperty("with.a.space"),
    "task": task,
}
Path(sys.argv[1]).write_text(json.dumps(told))
"""


class Looker(threading.Thread):
    """Reads every command line of the processes below this one, as ``ps`` would, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.seen: set[str] = set()

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            parents: dict[int, int] = {}
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
            for number in parents:
                above = number
                while above in parents and above != os.getpid():
                    above = parents[above]
                if above == os.getpid() != number:
                    try:
                        self.seen.add(Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace"))
                    except OSError:
                        continue


def test_keys_reach_driver_and_executors_and_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With executors of their own, as on a cluster; what spark-defaults.conf says besides stays in force."""
    defaults = tmp_path / "spark"
    defaults.mkdir()
    (defaults / "spark-defaults.conf").write_text(
        "spark.hadoop.from.the.defaults  yes\nspark.hadoop.in.both  of the defaults\n"
    )
    conf = {
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.in.both": "of the settings",
        "spark.driver.extraJavaOptions": '-XX:-UsePerfData -Dtrust.store.password=hunter2 "-Dwith.a.space=a b"',
    }
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults))
    for name, value in conf.items():
        monkeypatch.setenv(f"WINNOW_SPARK__CONF__{name.replace('.', '__')}", value)
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local-cluster[1,1,1024]")
    program, told = tmp_path / "program.py", tmp_path / "told.json"
    program.write_text(_PROGRAM)
    settings = load_settings()

    looker = Looker()
    looker.start()
    try:
        done = run_job(settings, [str(program), str(told)], name="secrets", plans=[])
    finally:
        looker.stopped.set()
        looker.join()

    assert done.exit_code == 0
    assert json.loads(told.read_text()) == {
        "secret": SECRET,
        "default": "yes",
        "both": "of the settings",
        "password": "hunter2",
        "spaced": "a b",
        "task": ["ran"],
    }
    # spark-submit's shell lives for milliseconds; the JVM that it becomes has the same arguments and lives to the end.
    for kind in ("org.apache.spark.deploy.SparkSubmit", "CoarseGrainedExecutorBackend"):
        assert any(kind in line for line in looker.seen), f"no {kind} was seen, so this test shows nothing"
    assert [line for line in looker.seen if "hunter2" in line] == []
    assert list(settings.private_folder.glob("*/*")) == []
