"""Every command of Airflow in README and docs/, run in the embedded Airflow as it would be pasted."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.docs.runbook import prompt_program, run_block
from winnow.config.settings import load_settings
from winnow.embedded.airflow_env import locate_postgres
from winnow.embedded.airflow_home import open_airflow
from winnow.embedded.postgres import locate_socket_folder

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
SLOTS_IN_DOCS = {"winnow_spark": 4, "winnow_commit": 4, "winnow_scrub": 1}


def list_commands() -> list[str]:
    """The commands of all pages, in blocks and within sentences, each once."""
    found: list[str] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```sh.*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            found += re.findall(r"^(?:winnow |make )?airflow .+$", block, re.MULTILINE)
        sentences = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        found += re.findall(r"`((?:winnow |make )?airflow [^`]+)`", sentences)
    return list(dict.fromkeys(found))


def expand_make(command: str) -> str:
    """What make runs for ``make airflow``."""
    wanted = ["bash", "-c", f"{command} --dry-run --old-file=.venv/.installed --no-print-directory"]
    done = subprocess.run(wanted, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1].replace(".venv/bin/winnow", "winnow")


def test_commands_are_winnows_or_makes() -> None:
    """Plain ``airflow`` finds the embedded Airflow in no shell."""
    commands = list_commands()
    assert len(commands) > 12
    assert [each for each in commands if each.startswith("airflow ")] == []


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that nobody prepared."""
    with tempfile.TemporaryDirectory(prefix="winnow-docs-") as folder:
        yield Path(folder) / "home"


@contextmanager
def open_database(home: Path) -> Iterator[psycopg.Connection[tuple[str, Any]]]:
    """Airflow's database, while something runs it."""
    host = str(locate_socket_folder(home / "postgres"))
    with psycopg.connect(host=host, user="winnow", dbname="airflow") as connection:
        yield connection


def test_every_command_does_what_the_page_says(home: Path) -> None:
    """Triggers, pools, the connection, backfills: none fails, each leaves what it should, and nothing runs on."""
    shell = {"WINNOW_HOME": str(home), "WINNOW_SPARK__MASTER": "local[2]", "PYTHONPATH": str(ROOT)}
    settings = load_settings(cwd=home.parent, env=shell)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "WINNOW"))}
    with open_airflow(settings, {**plain, **shell}) as airflow:
        with prompt_program("winnow", home.parent, airflow.environment, loaded="winnow airflow") as folder:
            run_block("winnow airflow dags reserialize", ROOT, shell, first_on_path=folder)
            for command in list_commands():
                block = expand_make(command) if command.startswith("make ") else command
                run_block(block, home.parent, shell, first_on_path=folder)
        with open_database(home) as database:
            slots = dict(database.execute("SELECT pool, slots FROM slot_pool").fetchall())
            runs = Counter(database.execute("SELECT dag_id, run_type FROM dag_run").fetchall())
    assert {name: slots[name] for name in SLOTS_IN_DOCS} == SLOTS_IN_DOCS
    triggered = ("compact_now", "change_partitions", "change_topics", "erase_keys", "ingest_topics")
    assert runs == {(dag, "manual"): 1 for dag in triggered} | {("backfill_topics", "backfill"): 31}
    with pytest.raises(psycopg.OperationalError), open_database(home):
        pytest.fail(f"PostgreSQL of {locate_postgres(settings)} goes on running")
