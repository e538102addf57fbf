"""Topic names, by Kafka's rules and in Kafka's words."""

import pytest

from winnow.config.names import has_collision, validate_topic_name
from winnow.errors import ConfigurationError

FOREIGN = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize("name", ["a", "orders", "Orders.v2_eu-west", "...", "-", "_", "0", "x" * 249])
def test_legal_name_is_accepted(name: str) -> None:
    """ASCII letters, digits, '.', '_' and '-', up to 249 characters."""
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", f"'a b' {FOREIGN}"),
        ("a/b", f"'a/b' {FOREIGN}"),
        ("größe", f"'größe' {FOREIGN}"),
        ("orders\n", f"'orders\n' {FOREIGN}"),
        ("٣", f"'٣' {FOREIGN}"),
    ],
)
def test_illegal_name_is_refused_in_kafkas_words(name: str, reason: str) -> None:
    """The sentence of Kafka's Topic.validate."""
    with pytest.raises(ConfigurationError) as caught:
        validate_topic_name(name)
    assert str(caught.value) == f"Topic name is invalid: {reason}"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("orders.eu", "orders_eu", True),
        ("a.b_c", "a_b.c", True),
        ("orders", "orders", True),
        ("orders-eu", "orders_eu", False),
        ("orders.eu", "orderseu", False),
    ],
)
def test_names_collide_when_only_dots_and_underscores_differ(a: str, b: str, expected: bool) -> None:
    """Both directions agree."""
    assert has_collision(a, b) is expected
    assert has_collision(b, a) is expected
