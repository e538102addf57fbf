"""What a change of configuration changed, as text and back; a text of another form says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.values.config_changes import MAXIMUM_CHARACTERS, format_changes, parse_changes

VALUES = st.none() | st.text(max_size=20)
CHANGES = st.dictionaries(
    st.text(max_size=10), st.dictionaries(st.text(max_size=10), st.tuples(VALUES, VALUES), max_size=3), max_size=3
)


@given(CHANGES)
def test_changes_are_read_back_as_they_were_written(
    changes: dict[str, dict[str, tuple[str | None, str | None]]],
) -> None:
    text = format_changes(changes)
    assert parse_changes(text) == changes
    assert (text is None) == (not changes)
    assert (text or "").isascii()


@pytest.mark.parametrize(
    "text",
    ["", "x", "1", "[]", '{"orders":1}', '{"orders":{"a":1}}', '{"orders":{"a":[null]}}', '{"orders":{"a":[1,null]}}'],
)
def test_text_of_another_form_says_nothing(text: str) -> None:
    """Also one whose nesting is deeper than can be read."""
    assert parse_changes(text) == {}
    assert parse_changes('{"orders":' + "[" * 100_000) == {}


def test_changes_too_long_to_keep_are_not_recorded() -> None:
    assert format_changes({"orders": {"a": ("x" * MAXIMUM_CHARACTERS, None)}}) is None
