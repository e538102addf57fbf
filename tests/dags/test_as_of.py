"""The instant that a run looks from."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from winnow.errors import UsageError
from winnow_airflow.params import choose_as_of_ms

NOW_MS = 1_800_000_000_000
END = datetime(2023, 11, 14, 22, 15, tzinfo=UTC)
DUE = datetime(2023, 11, 14, 22, 15, 3, tzinfo=UTC)
END_MS = 1_700_000_100_000


def test_the_param_wins_over_the_data_interval() -> None:
    """Whoever names an instant gets it."""
    assert choose_as_of_ms({"as_of": "2020-01-01T00:00:00Z"}, END, DUE, now_ms=NOW_MS) == 1_577_836_800_000
    assert choose_as_of_ms({"as_of": "1577836800000"}, END, DUE, now_ms=NOW_MS) == 1_577_836_800_000


def test_a_scheduled_run_looks_from_the_end_of_its_data_interval() -> None:
    """So a backfill of that interval decides as the run of that time did."""
    assert choose_as_of_ms({"as_of": None}, END, DUE, now_ms=NOW_MS) == END_MS


def test_a_run_without_a_data_interval_looks_from_when_it_was_due() -> None:
    """Manual and asset-triggered runs have no interval, and stay at their instant when a task runs again."""
    assert choose_as_of_ms({}, None, DUE, now_ms=NOW_MS) == END_MS + 3_000


def test_a_run_without_any_instant_is_refused() -> None:
    """The present is no substitute: the next try of the task would look from another one."""
    with pytest.raises(UsageError, match="as_of"):
        choose_as_of_ms({}, None, None, now_ms=NOW_MS)


def test_an_as_of_up_to_a_minute_ahead_is_taken() -> None:
    """Clocks differ a little."""
    assert choose_as_of_ms({"as_of": str(NOW_MS + 60_000)}, None, DUE, now_ms=NOW_MS) == NOW_MS + 60_000


def test_an_as_of_further_ahead_is_refused_with_a_sentence() -> None:
    """It would compact what is not due and start delete horizons in the future."""
    with pytest.raises(UsageError, match=r"lies 61 seconds ahead .* Nothing was done.*simulate"):
        choose_as_of_ms({"as_of": str(NOW_MS + 61_000), "simulate": False}, None, DUE, now_ms=NOW_MS)


def test_simulate_allows_an_as_of_in_the_future() -> None:
    """Somebody wants to see it."""
    ahead_ms = NOW_MS + 7 * 86_400_000
    assert choose_as_of_ms({"as_of": str(ahead_ms), "simulate": True}, None, DUE, now_ms=NOW_MS) == ahead_ms


def test_an_as_of_that_is_no_instant_is_refused() -> None:
    """Yesterday is not a point in time."""
    with pytest.raises(UsageError, match="not a point in time"):
        choose_as_of_ms({"as_of": "yesterday"}, END, DUE, now_ms=NOW_MS)
