"""Finds the topics in a refused input, so that the error can name them.

Reads only the topics, and only a bounded part of the input: the result is shown to people and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import WinnowError, join_first
from winnow.sources.input_errors import open_to_read
from winnow.sources.layouts.winnow.files import PARQUET
from winnow.sources.layouts.winnow.json_lines import read_line_groups
from winnow.sources.topic_filter import MAXIMUM_NAMES, format_topic_name

MAXIMUM_FILES = 1_000
MAXIMUM_LINES = 1_000_000
"""Over all JSON lines files."""
MAXIMUM_LINES_PER_FILE = 100_000
MAXIMUM_ROWS = 20_000_000
"""Over all Parquet files, of which only the column with the topics is read."""
MAXIMUM_FILES_NAMED = 3
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 1 << 14
WITHOUT_TOPIC = "no topic"


class _NamedTopic(msgspec.Struct, gc=False):
    topic: str | None = None


_decode = msgspec.json.Decoder(_NamedTopic).decode


@dataclass(slots=True)
class TopicSurvey:
    """Files per topic name, safe to show. ``is_complete``: the whole input was read."""

    files: dict[str, list[str]] = field(default_factory=dict)
    is_complete: bool = True

    def note(self, name: str, path: str) -> None:
        """Add ``path`` to the files that name ``name``."""
        known = self.files.setdefault(name, [])
        if path not in known[-1:]:
            known.append(path)

    def describe(self) -> str:
        """Return the topics and files as part of a sentence; of many only some, and the number of the others."""
        named = [f"{name} ({_format_list(paths)})" for name, paths in self.files.items()]
        text = join_first(named, MAXIMUM_NAMES, ", ", last=" and ")
        return text + ("" if self.is_complete else "; not all of the input was read")


def survey_topics(paths: Sequence[str], first: str, found: str) -> TopicSurvey:
    """Read the topics that the records of ``paths`` name.

    Args:
        paths: the files of the call.
        first: the file in which another topic was found; it is read first.
        found: the name found there, safe to show.
    """
    survey = TopicSurvey()
    survey.note(found, first)
    remaining_lines, remaining_rows = MAXIMUM_LINES, MAXIMUM_ROWS
    ordered = [first, *(path for path in dict.fromkeys(paths) if path != first)]
    for path in ordered[:MAXIMUM_FILES]:
        is_parquet = path.endswith(PARQUET)
        limit = remaining_rows if is_parquet else min(remaining_lines, MAXIMUM_LINES_PER_FILE)
        seen = 0
        try:
            for names in _read_names_in_parquet(path) if is_parquet else _read_names_in_lines(path):
                for name in dict.fromkeys(names):
                    survey.note(WITHOUT_TOPIC if name is None else format_topic_name(name), path)
                seen += len(names)
                if seen >= limit:
                    survey.is_complete = False
                    break
        except (WinnowError, pa.ArrowException, OSError, ValueError, LookupError):
            # Faults of this file are reported when it is ingested.
            survey.is_complete = False
        if is_parquet:
            remaining_rows -= seen
        else:
            remaining_lines -= seen
    survey.is_complete &= len(ordered) <= MAXIMUM_FILES
    return survey


def _read_names_in_lines(path: str) -> Iterator[list[str | None]]:
    for group in read_line_groups(path, _BATCH_BYTES):
        yield [_decode(line).topic for line in group.lines if line.strip()]


def _read_names_in_parquet(path: str) -> Iterator[list[bytes | None]]:
    with open_to_read(path) as stream:
        file = pq.ParquetFile(stream, pre_buffer=False, buffer_size=1 << 20)
        if "topic" not in file.schema_arrow.names:
            if file.metadata.num_rows:
                yield [None]
            return
        for batch in file.iter_batches(_BATCH_ROWS, columns=["topic"]):
            column = batch.column("topic").cast(pa.binary(), safe=False)
            yield column.to_pylist()


def _format_list(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:MAXIMUM_FILES_NAMED])
    more = len(paths) - MAXIMUM_FILES_NAMED
    return shown + (f" and {more} more file{'' if more == 1 else 's'}" if more > 0 else "")
