"""``winnow compare``: what another compaction strategy would choose; publishes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.options import AsOf, Json, Topic, open_for_command, resolve_as_of
from winnow.cli.output import (
    format_bytes,
    format_short_time,
    print_heading,
    print_lines,
    print_table,
    write_json,
)
from winnow.cli.progress import JobBar
from winnow.values.counts import format_count
from winnow.values.strategies import Strategy

if TYPE_CHECKING:
    from winnow.pipeline.explain.compare import Comparison, ComparisonSide, DifferingKey

MAXIMUM_SAMPLES = 10_000


def compare(
    topic: Topic,
    strategy: Annotated[Strategy, typer.Option("--strategy", help="The strategy to try.", show_default=False)],
    header: Annotated[
        str | None,
        typer.Option(
            "--header",
            metavar="NAME",
            help="The header with the version, for strategy header; the topic's own when left out.",
            show_default=False,
        ),
    ] = None,
    as_of: AsOf = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", metavar="N", min=0, max=MAXIMUM_SAMPLES, help="How many differing keys to list by offset."
        ),
    ] = 10,
    as_json: Json = False,
) -> None:
    """Count keys that another strategy gives another winner.

    Picks winners twice with Spark in all records that a compaction would cover, in idle partitions too. Publishes
    nothing: no table, checkpoint or configuration is changed. Keys and values are never shown, only partitions,
    offsets, timestamps and versions.

    Example: winnow compare orders --strategy timestamp
    """
    with open_for_command() as installation:
        from winnow.pipeline.explain.compare import compare_strategies as compare_topic

        as_of_ms = resolve_as_of(installation, as_of)
        with _Progress() as progress:
            found = compare_topic(
                installation,
                topic,
                strategy=strategy,
                header=header,
                as_of_ms=as_of_ms,
                sample=sample,
                progress=progress,
            )
    if as_json:
        write_json(make_document(found))
    else:
        _show(found)


def make_document(found: Comparison) -> dict[str, Any]:
    """The comparison as ``--json`` shows it; a sampled key is one flat object."""
    return asdict(found) | {"sample": [flatten_sample(key) for key in found.sample]}


def flatten_sample(key: DifferingKey) -> dict[str, Any]:
    """A differing key as one row."""
    return {
        "partition": key.partition,
        "present_offset": key.present.offset,
        "present_timestamp_ms": key.present.timestamp_ms,
        "present_version": key.present.version,
        "present_tombstone": key.present.tombstone,
        "other_offset": key.other.offset,
        "other_timestamp_ms": key.other.timestamp_ms,
        "other_version": key.other.version,
        "other_tombstone": key.other.tombstone,
    }


def _show(found: Comparison) -> None:
    print_lines(found.sentence)
    if found.partitions:
        _show_sides(found)
    if found.headers_missing or found.headers_malformed:
        missing, malformed = (
            format_count(found.headers_missing or 0, "record"),
            format_count(found.headers_malformed or 0, "record"),
        )
        print_lines(
            f"{missing} without the header and {malformed} whose value is not an 8-byte long lose to every version."
        )
    if found.sample:
        print_heading(
            f"{len(found.sample):,} of {format_count(found.keys_differing, 'key')} with another winner, lowest offset "
            "first"
        )
        _show_sample(found)
    for notice in found.notices:
        print_lines(notice)
    print_lines("Nothing was changed.")


def _show_sides(found: Comparison) -> None:
    def row(label: str, side: ComparisonSide) -> list[str]:
        return [
            label,
            side.strategy.value,
            f"{side.records_kept:,}",
            format_bytes(side.estimated_bytes),
            f"{side.tombstones_expired:,}",
            f"{side.differing_tombstones:,}",
            side.order,
        ]

    print_table(
        ["", "strategy", "kept", "bytes, estimated", "tombstones gone", "differing and tombstone", "who wins"],
        [row("now", found.present), row("instead", found.other)],
        right=(2, 3, 4, 5),
        sentences=(6,),
    )


def _show_sample(found: Comparison) -> None:
    rows = [
        [
            f"{found.topic}-{key.partition}",
            f"{key.present.offset:,}",
            format_short_time(key.present.timestamp_ms),
            "" if key.present.version is None else f"{key.present.version}",
            "tombstone" if key.present.tombstone else "",
            f"{key.other.offset:,}",
            format_short_time(key.other.timestamp_ms),
            "" if key.other.version is None else f"{key.other.version}",
            "tombstone" if key.other.tombstone else "",
        ]
        for key in found.sample
    ]
    now = ["wins now", "timestamp", "version", ""]
    print_table(["partition", *now, "instead", *now[1:]], rows, right=(1, 3, 5, 7))


class _Progress(JobBar):
    """Shows the events of a comparison: a bar over bytes on a terminal, a line per partition elsewhere."""

    def __init__(self) -> None:
        super().__init__("Comparing")

    def __call__(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        if event.get("event") == "started":
            self._total_bytes = int(event["bytes"])
            self._line(
                f"Comparing {format_count(int(event['partitions']), 'partition')}, {format_bytes(self._total_bytes)}"
            )
        elif event.get("event") == "partition":
            self._done_bytes += int(event.get("bytes_in", 0))
            name = f"{event['topic']}-{event['partition']}"
            if "error" in event:
                self._line(f"{name}: failed: {event['error']}")
            else:
                differing = format_count(int(event["keys_differing"]), "key")
                self._line(f"{name}: {event['records']:,} records, {differing} with another winner")
        self._bar.move(min(self._done_bytes, self._total_bytes), self._total_bytes or None)

    def _line(self, text: str) -> None:
        if not self._bar.is_shown:
            typer.echo(text, err=True)
