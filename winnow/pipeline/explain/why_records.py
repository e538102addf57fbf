"""Reads the records of an answer of winnow why, decoded as their topic says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from winnow.pipeline.explain.why_answer import WhyAnswer
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoded_records import DecodedText, open_decoded_reading
from winnow.pipeline.read.browse import open_partition
from winnow.pipeline.topics.topic_view import load_topic_view


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record of an answer, decoded."""

    partition: int
    offset: int
    text: DecodedText


def read_decoded_records(installation: Installation, answer: WhyAnswer) -> Iterator[ShownRecord]:
    """Yield the records that ``answer`` names, by partition and offset; what was removed meanwhile is left out.

    Raises:
        UsageError, ConfigurationError: see :func:`winnow.pipeline.latest.decoded_records.open_decoded_reading`.
        DamagedSegmentError, RunAgainError, ServiceError: a record, or a schema, cannot be read.
    """
    named = (*answer.records, answer.record, answer.winner, answer.next_winner)
    places = sorted({(record.partition, record.offset) for record in named if record is not None})
    reading = open_decoded_reading(installation, answer.topic)
    view = load_topic_view(installation, answer.topic)
    for partition, offset in places:
        for batch in open_partition(view, partition).read_from(offset, 1):
            if batch.column("offset")[0].as_py() == offset:
                (text,) = reading.write(batch)
                yield ShownRecord(partition, offset, text)
