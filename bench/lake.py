"""Prepares benchmark topics once and restores them before every run.

Iceberg metadata holds absolute paths, so a run always uses the same folder: ``home``. The pristine copy is beside it.
Data files are never changed in place, so they are linked; everything else is copied.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.process_measurement import ROOT
from bench.source_data import GENERATOR, ProgressCallback, build_records_query, make_source_files
from bench.workloads import SAME_FILES, WORKLOADS, Incremental, Size, Workload

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.values.model import Segment

LAKE = 1
"""Increased when lakes are made in another way, so that cached lakes are rebuilt."""
SPILL_BYTES = 4 << 30
KEPT_SOURCES = {"small": tuple(WORKLOADS), "12m": ("uniform", "unique")}
"""Generated files that other workloads start from; the others are deleted when their lake is complete."""


@dataclass(frozen=True, slots=True)
class Lake:
    """Location of one workload at one size: a topic in a home of its own, or in a ``shared`` home.

    A workload that differs from another in its topic's configuration only uses that one's home, changed at every
    :meth:`restore`; in a shared home it has a topic of its own.
    """

    workload: Workload
    size: Size
    folder: Path
    shared: bool = False

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.workload.name if self.shared else SAME_FILES.get(self.workload.name, self.workload.name)

    @property
    def home(self) -> Path:
        """The ``WINNOW_HOME`` of the runs."""
        return self.folder / ("shared" if self.shared else self.topic) / "home"

    @property
    def pristine(self) -> Path:
        """Copy from which :meth:`restore` restores ``home``."""
        return self.home.parent / "pristine"

    @property
    def sources(self) -> Path:
        """Folder of the generated files."""
        return self.folder / self.workload.name / "sources"

    @property
    def origin(self) -> Lake:
        """Lake whose generated files come first: another workload's when this one continues it, else itself."""
        incremental = self.workload.incremental
        name = incremental.base if incremental else SAME_FILES.get(self.workload.name)
        return self if name is None else Lake(WORKLOADS[name], self.size, self.folder)

    def restore(self) -> None:
        """Reset ``home`` to its state before any run."""
        replace_tree(self.pristine, self.home)
        if self.topic != self.workload.name:
            from winnow.log.topic_configuration import set_config

            with open_home(self.home) as installation:
                set_config(installation.log.open(self.topic), self.workload.config, ())

    def warm(self) -> None:
        """Read all data files once, so that every run finds them in the page cache."""
        warm_files(self.pristine)

    @property
    def scratch(self) -> Path:
        """Folder for temporary files of runs, beside the home."""
        return self.home.parent

    def segments(self) -> dict[int, tuple[Segment, ...]]:
        """Return the live segments per topic partition, in offset order."""
        with open_home(self.home) as installation:
            log = installation.log.open(self.topic)
            return log.segments(log.head())


def get_lake(name: str, size: Size, folder: Path) -> Lake:
    """Return the lake of the workload ``name`` below ``folder``; it may not exist yet."""
    return Lake(WORKLOADS[name], size, folder / size.name)


@contextmanager
def open_home(home: Path, **settings: str) -> Iterator[Installation]:
    """Open Winnow's store and catalog below ``home``; ``settings``: environment variables without their prefix."""
    from winnow.config.settings import load_settings
    from winnow.pipeline.installation import open_installation

    env = {"WINNOW_HOME": str(home), **{f"WINNOW_{name}": value for name, value in settings.items()}}
    with open_installation(load_settings(cwd=home.parent, env=env)) as installation:
        yield installation


def warm_files(folder: Path) -> None:
    """Read all data files below ``folder`` once, so that the next reader finds them in the page cache."""
    block = bytearray(16 << 20)
    for path in sorted(folder.rglob("*.parquet")):
        with path.open("rb", buffering=0) as file:
            while file.readinto(block):
                continue


def replace_tree(source: Path, target: Path) -> None:
    """Make ``target`` a copy of ``source``: data files linked, everything else copied."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def prepare(lake: Lake, report: ProgressCallback = lambda _: None) -> None:
    """Make the pristine lake unless it is complete, and restore it."""
    if lake.topic != lake.workload.name:
        prepare(Lake(WORKLOADS[lake.topic], lake.size, lake.folder), report)
        lake.restore()
        return
    mark = lake.pristine.parent / "complete.json"
    identity = {
        "generator": GENERATOR,
        "lake": LAKE,
        "config": lake.workload.config,
        "records": lake.workload.records(lake.size),
    }
    if mark.is_file() and json.loads(mark.read_text()) == identity:
        lake.restore()
        return
    mark.unlink(missing_ok=True)
    for folder in (lake.home, lake.pristine):
        shutil.rmtree(folder, ignore_errors=True)
    ingest_lakes([lake], report)
    lake.home.rename(lake.pristine)
    lake.restore()
    mark.write_text(json.dumps(identity))
    if lake.topic not in KEPT_SOURCES.get(lake.size.name, ()):
        shutil.rmtree(lake.sources, ignore_errors=True)


def ingest_lakes(lakes: Sequence[Lake], report: ProgressCallback = lambda _: None) -> None:
    """Ingest the topics of ``lakes``, which share a home or have one each."""
    for lake in lakes:
        lake.home.mkdir(parents=True, exist_ok=True)
        _ingest(lake, lake.origin, report)
    for home in dict.fromkeys(lake.home for lake in lakes):
        begun = [lake for lake in lakes if lake.home == home and lake.workload.incremental is not None]
        if begun:
            report(f"compacting what {', '.join(lake.topic for lake in begun)} begin with")
            compact(home, [lake.topic for lake in begun])
        for lake in begun:
            _append(lake, report)


def _ingest(lake: Lake, origin: Lake, report: ProgressCallback) -> None:
    from winnow.log.topic_configuration import set_config
    from winnow.pipeline.ingest.ingest import ingest_files
    from winnow.pipeline.topics.definition import create_topic

    calls = make_source_files(origin.workload, lake.size, origin.sources, report)
    config = origin.workload.config
    with open_home(lake.home, ENGINE__MEMORY_BYTES=str(SPILL_BYTES)) as installation:
        create_topic(installation, lake.topic, origin.workload.partition_count(lake.size), config)
        report(f"ingesting {lake.topic}")
        for paths in calls:
            ingest_files(installation, lake.topic, [str(path) for path in paths], as_of_ms=installation.now_ms())
        if lake.workload.config != config:
            set_config(installation.log.open(lake.topic), lake.workload.config, ())


def _append(lake: Lake, report: ProgressCallback) -> None:
    """Append the new records of an incremental workload to its compacted log."""
    from winnow.pipeline.ingest.ingest import ingest_files

    incremental = lake.workload.incremental
    assert incremental is not None
    files = []
    with open_home(lake.home) as installation:
        log = installation.log.open(lake.topic)
        head = log.head()
        for partition, segments in log.segments(head).items():
            path = lake.sources / f"{partition:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            log_end = head.state.partitions[partition].log_end_offset
            _write_updates(incremental, lake.workload, partition, segments, log_end, path)
            files.append(str(path))
        report(f"appending to {lake.topic}")
        ingest_files(installation, lake.topic, files, as_of_ms=installation.now_ms())


def compact(home: Path, topics: Sequence[str]) -> None:
    """Compact ``topics`` by the command line, without measuring.

    Raises:
        RuntimeError: the command failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "winnow.cli", "compact", *topics],
        env=build_environment(home),
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        raise RuntimeError(
            f"winnow compact ended with exit code {done.returncode}: {' '.join(errors) or done.stderr[-2000:]}"
        )


def build_environment(home: Path, **settings: str) -> dict[str, str]:
    """Build the environment of a competitor: Winnow's home, the same Java for all, and no setting of the caller."""
    from winnow.embedded.java import find_java, make_spark_environment

    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("WINNOW_", "SPARK_", "GX_"))}
    env = make_spark_environment(inherited, find_java(inherited, home.parent.parent.parent))
    return {**env, "WINNOW_HOME": str(home), **{f"WINNOW_{name}": value for name, value in settings.items()}}


def _write_updates(
    incremental: Incremental,
    workload: Workload,
    partition: int,
    segments: Sequence[Segment],
    log_end: int,
    path: Path,
) -> None:
    """Write new records for keys of the clean section: from all its segments, or from the last one only."""
    import duckdb

    from winnow.files.duckdb_connection import quote_file_list

    wanted = max(1, int(sum(segment.records for segment in segments) * incremental.share))
    chosen = segments if incremental.spread else segments[-1:]
    rows = f"""
        SELECT {partition} AS p, {log_end} + row_number() OVER (ORDER BY picked) - 1 AS o, key FROM (
            SELECT key, hash("offset", 7) AS picked
            FROM read_parquet({quote_file_list(segment.path for segment in chosen)}) ORDER BY picked LIMIT {wanted}
        )
    """
    query = build_records_query(workload, rows=rows, key="key")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM ({query}) ORDER BY \"offset\") TO '{path}' (FORMAT parquet)")
