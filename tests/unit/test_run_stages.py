"""The time line of a run, from the times at which its states changed."""

from __future__ import annotations

import pytest

from winnow.store.run_progress import PLANNING, Transition
from winnow_airflow.page.run_stages import Stage, build_stages


def line(*moved: str) -> list[tuple[str, str, int | None, int | None]]:
    """The stages of a run that entered these states, one a second."""
    made = build_stages([Transition(state, number * 1_000, "a-1") for number, state in enumerate(moved)])
    return [(each.name, each.state, each.started_at_ms, each.ended_at_ms) for each in made]


def test_published_run_shows_how_long_each_stage_took() -> None:
    """From the beginning of planning to the commit; publishing is a part of the last stage."""
    assert line(PLANNING, "planned", "compacting", "staged", "validated", "publishing", "published") == [
        ("plan", "done", 0, 1_000),
        ("wait", "done", 1_000, 2_000),
        ("spark", "done", 2_000, 3_000),
        ("validate", "done", 3_000, 4_000),
        ("publish", "done", 4_000, 6_000),
    ]


def test_waiting_run_has_its_wait_in_progress_and_the_rest_before_it() -> None:
    """A run that nobody has begun is no run that stands still."""
    assert line(PLANNING, "planned")[1:3] == [("wait", "running", 1_000, None), ("spark", "pending", None, None)]


@pytest.mark.parametrize(
    ("moved", "last"),
    [
        (("planned", "compacting", "spark_failed"), ("spark", "failed", 1_000, 2_000)),
        (("planned", "compacting", "void"), ("spark", "stopped", 1_000, 2_000)),
        (("planned", "compacting", "staged", "invalid"), ("validate", "failed", 2_000, 3_000)),
        (("planned", "compacting", "staged", "validated", "refused"), ("publish", "failed", 3_000, 4_000)),
    ],
)
def test_run_that_ends_early_says_in_which_stage(
    moved: tuple[str, ...], last: tuple[str, str, int | None, int | None]
) -> None:
    """The stages after it were not begun."""
    stages = line(*moved)
    place = stages.index(last)
    assert {each[1] for each in stages[:place]} == {"done"}
    assert {each[1] for each in stages[place + 1 :]} <= {"pending"}


def test_second_attempt_counts_and_the_wait_is_that_before_the_first() -> None:
    """Airflow tries again without planning again."""
    stages = line("planned", "compacting", "spark_failed", "compacting", "staged")
    assert stages[:2] == [("wait", "done", 0, 1_000), ("spark", "done", 3_000, 4_000)]


def test_run_that_is_opened_again_begins_anew() -> None:
    """What came before is history."""
    assert line("planned", "compacting", "spark_failed", PLANNING, "planned") == [
        ("plan", "done", 3_000, 4_000),
        ("wait", "running", 4_000, None),
        *((name, "pending", None, None) for name in ("spark", "validate", "publish")),
    ]


def test_states_of_one_millisecond_are_in_the_order_of_a_run() -> None:
    """Small topics are planned and begun within one."""
    moved = [Transition(state, 7, "a-1") for state in ("compacting", "planned", PLANNING)]
    assert build_stages(moved)[:3] == [
        Stage("plan", "done", 7, 7),
        Stage("wait", "done", 7, 7),
        Stage("spark", "running", 7),
    ]


def test_run_of_an_older_winnow_has_no_time_line() -> None:
    """Nothing is made up."""
    assert line() == []
    assert line("published") == []
