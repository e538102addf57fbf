"""Finds the input files that a user names, and reads them by format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from winnow.files.record_batch import DEFAULT_BATCH_BYTES, MAXIMUM_BATCH_BYTES
from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.winnow.json_lines import read_json_lines
from winnow.sources.layouts.winnow.parquet import read_parquet
from winnow.sources.listing import Listing
from winnow.sources.topic_filter import TopicFilter

JSON_LINES = (".jsonl", ".jsonl.gz", ".json")

PARQUET = (".parquet",)

KNOWN = JSON_LINES + PARQUET


def expand_paths(paths: Sequence[str], exclude: Sequence[str] = (), listing: Listing | None = None) -> list[str]:
    """Return the files of ``paths``, in the order given.

    A folder or a glob stands for all files below it whose name ends in :data:`KNOWN`, sorted by name, without hidden
    ones and those that begin with ``_`` (such as Spark's ``_SUCCESS``). Paths may be URIs. ``exclude``: globs of files
    that are left out. ``listing``: of the call.

    Raises:
        BadInputError: a path is missing, a folder has no such file, or a file's name ends otherwise.
        ServiceError: an object store cannot be reached.
    """
    listing = listing or Listing()
    return [file for path in paths for file in _expand_path(path, exclude, listing)]


def check_suffix(path: str) -> None:
    """Raise for a file whose name does not show its format.

    Raises:
        BadInputError: the name ends in none of :data:`KNOWN`.
    """
    if not path.endswith(KNOWN):
        raise make_file_error(path, "the name does not say what the file holds", f"it must end in {_format_known()}")


def _expand_path(path: str, exclude: Sequence[str], listing: Listing) -> list[str]:
    found = listing.list_objects([path], exclude)
    if [each.uri for each in found] == [path]:
        check_suffix(path)
        return [path]
    files = [each.uri for each in found if each.uri.endswith(KNOWN) and not each.name.startswith("_")]
    if not files and not exclude:
        raise make_file_error(path, f"the folder holds no file that ends in {_format_known()}", "check the path")
    return files


def _format_known() -> str:
    return ", ".join(KNOWN[:-1]) + f" or {KNOWN[-1]}"


def read_file(
    path: str,
    *,
    topic: str,
    partitions: int | None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    records_of: TopicFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read ``path`` lazily in file order, as batches of :data:`winnow.files.record_batch.RECORD_SCHEMA`.

    The name decides the format. A record without a partition gets that of Kafka's default partitioner for its key.

    Args:
        path: a local path or a URI.
        topic: the topic that the records are for.
        partitions: the number of its partitions, at least 1; None: a record may name any, and one without is in 0.
        batch_bytes: maximum size of a batch, from 1, capped at 1 GiB; a larger record is a batch by itself.
        records_of: selects records by the topic that they name; None: a record that names another topic than ``topic``
            is an error.

    Raises:
        OtherTopicError: a record names another topic, and no source topic was chosen.
        BadInputError: a record or the file is not as documented; names line or row, partition and offset.
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
