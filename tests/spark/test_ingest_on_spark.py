"""``winnow ingest files --on spark``: a real application gives what one process gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.test_distributed_ingest import write_aiven
from tests.support.erased_keys import erase_keys, get_secret_file
from tests.support.sample_archives import unpack_sample
from tests.support.world import open_world
from winnow.files import storage


def run_ingest(home: Path, archive: Path, on: str, topic: str, *, hidden: bytes = b"") -> dict[str, Any]:
    """Run the command in an installation of its own; return its report without what differs from call to call.

    ``hidden``: what it may not print.
    """
    environment = os.environ | {"WINNOW_HOME": str(home), "WINNOW_SPARK__MASTER": "local[2]"}
    command = [sys.executable, "-m", "winnow.cli", "ingest", "files", topic, str(archive), "--on", on]
    ended = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert not hidden or hidden.decode() not in ended.stdout + ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return {name: each for name, each in report.items() if name not in {"snapshot_id", "ingest_id"}}


def test_an_application_gives_the_log_and_the_report_of_one_process(tmp_path: Path) -> None:
    """Files whose names do not tell their offsets: one application surveys them, another one reads them."""
    archive, topic = tmp_path / "archive", "rich-small"
    unpack_sample("spark/parquet-by-topic.rich-small", archive)
    for home in ("local", "spark"):
        with open_world(tmp_path / home) as world:
            world.create(3, topic, cleanup_policy="delete")
    local = run_ingest(tmp_path / "local" / "home", archive, "local", topic)
    spark = run_ingest(tmp_path / "spark" / "home", archive, "spark", topic)
    assert local["records_appended"] > 0
    assert spark == local
    with open_world(tmp_path / "local") as one, open_world(tmp_path / "spark") as other:
        assert other.read(topic=topic) == one.read(topic=topic)
        live = {segment.path for partition in range(3) for segment in other.segments(partition, topic)}
        assert {entry.uri for entry in storage.list_files(f"{other.head(topic).location}/data")} == live


def test_an_application_leaves_out_old_copies_of_erased_keys_and_leaves_no_secret(tmp_path: Path) -> None:
    topic, erased = "orders", b"key-3\xff"
    write_aiven(tmp_path / "archive", range(70))
    reports = {}
    for on in ("local", "spark"):
        with open_world(tmp_path / on) as world:
            world.create(1, topic)
            erase_keys(world, erased, topic=topic)
            secret_file = get_secret_file(world)
        secret = secret_file.read_bytes().strip()
        reports[on] = run_ingest(tmp_path / on / "home", tmp_path / "archive", on, topic, hidden=secret)
        files = [path for path in (tmp_path / on).rglob("*") if path.is_file()]
        assert [path for path in files if secret in path.read_bytes()] == [secret_file]
    assert (reports["spark"]["records_appended"], reports["spark"]["records_erased"]) == (60, 10)
    assert reports["spark"] == reports["local"]
    with open_world(tmp_path / "local") as one, open_world(tmp_path / "spark") as other:
        assert other.read(topic=topic) == one.read(topic=topic)
