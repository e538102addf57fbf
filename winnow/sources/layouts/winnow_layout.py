"""The layout of Winnow's own input: JSON lines and Parquet with the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from winnow.sources.input_files import KNOWN, read_file
from winnow.sources.layouts.layout import Arrangement, Description, Layout
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk, StoredObject
from winnow.sources.topic_filter import TopicFilter

NAME = "winnow"


class _AnyTopic(TopicFilter):
    """Selects every record, whatever topic it names."""

    def select_lines(self, *_: Any) -> None:
        return None

    def select_rows(self, *_: Any) -> None:
        return None


def recognise_winnow(obj: StoredObject) -> bool:
    """Check whether ``obj`` has an extension of this layout; what is in it is checked when it is read."""
    return obj.uri.endswith(KNOWN)


def arrange_winnow(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file, in the order given: the offsets are in the records."""
    forms = dict.fromkeys(("key", "value", "headers"), FieldForm.BYTES)
    return Arrangement(tuple(ArchiveObject(NAME, each.uri, {"value": each}, forms=forms) for each in stored))


def read_winnow(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; one without a partition is in partition 0 here."""
    batches = read_file(archive.uri, topic="", partitions=1, batch_bytes=options.batch_bytes, records_of=_AnyTopic(""))
    for batch in batches:
        yield RecordChunk(batch)


WINNOW = Layout(
    NAME,
    Description(
        title="Winnow's own",
        recognised_by="`.jsonl`, `.jsonl.gz`, `.json` with base64 fields, and `.parquet` with the columns of Spark's "
        "Kafka source, as `winnow read` writes them.",
        loses=("nothing",),
        settings=(),
    ),
    recognise_winnow,
    arrange_winnow,
    read_winnow,
)
