"""Runs size small: compacts every workload at once and compares record by record."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.competitors import COMPETITORS
from bench.keyed_tables import WAYS, find_wrong_rows
from bench.lake import Lake, compact, get_lake, ingest_lakes, prepare
from bench.result_checks import compute_expected, compute_fingerprint, read_records
from bench.workloads import SMALL, WORKLOADS

if TYPE_CHECKING:
    from bench.progress import ProgressPrinter
    from winnow.values.model import Record

PEERS = ("duckdb", "spark-window", "spark-semi-join", "spark-copy", "pyiceberg-upsert", "spark-merge-mor")
"""Competitors run once on uniform, to check that they run and agree with Winnow."""
TOMBSTONES = "tombstones"
KEYED_WORKLOADS = (TOMBSTONES, "incremental-1-spread")
"""Workloads of which keyed tables are made, to compare them with the oracle's latest state."""


def run_small(
    folder: Path,
    workloads: Sequence[str],
    shown: ProgressPrinter,
    peers: Sequence[str] = PEERS,
    keyed: Sequence[str] = KEYED_WORKLOADS,
) -> int:
    """Compare all ``workloads``, the ``peers``, and keyed tables of ``keyed``; return 0 when everything is equal."""
    lakes = [Lake(WORKLOADS[name], SMALL, folder / SMALL.name, shared=True) for name in workloads]
    wrong = [*find_compaction_errors(lakes, shown), *_find_expiry_errors(lakes, shown)]
    for name in peers:
        wrong += _find_peer_errors(folder, name, shown)
    for name in keyed:
        wrong += find_keyed_errors(folder, name, shown)
    for sentence in wrong:
        shown.say(f"error: {sentence}")
    if not wrong:
        shown.say(
            f"all equal: {len(lakes)} workloads with the oracle and DuckDB, {len(peers)} peers on uniform, keyed tables"
        )
    return 1 if wrong else 0


def find_compaction_errors(lakes: Sequence[Lake], shown: ProgressPrinter) -> list[str]:
    """Make ``lakes`` again and compact them once; list differences from the oracle or from DuckDB."""
    if not lakes:
        return []
    for home in {lake.home for lake in lakes}:
        shutil.rmtree(home, ignore_errors=True)
    ingest_lakes(lakes, shown.say)
    before = {lake.topic: read_records(lake) for lake in lakes}
    duckdb = {lake.topic: _duckdb(lake) for lake in lakes if "compaction.strategy" not in lake.workload.config}
    shown.say(f"compacting {len(lakes)} topics")
    compact(lakes[0].home, [lake.topic for lake in lakes])
    wrong = []
    for lake in lakes:
        found = read_records(lake)
        wrong += find_wrong_partitions(lake.topic, found, compute_expected(lake, before[lake.topic]))
        files = [each.path for segments in lake.segments().values() for each in segments]
        if lake.topic in duckdb and compute_fingerprint(files) != duckdb[lake.topic]:
            wrong.append(f"{lake.topic}: DuckDB alone keeps something else")
        count = sum(map(len, before[lake.topic].values()))
        shown.say(f"{lake.topic}: {count:,} records, {sum(map(len, found.values())):,} kept")
    return wrong


def _find_expiry_errors(lakes: Sequence[Lake], shown: ProgressPrinter) -> list[str]:
    """Check that the second compaction removes the tombstones that the first covered, since their retention is 0."""
    lake = next((lake for lake in lakes if lake.topic == TOMBSTONES), None)
    if lake is None:
        return []
    before = read_records(lake)
    shown.say(f"compacting {lake.topic} once more")
    compact(lake.home, [lake.topic])
    left = {number: [each for each in records if each.value is not None] for number, records in before.items()}
    return find_wrong_partitions(f"{lake.topic}, second time", read_records(lake), left)


def find_wrong_partitions(what: str, found: dict[int, list[Record]], wanted: dict[int, list[Record]]) -> list[str]:
    """Return a sentence per topic partition whose records or their order differ from the oracle's."""
    return [
        f"{what}: topic partition {number} holds {len(found.get(number, []))} records, the oracle "
        f"{len(wanted.get(number, []))}, and they are not the same"
        for number in sorted({*found, *wanted})
        if found.get(number, []) != wanted.get(number, [])
    ]


def _duckdb(lake: Lake) -> str:
    import duckdb

    from bench.peers import duckdb_alone
    from winnow.files.duckdb_connection import format_file_name

    out = lake.home.parent / "duckdb"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with duckdb.connect() as connection:
        for number, segments in lake.segments().items():
            files = [format_file_name(segment.path) for segment in segments]
            duckdb_alone.compact(connection, files, out / f"{number}.parquet")
    found = compute_fingerprint([str(path) for path in sorted(out.iterdir())])
    shutil.rmtree(out)
    return found


def find_keyed_errors(
    folder: Path, name: str, shown: ProgressPrinter, competitors: Collection[str] = tuple(WAYS)
) -> list[str]:
    """Make the keyed table of each of ``competitors`` from workload ``name``; list what the oracle denies."""
    lake = get_lake(name, SMALL, folder)
    prepare(lake, shown.say)
    wrong = []
    for way in map(WAYS.__getitem__, competitors):
        shown.say(f"{name}: keyed table, {way}")
        wrong += find_wrong_rows(lake, way)
    return wrong


def _find_peer_errors(folder: Path, name: str, shown: ProgressPrinter) -> list[str]:
    lake = get_lake("uniform", SMALL, folder)
    prepare(lake, shown.say)
    wanted = _duckdb(lake)
    shown.say(f"uniform: {name}")
    run = COMPETITORS[name].run(lake, True)
    if not run.ended:
        return [f"uniform: {name} failed: {run.note}"]
    if run.fingerprint not in (None, wanted):
        return [f"uniform: {name} keeps something else than DuckDB alone"]
    return []
