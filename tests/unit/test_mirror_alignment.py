"""A mirror in the order of its records: which of them a log has, and with which one it goes on."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from winnow.kafka.offset_syncs import OffsetSync, decode_offset_sync
from winnow.pipeline.ingest.kafka.mirror import Alignment, Doubt, align_records
from winnow.pipeline.ingest.kafka.overlap import Fingerprint

SYNC_KEY = b"\x00\x06orders\x00\x00\x00\x03"
SYNC_VALUE = b"\x00\x00\x00\x00\x00\x00\x01\xcc\x00\x00\x00\x00\x00\x00\x01\xca"
"""As MirrorMaker of Kafka 4.3.1 wrote it, which mirrored 466 of 468 offsets; its partition was 0."""


def make(names: str, offsets: Iterable[int] | None = None) -> list[Fingerprint]:
    """A record per letter; capital letters have the keys of the small ones, and are newer than those."""
    return [
        Fingerprint(offset, ord(name) + 64 * name.isupper(), name.lower().encode(), name.encode())
        for name, offset in zip(names, offsets if offsets is not None else range(len(names)), strict=True)
    ]


def align(here: list[Fingerprint], there: str, begins_at: int | None = 0) -> Alignment:
    return align_records(here, make(there, range(100, 100 + len(there))), begins_at=begins_at)


def test_offset_sync_is_decoded_as_mirrormaker_writes_it() -> None:
    assert decode_offset_sync(SYNC_KEY, SYNC_VALUE) == OffsetSync("orders", 3, 460, 458)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, SYNC_VALUE),
        (SYNC_KEY, None),
        (b"", SYNC_VALUE),
        (SYNC_KEY[:-1], SYNC_VALUE),
        (SYNC_KEY, SYNC_VALUE + b"\x00"),
        (b"\x00\x07orders\x00\x00\x00\x03", SYNC_VALUE),
        (b"\xff\xffxx\x00\x00\x00\x03", SYNC_VALUE),
        (b"\x00\x01\xff\x00\x00\x00\x03", SYNC_VALUE),
        (b"\x00\x06orders\xff\xff\xff\xff", SYNC_VALUE),
        (SYNC_KEY, b"\xff" * 8 + SYNC_VALUE[8:]),
        (SYNC_KEY, SYNC_VALUE[:8] + b"\xff" * 8),
    ],
)
def test_what_is_no_offset_sync_is_none(key: bytes | None, value: bytes | None) -> None:
    assert decode_offset_sync(key, value) is None


def test_mirror_goes_on_with_the_first_record_that_is_not_here() -> None:
    alignment = align(make("abc"), "abcde")
    assert (alignment.position, alignment.doubt, alignment.equal, alignment.there) == (103, None, 3, 5)


def test_mirror_that_lags_lacks_the_end() -> None:
    alignment = align(make("abcd"), "abc")
    assert (alignment.doubt, alignment.lacking, alignment.position) == (Doubt.LACKS_END, 1, 103)


def test_record_that_lies_where_offsets_are_empty_is_passed_over() -> None:
    """Compacted away here, or aborted at the source: MirrorMaker mirrors aborted records unless it is told not to."""
    alignment = align(make("ad", [0, 3]), "abcde")
    assert (alignment.position, alignment.doubt, alignment.passed) == (104, None, 2)


def test_record_for_which_no_offset_is_empty_is_never_passed_over() -> None:
    alignment = align(make("abd"), "abcde")
    assert (alignment.position, alignment.doubt) == (None, Doubt.STRANGE)
    assert align(make("acd", [0, 2, 3]), "abbcde").doubt is Doubt.STRANGE
    assert align(make("bcd", [1, 2, 3]), "xabcde", begins_at=0).doubt is Doubt.STRANGE
    assert align(make("bcd", [1, 2, 3]), "abcde", begins_at=0).position == 104


def test_record_newer_than_all_here_is_not_passed_over_where_nothing_says_the_offset() -> None:
    assert align(make("cd", [2, 3]), "zcde", begins_at=None).doubt is Doubt.STRANGE
    assert align(make("cd", [2, 3]), "abcde", begins_at=None).position == 104


def test_mirror_without_superseded_records_goes_on_behind_the_end() -> None:
    assert align(make("abcde"), "aef").position == 102
    alignment = align(make("abc"), "aBC")
    assert (alignment.position, alignment.doubt) == (101, None), "the last of ours were superseded there"
    assert align(make("abc"), "aBx").doubt is Doubt.LACKS_END
    lagging = align(make("ac", [0, 2]), "aC")
    assert lagging.doubt is Doubt.LACKS_END, "what follows may be what was compacted away here"


def test_records_that_the_mirror_sent_again_are_known() -> None:
    alignment = align(make("abc"), "abcbcde")
    assert (alignment.position, alignment.doubt, alignment.repeated) == (105, None, 1)


def test_new_records_before_repeated_ones_are_skipped_only_if_they_come_again() -> None:
    again = align(make("abc"), "abcdebcdef")
    assert (again.position, again.doubt) == (107, None)
    lost = align(make("abc"), "abcdebcef")
    assert (lost.position, lost.doubt) == (103, Doubt.UNCLEAR_REPEATS)
    assert align(make("abc"), "abcdebcdcde").position == 109, "restarted twice"


def test_records_behind_the_end_that_are_older_than_those_of_their_keys_leave_a_doubt() -> None:
    """A mirror that was restarted sends again what was compacted away here."""
    alignment = align_records(make("ac", [0, 2]), [*make("abc"), Fingerprint(3, ord("b"), b"c", b"again")], begins_at=0)
    assert (alignment.position, alignment.doubt) == (3, Doubt.OLDER)
    assert align(make("bcd"), "bcda").doubt is Doubt.OLDER


def test_other_headers_or_another_time_make_another_record() -> None:
    (record,) = make("a")
    for other in (
        Fingerprint(0, record.timestamp_ms, record.key, record.digest, b"h"),
        Fingerprint(0, 1, record.key, record.digest),
        Fingerprint(0, None, record.key, record.digest),
    ):
        alignment = align_records([record], [other], begins_at=0)
        assert (alignment.doubt, alignment.position) == (Doubt.NOTHING_EQUAL, None)
    assert align_records([], [record], begins_at=None).doubt is Doubt.NOTHING_HERE


def test_no_record_is_lost_and_none_comes_back_whatever_either_side_compacted_and_repeated() -> None:
    """Random sources, logs and mirrors; each record is another one, so that it is known where it belongs."""
    shown = 0
    for seed in range(2_000):
        chosen = random.Random(seed)
        length, end = 30, chosen.randrange(5, 30)
        source = [Fingerprint(n, 1_000 + n, b"%d" % chosen.randrange(6), b"%d" % n) for n in range(length)]
        newest = {record.key: record.offset for record in source[:end]}
        ratio = chosen.choice([0, 0, 0.5, 0.9])
        here = [each for each in source[:end] if newest[each.key] == each.offset or chosen.random() >= ratio]
        there = _mirror(source[: chosen.randrange(length + 1)], chosen)
        begin = chosen.randrange(len(there) + 1) if there and chosen.random() < 0.3 else 0
        window = [
            Fingerprint(n, each.timestamp_ms, each.key, each.digest) for n, each in enumerate(there) if n >= begin
        ]
        begins_at = 0 if chosen.random() < 0.5 and not begin else None
        alignment = align_records(here, window, begins_at=begins_at)
        if alignment.position is None:
            assert alignment.doubt is not None
            continue
        after = {int(each.digest) for each in there[alignment.position :]}
        lost = {int(each.digest) for each in there if int(each.digest) >= end} - after
        # Where the mirror itself has a newer record of the key, its compaction may take it at any time.
        assert all(any(n > m and source[n].key == source[m].key for n in after) for m in lost), f"seed {seed}: lost"
        if alignment.doubt is None:
            shown += 1
            assert min(after, default=end) >= end, f"seed {seed}: came back"
    assert shown > 500


def _mirror(source: list[Fingerprint], chosen: random.Random) -> list[Fingerprint]:
    """Mirror a source: perhaps restarted, perhaps compacted."""
    sent: list[Fingerprint] = []
    place = 0
    while place < len(source):
        sent.append(source[place])
        place += 1
        if place > 2 and chosen.random() < 0.02:
            place -= chosen.randrange(1, min(place, 8))
    if chosen.random() < 0.5:
        return sent
    newest = {record.key: place for place, record in enumerate(sent)}
    return [each for place, each in enumerate(sent) if newest[each.key] == place or chosen.random() < 0.5]
