"""``winnow why``: is this record here, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from winnow.cli.options import Json, Topic, open_for_command
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_short_time,
    print_heading,
    print_lines,
    print_message,
    print_table,
    write_json,
    write_text,
)
from winnow.cli.progress import ProgressBar
from winnow.errors import UsageError
from winnow.values.counts import format_count
from winnow.values.typed_keys import KeyForm, TypedKey, parse_key

if TYPE_CHECKING:
    from winnow.pipeline.explain.removed_versions import RemovedVersions
    from winnow.pipeline.explain.why_answer import WhyAnswer
    from winnow.pipeline.explain.why_records import ShownRecord
    from winnow.pipeline.installation import Installation

_PREFIX_NEEDED: Final = (
    "The value of --key may be base64 and text: no record has it as base64, and records have it as text. Write "
    "text:KEY, or base64:KEY if it is that."
)


def why(
    topic: Topic,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="The key of the records to look for: text:KEY, base64:KEY or hex:KEY. Without a prefix what can be "
            "base64 is that, all else text.",
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="P", min=0, help="Only this partition.", show_default=False)
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option(
            "--offset", metavar="O", min=0, help="The offset to explain, with --partition.", show_default=False
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-partitions", help="Search the other partitions too, even if the key was found.")
    ] = False,
    decoded: Annotated[
        bool,
        typer.Option(
            "--decoded",
            help="Also keys and values of the records as JSON, by the topic's formats and with what "
            "winnow.latest.fields shows of them.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain why a record is in the log, or why it is gone.

    By key: which records readers see, which of them won, by which rule and in which run, and which ones were removed,
    while the files that had them exist. By offset: what happened, or will happen, to the record. Without --decoded
    neither keys nor values are shown, only partitions, offsets, timestamps and versions.

    Example: winnow why orders --key text:order-12

    Example: winnow why orders --partition 0 --offset 12
    """
    typed = _parse_key(key, partition, offset, everywhere=everywhere)
    with open_for_command(to_read=True) as installation, ProgressBar("Searching segments") as bar:
        from winnow.pipeline.explain.why import explain_key, explain_offset
        from winnow.pipeline.explain.why_answer import FoundVerdict

        as_of_ms = installation.now_ms()
        if typed is not None:
            explain = partial(
                explain_key,
                installation,
                topic,
                partition=partition,
                everywhere=everywhere,
                as_of_ms=as_of_ms,
                progress=bar.move,
            )
            found = explain(typed.key)
            is_absent = found.verdict == FoundVerdict.ABSENT
            if is_absent and typed.other is not None and explain(typed.other).verdict != FoundVerdict.ABSENT:
                raise UsageError(_PREFIX_NEEDED)
            if is_absent and typed.form is KeyForm.TEXT and not (key or "").startswith("text:"):
                print_message("The key is no base64 and was looked for as text. Its bytes: base64:KEY or hex:KEY.")
        else:
            assert partition is not None
            assert offset is not None
            found = explain_offset(installation, topic, partition, offset, as_of_ms=as_of_ms, progress=bar.move)
        removed = None if typed is None else _find_removed(installation, found, typed.key, partition, everywhere)
        shown = None
        if decoded:
            from winnow.pipeline.explain.why_records import read_decoded_records

            shown = tuple(read_decoded_records(installation, found))
    document = asdict(found) | ({} if removed is None else {"removed": _describe_removed(removed)})
    if as_json and shown is not None:
        _write_decoded(document, shown)
    elif as_json:
        write_json(document)
    else:
        _show(found, shown or ())
        if removed is not None:
            _show_removed(topic, removed)


def _find_removed(
    installation: Installation, found: WhyAnswer, key: bytes, partition: int | None, everywhere: bool
) -> RemovedVersions:
    """Find what runs removed of the key, where the answer has looked for it."""
    from winnow.pipeline.explain.removed_versions import find_removed_versions
    from winnow.pipeline.topics.topic_view import load_topic_view

    view = load_topic_view(installation, found.topic)
    only = found.partition if found.present and not everywhere else partition
    return find_removed_versions(view, key, only, installation.now_ms())


def _describe_removed(removed: RemovedVersions) -> dict[str, Any]:
    """Describe removed records without their bytes."""
    counts = {name: getattr(removed, name) for name in ("total", "files", "size_bytes", "unread_files")}
    records = [
        {name: getattr(each, name) for name in ("partition", "offset", "plan_id", "removed_at_ms", "is_certain")}
        for each in removed.records
    ]
    return {"records": records, **counts, "damaged_files": removed.damaged_files}


def _parse_key(key: str | None, partition: int | None, offset: int | None, *, everywhere: bool) -> TypedKey | None:
    """The key; None when the question is about an offset.

    Raises:
        UsageError: neither or both are asked about, or the key is not of the form it claims. The key is not repeated.
    """
    if (key is None) == (offset is None):
        raise UsageError("Ask about a key (--key KEY) or about an offset (--partition P --offset O), one of the two.")
    if key is None:
        if partition is None:
            raise UsageError("--offset needs --partition: each partition has its own offsets.")
        if everywhere:
            raise UsageError("--all-partitions needs --key: an offset belongs to one partition.")
        return None
    if partition is not None and everywhere:
        raise UsageError(
            "--partition and --all-partitions contradict one another.",
            next="Leave one out.",
        )
    return parse_key(key, KeyForm.BASE64)


def _write_decoded(document: dict[str, Any], shown: Sequence[ShownRecord]) -> None:
    """Write the answer with the documents as they were decoded: numbers keep all of their digits."""
    import msgspec

    records = [
        {
            "partition": record.partition,
            "offset": record.offset,
            "decoded_key": None if record.text.key is None else msgspec.Raw(record.text.key),
            "decoded_value": None if record.text.value is None else msgspec.Raw(record.text.value),
            "error": record.text.error,
        }
        for record in shown
    ]
    write_text(msgspec.json.encode({**document, "decoded": records}).decode() + "\n")


def _show(found: WhyAnswer, shown: Sequence[ShownRecord]) -> None:
    print_lines(found.sentence)
    if len(found.records) > 1:
        _show_records(found)
    if shown:
        _show_decoded(found.topic, shown[-MAXIMUM_ROWS:])
    if found.runs:
        _show_runs(found)


def _show_records(found: WhyAnswer) -> None:
    listed = found.records[-MAXIMUM_ROWS:]
    more = f", the last {len(listed)} of {found.records_total:,}" if len(listed) < found.records_total else ""
    print_heading(f"Records of this key that readers see{more}")
    rows = [
        [
            f"{found.topic}-{record.partition}",
            f"{record.offset:,}",
            format_short_time(record.timestamp_ms),
            "" if record.version is None else str(record.version),
            "tombstone" if record.tombstone else "value",
            record.section.value.replace("_", " "),
            "wins" if found.next_winner is not None and record.offset == found.next_winner.offset else "",
        ]
        for record in listed
    ]
    print_table(["partition", "offset", "timestamp", "version", "", "section", "next run"], rows, right=(1, 3))


def _show_removed(topic: str, removed: RemovedVersions) -> None:
    unread = removed.unread_files + removed.damaged_files
    if unread:
        print_lines(f"{format_count(unread, 'file')} of removed records could not be searched.")
    if not removed.records:
        return
    more = f", the newest {len(removed.records)} of {removed.total:,}" if len(removed.records) < removed.total else ""
    print_heading(f"Records of this key that runs removed{more}")
    rows = [
        [
            f"{topic}-{each.partition}",
            f"{each.offset:,}",
            each.plan_id[:12],
            format_short_time(each.removed_at_ms),
            "" if each.is_certain else "or a later run",
        ]
        for each in removed.records
    ]
    print_table(["partition", "offset", "plan", "removed", ""], rows, right=(1,))


def _show_decoded(topic: str, shown: Sequence[ShownRecord]) -> None:
    print_heading("Decoded")
    rows = [
        [
            f"{topic}-{record.partition}",
            f"{record.offset:,}",
            (record.text.key or b"").decode(),
            (record.text.value or b"").decode(),
            record.text.error or "",
        ]
        for record in shown
    ]
    print_table(["partition", "offset", "key", "value", "error"], rows, right=(1,))


def _show_runs(found: WhyAnswer) -> None:
    print_heading("Runs that covered it" if found.present else "Runs that may have removed it")
    rows = [
        [
            format_short_time(run.finished_at_ms),
            format_short_time(run.as_of_ms),
            (run.plan_id or "")[:12],
            str(run.snapshot_id),
            f"{run.next_first_dirty_offset:,}",
            f"{run.records_superseded:,}",
            f"{run.tombstones_expired:,}",
            f"{run.records_keyless:,}",
            f"{run.records_retired:,}",
        ]
        for run in found.runs[-MAXIMUM_ROWS:]
    ]
    header = ["finished", "as of", "plan", "snapshot", "up to", "superseded", "tombstones", "keyless", "retired"]
    print_table(header, rows, right=(4, 5, 6, 7, 8))
    if len(found.runs) > len(rows):
        print_lines(f"{format_count(len(found.runs) - len(rows), 'older run')}; --json lists all")
