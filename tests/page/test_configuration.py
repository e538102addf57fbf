"""What the editor of a configuration asks: which keys there are, and what is wrong with a value that is being typed."""

from __future__ import annotations

from tests.page.conftest import Visitor

OWN = {"X-Winnow-Page": "1"}


def test_keys_without_effect_on_an_archive_are_in_the_group_of_kafkas_own(viewer: Visitor) -> None:
    """And no other key is; each group has keys."""
    keys = viewer.json("api/configuration")["keys"]
    without_effect = {key["name"] for key in keys if "effect" in key["sentence"] or "for tests" in key["sentence"]}
    assert {key["name"] for key in keys if key["group"] == "kafka_only"} == without_effect
    assert {key["group"] for key in keys} == {"usual", "lags", "latest_table", "kafka_only"}


def test_each_value_is_judged_by_itself_in_kafkas_words_and_told_in_kafkas_unit(admin: Visitor) -> None:
    wanted = {"retention.ms": "2d", "segment.bytes": "many", "no.such.key": "1", "cleanup.policy": "compact"}
    values = admin.post("api/configuration/values", {"config": wanted}, headers=OWN).json()["values"]
    assert values["retention.ms"] == {"value": "172800000", "error": None}
    assert values["cleanup.policy"]["error"] is None
    assert "Not a number of type INT" in values["segment.bytes"]["error"]
    assert "no.such.key" in values["no.such.key"]["error"]
