"""Drivers after the first load Spark's classes from the archive that it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.config.settings import load_settings
from winnow.pipeline.spark.submit import run_job

_PROGRAM = """
from pyspark import SparkContext
print(SparkContext.getOrCreate().parallelize([0], 1).map(lambda _: "ran").collect())
"""


def test_second_driver_loads_spark_from_the_archive_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")  # without the archive of all tests
    program, loaded = tmp_path / "program.py", tmp_path / "loaded.log"
    program.write_text(_PROGRAM)
    monkeypatch.setenv("WINNOW_SPARK__CONF__spark__driver__extraJavaOptions", f"-Xlog:class+load:file={loaded}")
    counts = []
    for _ in range(2):
        assert run_job(load_settings(), [str(program)], name="classes", plans=[]).exit_code == 0
        sources = [line.rpartition("source: ")[2] for line in loaded.read_text().splitlines() if "org.apache" in line]
        from_archive = sources.count("shared objects file (top)")
        counts.append((from_archive, sum(source.startswith("file:") for source in sources)))
    assert counts[0][0] == 0
    assert counts[0][1] > 500
    assert counts[1][0] > 500
    assert counts[1][1] < counts[0][1] / 10
