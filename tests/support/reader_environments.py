"""Environments of readers that are not among the project's own requirements: made once per user, from PyPI."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from broker.jars import locate_cache

UV = Path(sys.executable).parent / "uv"
_HEAD = re.compile(r"# (?:Python|A POSIX shell with Python and|Python with) (?:with )?(?P<named>[^\n;]+)")


def list_requirements(program: str) -> list[str]:
    """The packages that the first line of ``program`` names."""
    found = _HEAD.match(program)
    assert found is not None, program
    return [each.strip('"') for each in re.split(r", (?![^\[]*\])", found["named"])]


def find_environment(requirements: list[str]) -> Path:
    """The folder of commands of an environment with ``requirements``, made if there is none."""
    digest = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:12]
    folder = locate_cache().parent / "readers" / digest
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
        for command in (
            [UV, "venv", "--quiet", "--relocatable", "--python", sys.executable, draft / "env"],
            [UV, "pip", "install", "--quiet", "--python", draft / "env", *requirements],
        ):
            done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-2000:]
        (draft / "env").rename(folder)
        draft.rmdir()
    return folder / "bin"
