"""A refused `--create` leaves no topic; one that somebody else has begun to use stays."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_runner import b64, record, winnow, write_lines
from tests.support.foreign_tables import create_kafka_table, make_catalog, make_rows
from tests.support.world import TOPIC, build_versions, open_world, write_jsonl
from winnow.log.topic_log import TopicLog
from winnow.pipeline.topics.deletion import withdraw_topic

Arguments = list[object]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    winnow("topics", "create", "other", "--partitions", 1)
    return tmp_path


def list_files(home: Path) -> list[str]:
    """The files of the warehouse that belong to no topic but ``other``."""
    found = [path.relative_to(home).as_posix() for path in (home / "home").rglob("*") if path.is_file()]
    return sorted(path for path in found if f"/{TOPIC}" in path)


def list_tables(home: Path) -> list[str]:
    """All entries of the catalog."""
    with sqlite3.connect(home / "home" / "catalog.db") as database:
        return sorted(name for (name,) in database.execute("SELECT table_name FROM iceberg_tables"))


def list_topics() -> list[str]:
    """All topics; none is deleted and not removed yet."""
    listed = winnow("topics", "list", "--json")
    assert "Deleted" not in listed.stderr
    names: list[str] = listed.document
    return names


def bad_json(folder: Path) -> Arguments:
    write_lines(folder / "in.jsonl", [record("a", "1", partition=0, offset=number) for number in range(3)])
    with (folder / "in.jsonl").open("a") as file:
        file.write("{not json\n")
    return ["files", TOPIC, folder / "in.jsonl"]


def foreign_topic(folder: Path) -> Arguments:
    return ["files", TOPIC, write_lines(folder / "in.jsonl", [record("a", "1", partition=0, offset=0, topic="clicks")])]


def gap(folder: Path) -> Arguments:
    """The offsets go back."""
    offsets = (5, 6, 2)
    return [
        "files",
        TOPIC,
        write_lines(folder / "in.jsonl", [record("a", "1", partition=0, offset=each) for each in offsets]),
    ]


def ambiguous_encoding(folder: Path) -> Arguments:
    """Connect's JSON, whose values may be text or Base64."""
    rows = [{"key": b64("abc"), "value": b64("def"), "offset": 0, "timestamp": "2023-11-14T22:13:20Z"}]
    (folder / f"{TOPIC}-0-0").write_text("\n".join(json.dumps(row) for row in rows))
    return ["files", TOPIC, folder / f"{TOPIC}-0-0", "--layout", "aiven"]


def keyless(folder: Path) -> Arguments:
    return ["files", TOPIC, write_lines(folder / "in.jsonl", [record(None, "1", partition=0, offset=0)])]


def missing_file(folder: Path) -> Arguments:
    return ["files", TOPIC, folder / "nowhere.jsonl"]


def unknown_layout(folder: Path) -> Arguments:
    return [*bad_json(folder), "--layout", "nothing"]


def unknown_epoch(folder: Path) -> Arguments:
    path = write_lines(folder / "in.jsonl", [record("a", "1", partition=0, offset=0)])
    return ["files", TOPIC, path, "--epoch", "7"]


def unreachable_kafka(folder: Path) -> Arguments:
    return ["kafka", TOPIC, "--bootstrap-servers", "127.0.0.1:1"]


def unknown_table(folder: Path) -> Arguments:
    return ["iceberg", TOPIC, "lake.shop.nothing"]


REFUSALS: list[tuple[Callable[[Path], Arguments], Arguments, int, str]] = [
    (bad_json, [], 3, "JSON"),
    (bad_json, ["--partitions", 2], 3, "JSON"),
    (foreign_topic, ["--partitions", 2], 3, "clicks"),
    (gap, [], 3, "offset"),
    (ambiguous_encoding, ["--partitions", 1], 3, "--encoding"),
    (keyless, [], 3, "key"),
    (missing_file, [], 3, "nowhere"),
    (missing_file, ["--partitions", 1], 3, "nowhere"),
    (unknown_layout, ["--partitions", 1], 2, "nothing"),
    (unknown_epoch, [], 2, "epoch"),
    (unreachable_kafka, [], 6, "cannot be reached"),
    (unknown_table, [], 2, "nothing"),
]


def test_refused_create_leaves_no_topic_and_no_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the catalog, not in the warehouse, not among the deleted ones, and the name is free."""
    make_catalog(home / "lake", monkeypatch)
    monkeypatch.setattr("winnow.kafka.cluster.REQUEST_TIMEOUT_S", 0.2)
    for number, (make, flags, code, word) in enumerate(REFUSALS):
        folder = home / f"in-{number}"
        folder.mkdir()
        answer = winnow("ingest", *make(folder), "--create", *flags, code=code)
        assert word in answer.stderr
        assert (list_tables(home), list_files(home)) == (["other"], []), make.__name__
    assert list_topics() == ["other"]
    winnow("topics", "create", TOPIC, "--partitions", 1)


def test_refused_table_leaves_no_topic(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second row has no key, which only reading finds."""
    table = create_kafka_table(make_catalog(home / "lake", monkeypatch))
    table.append(make_rows([*build_versions(0, 2), *[build_versions(2, 1)[0].__class__(2, None, b"x", 5)]]))
    winnow("ingest", "iceberg", TOPIC, "lake.shop.orders", "--create", code=3)
    assert list_topics() == ["other"]
    assert list_files(home) == []


def test_each_topic_that_is_refused_goes_and_the_others_stay(home: Path) -> None:
    """One call over several topics."""
    for topic, key in (("good", b64("a")), (TOPIC, None)):
        row = {"key": key, "value": b64("1"), "offset": 0, "timestamp": "2023-11-14T22:13:20Z"}
        (home / "in").mkdir(exist_ok=True)
        (home / "in" / f"{topic}-0-0").write_text(json.dumps(row))
    encodings = ["--encoding", "key=base64", "--encoding", "value=base64"]
    answer = winnow("ingest", "files", "--each-topic", home / "in", "--create", *encodings, code=3)
    assert "Topic orders, which this call had created, is removed again." in answer.stderr
    assert list_topics() == ["good", "other"], answer.stderr
    assert list_files(home) == []


def test_topic_that_was_there_before_stays_when_its_ingest_is_refused(home: Path) -> None:
    winnow("topics", "create", TOPIC, "--partitions", 1)
    winnow("ingest", *bad_json(home), "--create", code=3)
    assert list_topics() == [TOPIC, "other"]


def test_topic_that_is_created_and_withdrawn_is_in_the_audit_log(home: Path) -> None:
    winnow("ingest", *bad_json(home), "--create", code=3)
    with sqlite3.connect(home / "home" / "store.db") as store:
        rows = store.execute("SELECT action FROM winnow_audit WHERE topic = ? ORDER BY number", (TOPIC,)).fetchall()
    assert [action for (action,) in rows] in ([], ["create", "delete"])


def test_topic_that_an_ingest_creates_is_in_the_audit_log_as_one_that_is_created_by_hand(home: Path) -> None:
    write_lines(home / "in.jsonl", [record("a", "1", partition=1, offset=0)])
    winnow("ingest", "files", TOPIC, home / "in.jsonl", "--create", "--partitions", 2)
    winnow("topics", "create", "by.hand", "--partitions", 2)
    with sqlite3.connect(home / "home" / "store.db") as store:
        rows = store.execute("SELECT topic, detail FROM winnow_audit WHERE action = 'create'").fetchall()
    details = dict(rows)
    assert details[TOPIC] == details["by.hand"] == "2 partitions"


# ---------------------------------------------------------------------------------------------------------- races


def test_topic_to_which_another_process_committed_stays_with_its_records(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(1)
        uuid = world.head().table_uuid
        world.ingest(build_versions(0, 3))
        assert not withdraw_topic(world.installation, TOPIC, uuid)
        assert world.read() == build_versions(0, 3)


def test_commit_that_comes_while_the_topic_is_withdrawn_lands_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits between the look at the head and the commit that removes: it wins."""
    with open_world(tmp_path) as world:
        world.create(1)
        uuid, genuine = world.head().table_uuid, TopicLog._try
        done: list[bool] = []

        def commit_first(self: TopicLog, *arguments: object) -> object:
            if not done:
                done.append(True)
                world.ingest(build_versions(0, 3))
            return genuine(self, *arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(TopicLog, "_try", commit_first)
            assert not withdraw_topic(world.installation, TOPIC, uuid)
        assert world.read() == build_versions(0, 3)


def test_topic_for_which_another_process_prepares_an_ingest_stays(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(1)
        world.installation.store.ingests.open("theirs", TOPIC, least_number=0, holder="another", now_ms=world.clock())
        assert not withdraw_topic(world.installation, TOPIC, world.head().table_uuid)
        write_jsonl(world.folder / "a.jsonl", build_versions(0, 1))
        world.ingest(build_versions(0, 1))


def test_namesake_that_was_created_since_stays(tmp_path: Path) -> None:
    """Somebody removed the topic and created another one of the same name."""
    with open_world(tmp_path) as world:
        world.create(1)
        assert not withdraw_topic(world.installation, TOPIC, "00000000-0000-4000-8000-000000000000")
        assert world.read() == []
