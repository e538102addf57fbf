"""As-of times as people write them, and times as they are shown."""

import time

import pytest

from winnow.clock import MAXIMUM_TIME_MS, format_ms, parse_as_of, read_wall_clock_ms
from winnow.errors import UsageError

RIGHT_FORM = "Write 2026-01-31T18:00:00Z, 2026-01-31T19:00:00+01:00, or ms since the epoch (1769882400000)."


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-01-31T18:00:00Z", 1_769_882_400_000),
        ("2026-01-31T19:00:00+01:00", 1_769_882_400_000),
        ("2026-01-31 18:00+00:00", 1_769_882_400_000),
        ("2026-01-31T18:00:00.123Z", 1_769_882_400_123),
        (" 1769882400000 ", 1_769_882_400_000),
        ("1970-01-01T00:00:00Z", 0),
        ("0", 0),
        ("9999-12-31T23:59:59.999Z", MAXIMUM_TIME_MS),
        (str(MAXIMUM_TIME_MS), MAXIMUM_TIME_MS),
    ],
)
def test_as_of_in_every_right_form_is_read(text: str, expected_ms: int) -> None:
    """ISO 8601 with an offset or Z, or whole ms, up to both ends of the range."""
    assert parse_as_of(text) == expected_ms


def test_as_of_finer_than_a_millisecond_is_cut_off() -> None:
    """999 microseconds are no millisecond."""
    assert parse_as_of("1970-01-01T00:00:00.001999Z") == 1


@pytest.mark.parametrize("text", ["2026-01-31T18:00:00", "2026-01-31", "2026-01-31 18:00"])
def test_as_of_without_an_offset_is_refused_and_the_right_form_shown(text: str) -> None:
    """A naive time could mean any time zone."""
    with pytest.raises(UsageError) as caught:
        parse_as_of(text)
    assert str(caught.value) == f"The time {text} has no offset from UTC, so it could mean any time zone. {RIGHT_FORM}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30T00:00:00Z", "12.5", "1e3", "1_000"])
def test_as_of_that_is_no_time_is_refused(text: str) -> None:
    """Neither a date nor a whole number."""
    with pytest.raises(UsageError) as caught:
        parse_as_of(text)
    assert str(caught.value) == f"{text!r} is not a point in time. {RIGHT_FORM}"


@pytest.mark.parametrize(
    "text", ["-1", str(MAXIMUM_TIME_MS + 1), "1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00+05:00", "9" * 30]
)
def test_as_of_outside_the_years_1970_to_9999_is_refused(text: str) -> None:
    """The first value outside either end, as a date and as a number."""
    with pytest.raises(UsageError) as caught:
        parse_as_of(text)
    assert str(caught.value) == f"The time {text} lies outside the years 1970 to 9999. {RIGHT_FORM}"


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_882_400_123, "2026-01-31T18:00:00.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**62, "4611686018427387904 ms since the epoch"),
    ],
)
def test_time_is_shown_in_utc_with_milliseconds(ms: int, expected: str) -> None:
    """A number without a calendar date stays a number."""
    assert format_ms(ms) == expected


@pytest.mark.parametrize("ms", [0, 1, 1_769_882_400_123, MAXIMUM_TIME_MS])
def test_shown_time_reads_back_as_itself(ms: int) -> None:
    """What is printed can be typed."""
    assert parse_as_of(format_ms(ms)) == ms


def test_wall_clock_gives_the_present_in_milliseconds() -> None:
    """It lies between two readings of the system's clock."""
    before = int(time.time() * 1000)
    now_ms = read_wall_clock_ms()
    assert before <= now_ms <= int(time.time() * 1000) + 1
