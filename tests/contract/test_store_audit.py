"""The audit log on both databases: who did what, the newest first."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sqlalchemy import text

from tests.support import store_fixtures
from winnow.store import Store
from winnow.store.audit import MAXIMUM_NAMED_TOPICS, MAXIMUM_TEXT_CHARACTERS, name_topics
from winnow.store.audit_chain import check_chain
from winnow.store.rows import AuditEntry, Window

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

PAUSED = AuditEntry(
    1_000, "ann", "pause", "orders", "restore-2041", "airflow:change_partitions:manual__1", "partition 1"
)
ALTERED = AuditEntry(2_000, "bob@host", "alter", "orders", "", "shell", "segment.ms")
SWEPT = AuditEntry(3_000, "ann", "sweep")


def test_entries_are_found_by_topic_actor_and_action_newest_first(store: Store) -> None:
    """Each filter alone, and pages."""
    for entry in (PAUSED, ALTERED, SWEPT):
        store.audit.record(entry)
    assert store.audit.list_entries(Window()).rows == (SWEPT, ALTERED, PAUSED)
    assert store.audit.list_entries(Window(), topic="orders").rows == (ALTERED, PAUSED)
    assert store.audit.list_entries(Window(), actor="ann", action="pause").rows == (PAUSED,)
    second = store.audit.list_entries(Window(2, 2))
    assert (second.total, second.rows) == (3, (PAUSED,))


def test_entry_about_several_topics_is_among_those_of_each_that_it_names(store: Store) -> None:
    """By the whole name; names that a detail has without saying so, or of another case, are none."""
    many = replace(SWEPT, detail=f"segment.ms=1, {name_topics(['orders', 'a_b', 'clicks.v2'])}")
    store.audit.record(many)
    store.audit.record(ALTERED)
    for topic in ("a_b", "clicks.v2"):
        assert store.audit.list_entries(Window(), topic=topic).rows == (many,)
    assert store.audit.list_entries(Window(), topic="orders").rows == (many, ALTERED)
    for topic in ("clicks", "v2", "axb", "Orders", "segment.ms=1"):
        assert store.audit.list_entries(Window(), topic=topic).total == 0


def test_entry_names_thousands_of_topics_in_full_and_counts_the_rest(store: Store) -> None:
    names = [f"topic-{number}" for number in range(MAXIMUM_NAMED_TOPICS + 3)]
    store.audit.record(replace(SWEPT, detail=f"{'x' * (MAXIMUM_TEXT_CHARACTERS + 1)}, {name_topics(names)}"))
    (entry,) = store.audit.list_entries(Window(), topic=names[MAXIMUM_NAMED_TOPICS - 1]).rows
    what, _, named = entry.detail.partition(" topics: ")
    assert len(what) == MAXIMUM_TEXT_CHARACTERS
    assert named.endswith(f"{names[MAXIMUM_NAMED_TOPICS - 1]}, and 3 more")


def test_entry_written_again_is_there_once_and_long_texts_are_cut(store: Store) -> None:
    """A write whose outcome was unknown may be repeated."""
    long = replace(PAUSED, reason="x" * (MAXIMUM_TEXT_CHARACTERS + 1))
    store.audit.record(long)
    store.audit.record(long)
    assert store.audit.list_entries(Window()).rows == (replace(long, reason="x" * MAXIMUM_TEXT_CHARACTERS),)


# ------------------------------------------------------------------------------------------------- added, never changed


def list_ids(store: Store) -> list[str]:
    return [entry.entry_id for entry in store.audit.list_entries(Window()).rows]


def test_entry_of_another_content_with_the_same_id_is_an_entry_of_its_own(store: Store) -> None:
    """A DAG run of the same name, after the first was deleted: what the first did stays."""
    other = replace(PAUSED, actor="eve", at_ms=1_500, reason="nobody looked")
    for entry in (PAUSED, other, replace(PAUSED, at_ms=1_700), replace(other, at_ms=1_800)):
        store.audit.record(entry)
    rows = store.audit.list_entries(Window()).rows
    assert [(entry.actor, entry.at_ms) for entry in rows] == [("eve", 1_500), ("ann", 1_000)]
    assert list_ids(store) == [f"{PAUSED.entry_id}#2", PAUSED.entry_id]
    assert store.audit.verify_chain().first_break is None


# ------------------------------------------------------------------------------------------------------------ the chain


def fill(store: Store, count: int = 5) -> list[AuditEntry]:
    entries = [AuditEntry(number * 1_000, "ann", "sweep", f"t-{number}") for number in range(1, count + 1)]
    for entry in entries:
        store.audit.record(entry)
    return entries


def tamper(store: Store, statement: str) -> None:
    with store.audit._database.writing() as session:
        session.execute(text(statement))


def test_chain_of_untouched_entries_holds_and_names_its_end(store: Store) -> None:
    empty = store.audit.verify_chain()
    assert (empty.entries, empty.last_digest, empty.first_break) == (0, "", None)
    fill(store)
    report = store.audit.verify_chain()
    assert (report.entries, report.removed, report.last_number, report.first_break) == (5, 0, 5, None)
    assert store.audit.verify_chain(report.last_digest).contains_expected


def test_digest_is_that_of_the_documented_line(store: Store) -> None:
    """The form is part of the promise: others may compute it, too."""
    store.audit.record(replace(PAUSED, reason="ü\n"))
    line = json.dumps(
        ["", 1, PAUSED.entry_id, 1_000, "orders", "ann", "pause", "ü\n", PAUSED.origin, "partition 1"],
        separators=(",", ":"),
    )
    assert "\\u00fc\\n" in line
    assert store.audit.verify_chain().last_digest == hashlib.sha256(line.encode("ascii")).hexdigest()


CHANGED = replace(ALTERED, entry_id="changed-1", config_changes='{"orders":{"segment.ms":[null,"5"]}}')


def test_digest_covers_the_changes_of_an_entry_that_has_them_and_older_entries_keep_theirs(store: Store) -> None:
    """They are the last element of the documented line; of other entries the line is what it always was."""
    store.audit.record(ALTERED)
    previous = store.audit.verify_chain().last_digest
    store.audit.record(CHANGED)
    line = json.dumps(
        [previous, 2, "changed-1", 2_000, "orders", "bob@host", "alter", "", "shell", "segment.ms",
         CHANGED.config_changes],
        separators=(",", ":"),
    )  # fmt: skip
    assert store.audit.verify_chain().last_digest == hashlib.sha256(line.encode("ascii")).hexdigest()
    store.audit.record(SWEPT)
    assert store.audit.verify_chain().first_break is None
    for value in ("NULL", "''", "replace(config_changes, 'null', '\"9\"')"):
        with store.audit._database.writing() as session:
            session.execute(text(f"UPDATE winnow_audit SET config_changes = {value} WHERE number = 2"))
            found = check_chain(session).first_break
            session.rollback()
        assert found is not None, value
        assert found.number == 2
    tamper(store, "UPDATE winnow_audit SET config_changes = '{}' WHERE number = 1")
    broken = store.audit.verify_chain().first_break
    assert broken is not None
    assert broken.number == 1


def test_request_that_is_tried_again_is_the_same_whatever_values_it_finds(store: Store) -> None:
    """The first try may have changed some topics already."""
    for each in (CHANGED, replace(CHANGED, config_changes=None)):
        store.audit.record(each)
    assert store.audit.list_entries(Window()).rows == (CHANGED,)


def test_entry_is_found_by_its_id_or_what_only_its_id_begins_with(store: Store) -> None:
    """An id in full is that entry, though others begin with it."""
    longer, other = replace(CHANGED, entry_id="changed-12"), replace(CHANGED, entry_id="changed_12")
    for each in (CHANGED, longer, other):
        store.audit.record(each)
    assert store.audit.find_entries("changed-1") == [CHANGED]
    assert store.audit.find_entries("changed_") == [other]
    assert store.audit.find_entries("changed") == [CHANGED, longer]
    assert store.audit.find_entries("x") == []
    assert store.audit.list_entries(Window(), entry_id="changed-1").rows == (CHANGED,)
    assert store.audit.list_entries(Window(), entry_id="changed-1", topic="clicks").total == 0


def test_later_changes_of_a_topic_are_those_written_after_the_entry_oldest_first(store: Store) -> None:
    """By their numbers: a clock may go wrong. Creations are among them, other topics and other actions are not."""
    many = replace(CHANGED, entry_id="many", topic="", detail=name_topics(["clicks", "orders"]), at_ms=500)
    created = AuditEntry(400, "ann", "create", "orders")
    others = [replace(CHANGED, entry_id="clicks", topic="clicks"), AuditEntry(9_000, "ann", "pause", "orders")]
    earlier = replace(CHANGED, entry_id="earlier", at_ms=9_000)
    for each in (earlier, CHANGED, *others, many, created):
        store.audit.record(each)
    assert store.audit.list_later_changes("changed-1", "orders") == [many, created]
    assert store.audit.list_later_changes("unknown", "orders") == []


BREAKS: list[tuple[str, int | None, str]] = [
    ("UPDATE winnow_audit SET actor = 'eve' WHERE number = 3", 3, "not as it was written"),
    ("UPDATE winnow_audit SET at_ms = at_ms + 1 WHERE number = 5", 5, "not as it was written"),
    ("UPDATE winnow_audit SET digest = 'beef' WHERE number = 2", 2, "not as it was written"),
    ("DELETE FROM winnow_audit WHERE number = 1", 2, "entries 1 to 1 before it are missing"),
    ("DELETE FROM winnow_audit WHERE number IN (3, 4)", 5, "entries 3 to 4 before it are missing"),
    ("DELETE FROM winnow_audit WHERE number = 5", None, "entries 5 to 5 are missing"),
    ("DELETE FROM winnow_audit", None, "entries 1 to 5 are missing"),
    ("UPDATE winnow_audit_chain SET removed_number = 2, removed_digest = 'beef'", 1, "missing"),
]


def test_first_break_is_named(store: Store) -> None:
    fill(store)
    for statement, number, problem in BREAKS:
        with store.audit._database.writing() as session:
            session.execute(text(statement))
            found = check_chain(session).first_break
            session.rollback()
        assert found is not None, statement
        assert (found.number, found.at_ms is None) == (number, number is None), statement
        assert problem in found.problem
    assert store.audit.verify_chain().first_break is None


def test_end_that_was_cut_off_with_its_mark_is_noticed_by_a_digest_written_down_elsewhere(store: Store) -> None:
    """Whoever may write to the database can end the chain earlier; it then holds, but for the one who knows better."""
    fill(store, 3)
    before = store.audit.verify_chain()
    fill(store, 5)
    expected = store.audit.verify_chain().last_digest
    tamper(store, "DELETE FROM winnow_audit WHERE number > 3")
    tamper(store, f"UPDATE winnow_audit_chain SET number = 3, digest = '{before.last_digest}'")
    assert store.audit.verify_chain().first_break is None
    assert store.audit.verify_chain(expected).contains_expected is False
    assert store.audit.verify_chain(before.last_digest).contains_expected


def test_retention_removes_from_the_beginning_and_the_rest_holds(store: Store) -> None:
    """An old entry behind a younger one waits for it; entries go on being chained when all are gone."""
    fill(store)
    store.audit.record(replace(SWEPT, at_ms=500, entry_id="of a slow clock"))
    assert sum(pruned.rows for pruned in store.history.prune("orders", 3_500, rows_at_once=2)) == 3
    report = store.audit.verify_chain()
    assert (report.entries, report.removed, report.first_break) == (3, 3, None)
    list(store.history.prune("orders", 10_000))
    assert list_ids(store) == []
    fill(store, 2)
    report = store.audit.verify_chain()
    assert (report.entries, report.removed, report.last_number, report.first_break) == (2, 6, 8, None)
    tamper(store, "DELETE FROM winnow_audit WHERE number = 7")
    assert store.audit.verify_chain().first_break is not None


def test_lost_end_of_the_chain_goes_on_after_the_last_entry(store: Store) -> None:
    """Removing the row stops nobody from writing down what people do."""
    fill(store, 2)
    tamper(store, "DELETE FROM winnow_audit_chain")
    store.audit.record(SWEPT)
    assert store.audit.verify_chain().entries == 3


def test_writers_at_once_make_one_chain(store_url: str) -> None:
    with Store.open(store_url) as store, ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda number: fill(store, 4), range(6)))
        report = store.audit.verify_chain()
    assert (report.entries, report.last_number, report.first_break) == (24, 24, None)
