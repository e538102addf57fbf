"""Measures a topic after each step: records and tombstones from manifests, bytes from disk."""

from __future__ import annotations

from dataclasses import dataclass

from demo.expected import Expected
from winnow.files import storage
from winnow.pipeline.installation import Installation


@dataclass(frozen=True, slots=True)
class Figures:
    """One topic at one moment. Tuples are per partition; ``disk_bytes`` is the topic's whole folder."""

    records: tuple[int, ...]
    tombstones: tuple[int, ...]
    quarantined: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one topic over the demo: after ingest, after each compaction, after the sweep."""

    ingested: Figures
    first: Figures
    second: Figures
    swept: Figures


def measure_topic(installation: Installation, topic: str) -> Figures:
    """Measure the current state of ``topic``. Reads no data file of the log."""
    log = installation.log.open(topic)
    head = log.head()
    segments = log.segments(head)
    partitions = sorted(head.state.partitions)
    quarantine = installation.log.quarantine(topic).read(head.state.quarantine_ingests)
    return Figures(
        records=tuple(sum(s.records for s in segments.get(p, ())) for p in partitions),
        tombstones=tuple(sum(s.tombstones for s in segments.get(p, ())) for p in partitions),
        quarantined=sum(batch.num_rows for batch in quarantine),
        disk_bytes=sum(entry.size_bytes for entry in storage.list_files(head.location)),
    )


def list_differences(topic: str, expected: Expected, measured: Measured) -> list[str]:
    """List differences between the topic and what plain Python computed from the CSV, as sentences; none when equal."""
    none = tuple(0 for _ in expected.logged)
    compared = (
        ("records in the log before compaction", expected.logged, measured.ingested.records),
        ("records in quarantine", expected.keyless, measured.ingested.quarantined),
        ("records after the first compaction", expected.kept, measured.first.records),
        ("tombstones after the first compaction", expected.tombstones, measured.first.tombstones),
        ("records after the second compaction", expected.kept_after_second, measured.second.records),
        ("tombstones after the second compaction", none, measured.second.tombstones),
        ("records after the sweep", expected.kept_after_second, measured.swept.records),
        ("records in quarantine after the sweep", expected.keyless, measured.swept.quarantined),
    )
    return [
        f"{topic}: {what} should be {wanted}, found {found}." for what, wanted, found in compared if wanted != found
    ]
