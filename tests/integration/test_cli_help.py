"""The command line before it does anything: help, version, usage errors, and what it loads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tests.support.cli_runner import make_topic, winnow, winnow_process
from winnow.cli.app import app


def list_commands(group: TyperGroup | None = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """List every command that help shows."""
    group = group or cast(TyperGroup, get_command(app))
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from list_commands(command, (*path, name))
        if not command.hidden and not isinstance(command, TyperGroup):
            yield (*path, name)


COMMANDS = list(list_commands())

WHAT_IS_LOADED = """
import sys
from winnow.cli import main
sys.argv = ["winnow", *sys.argv[1:]]
try:
    main()
finally:
    heavy = {"duckdb", "great_expectations", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy"}
    print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


WHAT_IS_UNNEEDED = """
import sys
from winnow.cli import main
sys.argv = ["winnow", *sys.argv[1:]]
try:
    main()
finally:
    unneeded = {"alembic", "duckdb", "great_expectations", "pandas", "pyspark", "sqlalchemy.dialects.postgresql"}
    print(*sorted(unneeded & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["compact", "--help"], ["--version"]])
def test_help_and_version_load_no_heavy_library(arguments: list[str]) -> None:
    """Whoever asks for help waits for no library of the data plane."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WHAT_IS_LOADED, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr.split()) == (0, [])
    assert done.stdout


def test_top_help_shows_the_path_of_the_data_in_its_order() -> None:
    """A stranger reads off the help what to type first, second and third."""
    text = winnow("--help").stdout
    steps = ["topics create orders", "ingest files orders", "assess orders", "compact orders", "read orders"]
    places = [text.index(f"winnow {step}") for step in steps]
    assert places == sorted(places)
    listed = [
        line.split()[0]
        for line in text.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
        if not line.startswith("   ")
    ]
    assert " ".join(listed) == (
        "demo init doctor topics inspect ingest assess explain compare try-suite compact read latest latest-table "
        "schemas changes connect why restore receipts undo erase checkpoints partitions metrics sweep scrub watch "
        "audit store backup settings airflow ui"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_ends_its_paragraph_with_an_example_of_itself(command: tuple[str, ...]) -> None:
    """Every example is a call of the command that it explains."""
    text = winnow(*command, "--help").stdout
    assert f"Example: winnow {' '.join(command)}" in text
    assert "Raises" not in text


@pytest.mark.parametrize("group", [(), ("topics",), ("ingest",), ("checkpoints",), ("partitions",), ("store",)])
def test_help_fits_eighty_columns_and_no_sentence_is_cut(group: tuple[str, ...]) -> None:
    text = winnow(*group, "--help").stdout
    assert "..." not in text.replace("PATH...", "").replace("[ARGS]...", "").replace("]...", "")
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_shell_completes_commands_and_topics(tmp_path: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    make_topic("returns", tmp_path / "returns.jsonl")
    assert complete("winnow compa") == ["compare", "compact"]
    assert complete("winnow assess ") == ["orders", "returns"]
    assert complete("winnow topics describe ret") == ["returns"]


def test_shell_completes_nothing_where_topics_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_STORE_URL", "nothing://")
    assert complete("winnow assess ") == []


def complete(line: str) -> list[str]:
    """Complete ``line`` as bash does."""
    words = {"_WINNOW_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "winnow.cli"], env={**os.environ, **words}, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_version_is_one_line() -> None:
    """The version is that of the package."""
    from winnow import __version__

    assert winnow("--version").stdout == f"winnow {__version__}\n"


EACH_HELP = """
import os, sys
from winnow.cli import main
for command in sys.argv[1:]:
    print(f"# {command}", flush=True)
    if os.fork() == 0:
        sys.argv = ["winnow", *command.split(), "--help"]
        main()
    os.wait()
"""


def test_console_script_finds_every_command_though_it_makes_the_named_one_only() -> None:
    """Its help is the one that it has among all others, but for where lines are folded."""
    commands = [("",), *COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", EACH_HELP, *(" ".join(command) for command in commands)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    printed = re.split(r"^# .*\n", done.stdout, flags=re.MULTILINE)[1:]
    expected = [winnow(*filter(None, command), "--help").stdout for command in commands]
    assert ["".join(each.split()) for each in printed] == ["".join(each.split()) for each in expected]


@pytest.mark.parametrize(
    "arguments",
    [
        ["compost"],
        ["topics", "create", "orders"],
        ["read", "orders", "--partition", "-1"],
        ["assess", "--frequency", "2"],
    ],
)
def test_wrong_usage_ends_with_two_and_leaves_standard_output_empty(arguments: list[str]) -> None:
    """A misspelt command, a missing option, a value out of range, an unknown option."""
    answer = winnow(*arguments, code=2)
    assert answer.stdout == ""
    assert "Usage: " in answer.stderr


OLD_OPTIONS = [
    (("compact", "gone"), ("--now",), ("--include-active-segment",)),
    (("assess", "gone"), ("--now",), ("--include-active-segment",)),
    (("explain", "gone"), ("--now",), ("--include-active-segment",)),
    (
        ("ingest", "files", "gone", "x.jsonl", "--timestamps", "far"),
        ("--on", "local"),
        ("--engine", "local"),
    ),
    (("ingest", "files", "gone", "x.jsonl", "--timestamps", "far"), ("--on=far",), ("--engine=far",)),
    (("ingest", "files", "gone", "x.jsonl", "--timestamps", "far"), ("--again",), ("--allow-duplicates",)),
    (("ingest", "kafka", "gone"), ("--on", "far"), ("--engine", "far")),
    (("why", "gone", "--offset", "1", "--partition", "0"), ("--everywhere",), ("--all-partitions",)),
    (("latest", "gone", "--text"), ("--update-table",), ("--drop-table",)),
]


@pytest.mark.parametrize(("command", "old", "new"), OLD_OPTIONS)
def test_an_option_that_was_renamed_is_taken_by_its_old_name_which_no_help_shows(
    command: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    """Scripts go on; whoever learns the command learns the new word."""
    by_old, by_new = winnow(*command, *old, code=2).stderr, winnow(*command, *new, code=2).stderr
    assert by_old == by_new
    assert "No such option" not in by_old
    shown = winnow(*command[: 2 if command[0] == "ingest" else 1], "--help").stdout.split()
    assert old[0].partition("=")[0] not in shown


def test_topics_delete_keeps_its_now_and_a_value_after_two_dashes_is_no_option() -> None:
    """Only the command whose option was renamed takes the old name, and only as an option."""
    assert "--now" in winnow("topics", "delete", "--help").stdout.split()
    assert "no topic --now" in winnow("compact", "--", "--now", code=2).stderr


def test_topics_undelete_is_topics_restore() -> None:
    """Beside ``winnow restore``, which writes into Kafka, some look for this word."""
    assert winnow("topics", "undelete", "gone", code=2).stderr == winnow("topics", "restore", "gone", code=2).stderr


def test_as_of_without_an_offset_is_refused_before_anything_is_opened() -> None:
    """A time that could mean any time zone is no instant."""
    answer = winnow("assess", "--as-of", "2026-01-31T18:00:00", "--json", code=2)
    assert answer.stdout == ""
    assert "has no offset from UTC" in answer.stderr


def test_module_runs_as_the_console_script_does() -> None:
    """Where no script is installed ``python -m winnow.cli`` is the same."""
    answer = winnow_process("--version")
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, winnow("--version").stdout, "")


@pytest.mark.parametrize(
    "arguments", [["assess", "--json"], ["read", "orders", "--limit", "1"], ["receipts", "--json"]]
)
def test_commands_that_decide_or_show_load_neither_pandas_nor_engines(arguments: list[str], tmp_path: Path) -> None:
    """They need PyIceberg, PyArrow and SQLAlchemy; a store that is up to date needs no Alembic."""
    make_topic("orders", tmp_path / "orders.jsonl")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WHAT_IS_UNNEEDED, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr.split()) == (0, [])
    assert done.stdout
