"""Finding the few keys that several records may have, without a table of all keys.

Equal keys have equal hashes. So a record whose key's hash occurs once in the partition is the only one of its key: it
wins, whatever the strategy, and nothing is assumed of a clean section. The hashes are sorted, 8 bytes a record, a
range of them at a time where memory asks for it. What remains is contested and is compared by its exact bytes; a
collision of two keys puts both there and does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.files.duck import quote_file_list
from winnow.files.fingerprint import WINNERS_HASH, RunningFingerprint
from winnow.model import Segment

if TYPE_CHECKING:
    import duckdb

SCAN_BATCH_ROWS = 131_072
_MAXIMUM_MERGED_HASHES = 1 << 19

KeyHashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ContestedKeys:
    """``hashes``: of keys that more than one record may have, each once. ``segments``: those that hold such records.

    ``records`` and ``keyless`` count what was scanned in each planned segment, keyless records among both;
    ``fingerprint`` is over (key, offset) of all keyed records.
    """

    hashes: KeyHashes
    segments: tuple[Segment, ...]
    records: tuple[int, ...]
    keyless: tuple[int, ...]
    fingerprint: str


def find_contested_keys(
    connection: duckdb.DuckDBPyConnection,
    segments: tuple[Segment, ...],
    readable: str,
    *,
    hashes_at_once: int,
    most: int,
) -> ContestedKeys | None:
    """Sort the hashes of the keys of all records for which the SQL condition ``readable`` holds.

    At most about ``hashes_at_once`` are held at a time. None: more than ``most`` are contested, so comparing all keys
    costs less.
    """
    expected = sum(segment.records for segment in segments)
    passes = max(1, -(-expected // hashes_at_once))
    running = RunningFingerprint()
    records, keyless = [0] * len(segments), [0] * len(segments)
    found: list[KeyHashes] = []
    held: set[int] = set()
    for number in range(passes):
        sorted_hashes = _SortedRuns(expected // passes + expected // 64 + 1024)
        for at, segment in enumerate(segments):
            columns = f"hash(key) AS hash, {WINNERS_HASH} AS fingerprint, key IS NULL AS keyless"
            for hashes, fingerprints, nulls in _scan_key_hashes(connection, segment, columns, readable):
                if number == 0:
                    records[at] += len(hashes) + nulls
                    keyless[at] += nulls
                    running.add(fingerprints)
                sorted_hashes.add(hashes if passes == 1 else hashes[hashes % np.uint64(passes) == number])
            sorted_hashes.end_run()
        repeated = sorted_hashes.repeated()
        if len(repeated) + sum(map(len, found)) > most:
            return None
        held |= sorted_hashes.find_runs_with(repeated)
        found.append(repeated)
    return ContestedKeys(
        np.concatenate(found),
        tuple(segment for at, segment in enumerate(segments) if at in held),
        tuple(records),
        tuple(keyless),
        str(running),
    )


def _scan_key_hashes(
    connection: duckdb.DuckDBPyConnection, segment: Segment, columns: str, readable: str
) -> Iterator[tuple[KeyHashes, KeyHashes, int]]:
    """Hashes and fingerprints of keyed records, and how many keyless ones there are beside them, batch by batch."""
    relation = connection.sql(f"SELECT {columns} FROM read_parquet({quote_file_list([segment.path])}) WHERE {readable}")
    for batch in relation.to_arrow_reader(SCAN_BATCH_ROWS):
        hashes = batch.column(0).to_numpy(zero_copy_only=True)
        fingerprints = batch.column(1).to_numpy(zero_copy_only=True)
        nulls = batch.column(2).true_count
        if nulls:
            keyed = ~batch.column(2).to_numpy(zero_copy_only=False)
            hashes, fingerprints = hashes[keyed], fingerprints[keyed]
        yield hashes, fingerprints, nulls


class _SortedRuns:
    """Hashes in one array, in runs that are sorted each."""

    def __init__(self, expected: int) -> None:
        self._hashes: KeyHashes = np.empty(expected, np.uint64)
        self._filled = 0
        self._ends = [0]

    def add(self, hashes: KeyHashes) -> None:
        """Add to the run that is open."""
        end = self._filled + len(hashes)
        if end > len(self._hashes):
            self._hashes = np.concatenate([self._hashes[: self._filled], np.empty(end - self._filled, np.uint64)])
        self._hashes[self._filled : end] = hashes
        self._filled = end

    def end_run(self) -> None:
        """Close the open run."""
        self._hashes[self._ends[-1] : self._filled].sort()
        self._ends.append(self._filled)

    def _runs(self) -> list[KeyHashes]:
        return [self._hashes[start:end] for start, end in zip(self._ends, self._ends[1:], strict=False)]

    def repeated(self) -> KeyHashes:
        """The hashes that occur more than once, each once, in rising order."""
        runs = self._runs()
        found: list[KeyHashes] = [np.empty(0, np.uint64)]
        slices = max(1, self._filled // _MAXIMUM_MERGED_HASHES)
        edges = [np.uint64((number << 64) // slices) for number in range(1, slices)]
        cuts = [[0, *np.searchsorted(run, np.array(edges, np.uint64)).tolist(), len(run)] for run in runs]
        for number in range(slices):
            # The runs are sorted already, which a stable sort makes use of.
            merged = np.concatenate([run[cut[number] : cut[number + 1]] for run, cut in zip(runs, cuts, strict=True)])
            merged.sort(kind="stable")
            twice = merged[1:][merged[1:] == merged[:-1]]
            found.append(np.unique(twice))
        return np.concatenate(found)

    def find_runs_with(self, hashes: KeyHashes) -> set[int]:
        """The numbers of the runs with one of ``hashes``."""
        return {number for number, run in enumerate(self._runs()) if _has_common_hash(run, hashes)}


def _has_common_hash(run: KeyHashes, hashes: KeyHashes) -> bool:
    if not len(run) or not len(hashes):
        return False
    at = np.searchsorted(run, hashes)
    return bool((run[np.minimum(at, len(run) - 1)] == hashes).any())


def create_hash_table(
    connection: duckdb.DuckDBPyConnection, name: str, hashes: Iterable[np.uint64] | KeyHashes
) -> None:
    """Make the temporary table ``name(hash)``."""
    connection.register(f"{name}_given", pa.table({"hash": np.asarray(hashes, np.uint64)}))
    try:
        connection.execute(f"CREATE TEMP TABLE {name} AS SELECT hash FROM {name}_given")
    finally:
        connection.unregister(f"{name}_given")
