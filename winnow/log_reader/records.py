"""Questions about records: browse a partition, one record in full, the versions of a key.

Each takes ``decoded``: keys and values as JSON, by the topic's formats and with what its rules show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from winnow.errors import UsageError
from winnow.log_reader.documents import Document, describe
from winnow.log_reader.key_text import read_key
from winnow.log_reader.masking import Masks
from winnow.log_reader.question import Answer, Parameters
from winnow.log_reader.shown_records import ShownRecords
from winnow.pipeline.explain.gaps import explain_gaps, find_gaps
from winnow.pipeline.explain.removed_versions import RemovedVersions, find_removed_versions
from winnow.pipeline.explain.why import explain_key, explain_offset
from winnow.pipeline.explain.why_answer import WhyAnswer
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoded_records import open_decoded_reading
from winnow.pipeline.read.browse import BrowsedPartition, open_partition
from winnow.pipeline.read.newest import find_newest, read_places
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.values.counts import format_count

MAXIMUM_RECORDS: Final = 200
MAXIMUM_LISTED_VALUE_BYTES: Final = 16 << 10
MAXIMUM_VALUE_BYTES: Final = 1 << 20
"""Of a key or value where one record is shown in full."""
MAXIMUM_ANSWER_BYTES: Final = 4 << 20
"""Of keys, values and headers together."""
MAXIMUM_SHOWN_VERSIONS: Final = 20
"""Versions of a key that are shown with their values, the newest ones."""


def browse(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Show records of a partition: from an offset, from an instant, before an offset, or the newest ones.

    Beside them stands why offsets between them have none. Its first and last page reach to both ends of the log.

    Parameters: ``partition``, ``limit``, and one of ``offset``, ``timestamp_ms`` and ``before``; none: the newest.
    """
    view = load_topic_view(installation, topic)
    browsed = open_partition(view, parameters.number("partition"))
    limit = max(1, min(parameters.number("limit"), MAXIMUM_RECORDS))
    start = _find_start(browsed, parameters, limit)
    before = parameters.optional_number("before")
    shown = collect_records(installation, view, MAXIMUM_LISTED_VALUE_BYTES, decodes=parameters.flag("decoded"))
    shown.add(browsed.read_from(start, limit))
    records = shown.documents
    if before is not None:
        records = [each for each in records if int(each["offset"]) < before]
    next_offset = int(records[-1]["offset"]) + 1 if records else start
    first_offset = int(records[0]["offset"]) if records else start
    has_next = any(each.last_offset >= next_offset for each in browsed.segments)
    # A page has the gap before its first record; only the last one has one after its last record.
    end = min(before, browsed.log_end_offset) if before is not None and not records else next_offset
    if before is None and not has_next:
        end = browsed.log_end_offset
    # What lies below the log start is a gap of the first page, unless the page begins at an offset that was asked for.
    is_first = start == browsed.log_start_offset and parameters.optional_number("offset") is None
    gaps = find_gaps([int(each["offset"]) for each in records], 0 if is_first else start, end)
    document = {
        "topic": topic,
        "partition": browsed.partition.partition,
        "partitions": len(view.partitions),
        "log_start_offset": str(browsed.log_start_offset),
        "log_end_offset": str(browsed.log_end_offset),
        "records": records,
        "gaps": [describe(gap) for gap in explain_gaps(installation, view, browsed.partition.partition, gaps)],
        "first_offset": str(first_offset),
        "next_offset": str(next_offset),
        "has_previous": any(each.first_offset < first_offset for each in browsed.segments)
        and first_offset > browsed.log_start_offset,
        "has_next": has_next,
        "is_cut": shown.is_full,
        "has_formats": view.config.row_shape.is_typed,
    }
    return Answer(document, _describe_seen(topic, browsed.partition.partition, records))


def browse_newest(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Show the newest records of all partitions, oldest first, merged by timestamp.

    Parameters: ``limit``, and ``before_offsets``: per partition the offset below which records are wanted, as an answer
    gives it for those before. ``gaps`` are not explained: that reads receipts, of each partition others.
    """
    view = load_topic_view(installation, topic)
    partitions = [open_partition(view, number) for number in range(len(view.partitions))]
    limit = max(1, min(parameters.number("limit"), MAXIMUM_RECORDS))
    asked = parameters.numbers_by_number("before_offsets")
    ends = {
        (number := browsed.partition.partition): asked.get(number, browsed.log_end_offset) for browsed in partitions
    }
    newest = find_newest(partitions, ends, limit)
    shown = collect_records(installation, view, MAXIMUM_LISTED_VALUE_BYTES, decodes=parameters.flag("decoded"))
    # The newest are collected first, so that those are missing from a full answer that the next one begins with.
    shown.add(reversed(list(read_places(partitions, newest))))
    records = shown.documents[::-1]
    before = dict(newest.before)
    if shown.is_full:
        before = dict(ends)
        for each in shown.documents:
            before[each["partition"]] = int(each["offset"])
    has_previous = newest.has_previous or shown.is_full
    document = {
        "topic": topic,
        "partition": None,
        "partitions": len(view.partitions),
        "records": records,
        "gaps": _list_gaps(records, before if has_previous else {}, ends),
        "before_offsets": {str(number): str(offset) for number, offset in before.items()},
        "has_previous": has_previous,
        "is_cut": shown.is_full,
        "has_formats": view.config.row_shape.is_typed,
    }
    return Answer(document, f"{topic}: {describe_places(records)}")


def _list_gaps(records: list[Document], starts: Mapping[int, int], ends: Mapping[int, int]) -> list[Document]:
    """List where each partition has no record on a page from ``starts``, without one from the first, to ``ends``."""
    gaps: list[Document] = []
    for number, end in ends.items():
        offsets = [int(record["offset"]) for record in records if record["partition"] == number]
        gaps += [
            {"partition": number, "first_offset": str(first), "last_offset": str(last)}
            for first, last in find_gaps(offsets, starts.get(number, 0), end)
        ]
    return gaps


def describe_places(records: list[Document]) -> str:
    """Say which records were shown: of each partition how many, from which offset to which."""
    parts = []
    for number in sorted({each["partition"] for each in records}):
        offsets = [int(each["offset"]) for each in records if each["partition"] == number]
        parts.append(f"{len(offsets)} of partition {number} from offset {min(offsets)} to {max(offsets)}")
    return f"{format_count(len(records), 'record')}: {', '.join(parts)}" if parts else "no record"


def _find_start(browsed: BrowsedPartition, parameters: Parameters, limit: int) -> int:
    given = {name: parameters.optional_number(name) for name in ("offset", "timestamp_ms", "before")}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) > 1:
        raise UsageError("A page begins at an offset, at an instant or before an offset: name one of them.")
    if "offset" in named:
        return named["offset"]
    if "timestamp_ms" in named:
        return browsed.find_time(named["timestamp_ms"])
    return browsed.find_page_start(named.get("before", browsed.log_end_offset), limit)


def show_record(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Show the record at ``offset`` of ``partition`` in full; ``record`` None: there is none."""
    partition, offset = parameters.number("partition"), parameters.number("offset")
    view = load_topic_view(installation, topic)
    shown = collect_records(installation, view, MAXIMUM_VALUE_BYTES, decodes=parameters.flag("decoded"))
    found = _read_records(shown, open_partition(view, partition), [offset])
    document = {"topic": topic, "record": found[0] if found else None}
    return Answer(document, _describe_seen(topic, partition, found))


def explain_record(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Explain why there is a record at ``offset`` of ``partition``, or none, and show the versions of its key."""
    partition, offset = parameters.number("partition"), parameters.number("offset")
    found = explain_offset(installation, topic, partition, offset, as_of_ms=installation.now_ms())
    versions = _read_versions(installation, load_topic_view(installation, topic), found, parameters)
    return Answer({"versions": versions, "why": describe(found)}, _describe_seen(topic, partition, versions))


def show_key(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Find the versions of a key that are in the log, and which of them wins by which rule in which run.

    Also those that runs removed, while the files that have them exist.

    Parameters: ``key``, ``encoding``, ``partition`` (none: where it is likeliest, then the others), ``everywhere``.
    """
    first, *others = read_key(parameters)
    found, compacted = _find_key(installation, topic, first, parameters), False
    key = first
    for other in others:
        if not found.present:
            found, compacted, key = _find_key(installation, topic, other, parameters), True, other
    view = load_topic_view(installation, topic)
    versions = _read_versions(installation, view, found, parameters)
    searches_one = found.present and not parameters.flag("everywhere")
    partition = found.partition if searches_one else parameters.optional_number("partition")
    removed = find_removed_versions(view, key, partition, installation.now_ms())
    shown = _read_removed(installation, view, removed, parameters)
    document = {
        "versions": versions,
        "removed": {
            "records": shown,
            "total": removed.total,
            "files": removed.files,
            "size_bytes": removed.size_bytes,
            "unread_files": removed.unread_files,
            "damaged_files": removed.damaged_files,
        },
        "why": describe(found),
        "found_without_spaces": compacted and found.present,
    }
    return Answer(document, _describe_key_search(topic, found, versions) + _describe_removed_seen(shown))


def _find_key(installation: Installation, topic: str, key: bytes, parameters: Parameters) -> WhyAnswer:
    return explain_key(
        installation,
        topic,
        key,
        partition=parameters.optional_number("partition"),
        everywhere=parameters.flag("everywhere"),
        as_of_ms=installation.now_ms(),
    )


def _read_versions(
    installation: Installation, view: TopicView, found: WhyAnswer, parameters: Parameters
) -> list[Document]:
    if found.partition is None:
        return []
    # Records may have come or gone between the two looks at the log: what is gone is left out.
    offsets = sorted({each.offset for each in found.records[-MAXIMUM_SHOWN_VERSIONS:]})
    for winner in (found.winner, found.next_winner):
        offsets += [] if winner is None or winner.offset in offsets else [winner.offset]
    browsed = open_partition(view, found.partition)
    shown = collect_records(installation, view, MAXIMUM_LISTED_VALUE_BYTES, decodes=parameters.flag("decoded"))
    return _read_records(shown, browsed, sorted(offsets))


def _read_removed(
    installation: Installation, view: TopicView, removed: RemovedVersions, parameters: Parameters
) -> list[Document]:
    """Show removed records as others are shown, each with the run that removed it."""
    shown = collect_records(installation, view, MAXIMUM_LISTED_VALUE_BYTES, decodes=parameters.flag("decoded"))
    shown.add(each.record for each in removed.records)
    runs = {(each.partition, str(each.offset)): each for each in removed.records}
    return [
        {
            **document,
            "plan_id": (run := runs[document["partition"], document["offset"]]).plan_id,
            "removed_at_ms": run.removed_at_ms,
            "is_certain": run.is_certain,
        }
        for document in shown.documents
    ]


def _read_records(shown: ShownRecords, browsed: BrowsedPartition, offsets: list[int]) -> list[Document]:
    for offset in offsets:
        shown.add(browsed.read_from(offset, 1))
    return [each for each in shown.documents if int(each["offset"]) in offsets]


def collect_records(
    installation: Installation, view: TopicView, maximum_value_bytes: int, *, decodes: bool
) -> ShownRecords:
    """Make the collection of an answer's records, with the masks of the page; ``decodes``: they are decoded, too."""
    page = installation.settings.page
    return ShownRecords(
        masks=Masks.parse(page.masked_patterns, page.masked_fields),
        epochs=view.head.state.epochs,
        maximum_value_bytes=maximum_value_bytes,
        maximum_bytes=MAXIMUM_ANSWER_BYTES,
        reading=open_decoded_reading(installation, view.log.topic) if decodes else None,
    )


def _describe_seen(topic: str, partition: int, records: list[Document]) -> str:
    offsets = sorted({int(each["offset"]) for each in records})
    if not offsets:
        return f"{topic}-{partition}: no record"
    return f"{topic}-{partition}: {format_count(len(offsets), 'record')} from offset {offsets[0]} to {offsets[-1]}"


def _describe_removed_seen(removed: list[Document]) -> str:
    """Say which removed records were shown; nothing if there were none."""
    places = [f"{each['partition']}:{each['offset']}" for each in removed]
    return f"; removed ones, by partition and offset: {', '.join(places)}" if places else ""


def _describe_key_search(topic: str, found: WhyAnswer, versions: list[Document]) -> str:
    if found.partition is None or not found.present:
        return f"{topic}: versions of a key, none found"
    return f"versions of a key, {_describe_seen(topic, found.partition, versions)}"
