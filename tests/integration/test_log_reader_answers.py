"""What the reader process of the page answers, asked in this process: records, keys, masks, and what a run would do."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import reader_lake
from tests.support.reader_lake import HOUR_MS, LARGE_VALUE_BYTES, OTHERS, PLANTED_KEY, PLANTED_VALUE, START_MS
from winnow.errors import UnknownTopicError, UsageError
from winnow.log_reader import search
from winnow.log_reader.answering import answer_request
from winnow.pipeline.read import record_search

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake, made once."""
    made = tmp_path_factory.mktemp("lake")
    reader_lake.build_lake(made)
    return made


@pytest.fixture
def ask(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks about ``orders``; ``page``: settings of the page."""

    def answer(question: str, page: dict[str, Any] | None = None, **parameters: Any) -> Any:
        with reader_lake.at_lake(folder, page or {}, monkeypatch):
            _, document = answer_request({"topic": "orders", "question": question, **parameters}, 2 << 30)
        return document

    return answer


def decode(shown: dict[str, Any]) -> str:
    """The text of a key or value as shown."""
    return base64.b64decode(shown["base64"]).decode()


def list_offsets(document: Any) -> list[int]:
    """The offsets of the records of a page."""
    return [int(each["offset"]) for each in document["records"]]


def test_partition_is_browsed_from_its_end_an_offset_an_instant_and_back(ask: Ask) -> None:
    """Pages join without a gap, over offsets that compaction removed."""
    newest = ask("browse", partition=0, limit=3)
    assert list_offsets(newest) == [OTHERS + 1, OTHERS + 2, OTHERS + 3]
    assert (newest["has_previous"], newest["has_next"]) == (True, False)
    assert list_offsets(ask("browse", partition=0, limit=3, before=OTHERS + 1)) == [OTHERS - 2, OTHERS - 1, OTHERS]
    start = ask("browse", partition=0, limit=2, offset=0)
    assert list_offsets(start) == [2, 3], "the first two versions of the planted key are superseded"
    assert (start["has_previous"], start["has_next"]) == (False, True)
    assert list_offsets(ask("browse", partition=0, limit=2, offset=int(start["next_offset"]))) == [4, 5]
    at = START_MS - 8 * HOUR_MS + 1000 * 40
    assert list_offsets(ask("browse", partition=0, limit=2, timestamp_ms=at)) == [40, 41]
    assert list_offsets(ask("browse", partition=0, limit=2, timestamp_ms=at + 10**12)) == []
    assert list_offsets(ask("browse", partition=1, limit=2)) == []
    with pytest.raises(UsageError, match="no partition 2"):
        ask("browse", partition=2, limit=2)
    with pytest.raises(UnknownTopicError):
        ask("browse", topic="nobody", partition=0, limit=2)


def test_newest_records_of_all_partitions_are_paged_to_the_first(ask: Ask) -> None:
    """Each record once, with its partition, where the answer is cut, too; and each gap of a partition."""
    everything = list_offsets(ask("browse", partition=0, limit=200, offset=0))
    told: list[int] = []
    missing: list[int] = []
    before: dict[str, int] = {}
    while True:
        page = ask("newest", limit=9, before_offsets=before)
        assert {each["partition"] for each in page["records"]} == {0}
        told[:0] = list_offsets(page)
        for gap in page["gaps"]:
            assert gap["partition"] == 0
            missing += range(int(gap["first_offset"]), int(gap["last_offset"]) + 1)
        if not page["has_previous"]:
            break
        before = {number: int(offset) for number, offset in page["before_offsets"].items()}
    assert told == everything
    assert sorted([*told, *missing]) == list(range(everything[-1] + 1))
    assert missing
    with pytest.raises(UsageError, match="before_offsets"):
        ask("newest", limit=9, before_offsets={"x": 1})


def search_all(ask: Ask, page: dict[str, Any] | None = None, limit: int = 50, **terms: Any) -> list[int]:
    """The offsets that a search finds, from question to question, and from the newest on the same backwards."""
    found = search_in_order(ask, page, limit, terms)
    assert search_in_order(ask, page, limit, {"newest_first": True, **terms}) == found[::-1]
    return found


def search_in_order(ask: Ask, page: dict[str, Any] | None, limit: int, terms: dict[str, Any]) -> list[int]:
    """The offsets that a search finds in one partition, in the order of its answers; its progress never goes back."""
    found: list[int] = []
    place, searched = None, -1
    before: dict[str, int] = {}
    while True:
        answer = ask("search", page=page, limit=limit, place=place, before_offsets=before, **terms)
        assert answer["searched_bytes"] >= searched
        assert len(answer["records"]) <= limit
        searched = answer["searched_bytes"]
        found += list_offsets(answer)
        if answer["place"] is None and answer["before_offsets"] is None:
            assert searched == answer["total_bytes"]
            return found
        if answer["place"] is not None:
            place = {"partition": answer["place"]["partition"], "offset": int(answer["place"]["offset"])}
        before = {number: int(offset) for number, offset in (answer["before_offsets"] or {}).items()}


def test_records_are_searched_by_what_they_show(ask: Ask) -> None:
    """By prefix, text, field, header and time, all at once or a match at a time."""
    assert search_all(ask, key_prefix="other-1") == list(range(10, 20))
    assert search_all(ask, key_prefix="other-1", limit=3) == list(range(10, 20))
    assert search_all(ask, value_text=PLANTED_VALUE, limit=1) == [2, OTHERS]
    assert search_all(ask, field="card", field_value="4111111111111111") == [OTHERS + 1]
    assert search_all(ask, field="owner.E-Mail") == [OTHERS + 1]
    assert search_all(ask, header="trace", limit=1) == [OTHERS]
    assert search_all(ask, header="trace", header_value="nothing") == []
    at = START_MS - 8 * HOUR_MS
    assert search_all(ask, from_ms=at + 40_000, until_ms=at + 43_000) == [40, 41, 42]
    assert search_all(ask, key_prefix="other-4", from_ms=at + 41_000, until_ms=at + 43_000, partition=0) == [41, 42]
    assert search_all(ask, key_prefix="other-1", partition=1) == []
    with pytest.raises(UsageError, match="something to look for"):
        ask("search", limit=1)
    with pytest.raises(UsageError, match="no partition 2"):
        ask("search", limit=1, partition=2, field="a")


def test_search_reads_a_bounded_part_and_goes_on(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little one question reads, each record is looked at once."""
    monkeypatch.setattr(search, "MAXIMUM_READ_BYTES", 1)
    assert search_all(ask, key_prefix="other-1") == list(range(10, 20))
    monkeypatch.setattr(search, "_ROWS", 7)
    monkeypatch.setattr(record_search, "_WINDOW_BYTES", 500)
    assert search_all(ask, key_prefix="other-") == list(range(3, OTHERS))


def test_search_finds_nothing_behind_a_mask(ask: Ask) -> None:
    """A match would tell what is masked: by pattern, by field, and what a topic's rules hide of a decoded record."""
    masks = {"masked_patterns": [PLANTED_VALUE], "masked_fields": "card"}
    assert search_all(ask, masks, value_text=PLANTED_VALUE) == []
    assert search_all(ask, masks, field="card", field_value="4111111111111111") == []
    assert search_all(ask, masks, value_text="4111") == []
    assert search_all(ask, masks, value_text='"id": 1234') == [OTHERS + 1]
    hidden: dict[str, Any] = {"topic": "profiles", "decoded": True}
    assert search_all(ask, field="city", field_value="Ulm", **hidden) == [0]
    assert search_all(ask, value_text=PLANTED_VALUE, **hidden) == []
    assert search_all(ask, field="email", **hidden) == []
    assert search_all(ask, header="trace", **hidden) == []
    assert search_all(ask, header="trace", topic="profiles") == [0, 1, 2]


def test_gaps_between_records_say_which_run_removed_them(ask: Ask) -> None:
    """On exactly one page each, whichever way one goes; a page needs no look at the records for it."""
    first = ask("browse", partition=0, limit=2, offset=0)
    (gap,) = first["gaps"]
    assert (gap["first_offset"], gap["last_offset"], gap["verdict"], gap["runs_total"]) == ("0", "1", "superseded", 1)
    why = ask("why", partition=0, offset=0)["why"]
    assert gap["runs"][0]["plan_id"] == why["runs"][0]["plan_id"]
    assert (gap["outcome"], gap["reason"]) == ("removed", "superseded by another record of the key")
    assert ask("browse", partition=0, limit=3)["gaps"] == []
    for limit in (1, 7, 60):
        told, before = [], OTHERS + 4
        while True:
            page = ask("browse", partition=0, limit=limit, before=before)
            told += page["gaps"]
            if not page["has_previous"]:
                break
            before = int(page["first_offset"])
        assert [each["first_offset"] for each in told] == ["0"]
    assert ask("browse", partition=1, limit=2)["gaps"] == []
    (never,) = ask("browse", partition=0, limit=2, before=2)["gaps"]
    assert (never["first_offset"], never["last_offset"]) == ("0", "1")


def test_going_back_from_every_offset_finds_the_records_just_before_it(ask: Ask) -> None:
    """Whatever the page begins with, it ends with the last record before that offset, and has as many as asked for."""
    everything = list_offsets(ask("browse", partition=0, limit=200, offset=0))
    assert len(everything) == OTHERS + 2
    for before in (0, 2, 3, 4, 30, OTHERS, OTHERS + 2, OTHERS + 4):
        for limit in (1, 7, 200):
            expected = [each for each in everything if each < before][-limit:]
            assert list_offsets(ask("browse", partition=0, limit=limit, before=before)) == expected


def test_values_are_cut_and_say_how_large_they_are(ask: Ask) -> None:
    """A few kB in a list, a megabyte where one record is asked for; a null value is a tombstone."""
    large, tombstone = ask("browse", partition=0, limit=2)["records"]
    assert (large["value"]["size_bytes"], large["value"]["is_cut"]) == (LARGE_VALUE_BYTES, True)
    assert len(base64.b64decode(large["value"]["base64"])) == 16 << 10
    assert tombstone["value"] is None
    whole = ask("record", partition=0, offset=int(large["offset"]))["record"]
    assert (len(base64.b64decode(whole["value"]["base64"])), whole["value"]["is_cut"]) == (1 << 20, True)
    assert ask("record", partition=0, offset=1)["record"] is None


def test_versions_of_a_key_are_found_with_the_winner_and_its_run(ask: Ask) -> None:
    """In each spelling, with values, and why the winner won; a key that is not there is an answer too."""
    key = PLANTED_KEY.encode()
    for body in (
        {"key": PLANTED_KEY, "encoding": "text"},
        {"key": base64.b64encode(key).decode(), "encoding": "base64"},
        {"key": key.hex(" "), "encoding": "hex"},
    ):
        found = ask("key", **body)
        assert [decode(each["value"]) for each in found["versions"]] == [f"{PLANTED_VALUE}-2", f"{PLANTED_VALUE}-new"]
        assert (found["why"]["winner"]["offset"], found["why"]["next_winner"]["offset"]) == ("2", str(OTHERS))
        assert found["why"]["won_in"]["plan_id"]
    missing = ask("key", key="nobody", encoding="text")
    assert (missing["versions"], missing["why"]["present"]) == ([], False)
    why = ask("why", partition=0, offset=2)
    assert [each["offset"] for each in why["versions"]] == ["2", str(OTHERS)]
    assert ask("why", partition=0, offset=1)["why"]["verdict"] == "superseded"


def test_versions_that_a_run_removed_are_found_in_the_files_that_it_took_out(ask: Ask) -> None:
    """Offsets 0 and 1 of the planted key, with their values and the run; what is there is not among them."""
    found = ask("key", key=PLANTED_KEY, encoding="text")
    removed = found["removed"]
    assert [(each["offset"], decode(each["value"])) for each in removed["records"]] == [
        ("0", f"{PLANTED_VALUE}-0"),
        ("1", f"{PLANTED_VALUE}-1"),
    ]
    assert removed["total"] == 2
    assert (removed["unread_files"], removed["damaged_files"]) == (0, 0)
    assert removed["files"] >= 1
    run = found["why"]["runs"][0]
    assert {each["plan_id"] for each in removed["records"]} == {run["plan_id"]}
    assert not any(each["is_certain"] for each in removed["records"]), "by the wall clock the grace has passed"
    masked = ask("key", page={"masked_patterns": [PLANTED_VALUE]}, key=PLANTED_KEY, encoding="text")["removed"]
    assert [decode(each["value"]) for each in masked["records"]] == ["***-0", "***-1"]
    assert ask("key", key="nobody", encoding="text")["removed"]["records"] == []


def test_key_is_json_as_typed_or_without_spaces(ask: Ask) -> None:
    """What was typed comes first; the answer says when only the form without white space was found."""
    assert ask("key", key='{"id":1}', encoding="json")["found_without_spaces"] is False
    found = ask("key", key='{ "id": 1 }', encoding="json")
    assert (found["why"]["present"], found["found_without_spaces"]) == (True, True)
    with pytest.raises(UsageError, match=r"not JSON") as refused:
        ask("key", key="{planted", encoding="json")
    assert "planted" not in str(refused.value)


def test_masked_things_never_leave_the_process(ask: Ask) -> None:
    """Patterns and JSON fields, in keys, values and headers; the rest of a value stays as it was written."""
    masks = {"masked_patterns": ["[0-9]{16}", "planted-[a-z]+"], "masked_fields": "e-mail"}
    records = {int(each["offset"]): each for each in ask("browse", masks, partition=0, limit=4)["records"]}
    assert decode(records[OTHERS]["key"]) == "***-7d1c"
    assert decode(records[OTHERS]["value"]) == "***-93ae-new"
    assert decode(records[OTHERS]["headers"][0]["value"]) == "***-51f0"
    shown = records[OTHERS + 1]["value"]
    assert decode(shown) == '{"card": "***", "owner": {"E-Mail": "***"}, "id": ***7890}'
    assert (shown["is_masked"], records[OTHERS + 3]["key"]["is_masked"]) == (True, False)


def test_preview_says_what_retention_would_take_and_changes_nothing(ask: Ask) -> None:
    """Checked as alter checks it; before and after, and the sentences that alter would print."""
    present = ask("explain")
    found = ask("preview", config={"cleanup.policy": "compact,delete", "retention.ms": str(HOUR_MS)})
    assert {each["name"] for each in found["changes"]} == {"cleanup.policy", "retention.ms"}
    assert any("Retention would remove" in each for each in found["notices"])
    assert found["before"]["totals"]["records_retired"] == 0
    assert found["after"]["totals"]["records_retired"] == OTHERS + 2, "all are older than an hour"
    assert ask("explain")["totals"] == present["totals"]
    assert "nearest known name is retention.ms" in ask("preview", config={"retention.msx": "1"})["error"]
    assert "both set and deleted" in ask("preview", config={"retention.ms": "1"}, reset=["retention.ms"])["error"]


def test_explain_forecast_and_ingests_name_no_byte_of_a_record(ask: Ask) -> None:
    """Figures per partition, deadlines, and the calls with what they brought."""
    explained = ask("explain")
    assert (explained["partitions_total"], explained["eligible_total"]) == (2, 1)
    assert explained["totals"]["records"] == OTHERS + 2
    assert ask("forecast")["prospects"] == []
    calls = ask("ingests", limit=1)
    assert (calls["total"], len(calls["calls"])) == (2, 1)
    assert (calls["calls"][0]["records_appended"], calls["calls"][0]["undoable"]) == (4, True)
    assert "planted" not in str([explained, calls])


def test_changes_say_what_undoing_each_would_bring_and_name_no_byte_of_a_record(ask: Ask) -> None:
    """The one compaction of the lake: its partition, the two records that it dropped, and how long it is possible."""
    found = ask("changes", limit=1)
    (change,) = found["changes"]
    assert (found["has_more"], change["kind"], change["partitions"], change["undoable"]) == (
        False,
        "compaction",
        [0],
        True,
    )
    assert (change["records"], change["files"], change["undone_total"]) == (2, 1, 0)
    assert change["until_ms"] == change["at_ms"] + found["grace_ms"]
    assert "planted" not in str(found)
    assert len(ask("changes", limit=10**6)["changes"]) == 1, "the limit of the reader process holds for any request"
