"""A topic on HDFS whose archive is ingested and compacted by spark-submit on YARN, against the oracle."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import fs

from tests.cluster.order_log import PARTITIONS, RECORDS, make_order_log
from tests.support.hadoop_cluster import HadoopCluster, put_package_on_executors, run_hadoop
from tests.support.world import compute_survivors
from winnow.files import storage
from winnow.values.model import Record

pytest.importorskip("hdfs_native", reason="the extra hdfs is not installed")

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif("REAL_CLUSTERS" not in os.environ, reason="takes minutes: make cluster-test"),
]

ROOT = Path(__file__).parents[2]
TOPIC = "orders"


@dataclass(frozen=True)
class Installation:
    """A machine at the edge of the cluster: Winnow's commands with their settings."""

    cluster: HadoopCluster
    home: Path

    @property
    def warehouse(self) -> str:
        """Where the tables live."""
        return f"{self.cluster.address}/lake/warehouse"

    def winnow(self, *arguments: str, code: int = 0) -> str:
        """Run a command and check its exit code; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "winnow.cli", *arguments],
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                "HADOOP_CONF_DIR": str(self.cluster.conf_folder),
                "WINNOW_HOME": str(self.home),
                "WINNOW_WAREHOUSE": self.warehouse,
                "WINNOW_STAGING": f"{self.cluster.address}/lake/staging",
                "WINNOW_SPARK__MASTER": "yarn",
                **{
                    f"WINNOW_SPARK__CONF__{name.replace('.', '__')}": value
                    for name, value in put_package_on_executors().items()
                },
            },
            capture_output=True,
            encoding="utf-8",
            timeout=900,
        )
        assert done.returncode == code, (arguments, done.returncode, done.stdout[-4_000:], done.stderr[-4_000:])
        return done.stdout

    def list_segments(self) -> set[str]:
        """Every data file of the topics' tables."""
        return {entry.uri for entry in storage.list_files(f"{self.warehouse}/winnow") if "/data/" in entry.uri}


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """HDFS and YARN, with an archive of the topic in HDFS and the topic made from it on YARN."""
    with tempfile.TemporaryDirectory(prefix="winnow-hadoop-") as folder, run_hadoop(Path(folder, "hadoop")) as cluster:
        for partition in range(PARTITIONS):
            lines = [_format(each) for each in make_order_log(with_headers=False) if each.partition == partition]
            storage.write_bytes(f"{cluster.address}/archive/orders-{partition}-0.jsonl", "\n".join(lines).encode())
        made = Installation(cluster, Path(folder, "home"))
        settings = ("--config", "segment.ms=1000", "--config", "winnow.retired.grace.ms=0")
        made.winnow("topics", "create", TOPIC, "--partitions", str(PARTITIONS), *settings)
        yield made


def _format(each: Record) -> str:
    """A line of Aiven's sink; topic and partition are in the object's name."""
    at = datetime.fromtimestamp((each.timestamp_ms or 0) / 1000, UTC).isoformat(timespec="milliseconds")
    fields = {"offset": each.offset, "timestamp": at.replace("+00:00", "Z"), "headers": []}
    return json.dumps({"key": _text(each.key), "value": _text(each.value), **fields})


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def test_a_topic_on_hdfs_is_ingested_and_compacted_by_yarn_to_what_the_oracle_keeps(installation: Installation) -> None:
    """Record for record; YARN ran one application for each; the sweep leaves the files that the table names."""
    archive = f"{installation.cluster.address}/archive"
    report = json.loads(installation.winnow("ingest", "files", TOPIC, archive, "--on", "spark", "--json"))
    assert report["records_appended"] == PARTITIONS * RECORDS

    installation.winnow("compact", TOPIC)

    read = [json.loads(line) for line in installation.winnow("read", TOPIC).splitlines()]
    expected = compute_survivors(make_order_log(with_headers=False))
    assert len(expected) < PARTITIONS * RECORDS / 2
    assert [(each["partition"], each["offset"], each["key"], each["value"]) for each in read] == [
        (each.partition, each.offset, _text(each.key), _text(each.value)) for each in expected
    ]
    ran = installation.cluster.list_applications()
    assert [state for _, state in ran] == ["SUCCEEDED", "SUCCEEDED"], ran

    before = installation.list_segments()
    installation.winnow("sweep", TOPIC)
    left = installation.list_segments()
    assert left < before
    assert all("/ingest-" not in name for name in left)
    assert len(installation.winnow("read", TOPIC).splitlines()) == len(expected)


def test_doctor_finds_a_cluster_of_yarn_and_hdfs_well(installation: Installation) -> None:
    """Executors have Python, packages, warehouse and staging."""
    found = {
        each["check"]: each
        for each in json.loads(installation.winnow("doctor", "--spark", "--json", "--timeout", "600"))
    }
    for name in ("spark", "warehouse", "staging", "catalog", "store"):
        assert found[name]["status"] == "ok", found[name]
    assert "on yarn" in found["spark"]["detail"]


def test_no_draft_of_a_file_is_left_in_hdfs(installation: Installation) -> None:
    """Hidden names are those of files that are being written."""
    filesystem, path = storage.open_filesystem(installation.cluster.address)
    found = filesystem.get_file_info(fs.FileSelector(f"{path}/lake", recursive=True))
    assert [info.path for info in found if info.base_name.startswith(".")] == []
