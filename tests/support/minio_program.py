"""MinIO's server, built once per user from the Go module proxy."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from broker.jars import locate_cache
from tests.support.chart_tools import find_go

VERSION: Final = "v0.0.0-20260212201848-7aac2a2c5b7c"
"""Its checksum is in Go's public database of them; those of what it needs are in its own go.sum."""


def build_minio() -> Path:
    """The program; building it takes some minutes, once."""
    program = locate_cache().parent / "minio" / VERSION / "minio"
    if not program.is_file():
        go = find_go()
        assert go is not None, "Go is not installed, and MinIO is built with it"
        program.parent.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="draft-", dir=program.parent.parent) as draft:
            made = Path(draft) / "made"
            done = subprocess.run(
                [go, "install", f"github.com/minio/minio@{VERSION}"],
                env={**os.environ, "GOBIN": str(made), "GOTOOLCHAIN": "local"},
                capture_output=True,
                text=True,
                timeout=1800,
            )
            assert done.returncode == 0, done.stderr[-4000:]
            made.rename(program.parent)
    return program
