"""Reading one file of records, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from winnow.sources.arriving import DEFAULT_BATCH_BYTES, MAXIMUM_BATCH_BYTES
from winnow.sources.jsonl import read_json_lines
from winnow.sources.parquet import read_parquet
from winnow.sources.paths import PARQUET, check_suffix
from winnow.sources.source_topic import TopicFilter


def read_file(
    path: str,
    *,
    topic: str,
    partitions: int,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    records_of: TopicFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of ``path`` in file order, as batches of :data:`winnow.sources.arriving.RECORD_SCHEMA`.

    Lazy: a batch is read when it is asked for. The format follows from the name. A record that names no partition gets
    the one Kafka's default partitioner gives its key.

    Args:
        path: a local path or a URI.
        topic: which topic the records are for.
        partitions: how many the topic has, at least 1.
        batch_bytes: bound of one batch, from 1; a larger record is a batch by itself. At most 1 GiB is used.
        records_of: which records are taken by the topic that they name; None: a record that names another topic than
            ``topic`` is refused.

    Raises:
        OtherTopicError: a record names another topic, and no source topic was chosen.
        BadInputError: a record or the file is not as documented, with line or row, partition and offset.
        ServiceError: an object store cannot be reached.
    """
    check_suffix(path)
    read = read_parquet if path.endswith(PARQUET) else read_json_lines
    return read(
        path,
        records_of=records_of or TopicFilter(topic),
        partitions=partitions,
        batch_bytes=max(1, min(batch_bytes, MAXIMUM_BATCH_BYTES)),
    )
