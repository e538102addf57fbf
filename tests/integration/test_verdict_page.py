"""The Data Docs page of a verdict shows every suite of it: the topic's own beside the structural one, failing first.

Real Great Expectations; the HTML is what the verdict's link leads to.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from tests.support.world import TOPIC, World, build_versions, open_world
from winnow.errors import ValidationFailedError
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.values.results import Verdict

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

SECRET = "iban-DE02120300000000202051"
STRUCTURAL = "compaction"
OWN_RULE = "The team's own rule holds."


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, lake={"WINNOW_EXPECTATIONS": str(tmp_path)}) as opened:
        yield opened


def judged(world: World, suite: str, value: str) -> Verdict:
    """The recorded verdict on a topic with that content suite whose newest record has ``value``."""
    world.create(1, min_cleanable_dirty_ratio="0", winnow_expectations=suite)
    records = [replace(each, value=b'{"n": 1}') for each in build_versions(0, 12)]
    world.ingest([*records[:-1], replace(records[-1], value=value.encode())])
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    with contextlib.suppress(ValidationFailedError):
        validate_attempt(world.installation, plan.plan_id, "a1")
    verdict = world.installation.store.verdicts.find(plan.plan_id, "a1")
    assert verdict is not None
    return verdict


def own_suite(folder: Path, severity: str, column: str = "value") -> None:
    expectation = {
        "id": "own_rule",
        "type": "expect_column_values_to_match_regex",
        "severity": severity,
        "kwargs": {"column": column, "regex": "^[{]"},
        "meta": {"sentence": OWN_RULE},
    }
    (folder / "own.json").write_text(json.dumps({"name": "own", "expectations": [expectation]}))


def text_of(verdict: Verdict) -> str:
    """What the page behind the verdict's link says, without its markup."""
    assert verdict.data_docs is not None
    page = Path(unquote(urlparse(verdict.data_docs).path)).read_text()
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page[page.index("<body") :], flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def statuses(text: str) -> list[str]:
    """The status of the whole and of each suite, in the order of the page."""
    return re.findall(r"Status: (Failed|Succeeded with \d+ warnings?|Succeeded)", text)


def test_a_verdict_that_failed_by_the_topics_own_suite_leads_to_a_page_that_says_so_first(world: World) -> None:
    """Not to a page of the structural suite alone, on which everything succeeded. No value stands in the site."""
    verdict = judged(world, "example_json_values", SECRET)
    assert not verdict.passed
    text = text_of(verdict)
    assert statuses(text) == ["Failed", "Failed", "Succeeded"]
    own, structural = text.index("example_json_values (failed)"), text.index("compaction (succeeded)")
    assert own < structural
    found = "partition 0: Violated in 1 of 3 new records, the first at offset 11."
    assert found in text
    failed_here = text.index(found)
    assert failed_here < text.index("Both computations see the same number of records survive.")

    evaluated = [int(number) for number in re.findall(r"Evaluated Expectations (\d+)", text)]
    assert evaluated[0] == sum(evaluated[1:]) == verdict.expectations
    files = [path for path in world.installation.settings.data_docs.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    (index,) = world.installation.settings.data_docs.rglob("index.html")
    assert ("fa-times" in index.read_text(), "fa-check-circle" in index.read_text()) == (True, False)


def test_a_suite_that_passed_stands_on_the_page_too(world: World) -> None:
    verdict = judged(world, "example_json_values", '{"n": 2}')
    assert verdict.passed
    assert statuses(text_of(verdict)) == ["Succeeded"] * 3


def test_a_warning_of_the_topics_own_suite_is_called_a_warning_and_stands_first(world: World, tmp_path: Path) -> None:
    own_suite(tmp_path, "warning")
    verdict = judged(world, "own", SECRET)
    assert verdict.passed
    text = text_of(verdict)
    assert statuses(text) == ["Succeeded with 1 warning", "Succeeded with 1 warning", "Succeeded"]
    assert OWN_RULE in text


def test_a_check_that_raised_is_no_success_on_the_page(world: World, tmp_path: Path) -> None:
    own_suite(tmp_path, "critical", column="customer")
    verdict = judged(world, "own", SECRET)
    assert verdict.broken
    text = text_of(verdict)
    assert statuses(text) == ["Failed", "Failed", "Succeeded"]
    assert "instead of judging partition 0: nothing is known about the data." in text


def test_a_topic_without_a_suite_of_its_own_has_one_suite_on_its_page(world: World) -> None:
    verdict = judged(world, "", "anything")
    assert statuses(text_of(verdict)) == ["Succeeded"]
    assert world.installation.store.runs.list_runs(TOPIC)
