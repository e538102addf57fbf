"""The alert of a failed validation says what is at fault, how much of it there is, where, and which section helps.

Real suites on real records, judged by Great Expectations; the words are those that every channel gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.runbook import sections
from tests.support.world import TOPIC, World, build_versions, open_world
from winnow.errors import ValidationFailedError
from winnow.files import storage
from winnow.pipeline.compaction.failure_causes import LIMITS, FailureCause, advise, list_causes
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.quality.suites import STRUCTURAL_SUITE, load_suite
from winnow.values.model import Severity
from winnow.values.results import Failure

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

SECRET = "iban-DE02120300000000202051"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    expectation = {
        "id": "unique_keys",
        "type": "expect_column_values_to_match_regex",
        "severity": "critical",
        "kwargs": {"column": "value", "regex": "^[{]"},
        "meta": {"sentence": "Values are objects."},
    }
    (tmp_path / "objects.json").write_text(json.dumps({"name": "objects", "expectations": [expectation]}))
    with open_world(tmp_path, lake={"WINNOW_EXPECTATIONS": str(tmp_path)}) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0", segment_ms="1", winnow_expectations="objects")
        for number in range(2):
            opened.ingest([replace(each, value=b"{}") for each in build_versions(0, 12, partition=number)])
        yield opened


def fail_validation(world: World, *, lose_byte_of: int | None = None) -> None:
    plan = world.plan(world.clock())
    assert plan is not None
    staged = {part.partition: part for part in world.stage(plan).partitions}
    if lose_byte_of is not None:
        path = storage.parse_local_path(staged[lose_byte_of].rewrites[0].outputs[0].path)
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValidationFailedError):
        validate_attempt(world.installation, plan.plan_id, "a1")


def ingest_bad_values(world: World) -> None:
    bad = [replace(each, value=SECRET.encode()) for each in build_versions(12, 4, partition=1)]
    world.ingest([*bad, replace(build_versions(16, 1, partition=1)[0], value=b"{}")])


def test_alert_on_a_content_suite_names_the_suite_the_count_and_the_first_offsets_and_no_value(world: World) -> None:
    """Its section of the runbook, too. The expectation has the id of one of Winnow's, and is not taken for it."""
    ingest_bad_values(world)
    fail_validation(world)
    (alert,) = world.installation.store.alerts.list_open()
    assert (alert.kind, alert.partition) == ("validation_failed", 1)
    survivors = {record.key: record for record in (*build_versions(0, 12), *build_versions(12, 5))}
    assert f"of {len(survivors)} new records, the first at offset" in alert.message
    assert "unique_keys (Values are objects. Violated in " in alert.message
    assert "violate the topic's content suite objects" in alert.next
    assert "Runbook: validation_failed by a content suite." in alert.next
    assert "Winnow's own check" not in alert.next
    assert SECRET not in f"{alert.message} {alert.safe} {alert.next}"


def test_alert_on_a_damaged_result_sends_nobody_to_the_suite(world: World) -> None:
    """A staged file lost its last byte, and every record is as the suite wants it."""
    fail_validation(world, lose_byte_of=0)
    (alert,) = world.installation.store.alerts.list_open()
    assert "Winnow's own check of the result failed" in alert.next
    assert "Runbook: validation_failed." in alert.next
    assert "content suite" not in alert.next


def test_alert_on_both_says_both_and_the_damage_first(world: World) -> None:
    ingest_bad_values(world)
    fail_validation(world, lose_byte_of=0)
    texts = {alert.next for alert in world.installation.store.alerts.list_open()}
    (text,) = texts
    assert text.index("Runbook: validation_failed.") < text.index("Runbook: validation_failed by a content suite.")


def test_every_cause_has_its_section_and_every_limit_is_an_expectation() -> None:
    """So that the words of an alert lead somewhere, and a renamed expectation is noticed."""
    assert {cause.value for cause in FailureCause} <= set(sections("operations.md"))
    assert {expectation.id for expectation in load_suite(STRUCTURAL_SUITE).expectations} >= LIMITS


def test_a_warning_is_the_cause_of_nothing() -> None:
    failures = [
        Failure(0, "retention_due", Severity.FAIL, "…"),
        Failure(0, "value_known", Severity.WARN, "…", suite="strict"),
    ]
    assert list_causes(failures) == [FailureCause.LIMIT]
    assert "suite" not in advise(TOPIC, failures)
