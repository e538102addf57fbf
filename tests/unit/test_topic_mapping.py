"""Which topics a restore of several is about, and what they are called in Kafka."""

from __future__ import annotations

import pytest

from winnow.errors import UnknownTopicError
from winnow.pipeline.restore.topic_mapping import map_topics


def test_topics_match_as_a_whole_and_get_the_name_that_is_asked_for() -> None:
    names = ["shop.a", "shop.ab", "my.shop.a"]
    assert map_topics(names, "shop[.].") == {"shop.a": "shop.a"}
    assert map_topics(names, "shop[.].", prefix="copy.") == {"shop.a": "copy.shop.a"}
    assert map_topics(names, "(.*)[.](ab?)", template=r"\2-of-\1") == {
        "my.shop.a": "a-of-my.shop",
        "shop.a": "a-of-shop",
        "shop.ab": "ab-of-shop",
    }
    with pytest.raises(UnknownTopicError):
        map_topics(["shop.ab", "my.shop.a"], "shop[.].")
