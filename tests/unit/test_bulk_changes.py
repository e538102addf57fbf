"""One change of many topics: again it changes nothing, and another topic has another fingerprint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from winnow.values.bulk_changes import TAGS_KEY, BulkChange, compute_fingerprint, compute_review_digest

KEYS = st.sampled_from(["retention.ms", "segment.ms", "winnow.owner"])
TAGS = st.lists(st.sampled_from(["gold", "pii", "cdc"]), unique=True).map(tuple)
CONFIG = st.dictionaries(KEYS, st.sampled_from(["1", "2"]))
OVERRIDES = st.builds(lambda config, tags: {**config, TAGS_KEY: ",".join(tags)} if tags else config, CONFIG, TAGS)
CHANGES = st.builds(
    BulkChange, st.just("alter"), CONFIG, st.lists(KEYS, unique=True, max_size=1).map(tuple), TAGS, TAGS
)


@given(OVERRIDES, CHANGES)
def test_change_done_again_changes_nothing_and_leaves_other_keys(overrides: dict[str, str], change: BulkChange) -> None:
    after = change.apply(overrides)
    assert change.apply(after) == after
    touched = {*change.config, *change.reset, *((TAGS_KEY,) if change.add_tags or change.remove_tags else ())}
    assert {key: text for key, text in after.items() if key not in touched} == {
        key: text for key, text in overrides.items() if key not in touched
    }
    assert not set(change.reset) & set(after)
    if TAGS_KEY in touched:
        tags = {*filter(None, overrides.get(TAGS_KEY, "").split(","))}
        expected = (tags - set(change.remove_tags)) | set(change.add_tags)
        assert {*filter(None, after.get(TAGS_KEY, "").split(","))} == expected


@given(OVERRIDES, OVERRIDES)
def test_fingerprint_is_of_a_life_and_its_configuration(one: dict[str, str], other: dict[str, str]) -> None:
    assert (compute_fingerprint("/a", one) == compute_fingerprint("/a", other)) is (one == other)
    assert compute_fingerprint("/a", one) != compute_fingerprint("/b", one)
    assert compute_fingerprint("/a", {key: f" {text} " for key, text in one.items()}) == compute_fingerprint("/a", one)


@given(CHANGES, CHANGES)
def test_digest_of_a_review_is_that_of_its_change_and_its_topics(one: BulkChange, other: BulkChange) -> None:
    """In whatever order keys, tags and topics stand."""
    topics = {"orders": "1" * 16, "clicks": "2" * 16}

    def order(change: BulkChange) -> list[object]:
        return [change.config, *map(sorted, (change.reset, change.add_tags, change.remove_tags))]

    assert (compute_review_digest(one, topics) == compute_review_digest(other, topics)) is (order(one) == order(other))
    assert compute_review_digest(one, dict(reversed(topics.items()))) == compute_review_digest(one, topics)
    for others in ({"orders": "1" * 16}, {**topics, "clicks": "1" * 16}):
        assert compute_review_digest(one, others) != compute_review_digest(one, topics)
