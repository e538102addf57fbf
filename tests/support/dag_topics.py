"""Small topics for tests of the DAGs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from winnow.engine import staging
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import create_topic, describe_topic

DAY_MS = 86_400_000
GROUP = ("compact", "validate", "publish", "report")
"""The tasks of one batch."""


@dataclass(frozen=True)
class Line:
    """One record of a test file."""

    offset: int
    key: str
    value: str | None
    timestamp_ms: int


def build_group_states(states: dict[tuple[str, int], str], map_index: int = 0) -> list[str]:
    """States of compact, validate, publish, report of one batch."""
    return [states[f"compact_batch.{name}", map_index] for name in GROUP]


def write_lines(path: Path, lines: Iterable[Line]) -> str:
    """Write JSON lines as `winnow ingest` takes them; returns the path."""
    documents = [
        {
            "partition": 0,
            "offset": line.offset,
            "timestamp": line.timestamp_ms,
            "timestampType": 0,
            "key": base64.b64encode(line.key.encode()).decode(),
            "value": None if line.value is None else base64.b64encode(line.value.encode()).decode(),
            "headers": None,
        }
        for line in lines
    ]
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    return str(path)


def make_topic(
    installation: Installation, folder: Path, topic: str, files: Sequence[Sequence[Line]], **config: str
) -> None:
    """A topic of one partition, one commit and so one segment per file. Underscores in ``config`` stand for dots."""
    create_topic(installation, topic, 1, {key.replace("_", "."): value for key, value in config.items()})
    for number, lines in enumerate(files):
        path = write_lines(folder / f"{topic}-{number}.jsonl", lines)
        ingest_files(installation, topic, [path], as_of_ms=lines[0].timestamp_ms)


def build_old_lines(records: int, keys: int, *, start: int = 0, at_ms: int = 1_700_000_000_000) -> list[Line]:
    """Records from the past: each key is written again and again, so most are superseded."""
    return [
        Line(offset, f"key-{offset % keys}", f"value-{offset}", at_ms + offset)
        for offset in range(start, start + records)
    ]


def lose_a_record(installation: Installation, topic: str) -> None:
    """What a broken disk or a bug would do to a staged file."""
    run = installation.store.runs.list_open(topic)[0]
    manifest = staging.read_manifest(run.plan_uri, run.attempt)
    assert manifest is not None
    path = manifest.partitions[0].rewrites[0].outputs[0].path.removeprefix("file://")
    pq.write_table(pq.read_table(path).slice(1), path)


def read_topic(installation: Installation, topic: str) -> list[dict[str, Any]]:
    """Every record that a reader of ``topic`` sees."""
    return [record for batch in read_batches(installation, topic) for record in batch.to_pylist()]


def read_first_dirty_offsets(installation: Installation, topic: str) -> dict[int, int | None]:
    """The cleaner checkpoint of each partition, as the table carries it."""
    return {number: state.first_dirty_offset for number, state in describe_topic(installation, topic).states.items()}
