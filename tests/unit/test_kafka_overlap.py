"""A topic that is to go on behind a log: which of its records the log has, and from where on they are new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from winnow.pipeline.ingest.kafka.overlap import (
    COMPARED_OFFSETS,
    Fingerprint,
    PartitionOverlap,
    choose_windows,
    compare_partition,
    digest_bytes,
)
from winnow.values.model import OffsetRange


def make(names: str, offsets: Iterable[int] | None = None, *, times: Sequence[int | None] = ()) -> list[Fingerprint]:
    """A record per letter, which is key and value; its time is that of the letter unless ``times`` says otherwise."""
    return [
        Fingerprint(offset, times[place] if times else ord(name), name.encode(), name.encode() * 2)
        for place, (name, offset) in enumerate(zip(names, offsets or range(len(names)), strict=False))
    ]


def compare(
    here: list[Fingerprint], there: list[Fingerprint], *, begins_at: int = 0, is_from_start: bool = True
) -> PartitionOverlap:
    offsets = OffsetRange(0, len(there))
    return compare_partition(0, offsets, here, [there], begins_at=begins_at, is_from_start=is_from_start)


def test_mirror_that_has_everything_goes_on_behind_the_last_record_of_the_log() -> None:
    found = compare(make("abc"), make("abcd"))
    assert (found.equal, found.position, found.lacking, found.unexplained) == (3, 3, 0, 0)
    assert not found.is_older


def test_mirror_that_lags_lacks_the_newest_records_and_is_older() -> None:
    found = compare(make("abcde"), make("abc"))
    assert (found.equal, found.position, found.lacking, found.unexplained) == (3, 3, 2, 0)
    assert found.is_older


def test_mirror_from_which_records_were_compacted_away_is_a_mirror() -> None:
    found = compare(make("abcde"), make("ace"))
    assert (found.equal, found.position, found.lacking, found.unexplained) == (3, 3, 0, 0)


def test_log_from_which_records_were_compacted_away_explains_what_it_lacks() -> None:
    found = compare(make("ce", [2, 4]), make("abcdef"))
    assert (found.position, found.unexplained) == (5, 0)


def test_record_that_a_mirror_sent_twice_is_known_both_times() -> None:
    found = compare(make("abc"), make("abcab"))
    assert (found.equal, found.position, found.unexplained) == (5, 5, 0)


def test_record_between_two_neighbours_of_the_log_was_never_in_it() -> None:
    assert compare(make("abd"), make("abcd")).unexplained == 1
    assert compare(make("bcd"), make("abcd")).unexplained == 1, "before the first record that there ever was"
    assert compare(make("bcd", [1, 2, 3]), make("abcd")).unexplained == 0, "the log does not begin at its epoch's start"


def test_record_newer_than_the_log_before_one_that_both_have_was_never_in_it() -> None:
    """A topic that was created again, written to, and filled with old records after that."""
    found = compare(make("cd", [2, 3]), make("xyd"), is_from_start=False)
    assert (found.position, found.unexplained) == (3, 2)


def test_topic_with_other_records_overlaps_nowhere() -> None:
    found = compare(make("abc"), make("xyz"))
    assert (found.equal, found.position, found.unexplained, found.is_older) == (0, None, 0, False)
    assert compare(make("xyz"), make("abc")).is_older


def test_equal_times_alone_make_no_record_equal() -> None:
    found = compare(make("abc"), make("xyz", times=[97, 98, 99]))
    assert (found.equal, found.is_older) == (0, False)


def test_same_key_and_value_at_another_time_is_another_record() -> None:
    assert compare(make("abc"), make("abc", times=[1000, 1001, 1002])).equal == 0


def test_where_brokers_set_the_timestamps_an_equal_record_is_seen_and_nothing_skipped() -> None:
    found = compare(make("abc"), make("abc", times=[None, None, None]))
    assert (found.equal, found.position, found.is_older) == (3, None, False)


def test_keys_are_counted_once() -> None:
    found = compare(make("aab"), make("axa"))
    assert (found.keys_here, found.keys_in_both) == (2, 1)


def test_windows_reach_from_the_first_offset_that_is_as_new_as_the_log_and_to_the_end() -> None:
    wide = 10 * COMPARED_OFFSETS
    assert choose_windows(OffsetRange(5, 100), 7) == [OffsetRange(5, 100)]
    assert choose_windows(OffsetRange(5, 100), None) == [OffsetRange(5, 100)]
    assert choose_windows(OffsetRange(5, 5), None) == []
    tail = OffsetRange(wide - COMPARED_OFFSETS, wide)
    assert choose_windows(OffsetRange(0, wide), None) == [tail]
    assert choose_windows(OffsetRange(0, wide), wide - 3) == [tail]
    assert choose_windows(OffsetRange(0, wide), 50) == [OffsetRange(50, 50 + COMPARED_OFFSETS), tail]
    near = tail.start - 10
    assert choose_windows(OffsetRange(0, wide), near) == [OffsetRange(near, wide)]


def test_null_is_another_value_than_no_bytes() -> None:
    assert digest_bytes(None) != digest_bytes(b"")
    assert digest_bytes(b"a") == digest_bytes(b"a")
