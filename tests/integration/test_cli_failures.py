"""How commands end: exit codes, one sentence, tracebacks on request, progress on standard error."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.support.cli_runner import make_topic, record, winnow, winnow_process, write_lines
from winnow import errors
from winnow.cli.command_errors import guard_command, run_for_each_topic
from winnow.cli.output import prepare_output, print_message
from winnow.cli.progress import CompactionProgress
from winnow.files import object_store

EVENT: dict[str, Any] = {
    "event": "partition",
    "topic": "orders",
    "partition": 0,
    "records_in": 1000,
    "records_kept": 300,
    "records_superseded": 690,
    "tombstones_expired": 10,
    "bytes_in": 2048,
    "bytes_out": 1024,
    "seconds": 0.42,
}


def end(problem: BaseException) -> tuple[int, str]:
    """Exit code and standard error of a command that raises ``problem``."""

    def command() -> None:
        prepare_output()
        raise problem

    application = typer.Typer()
    application.command()(guard_command(command))
    result = CliRunner().invoke(application, [])
    assert result.stdout == ""
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.WinnowError, 1),
        (errors.ConfigurationError, 2),
        (errors.BadInputError, 3),
        (errors.ValidationBrokenError, 4),
        (errors.CommitUnknownError, 5),
        (errors.ServiceError, 6),
    ],
)
def test_error_of_winnow_is_its_sentence_and_its_exit_code(
    kind: Callable[[str], errors.WinnowError], code: int
) -> None:
    """Nothing is added to what the error says, no traceback above all."""
    assert end(kind("Topic orders was left alone.")) == (code, "error: Topic orders was left alone.\n")


def test_a_package_that_cannot_be_imported_is_told_with_its_maker_s_words() -> None:
    code, text = end(ImportError("pyarrow requires NumPy 2.0.0 or newer"))
    assert code == 1
    assert text.startswith("error: A package cannot be imported: pyarrow requires NumPy 2.0.0 or newer. See")
    assert "winnow doctor" in text


def test_unexpected_exception_is_one_sentence_without_the_data_it_may_quote() -> None:
    """A library may quote what it choked on; its words are not repeated."""
    code, text = end(ValueError("cannot parse: secret"))
    assert code == 1
    assert text.startswith("error: Unexpected ValueError in ")
    assert "WINNOW_DEBUG=1" in text
    assert "secret" not in text
    assert text.count("\n") == 1


def test_traceback_is_shown_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """WINNOW_DEBUG=1 is for whoever mends it, and no setting of an installation."""
    monkeypatch.setenv("WINNOW_DEBUG", "1")
    code, text = end(ValueError("cannot parse"))
    assert code == 1
    assert "Traceback (most recent call last)" in text
    assert "ValueError: cannot parse" in text
    assert winnow("settings").stderr == ""


def test_interrupt_ends_with_130_and_says_what_stays() -> None:
    """As shells count it."""
    code, text = end(KeyboardInterrupt())
    assert code == 130
    assert text == "Interrupted. What was published stays; the next run completes or closes what was not.\n"


def test_home_that_cannot_be_made_is_told_in_the_words_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be: no traceback, nothing on standard output."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("WINNOW_HOME", str(blocked / "home"))
    answer = winnow_process("topics", "list", "--json")
    assert answer.exit_code != 0
    assert answer.stdout == ""
    assert "Not a directory" in json.loads(answer.stderr)["error"]["what"]
    assert "Traceback" not in answer.stderr


def test_catalog_that_cannot_be_reached_ends_with_six(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service is down: wait, then run it again."""
    make_topic("orders", tmp_path / "orders.jsonl")
    monkeypatch.setenv("WINNOW_CATALOG__URI", "postgresql+psycopg://winnow@127.0.0.1:1/winnow?connect_timeout=1")
    answer = winnow("assess", "orders", "--json", code=6)
    assert answer.stdout == ""
    assert "cannot be reached" in answer.stderr


def test_metadata_store_that_cannot_be_reached_ends_with_six(monkeypatch: pytest.MonkeyPatch) -> None:
    """The password of its URL is not in the sentence."""
    monkeypatch.setenv("WINNOW_STORE_URL", "postgresql+psycopg://winnow:hunter2@127.0.0.1:1/winnow?connect_timeout=1")
    answer = winnow("assess", "--json", code=6)
    assert answer.stdout == ""
    assert "hunter2" not in answer.stderr


@pytest.mark.parametrize(("codes", "code"), [([], 0), ([2], 2), ([2, 6, 4], 6), ([6, 1, 5], 1), ([0, 3], 3)])
def test_exit_code_of_several_is_one_before_all_else_the_highest(codes: list[int], code: int) -> None:
    """The rule of the interface."""
    assert errors.find_worst_exit_code(codes) == code


def test_topics_after_a_failing_one_are_still_seen_to() -> None:
    """A topic named twice is done once."""

    def action(topic: str) -> str:
        if topic == "bad":
            raise errors.TopicBusyError("Another run holds bad.")
        return topic.upper()

    outcome = run_for_each_topic(["a", "bad", "b", "a"], action)
    assert (outcome.results, outcome.exit_code, outcome.all_failed) == (["A", "B"], 5, False)
    assert run_for_each_topic(["bad"], action).all_failed


def test_what_two_parts_of_the_pipeline_say_alike_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """An alert and the error that it is about are one sentence to whoever sits before the terminal."""
    prepare_output()
    logging.getLogger("winnow.alerts").error("%s", "Validation of orders failed.")
    print_message("Validation of orders failed.", prefix="error: ")
    print_message("Something else.")
    assert capsys.readouterr().err == "error: Validation of orders failed.\nSomething else.\n"


def test_progress_without_a_terminal_is_a_line_per_partition(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures and bytes of each finished partition; standard output stays empty."""
    with CompactionProgress() as progress:
        progress({"event": "started", "partitions": 2, "bytes": 4096})
        progress(EVENT)
        progress({"event": "partition", "topic": "orders", "partition": 1, "error": "No space left on device"})
        progress({"event": "plan", "topic": "orders", "plan_id": "p", "manifest": None, "error": None, "exit_code": 0})
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Compacting 2 partitions, 4.0 KiB",
        "orders-0: 1,000 records in, 300 kept, 690 superseded, 10 tombstones expired; 2.0 KiB -> 1.0 KiB in 0.4 s",
        "orders-1: failed: No space left on device",
    ]


def test_progress_on_a_terminal_is_a_bar_that_ends_without_a_trace(tmp_path: Path) -> None:
    """Drawn on standard error where that is a terminal; a partition's line is left out there."""
    code = (
        "import json, sys, time\n"
        "from winnow.cli.progress import CompactionProgress\n"
        "with CompactionProgress() as progress:\n"
        "    for event in json.loads(sys.argv[1]):\n"
        "        progress(event)\n"
        "        time.sleep(0.3)\n"
        "print('result')\n"
    )

    events = [{"event": "started", "partitions": 1, "bytes": 2048}, EVENT, {"event": "plan", "topic": "orders"}]
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(events)],
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        timeout=60,
    )
    os.close(follower)
    drawn = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert (done.returncode, done.stdout) == (0, "result\n")
    assert "Compacting, 1 of 1 partition done" in drawn
    assert "orders-0: 1,000 records in" not in drawn


def test_a_refusal_is_one_line_also_where_duckdb_was_at_work(tmp_path: Path) -> None:
    """DuckDB says 47 lines about leaks where Python ends in haste, and not where the process does."""
    path = make_topic("orders", tmp_path / "orders.jsonl")
    other = write_lines(tmp_path / "other.jsonl", [record("key-0", "another", partition=0, offset=1)])
    answer = winnow_process("ingest", "files", "orders", other, path)
    assert (answer.exit_code, answer.stderr.count("\n")) == (3, 1)
    answer = winnow_process("why", "nowhere", "--partition", 0, "--offset", 1)
    assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)


def test_a_command_ends_with_its_exit_handlers_and_without_a_look_for_garbage() -> None:
    """What was printed is out, the code is the command's, and what libraries have left to do is done."""
    code = (
        "import atexit, gc, sys\n"
        "from winnow.cli.console_script import run\n"
        "class Garbage:\n"
        "    def __del__(self):\n"
        "        print('looked for garbage', file=sys.stderr)\n"
        "kept = Garbage()\n"
        "kept.itself = kept\n"
        "atexit.register(print, 'handled', file=sys.stderr)\n"
        "sys.argv = ['winnow', *sys.argv[1:]]\n"
        "run()\n"
    )
    for arguments, returned, said in ((["--version"], 0, "winnow "), (["topics", "lost"], 2, "")):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout.startswith(said)) == (returned, True)
        assert done.stderr.splitlines()[-1] == "handled"


def test_output_that_nobody_takes_any_more_ends_with_a_code_of_its_own() -> None:
    """As Python's own end has it: not every line has arrived, so the command did not do what it was asked."""
    code = (
        "import os, sys; os.close(1); from winnow.cli.console_script import run; sys.argv = ['winnow', '--help']; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode != 0


def test_a_google_bucket_without_network_is_a_sentence_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's client tries for a quarter of an hour where nobody says how long."""
    assert object_store.GCS_RETRY_SECONDS <= 60
    monkeypatch.setattr(object_store, "GCS_RETRY_SECONDS", 1)
    monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", "http://127.0.0.1:9")
    make_topic("orders", tmp_path / "orders.jsonl")
    answer = winnow("ingest", "files", "orders", "gs://a-bucket-out-of-reach/dump.jsonl", code=6)
    assert answer.stderr.startswith("error: The object store does not serve gs://a-bucket-out-of-reach/dump.jsonl (")
    assert "Check that the bucket is there, the network and the credentials" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_home_whose_name_is_not_utf8_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow opens no such path; the sentence says which."""
    monkeypatch.setenv("WINNOW_HOME", f"{tmp_path}/{os.fsdecode(b'caf' + bytes([0xE9]))}")
    answer = winnow("topics", "create", "orders", "--partitions", 1, code=2)
    assert "caf\\xe9" in answer.stderr
    assert answer.stderr.count("\n") == 1
