"""The benchmark at its smallest: every workload through the real path, against the oracle and DuckDB alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.lake import Lake, open_home, prepare
from bench.peers import duckdb_alone
from bench.progress import ProgressPrinter
from bench.result_checks import compute_expected, read_records
from bench.small_suite import find_compaction_errors, find_wrong_partitions, run_small
from bench.workloads import SMALL, WORKLOADS
from winnow.log.topic_configuration import set_config


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> list[Lake]:
    folder = tmp_path_factory.mktemp("bench")
    return [Lake(workload, SMALL, folder / SMALL.name, shared=True) for workload in WORKLOADS.values()]


def test_every_workload_compacted_by_the_real_path_equals_the_oracle_and_duckdb(lakes: list[Lake]) -> None:
    """One ``winnow compact`` for all topics: each keeps exactly the records that the oracle keeps."""
    assert find_compaction_errors(lakes, ProgressPrinter()) == []
    kept = {lake.topic: sum(map(len, read_records(lake).values())) for lake in lakes}
    assert kept["uniform"] < kept["unique"] == SMALL.records


def test_workload_whose_result_lacks_a_record_is_told(lakes: list[Lake]) -> None:
    """One record too few in one topic partition is a difference, and names it."""
    found = read_records(lakes[0])
    changed = {**found, 1: found[1][:-1]}
    assert find_wrong_partitions("uniform", found, found) == []
    (sentence,) = find_wrong_partitions("uniform", changed, found)
    assert "topic partition 1" in sentence


def test_workload_whose_result_holds_another_value_is_told(lakes: list[Lake]) -> None:
    """Equal counts are not enough: every field is compared."""
    found = read_records(lakes[0])
    changed = {**found, 0: [replace(found[0][0], value=b"another"), *found[0][1:]]}
    assert len(find_wrong_partitions("uniform", changed, found)) == 1


def test_oracle_of_the_bench_removes_what_was_superseded(lakes: list[Lake]) -> None:
    """What is compared with is smaller than the log, and holds each key once."""
    compacted = read_records(lakes[0])
    doubled = {0: [*compacted[0], replace(compacted[0][0], offset=compacted[0][-1].offset + 1)]}
    kept = compute_expected(lakes[0], doubled)[0]
    assert len(kept) == len(compacted[0])
    assert kept[-1].offset == compacted[0][-1].offset + 1


def test_smoke_fails_when_a_peer_keeps_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB that keeps the lowest offsets differs from Winnow, and the command ends with exit code 1."""

    def lowest(connection: object, files: list[str], target: Path) -> None:
        log = f"read_parquet({files!r})"
        condition = f'"offset" IN (SELECT min("offset") FROM {log} GROUP BY key)'
        connection.execute(f"COPY (SELECT * FROM {log} WHERE {condition}) TO '{target}'")  # type: ignore[attr-defined]

    monkeypatch.setattr(duckdb_alone, "compact", lowest)
    assert run_small(tmp_path, ["zipf"], ProgressPrinter(), peers=(), keyed=()) == 1


def test_peers_on_uniform_find_what_winnow_finds(tmp_path: Path) -> None:
    """DuckDB, PyIceberg and the naive Spark job run as processes of their own and keep the same records."""
    peers = ("duckdb", "pyiceberg-upsert", "spark-window")
    assert run_small(tmp_path, [], ProgressPrinter(), peers, keyed=()) == 0


def test_restored_lake_is_what_it_was_and_shares_its_data_files(tmp_path: Path) -> None:
    """Whatever happens in the home is undone by restoring; data files are linked, databases copied."""
    lake = Lake(WORKLOADS["wide"], SMALL, tmp_path)
    prepare(lake)
    before = lake.segments()
    with open_home(lake.home) as installation:
        set_config(installation.log.open(lake.topic), {"segment.bytes": "1000"}, ())
    for path in lake.home.rglob("*.parquet"):
        path.unlink()
    lake.restore()
    assert lake.segments() == before
    with open_home(lake.home) as installation:
        assert installation.log.open(lake.topic).config().segment_bytes == int(lake.workload.config["segment.bytes"])
    (first, *_) = sorted(lake.home.rglob("*.parquet"))
    assert first.stat().st_nlink == 2
    assert (lake.home / "catalog.db").stat().st_nlink == 1


def test_prepared_lake_is_reused_unless_it_is_another_one(tmp_path: Path) -> None:
    """A complete lake is not made again; one whose configuration changed is."""
    lake = Lake(WORKLOADS["wide"], SMALL, tmp_path)
    prepare(lake)
    table = lake.pristine / "catalog.db"
    made = table.stat().st_mtime_ns
    prepare(lake)
    assert table.stat().st_mtime_ns == made
    other = replace(lake, workload=replace(lake.workload, config={**lake.workload.config, "segment.bytes": "9999"}))
    prepare(other)
    assert table.stat().st_mtime_ns != made
