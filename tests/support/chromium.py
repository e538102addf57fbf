"""Finds an installed Chromium, or installs Debian's package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first one found is used. The headless shell shows the same pages for two thirds of a whole browser's CPU."""
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium-headless-shell")
INSTALL_S = 300


def find_chromium() -> str:
    """The path of a Chromium. Never skips: a page that nobody looked at is not tested."""
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(("apt-get", "update", "--quiet"), timeout=INSTALL_S)
        subprocess.run(INSTALL, timeout=INSTALL_S, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        found = _installed()
    if found is None:
        pytest.fail(
            f"There is no Chromium on PATH ({', '.join(NAMES)}) and it could not be installed here, so the pages were "
            f"not looked at. Install one, on Debian with: sudo {' '.join(INSTALL)}",
            pytrace=False,
        )
    return found


def _installed() -> str | None:
    for name in NAMES:
        for candidate in (shutil.which(name), f"/usr/bin/{name}"):
            if candidate and Path(candidate).exists():
                return candidate
    return None
