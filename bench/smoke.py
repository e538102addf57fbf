"""Size small: every workload in one home, compacted by one ``winnow compact``, and compared record for record."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.competitors import COMPETITORS
from bench.equality import expected, fingerprint, records_of
from bench.lake import Lake, compact, fill, lake_of, prepare
from bench.workloads import SMALL, WORKLOADS

if TYPE_CHECKING:
    from bench.progress import Shown
    from winnow.model import Record

PEERS = ("duckdb", "spark-window", "spark-semi-join", "spark-copy", "pyiceberg-upsert")
"""Tried once on uniform: that they run, and find what Winnow finds."""
TOMBSTONES = "tombstones"


def smoke(folder: Path, workloads: Sequence[str], shown: Shown, peers: Sequence[str] = PEERS) -> int:
    """Compare all ``workloads`` and the ``peers``; 0 when everything is equal."""
    lakes = [Lake(WORKLOADS[name], SMALL, folder / SMALL.name, shared=True) for name in workloads]
    wrong = [*compacted_wrongly(lakes, shown), *_expired_wrongly(lakes, shown)]
    for name in peers:
        wrong += _peer_wrong(folder, name, shown)
    for sentence in wrong:
        shown.say(f"error: {sentence}")
    if not wrong:
        shown.say(f"all equal: {len(lakes)} workloads with the oracle and DuckDB, {len(peers)} peers on uniform")
    return 1 if wrong else 0


def compacted_wrongly(lakes: Sequence[Lake], shown: Shown) -> list[str]:
    """What differs from the oracle, or from DuckDB, after one compaction of ``lakes``, which are made anew."""
    if not lakes:
        return []
    for home in {lake.home for lake in lakes}:
        shutil.rmtree(home, ignore_errors=True)
    fill(lakes, shown.say)
    before = {lake.topic: records_of(lake) for lake in lakes}
    duckdb = {lake.topic: _duckdb(lake) for lake in lakes if "compaction.strategy" not in lake.workload.config}
    shown.say(f"compacting {len(lakes)} topics")
    compact(lakes[0].home, [lake.topic for lake in lakes])
    wrong = []
    for lake in lakes:
        found = records_of(lake)
        wrong += unequal(lake.topic, found, expected(lake, before[lake.topic]))
        files = [each.path for segments in lake.segments().values() for each in segments]
        if lake.topic in duckdb and fingerprint(files) != duckdb[lake.topic]:
            wrong.append(f"{lake.topic}: DuckDB alone keeps something else")
        count = sum(map(len, before[lake.topic].values()))
        shown.say(f"{lake.topic}: {count:,} records, {sum(map(len, found.values())):,} kept")
    return wrong


def _expired_wrongly(lakes: Sequence[Lake], shown: Shown) -> list[str]:
    """Tombstones that were covered once go at the second compaction, since their retention is 0."""
    lake = next((lake for lake in lakes if lake.topic == TOMBSTONES), None)
    if lake is None:
        return []
    before = records_of(lake)
    shown.say(f"compacting {lake.topic} once more")
    compact(lake.home, [lake.topic])
    left = {number: [each for each in records if each.value is not None] for number, records in before.items()}
    return unequal(f"{lake.topic}, second time", records_of(lake), left)


def unequal(what: str, found: dict[int, list[Record]], wanted: dict[int, list[Record]]) -> list[str]:
    """A sentence per topic partition whose records are not those of the oracle, in its order."""
    return [
        f"{what}: topic partition {number} holds {len(found.get(number, []))} records, the oracle "
        f"{len(wanted.get(number, []))}, and they are not the same"
        for number in sorted({*found, *wanted})
        if found.get(number, []) != wanted.get(number, [])
    ]


def _duckdb(lake: Lake) -> str:
    import duckdb

    from bench.peers import duckdb_alone
    from winnow.files.duck import readable

    out = lake.home.parent / "duckdb"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with duckdb.connect() as connection:
        for number, segments in lake.segments().items():
            files = [readable(segment.path) for segment in segments]
            duckdb_alone.compact(connection, files, out / f"{number}.parquet")
    found = fingerprint([str(path) for path in sorted(out.iterdir())])
    shutil.rmtree(out)
    return found


def _peer_wrong(folder: Path, name: str, shown: Shown) -> list[str]:
    lake = lake_of("uniform", SMALL, folder)
    prepare(lake, shown.say)
    wanted = _duckdb(lake)
    shown.say(f"uniform: {name}")
    run = COMPETITORS[name].run(lake, True)
    if not run.ended:
        return [f"uniform: {name} failed: {run.note}"]
    if run.fingerprint not in (None, wanted):
        return [f"uniform: {name} keeps something else than DuckDB alone"]
    return []
