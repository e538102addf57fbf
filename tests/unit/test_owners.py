"""Who may act for an owner of topics."""

from __future__ import annotations

import pytest

from winnow.config.owners import may_act

OWNERS = {"payments": "ada, grace", "*": "root", "nobody": ""}


@pytest.mark.parametrize(
    ("owner", "user", "may"),
    [
        ("payments", "ada", True),
        ("payments", "grace", True),
        ("payments", "root", True),
        ("payments", "otto", False),
        ("payments", "ada, grace", False),
        ("payments", "ad", False),
        ("payments", "ADA", False),
        ("payments", "", False),
        ("payments", " ", False),
        ("nobody", "", False),
        ("nobody", "otto", False),
        ("nobody", "root", True),
        ("shipping", "otto", True),
        ("", "otto", True),
        ("*", "ada", False),
        (None, "ada", False),
        (None, "root", True),
    ],
)
def test_those_whom_the_setting_names_may_act_and_owners_that_it_does_not_name_are_open(
    owner: str | None, user: str, may: bool
) -> None:
    """Names are compared whole and by case; an owner that is not known is open to those alone who may act for all."""
    assert may_act(OWNERS, owner, user) is may


def test_without_the_setting_everybody_may() -> None:
    """Also where nobody knows the owner."""
    assert may_act({}, None, "")
    assert may_act({}, "payments", "otto")
