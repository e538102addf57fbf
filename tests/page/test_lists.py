"""Lists by owner and tag, and as files for a spreadsheet."""

from __future__ import annotations

import csv
import io

from tests.page.conftest import Visitor
from tests.page.sample_rows import put, put_run
from winnow.store import Store
from winnow_airflow.page.exports import write_csv


def label(store: Store, topic: str, owner: str, tags: str) -> None:
    """Give a topic an owner and tags."""
    put(store, topic, owner=owner, tags=tags)


def names(viewer: Visitor, **asked: str) -> list[str]:
    """The names of the topics that match, by name."""
    return [each["topic"] for each in viewer.json("api/topics", sort="topic", **asked)["topics"]]


def test_topics_are_found_by_owner_and_by_whole_tags(viewer: Visitor, home_store: Store) -> None:
    """A tag that is part of another one is another tag, and no character of it is special."""
    label(home_store, "orders", "payments team", "gold,pii")
    label(home_store, "clicks", "web", "gold_2")
    label(home_store, "visits", "web", "")
    assert names(viewer, owner="web") == ["clicks", "visits"]
    assert names(viewer, tag="gold") == ["orders"]
    assert names(viewer, tag="gold_2") == ["clicks"]
    assert names(viewer, tag="g%") == []
    assert names(viewer, owner="web", search="vis") == ["visits"]
    assert viewer.json("api/labels") == {"owners": ["payments team", "web"], "tags": ["gold", "gold_2", "pii"]}


def read_csv(viewer: Visitor, path: str, **asked: str) -> list[dict[str, str]]:
    """The rows of a file."""
    answer = viewer.get(path, **asked)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_file_of_topics_has_what_the_filter_leaves_in_natural_order(viewer: Visitor, home_store: Store) -> None:
    """Beyond one page of the store, and with numbers in names by their value."""
    for number in range(1, 1_003):
        put(home_store, f"orders-{number}", owner="web" if number < 1_002 else "sales", tags="")
    rows = read_csv(viewer, "api/topics.csv", owner="web")
    assert [row["topic"] for row in rows] == [f"orders-{number}" for number in range(1, 1_002)]
    assert rows[0]["assessed"].endswith("Z")


def test_text_that_a_spreadsheet_would_run_stays_text(viewer: Visitor, home_store: Store) -> None:
    """An owner is what somebody typed."""
    label(home_store, "-orders", '=HYPERLINK("http://evil")', "")
    (row,) = read_csv(viewer, "api/topics.csv")
    assert (row["topic"], row["owner"]) == ("'-orders", '\'=HYPERLINK("http://evil")')


def test_file_of_runs_has_their_figures(viewer: Visitor, home_store: Store) -> None:
    """One line a run, with what its receipt says."""
    put_run(home_store, published=True)
    (row,) = read_csv(viewer, "api/runs.csv", status="published")
    assert (row["topic"], row["status"]) == ("orders", "published")
    assert int(row["records_in"]) > int(row["records_kept"]) > 0
    assert read_csv(viewer, "api/runs.csv", status="invalid") == []


def test_file_holds_half_of_a_surrogate_pair_as_its_escape() -> None:
    """It does not end in the middle."""
    lines = list(write_csv(("owner",), [("a \ud800 b",), ("c",)]))
    assert lines == [b"owner\r\n", b"a \\ud800 b\r\n", b"c\r\n"]


def test_runs_are_found_by_part_of_a_topics_name(viewer: Visitor, home_store: Store) -> None:
    """As topics are; a whole name finds that topic's runs alone where it is asked for as such."""
    put_run(home_store, published=True)
    assert viewer.json("api/runs", search="ORD")["total"] == 1
    assert viewer.json("api/runs", search="o_d")["total"] == 0
    assert viewer.json("api/runs", topic="ord")["total"] == 0
