"""Filters the records of an input by the topic that each record names.

Offsets of different topics are unrelated: records of two topics in one log would supersede each other unnoticed. So a
record that names another topic is an error, unless the caller says which topic of the input to take; then records of
all others are skipped and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from winnow.config.names import is_topic_name
from winnow.errors import BadInputError, Explanation
from winnow.files.record_batch import Integers
from winnow.sources.input_errors import RecordFault, make_record_error

MAXIMUM_NAMES = 10
"""Maximum topics that a message names; the others are counted together."""
INVALID_NAME = "an invalid topic name"
"""Shown instead of an invalid topic name: such a field may hold anything."""
_OTHERS = "other topics"

Mask = npt.NDArray[np.bool_]
Coordinates = Callable[[int], tuple[int | None, int | None]]
"""Returns partition and offset of the record at an index of a batch, None if unknown."""


class OtherTopicError(BadInputError):
    """A record names another topic than the target, and no source topic was chosen.

    ``path``: its file. ``found``: the name, safe to show. It gives no advice: the caller knows which topics there are.
    """

    def __init__(self, explanation: Explanation, path: str, found: str) -> None:
        super().__init__(*explanation)
        self.path = path
        self.found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return (OtherTopicError, (self.explanation, self.path, self.found))


class TopicFilter:
    """Selects the records that belong to ``topic``, for one pass over an input.

    Without ``source_topic`` all do, and one that names another topic is an error. With it, records that name that topic
    do; those that name another one are skipped and counted; one that names none is an error, since its topic is
    unknown.
    """

    def __init__(self, topic: str, source_topic: str | None = None) -> None:
        self.topic = topic
        self.source_topic = source_topic
        self.wanted = topic if source_topic is None else source_topic
        self._left_out: Counter[str] = Counter()

    @property
    def records_left_out(self) -> int:
        """Number of skipped records of other topics."""
        return self._left_out.total()

    @property
    def left_out(self) -> Mapping[str, int]:
        """Skipped records per topic, the most frequent first; at most :data:`MAXIMUM_NAMES` names and the rest."""
        return dict(self._left_out.most_common())

    def selects(self, name: object) -> bool:
        """Check whether a record that names ``name`` (None: no topic) is selected."""
        return name == self.wanted or (name is None and self.source_topic is None)

    def select_lines(self, names: Sequence[str | None], path: str, lines: Integers, where: Coordinates) -> Mask | None:
        """Return which of the records that name ``names`` are selected; None: all of them.

        Args:
            names: the topic that each record names, None where it names none.
            path: their file.
            lines: their line numbers.
            where: their partitions and offsets.

        Raises:
            OtherTopicError: one names another topic, and no source topic was chosen.
            BadInputError: one names no topic, and a source topic was chosen.
        """
        matching, missing = names.count(self.wanted), names.count(None)
        if self.source_topic is None:
            if matching + missing < len(names):
                at = next(at for at, name in enumerate(names) if not self.selects(name))
                raise self._other_topic(path, "line", int(lines[at]), where(at), format_topic_name(names[at]))
            return None
        if missing:
            at = names.index(None)
            raise self._no_topic(path, "line", int(lines[at]), where(at))
        if matching == len(names):
            return None
        self.note_left_out(Counter(name for name in names if name != self.wanted and name is not None))
        return np.fromiter((name == self.wanted for name in names), np.bool_, len(names))

    def select_rows(self, column: Any, path: str, first: int, where: Coordinates) -> Mask | None:
        """Do the same as :meth:`select_lines` for an Arrow column of names (None: missing), from row ``first`` on.

        Raises:
                OtherTopicError, BadInputError: as there.
        """
        if column is None or pa.types.is_null(column.type):
            if self.source_topic is not None:
                raise self._no_topic(path, "row", first, where(0))
            return None
        names = _convert_to_bytes(column.dictionary if pa.types.is_dictionary(column.type) else column)
        matching = pc.equal(names, pa.scalar(self.wanted.encode(), names.type))
        if pa.types.is_dictionary(column.type):
            matching = matching.take(column.indices)
        if matching.null_count and self.source_topic is not None:
            at = pc.index(matching.is_null(), True).as_py()
            raise self._no_topic(path, "row", first + at, where(at))
        if not matching.false_count:
            return None
        if self.source_topic is None:
            at = pc.index(matching, False).as_py()
            place = column.indices[at].as_py() if pa.types.is_dictionary(column.type) else at
            raise self._other_topic(path, "row", first + at, where(at), format_topic_name(names[place].as_py()))
        others = column.filter(pc.invert(matching))
        self.note_left_out(_count_names(others))
        return np.asarray(matching.to_numpy(zero_copy_only=False), np.bool_)

    def note_left_out(self, counts: Mapping[str, int]) -> None:
        """Count records of other topics, by name, that were skipped."""
        for name, count in counts.items():
            shown = format_topic_name(name)
            known = shown in self._left_out or len(self._left_out) < MAXIMUM_NAMES
            self._left_out[shown if known else _OTHERS] += count

    def _other_topic(
        self, path: str, unit: str, number: int, known: tuple[int | None, int | None], found: str
    ) -> OtherTopicError:
        named = f"topic {found}" if found != INVALID_NAME else found
        fault = RecordFault(f"this record names {named}, not {self.topic}", "", *known)
        return OtherTopicError(make_record_error(path, unit, number, fault).explanation, path, found)

    def _no_topic(self, path: str, unit: str, number: int, known: tuple[int | None, int | None]) -> BadInputError:
        fault = RecordFault(
            f"this record names no topic, so --source-topic {self.wanted} cannot tell whose it is",
            f"where it belongs to {self.topic}, ingest such files in a call of their own without --source-topic",
            *known,
        )
        return make_record_error(path, unit, number, fault)


def format_topic_name(name: str | bytes | None) -> str:
    """Return ``name`` where it can be the name of a topic, else :data:`INVALID_NAME`."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name or ""
    return text if is_topic_name(text) else INVALID_NAME


def _convert_to_bytes(names: Any) -> Any:
    """Return a column of names as bytes: a name that is not UTF-8 is an invalid name, not an error."""
    kind = names.type
    if pa.types.is_string(kind):
        return names.cast(pa.binary())
    if pa.types.is_large_string(kind):
        return names.cast(pa.large_binary())
    return names.cast(pa.binary(), safe=False) if not pa.types.is_large_binary(kind) else names


def _count_names(column: Any) -> Counter[str]:
    """Count each name; invalid names are counted together."""
    found: Counter[str] = Counter()
    if pa.types.is_dictionary(column.type):
        names = _convert_to_bytes(column.dictionary)
        places, counts = np.unique(column.indices.drop_null().to_numpy(), return_counts=True)
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            found[format_topic_name(names[place].as_py())] += count
        return found
    for entry in pc.value_counts(_convert_to_bytes(column)):
        found[format_topic_name(entry["values"].as_py())] += entry["counts"].as_py()
    return found
