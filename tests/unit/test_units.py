"""Numbers with a unit, as people type them for keys that count milliseconds or bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.config.definitions import DEFINITIONS
from winnow.config.units import convert_unit
from winnow.config.values import parse_value
from winnow.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("retention.ms", "2d", "172800000"),
        ("retention.ms", " 1.5 h ", "5400000"),
        ("retention.ms", "90min", "5400000"),
        ("retention.ms", "1w", "604800000"),
        ("retention.ms", "250ms", "250"),
        ("retention.ms", "never", "-1"),
        ("retention.bytes", "Never", "-1"),
        ("max.compaction.lag.ms", "never", "9223372036854775807"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "0.5MB", "500000"),
        ("segment.bytes", "14", "14"),
    ],
)
def test_a_unit_becomes_kafkas_number(name: str, text: str, number: str) -> None:
    assert convert_unit(name, text) == number


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "1GiB"),
        ("segment.bytes", "2d"),
        ("segment.bytes", "1gib"),
        ("retention.ms", "0.3ms"),
        ("retention.ms", "-2d"),
        ("retention.ms", "٣d"),
        ("segment.ms", "never"),
        ("winnow.owner", "2d"),
        ("min.cleanable.dirty.ratio", "1s"),
        ("no.such.key", "2d"),
    ],
)
def test_what_is_no_unit_of_the_key_stays_and_is_refused_as_it_was_typed(name: str, text: str) -> None:
    assert convert_unit(name, text) == text


@given(st.sampled_from([each for each in DEFINITIONS if each.unit in {"ms", "bytes"}]), st.text(max_size=12))
def test_any_text_is_converted_into_what_the_parser_takes_or_left_as_it_is(definition: object, text: str) -> None:
    """Never into another number: what was a valid number stays the same."""
    name, kind = getattr(definition, "name"), getattr(definition, "kind")  # noqa: B009 - a sampled definition
    converted = convert_unit(name, text)
    try:
        number = parse_value(name, text, kind, None)
    except ConfigurationError:
        assert converted == text or converted.lstrip("-").isdigit()
    else:
        assert converted == text
        assert number == parse_value(name, converted, kind, None)
