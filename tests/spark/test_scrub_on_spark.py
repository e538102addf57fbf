"""``winnow scrub --engine spark``: a real application reads the files and finds what is damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.world import TOPIC, build_versions, open_world
from winnow.files import storage


def test_an_application_finds_the_damaged_segment(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(2)
        world.ingest([*build_versions(0, 40), *build_versions(0, 40, partition=1)])
        (segment,) = world.segments(1)
        path = storage.parse_local_path(segment.path)
        data = path.read_bytes()
        path.write_bytes(data[:40] + bytes([data[40] ^ 4]) + data[41:])
    environment = os.environ | {"WINNOW_HOME": str(tmp_path / "home"), "WINNOW_SPARK__MASTER": "local[2]"}
    command = [sys.executable, "-m", "winnow.cli", "scrub", TOPIC, "--engine", "spark", "--json"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 4, ended.stderr
    (report,) = json.loads(ended.stdout)
    assert [finding["path"] for finding in report["findings"]] == [segment.path]
    assert (report["segments"], report["segments_checked"]) == (2, 2)
