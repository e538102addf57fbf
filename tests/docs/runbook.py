"""Parses pages of docs/ into sections and runs their command blocks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.docs import command_server

DOCS = Path(__file__).parents[2] / "docs"

_FENCE = re.compile(r"^```(\S*) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A part of a page under one heading, with its blocks: those for any shell, and those for one with Airflow."""

    title: str
    text: str

    def blocks(self, kind: str = "") -> list[str]:
        """The shell blocks of this ``kind``."""
        return _find_blocks(self.text, kind)


def sections(page: str) -> dict[str, Section]:
    """The sections of ``docs/<page>`` by their titles."""
    _, *parts = re.split(r"^## (.+)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: Section(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def list_blocks(page: str, kind: str = "") -> list[str]:
    """The shell blocks of this ``kind`` in all of ``docs/<page>``, in their order."""
    return _find_blocks((DOCS / page).read_text(encoding="utf-8"), kind)


def _find_blocks(text: str, kind: str) -> list[str]:
    return [body for language, word, body in _FENCE.findall(text) if language == "sh" and word == kind]


@contextmanager
def prompt_program(
    program: str, folder: Path, env: Mapping[str, str] | None = None, *, loaded: str = ""
) -> Iterator[Path]:
    """Put a ``program`` that loses no time to imports into ``folder``, for PATH, for as long as the block runs.

    ``loaded``: what it loads, as :mod:`tests.docs.command_server` names it; the program itself when left out.
    """
    address = folder / f"{program}.socket"
    script = folder / program
    script.write_text(command_server.CLIENT.format(python=sys.executable, address=str(address)))
    script.chmod(0o755)
    command = [sys.executable, "-W", "ignore", command_server.__file__, loaded or program, str(address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert "ready\n" in iter(server.stdout.readline, "")
        yield folder
        server.stdin.close()
        assert server.wait(60) == 0


def run_block(block: str, folder: Path, env: dict[str, str], *, first_on_path: Path) -> str:
    """Run ``block`` in ``folder``; what it printed. Any command that fails, fails."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("WINNOW_", "AIRFLOW"))}
    path = os.pathsep.join([str(first_on_path), str(Path(sys.executable).parent), env.get("PATH", plain["PATH"])])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={**plain, **env, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return done.stdout
