"""``winnow erase --engine spark``: real applications erase what one process erases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.erasing import FIRST, KEY, SECOND, compact, list_holding, open_erasing_world, without
from tests.support.world import TOPIC, open_world, record


def test_applications_erase_a_key_from_live_and_retired_files(tmp_path: Path) -> None:
    with open_erasing_world(tmp_path) as world:
        compact(world)
        world.ingest([record(9, KEY, b"since"), record(10, b"key-2", b"other")])
        before = world.read()
        secret_file = world.installation.settings.erase.hmac_key_file
    values = [each.value for each in [*FIRST, *SECOND] if each.key == KEY and each.value is not None]
    environment = os.environ | {"WINNOW_HOME": str(tmp_path / "home"), "WINNOW_SPARK__MASTER": "local[2]"}
    command = [sys.executable, "-m", "winnow.cli", "erase", TOPIC, "--key", "-", "--reason", "request 4711"]
    ended = subprocess.run([*command, "--engine", "spark", "--json"], input=KEY, env=environment, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    secret = secret_file.read_bytes().strip()
    assert not [text for text in (KEY, secret) if text in ended.stdout + ended.stderr]
    report = json.loads(ended.stdout)
    assert (report["keys_found"], report["deleted"]) == (1, True)
    with open_world(tmp_path) as world:
        assert world.read() == without(before)
        assert list_holding(world, KEY, *values) == []
        holding = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and secret in path.read_bytes()]
        assert holding == [secret_file]
