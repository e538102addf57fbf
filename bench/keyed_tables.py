"""Measures keyed tables, the latest value of each key, that Spark maintains: MERGE INTO Iceberg, INSERT OVERWRITE.

Where a workload has new records behind a compacted log, the table is made from the clean part first, which is not
measured, and kept; then one run that brings in the new records is measured. Otherwise the measured run fills the table.
After the first of several runs another process reads the table in full, as it was before and as it is, and counts its
delete files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lake import Lake, open_home, replace_tree, warm_files
from bench.peer_runs import SPARK_MEMORY, build_run, run_peer, run_program
from bench.peers.timing import parse_times
from bench.result_checks import compute_fingerprint, read_record, read_records
from bench.results import CompetitorRun
from oracle.latest_state import Key, compute_latest_state
from winnow.values.strategies import Strategy

if TYPE_CHECKING:
    from bench.process_measurement import Measured
    from winnow.values.model import Record, Segment

PROGRAM = "spark_keyed_table"
WAYS = {"spark-merge-cow": "merge-cow", "spark-merge-mor": "merge-mor", "spark-overwrite": "overwrite"}
"""Ways of :mod:`bench.peers.spark_keyed_table` by competitor."""
READS = 3
_TABLE = 1
"""Increased when tables are made in another way, so that kept ones are made again."""


def measure_keyed_table(lake: Lake, compare: bool, competitor: str) -> CompetitorRun:
    """Measure one run of ``competitor``; where ``compare`` the table is read and its rows are fingerprinted, too.

    Raises:
        RuntimeError: the table could not be made or read.
    """
    lake.restore()
    clean, new = split_log(lake)
    folder = lake.scratch / "keyed" / competitor
    prepare_table(lake, folder, WAYS[competitor], clean)
    table, before, rows = folder / "table", folder / "pristine", folder / "rows"
    shutil.rmtree(rows, ignore_errors=True)
    warm_files(before)
    measured = run_peer(lake, PROGRAM, WAYS[competitor], build_request(table, [name_files(new)]))
    times = parse_times(measured.output)
    files, known = find_data_files(table), find_data_files(before)
    run = build_run(
        lake,
        competitor,
        measured,
        # Stopping the application counts as work, as it does for Winnow.
        measured.ended - times["ready"] if times else None,
        [*clean, *new],
        sum(files.values()),
    )
    new_bytes = sum(size_bytes for name, size_bytes in files.items() if name not in known)
    run = replace(run, after={"new_bytes": new_bytes})
    if not (compare and run.ended):
        return run
    request = build_request(table, [], before=str(before), reads=READS, final_export=str(rows))
    found = run_or_fail(lake.home, WAYS[competitor], request)
    figures = {name: value for name, value in parse_times(found.output).items() if name not in ("ready", "done")}
    fingerprint = compute_fingerprint([str(path) for path in sorted(rows.rglob("*.parquet"))])
    shutil.rmtree(rows)
    return replace(run, after={**run.after, **figures}, fingerprint=fingerprint)


def split_log(lake: Lake) -> tuple[list[Segment], list[Segment]]:
    """Return the segments of the clean sections and those behind them."""
    with open_home(lake.home) as installation:
        log = installation.log.open(lake.topic)
        head = log.head()
        parts: tuple[list[Segment], list[Segment]] = ([], [])
        for number, segments in log.segments(head).items():
            clean_end = head.state.partitions[number].first_dirty_offset or 0
            for segment in segments:
                parts[segment.last_offset >= clean_end].append(segment)
    return parts


def prepare_table(lake: Lake, folder: Path, way: str, clean: Sequence[Segment]) -> None:
    """Make the table ``folder``/table hold the latest values of ``clean``: made once, then restored from a copy.

    Its metadata holds absolute paths, so runs always use the same folder.

    Raises:
        RuntimeError: Spark failed.
    """
    mark, pristine, table = folder / "complete.json", folder / "pristine", folder / "table"
    identity = {"table": _TABLE, "segments": [Path(segment.path).name for segment in clean]}
    if not (mark.is_file() and json.loads(mark.read_text()) == identity):
        shutil.rmtree(folder, ignore_errors=True)
        table.mkdir(parents=True)
        run_or_fail(lake.home, way, build_request(table, [name_files(clean)] if clean else []))
        table.rename(pristine)
        mark.write_text(json.dumps(identity))
    replace_tree(pristine, table)


def find_wrong_rows(lake: Lake, way: str) -> list[str]:
    """Bring the log of ``lake`` into a table in two batches, and list what differs from the oracle's latest state.

    The batches are the clean sections and what is behind them; without clean sections, both halves of the log.

    Raises:
        RuntimeError: Spark failed.
    """
    import pyarrow.parquet as pq

    clean, new = split_log(lake)
    if not clean:
        middle = {each.partition: each.last_offset // 2 for each in new}
        clean = [each for each in new if each.first_offset < middle[each.partition]]
        new = [each for each in new if each not in clean]
    folder = lake.scratch / "keyed-check" / way
    shutil.rmtree(folder, ignore_errors=True)
    batches = [name_files(clean), name_files(new)]
    run_or_fail(lake.home, way, build_request(folder / "table", batches, final_export=str(folder / "rows")))
    rows = [read_record(row) for row in pq.read_table(folder / "rows").to_pylist()]
    shutil.rmtree(folder)
    log = [record for records in read_records(lake).values() for record in records]
    return compare_states(f"{lake.topic}: {way}", rows, compute_latest_state(log, Strategy.OFFSET, None))


def compare_states(what: str, rows: Sequence[Record], wanted: Mapping[Key, Record]) -> list[str]:
    """Return a sentence if ``rows`` are not exactly the records of ``wanted``, each once."""
    found = {(row.partition, row.key): row for row in rows}
    if len(found) == len(rows) and found == wanted:
        return []
    return [f"{what} holds {len(rows)} rows, the oracle {len(wanted)}, and they are not the same"]


def build_request(table: Path, batches: Sequence[Sequence[str]], **more: object) -> dict[str, Any]:
    """Build the request of :mod:`bench.peers.spark_keyed_table`; the first time Iceberg's jar is fetched."""
    jars = [str(path) for path in resolve_iceberg()]
    return {"table": str(table), "batches": list(batches), "memory": SPARK_MEMORY, "jars": jars, **more}


def resolve_iceberg() -> list[Path]:
    """Fetch Iceberg's runtime for the installed PySpark; return its jars.

    Raises:
        ServiceError: the repository does not answer, or has none for this PySpark.
    """
    import pyspark

    from broker.jars import resolve_jars
    from winnow.pipeline.connect.table_access import ICEBERG_VERSION

    line = ".".join(pyspark.__version__.split(".")[:2])
    runtime = f"org.apache.iceberg:iceberg-spark-runtime-{line}_2.13:{ICEBERG_VERSION}"
    return sorted(resolve_jars([runtime], "iceberg-spark").glob("*.jar"))


def run_or_fail(home: Path, way: str, request: dict[str, Any]) -> Measured:
    """Run the program where only its result counts.

    Raises:
        RuntimeError: it failed.
    """
    found = run_program(home, PROGRAM, way, request)
    if found.exit_code != 0:
        raise RuntimeError(f"{PROGRAM} {way} ended with exit code {found.exit_code}: {found.output[-2000:]}")
    return found


def name_files(segments: Sequence[Segment]) -> list[str]:
    """Name the files of ``segments`` for Spark."""
    from winnow.files.duckdb_connection import format_file_name

    return [format_file_name(segment.path) for segment in segments]


def find_data_files(folder: Path) -> dict[Path, int]:
    """Find data files and deletion vectors: path inside of ``folder`` and size (bytes)."""
    found = (path for path in folder.rglob("*") if path.suffix in (".parquet", ".puffin"))
    return {path.relative_to(folder): path.stat().st_size for path in found}
