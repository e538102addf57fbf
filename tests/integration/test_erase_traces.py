"""What is left of an erased key anywhere: in files, a dump of PostgreSQL, output, reports, and the process list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from tests.support.cli_runner import b64, record, winnow, winnow_process, write_lines
from tests.support.erasing import read_contents

KEY, VALUE = "customer-zx81-4711", "secret-of-zx81-4711"
OTHER = "customer-other-0815"
FORMS = [form.encode() for text in (KEY, VALUE) for form in (text, str(b64(text)))]


@pytest.mark.parametrize("new_store_url", ["postgresql"], indirect=True)
def test_no_byte_of_an_erased_key_is_left_but_in_what_was_given(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive and the file with the keys are the caller's own."""
    home, page = tmp_path / "home", tmp_path / "certificate.html"
    monkeypatch.setenv("WINNOW_HOME", str(home))
    monkeypatch.setenv("WINNOW_STORE_URL", store_url)
    monkeypatch.chdir(tmp_path)
    rows = [record(key, value, partition=0, offset=n) for n, (key, value) in enumerate([(KEY, VALUE), (OTHER, "kept")])]
    archive = write_lines(tmp_path / "archive.jsonl", rows)
    (tmp_path / "keys").write_text(f"{KEY}\n")
    winnow("topics", "create", "orders", "--partitions", 1, "--config", "winnow.latest.table=true")
    winnow("ingest", "files", "orders", archive)
    winnow("latest-table", "update", "orders")
    assert find_traces(home, store_url)
    with watch_processes() as arguments:
        answer = winnow_process("erase", "orders", "--keys-from", "keys", "--reason", "request 4711", "--json")
    certificate = answer.document["erasure_id"]
    said = [
        winnow("erase", "certificate", certificate, "--verify", "--html", page),
        winnow("ingest", "files", "orders", archive, "--allow-duplicates"),
        winnow("sweep", "orders"),
    ]
    assert any("--keys-from keys" in each for each in arguments)
    texts = [page.read_text(), *arguments, *(text for each in (answer, *said) for text in (each.stdout, each.stderr))]
    assert [text for text in texts if any(form in text.encode() for form in FORMS)] == []
    assert find_traces(home, store_url) == []
    left = [json.loads(line)["key"] for line in winnow("read", "orders").stdout.splitlines()]
    assert left == [b64(OTHER)]


def find_traces(home: Path, store_url: str) -> list[str]:
    """Every file of the home, and every table of the store, that has the key or its value."""
    files = (path for path in sorted(home.rglob("*")) if path.is_file())
    found = [str(path) for path in files if any(form in data for data in read_contents(path) for form in FORMS)]
    return found + [name for name, dump in dump_tables(store_url) if any(form in dump for form in FORMS)]


def dump_tables(store_url: str) -> Iterator[tuple[str, bytes]]:
    """Every table with all that is in it."""
    with psycopg.connect(store_url.replace("+psycopg", "")) as server:
        names = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        assert names
        for (name,) in names:
            with server.cursor().copy(f'COPY "{name}" TO STDOUT') as copied:
                yield name, b"".join(bytes(part) for part in copied)


@contextmanager
def watch_processes() -> Iterator[set[str]]:
    """What anybody on the machine can see until the block ends: the arguments of every process."""
    arguments: set[str] = set()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.05):
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    arguments.add(" ".join(process.cmdline()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield arguments
    finally:
        is_over.set()
        thread.join()
