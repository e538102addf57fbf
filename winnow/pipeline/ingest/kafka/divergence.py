"""Finds where a topic's brokers have other records than those that were read from them before.

A broker that lost the end of its log, by the election of an unclean leader or with a disk, writes other records at the
same offsets. Both sides agree up to one offset and have nothing in common from there on. So whatever was compacted away
on either side, the first record that both have beyond an offset tells on which side of the divergence that one is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.arrivals.compare_with_log import read_log_segment
from winnow.errors import BadInputError, join_first
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader, TruncatedRangeError
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.erased_keys import list_remaining_tombstones
from winnow.pipeline.installation import Installation
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.epochs import UNKNOWN_LEADER_EPOCH, Epoch, LeaderEpoch
from winnow.values.model import Segment
from winnow.values.topic_state import TopicState

COMPARED_RECORDS = 20
"""Maximum newest records of a partition that are compared at each call that reads something new of it."""
COMPARED_OFFSETS = 200
"""How far below the end of what was read they may lie."""
MAXIMUM_NAMED = 5
LiveSegments = Mapping[int, Sequence[Segment]]


@dataclass(frozen=True, slots=True)
class Divergence:
    """A partition of which the brokers lost the end. Offsets are those at the brokers.

    ``offset``: the first from which on nothing agrees. ``end``: up to where it was read before. ``stable_offset``: up
    to where the brokers have committed records now. ``records``: maximum records of the log from ``offset`` on.
    """

    partition: int
    offset: int
    end: int
    stable_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing a log with its brokers showed.

    ``positions``: per partition the newest record that was read and that the brokers still have, with the leader epoch
    that it has there now; none where that could not be told.
    """

    divergences: tuple[Divergence, ...] = ()
    positions: Mapping[int, LeaderEpoch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Record:
    """``offset``: at the brokers. ``time_ms``: None where the record has none."""

    offset: int
    time_ms: int | None
    fields: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Offsets at the brokers of one partition, from ``start`` to ``end``, that the log has with ``base`` added."""

    start: int
    end: int
    base: int


def compare_with_brokers(
    state: TopicState,
    topic: BrokerTopic,
    list_segments: Callable[[], LiveSegments],
    settings: ClientSettings,
    find_guesses: Callable[[], Mapping[int, int]] = dict,
) -> Comparison:
    """Compare the newest records of each partition that has something new at the brokers with those there.

    Where they differ, the offset of the divergence is searched. A partition whose end is where it was is not looked at:
    nothing is read of it.

    Args:
        state: that of the log.
        topic: the topic at its brokers.
        list_segments: lists the live segments; called if anything is to be compared.
        settings: of the client.
        find_guesses: finds per partition an offset at which the divergence may be, if there is one; called at the
            first. A right one spares the search; a wrong one changes nothing.

    Raises:
        TruncatedRangeError: the broker has deleted records meanwhile.
        ServiceError: the cluster cannot be reached.
        DamagedSegmentError: a segment of the log is not what was written.
        DamagedMetadataError: the document of an erasure is gone or damaged.
    """
    changed = _list_changed(state, topic)
    if not changed:
        return Comparison()
    live = list_segments()
    tombstones = list_remaining_tombstones(state)
    divergences, positions = [], {}
    guesses: Mapping[int, int] | None = None
    with RangeReader(settings) as reader:
        for partition, end in changed.items():
            compared = _ComparedPartition(state, topic, partition, end, live.get(partition, ()), reader)
            compared.left_out = tombstones.get(partition, frozenset())
            position = compared.find_position()
            if not compared.has_diverged:
                if position is not None:
                    positions[partition] = position
                continue
            guesses = find_guesses() if guesses is None else guesses
            offset = compared.find_divergence(guesses.get(partition))
            stable = topic.partitions[partition].stable_offset
            divergences.append(Divergence(partition, offset, end, stable, compared.count_records(offset)))
    return Comparison(tuple(divergences), positions)


def compare_as_known(
    installation: Installation, log: TopicLog, head: Head, found: BrokerTopic, cluster: Cluster, *, anew: bool
) -> Comparison:
    """Compare a log with its topic at the brokers, beginning where it was found to diverge before unless ``anew``.

    So a tick that is refused need not search again. Nothing is concluded from what is remembered: the records on both
    sides of that offset are compared each time, and brokers that have our records again are noticed. Raises as
    :func:`compare_with_brokers`.
    """
    segments = partial(log.segments, head)
    if anew:
        return compare_with_brokers(head.state, found, segments, cluster.settings)
    known: dict[int, int] = {}

    def find_known() -> dict[int, int]:
        known.update(installation.store.divergences.find(log.topic))
        return known

    compared = compare_with_brokers(head.state, found, segments, cluster.settings, find_known)
    offsets = {each.partition: each.offset for each in compared.divergences}
    # Without a divergence nothing was asked for; what is known is forgotten once the call has succeeded.
    if offsets != known:
        installation.store.divergences.record(log.topic, offsets)
    return compared


def make_divergence_error(state: TopicState, topic: BrokerTopic, divergences: Sequence[Divergence]) -> BadInputError:
    """Make the error about partitions whose end the brokers lost."""
    places = [
        f"{topic.name}-{each.partition} from offset {each.offset} on (it was read up to {each.end}, and ends at "
        f"{each.stable_offset} now; up to {each.records:,} records of ours are not there)"
        for each in divergences
    ]
    return BadInputError(
        "The brokers lost records that were read from them before, or have others in their place (an unclean leader "
        f"was elected, or a disk was lost): {join_first(places, MAXIMUM_NAMED)}.",
        left=NOTHING_INGESTED,
        next=(
            "The log keeps its records. If a complete replica comes back, run it again. To keep ours, and append "
            f"Kafka's from there on after them as a new epoch: winnow ingest kafka {state.topic} --diverged keep. To "
            f"have Kafka's in the place of ours: winnow ingest kafka {state.topic} --diverged take counts what would "
            "leave the log, and asks"
        ),
    )


def _list_changed(state: TopicState, topic: BrokerTopic) -> dict[int, int]:
    """List the partitions whose end at the brokers moved, with the offset there up to which they were read."""
    epoch = state.epochs[-1] if state.epochs else None
    if epoch is None or epoch.topic_id != topic.topic_id:
        return {}
    changed = {}
    for number, at_brokers in sorted(topic.partitions.items()):
        if number not in state.partitions or number not in epoch.ends:
            continue
        base, log_end = epoch.get_base(number), state.partitions[number].log_end_offset
        # What came from files since is compared by check_continuity.
        end = min(epoch.ends[number], log_end) - base
        if at_brokers.stable_offset < end or at_brokers.stable_offset > log_end - base:
            changed[number] = end
    return changed


class _ComparedPartition:
    """One partition on both sides. ``has_diverged`` is known once :meth:`find_position` was called.

    ``left_out``: offsets of the log whose records are not compared: tombstones in the place of erased records.
    """

    def __init__(
        self,
        state: TopicState,
        topic: BrokerTopic,
        partition: int,
        end: int,
        segments: Sequence[Segment],
        reader: RangeReader,
    ) -> None:
        self._log_topic = state.topic
        self._topic = topic
        self._partition = partition
        self._segments = segments
        self._reader = reader
        self._pieces = _list_pieces(state.epochs, partition, end)
        self._known = state.epochs[-1].leader_epochs.get(partition, ())
        self._has_erasures = bool(state.erasures)
        self.left_out: frozenset[int] = frozenset()
        at_brokers = topic.partitions[partition]
        self._begin = at_brokers.start_offset
        self._stable = at_brokers.stable_offset
        self._end = min(end, at_brokers.stable_offset)
        self.has_diverged = at_brokers.stable_offset < end

    def find_position(self) -> LeaderEpoch | None:
        """Compare the newest records, and return the newest that both sides have; None if it cannot be told."""
        if self.has_diverged:
            return None
        ours = deque(
            self._read_ours(max(self._begin, self._end - COMPARED_OFFSETS), self._end), maxlen=COMPARED_RECORDS
        )
        theirs = {each.offset: each for each in self._read_theirs(ours[0].offset, self._end)} if ours else {}
        if any(each.offset in theirs and not self._is_equal(each, theirs[each.offset]) for each in ours):
            self.has_diverged = True
            return None
        if ours and ours[-1].offset in theirs and not self._is_newest_erased(ours[-1].offset):
            newest = ours[-1].offset
            number = next(part.number for part in self._reader.leader_epochs if part.start <= newest < part.end)
            return LeaderEpoch(number, newest, newest + 1)
        return self._ask_for_position()

    def _is_newest_erased(self, offset: int) -> bool:
        """Check whether records behind ``offset`` that were read may have been erased: the brokers still have them."""
        return self._has_erasures and (not self._known or self._known[-1].end > offset + 1)

    def find_divergence(self, guess: int | None = None) -> int:
        """Find the offset from which on nothing agrees: that after the last record that is equal on both sides.

        ``guess``: where it may be; None: nobody knows.
        """
        low, high = min([self._end, *(piece.start for piece in self._pieces)]), self._end
        low = min(max(low, self._begin), high)
        if guess is not None and low <= guess <= high and self._diverges_at(guess, low, high):
            return guess
        while low < high:
            middle = (low + high) // 2
            ours, theirs = self._find_first_common(middle, high)
            if ours is None or theirs is None or not self._is_equal(ours, theirs):
                high = middle
            else:
                low = ours.offset + 1
        return low

    def _diverges_at(self, offset: int, low: int, high: int) -> bool:
        """Check whether the last record that is equal on both sides is just below ``offset``, or there is none."""
        if offset > low and not self._agrees_from(offset - 1, offset):
            return False
        return not self._agrees_from(offset, high)

    def _agrees_from(self, start: int, end: int) -> bool:
        """Check whether the first record from offset ``start`` on that both sides have is equal on both."""
        ours, theirs = self._find_first_common(start, end)
        return ours is not None and theirs is not None and self._is_equal(ours, theirs)

    def count_records(self, offset: int) -> int:
        """Count records of the log from ``offset`` on, at most as many as there can be."""
        count = 0
        for piece in self._pieces:
            first, last = max(piece.start, offset) + piece.base, piece.end + piece.base - 1
            for segment in self._segments:
                common = min(last, segment.last_offset) - max(first, segment.first_offset) + 1
                count += max(0, min(segment.records, common))
        return count

    def _ask_for_position(self) -> LeaderEpoch | None:
        """Have the broker check the leader epoch of the newest record that was read, which may be gone here.

        Raises:
            TruncatedRangeError: the broker has deleted records meanwhile.
        """
        known = self._known[-1] if self._known else None
        if known is None or known.number == UNKNOWN_LEADER_EPOCH or known.end < self._begin:
            return None
        wanted = BrokerRange(self._topic.name, self._partition, known.end, self._stable, after=known)
        try:
            next(iter(self._reader.read(wanted)), None)
        except TruncatedRangeError:
            if self._reader.find_begin(wanted) > known.end:
                raise  # retention overtook this call; the next one says so
            self.has_diverged = True
            return None
        return known

    def _find_first_common(self, start: int, end: int) -> tuple[_Record | None, _Record | None]:
        """Find the first record from offset ``start`` on that both sides have, as each has it."""
        mine, brokers = self._read_ours(start, end), self._read_theirs(start, end)
        ours, theirs = next(mine, None), next(brokers, None)
        while ours is not None and theirs is not None:
            if ours.offset == theirs.offset:
                return ours, theirs
            if ours.offset < theirs.offset:
                ours = next(mine, None)
            else:
                theirs = next(brokers, None)
        return None, None

    def _is_equal(self, ours: _Record, theirs: _Record) -> bool:
        """Compare two records of one offset; only by their times where ours may have come from a file."""
        if ours.time_ms != theirs.time_ms and ours.time_ms is not None and theirs.time_ms is not None:
            return False
        is_from_brokers = bool(self._known) and self._known[0].start <= ours.offset < self._known[-1].end
        return not is_from_brokers or ours.fields == theirs.fields

    def _read_ours(self, start: int, end: int) -> Iterator[_Record]:
        """Read records of the log by their offsets at the brokers, from ``start`` (inclusive) to ``end``."""
        for piece in self._pieces:
            first, last = max(start, piece.start) + piece.base, min(end, piece.end) + piece.base - 1
            for segment in self._segments:
                if segment.first_offset > last or segment.last_offset < first:
                    continue
                for batch in read_log_segment(self._log_topic, segment, max(first, segment.first_offset)):
                    times = [None if time is None else time // 1000 for time in _list_integers(batch, "timestamp")]
                    for record in _list_records(batch, times, piece.base):
                        if record.offset + piece.base > last:
                            break
                        if record.offset + piece.base not in self.left_out:
                            yield record

    def _read_theirs(self, start: int, end: int) -> Iterator[_Record]:
        for batch in self._reader.read(BrokerRange(self._topic.name, self._partition, start, end)):
            yield from _list_records(batch, _list_integers(batch, "timestamp"), 0)


def _list_pieces(epochs: Sequence[Epoch], partition: int, end: int) -> list[_Piece]:
    """List where the log has what was read of the brokers' present topic, whose end was lost before, perhaps."""
    pieces: list[_Piece] = []
    for epoch in reversed(epochs):
        if epoch.topic_id != epochs[-1].topic_id:
            break
        start = epoch.get_begin(partition) - epoch.get_base(partition)
        if start < end:
            pieces.append(_Piece(start, end, epoch.get_base(partition)))
            end = start
    return pieces[::-1]


def _list_integers(batch: pa.RecordBatch, name: str) -> list[int | None]:
    integers: list[int | None] = pc.cast(batch.column(name), pa.int64()).to_pylist()
    return integers


def _list_records(batch: pa.RecordBatch, times: Sequence[int | None], base: int) -> Iterator[_Record]:
    for offset, time_ms, key, value, headers in zip(
        batch.column("offset").to_pylist(),
        times,
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        batch.column("headers").to_pylist(),
        strict=True,
    ):
        named = [(header["key"], header["value"]) for header in headers or ()]
        yield _Record(offset - base, time_ms, (key, value, named))
