"""``winnow latest --engine spark``: a real application writes the files of a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.world import TOPIC, build_versions, open_world
from winnow.files import storage


def test_an_application_writes_the_rows_of_one_process(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(2)
        world.ingest([*build_versions(0, 40), *build_versions(0, 40, partition=1)])
        staging = world.installation.settings.staging
    folder, single = tmp_path / "rows", tmp_path / "rows.parquet"
    folder.mkdir()
    environment = os.environ | {"WINNOW_HOME": str(tmp_path / "home"), "WINNOW_SPARK__MASTER": "local[2]"}
    command = [sys.executable, "-m", "winnow.cli", "latest", TOPIC, "--format", "parquet", "--output"]
    for options in ([folder, "--engine", "spark"], [single]):
        ended = subprocess.run([*command, *map(str, options)], env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["part-000000.parquet", "part-000001.parquet"]
    assert pq.read_table(folder).equals(pq.read_table(single))
    assert storage.list_files(storage.join(staging, "read")) == []
