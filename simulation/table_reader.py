"""Reads an Iceberg table without Winnow and without PyIceberg: JSON, Avro and Parquet, as the specification says.

Files never change once a commit names them, so what was read of one is kept.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import fastavro
import pyarrow.parquet as pq

from simulation.source import VERSION_HEADER, SourceRecord

DELETED = 2
"""Status of a manifest's entry whose file is not part of the snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot, as the metadata file has it. ``timestamp_ms``: by the clock of the process that committed it.

    ``state_path`` None: another engine made it, or it is none of a log. ``plan_id``: of the run that it published.
    ``reflected_id``: the log's snapshot whose latest state it shows; None: it is no table of a latest state.
    """

    snapshot_id: int
    timestamp_ms: int
    operation: str
    manifest_list: Path
    state_path: Path | None
    plan_id: str | None = None
    reflected_id: int | None = None


@dataclass
class TableReader:
    """Reads one table's versions, file by file. ``originals``: what is in files of which a byte has changed since."""

    originals: Mapping[Path, bytes] = field(default_factory=dict)
    _manifests: dict[Path, list[Path]] = field(default_factory=dict)
    _data_files: dict[Path, list[Path]] = field(default_factory=dict)
    _records: dict[Path, list[SourceRecord]] = field(default_factory=dict)
    _quarantined: dict[Path, list[tuple[str, SourceRecord]]] = field(default_factory=dict)

    def list_snapshots(self, metadata_location: str) -> list[Snapshot]:
        """List the snapshots that a metadata file keeps; the current one is the last."""
        document = json.loads(self._read(find_path(metadata_location)))
        snapshots = [_parse_snapshot(snapshot) for snapshot in document.get("snapshots", [])]
        current = document.get("current-snapshot-id")
        return sorted(snapshots, key=lambda snapshot: snapshot.snapshot_id == current)

    def read_tags(self, metadata_location: str) -> dict[str, int]:
        """Read the tags of a metadata file, and which snapshot each pins."""
        references = json.loads(self._read(find_path(metadata_location))).get("refs", {})
        return {name: each["snapshot-id"] for name, each in references.items() if each["type"] == "tag"}

    def read_table_uuid(self, metadata_location: str) -> str:
        """Read which table a metadata file is of."""
        return str(json.loads(self._read(find_path(metadata_location)))["table-uuid"])

    def read_state(self, snapshot: Snapshot) -> dict[int, dict[str, Any]]:
        """Read the partitions of a snapshot's state document, by number."""
        assert snapshot.state_path is not None
        document = json.loads(self._read(snapshot.state_path))
        return {int(number): partition for number, partition in document["partitions"].items()}

    def read_newest_receipt(self, snapshot: Snapshot) -> dict[int, dict[str, Any]]:
        """Read what the newest receipt in a snapshot's state says of each partition."""
        assert snapshot.state_path is not None
        (*_, newest) = json.loads(self._read(snapshot.state_path))["receipts"]
        receipt = json.loads(self._read(find_path(newest["path"])))
        return {part["partition"]: part for part in receipt["partitions"]}

    def read_newest_deletion(self, snapshot: Snapshot) -> str:
        """Read how the newest deletion of records in a snapshot's state is called."""
        assert snapshot.state_path is not None
        return str(json.loads(self._read(snapshot.state_path))["deletions"][-1]["change_id"])

    def read_undone(self, snapshot: Snapshot) -> set[tuple[str, int]]:
        """Read which changes a snapshot's state says are undone, each with the partition."""
        assert snapshot.state_path is not None
        undone = json.loads(self._read(snapshot.state_path)).get("undone", [])
        return {(change["change_id"], number) for change in undone for number in change["partitions"]}

    def read_erasures(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Read the documents of the erasures that a snapshot's state names, oldest first."""
        assert snapshot.state_path is not None
        named = json.loads(self._read(snapshot.state_path)).get("erasures", [])
        return [json.loads(self._read(find_path(each["path"]))) for each in named]

    def list_files(self, snapshot: Snapshot) -> list[Path]:
        """List the files that a reader of a snapshot opens: manifest list, manifests, data files."""
        manifests = self._list_manifests(snapshot.manifest_list)
        return [snapshot.manifest_list, *manifests, *self.list_data_files(snapshot)]

    def list_data_files(self, snapshot: Snapshot) -> list[Path]:
        """List the data files of a snapshot."""
        manifests = self._list_manifests(snapshot.manifest_list)
        return [path for manifest in manifests for path in self._list_data_files(manifest)]

    def read_records(self, snapshot: Snapshot) -> Iterator[SourceRecord]:
        """Read every record of every data file of a snapshot."""
        for path in self.list_data_files(snapshot):
            yield from self.read_file(path)

    def read_file(self, path: Path) -> list[SourceRecord]:
        """Read every record of a data file."""
        if path not in self._records:
            rows = pq.read_table(io.BytesIO(self._read(path)), use_threads=False).to_pylist()
            self._records[path] = [_parse_record(row) for row in rows]
        return self._records[path]

    def read_quarantined(self, quarantine: str, snapshot: Snapshot) -> Iterator[SourceRecord]:
        """Read the records without a key that a snapshot of the log names; ``quarantine``: metadata of their table.

        A name that a paused process left of a file that is gone names nothing of these.
        """
        assert snapshot.state_path is not None
        visible = set(json.loads(self._read(snapshot.state_path)).get("quarantine_ingests", []))
        for path in self.list_data_files(newest) if (newest := self._find_newest(quarantine)) is not None else ():
            if path not in self._quarantined and path.exists():
                rows = pq.read_table(io.BytesIO(self._read(path)), use_threads=False).to_pylist()
                self._quarantined[path] = [(row["ingest_id"], _parse_record(row)) for row in rows]
            yield from (record for name, record in self._quarantined.get(path, ()) if name in visible)

    def _find_newest(self, metadata_location: str) -> Snapshot | None:
        return next(reversed(self.list_snapshots(metadata_location)), None)

    def read_places(self, snapshot: Snapshot) -> list[tuple[int, int]]:
        """Read partition and offset of every row of a snapshot, whose columns bear these names or typed tables'."""
        places = []
        for path in self.list_data_files(snapshot):
            file = pq.ParquetFile(io.BytesIO(self._read(path)))
            columns = [name for name in file.schema_arrow.names if name.strip("_") in {"partition", "offset"}]
            rows = file.read(sorted(columns, reverse=True)).to_pylist()
            places += [(row[columns[0]], row[columns[1]]) for row in rows]
        return places

    def read_keys(self, path: Path) -> list[tuple[int, int, bytes]]:
        """Read partition, offset and key of every row of any file of Winnow's; none of a file without these."""
        file = pq.ParquetFile(io.BytesIO(self._read(path)))
        columns = ["partition", "offset", "key"]
        if not {*columns} <= {*file.schema_arrow.names}:
            return []
        return [(row["partition"], row["offset"], row["key"]) for row in file.read(columns).to_pylist()]

    def _read(self, path: Path) -> bytes:
        content = path.read_bytes()
        return self.originals.get(path, content)

    def _list_manifests(self, manifest_list: Path) -> list[Path]:
        if manifest_list not in self._manifests:
            self._manifests[manifest_list] = [
                find_path(entry["manifest_path"]) for entry in self._read_avro(manifest_list)
            ]
        return self._manifests[manifest_list]

    def _list_data_files(self, manifest: Path) -> list[Path]:
        if manifest not in self._data_files:
            self._data_files[manifest] = [
                find_path(entry["data_file"]["file_path"])
                for entry in self._read_avro(manifest)
                if entry["status"] != DELETED
            ]
        return self._data_files[manifest]

    def _read_avro(self, path: Path) -> list[dict[str, Any]]:
        rows = fastavro.reader(io.BytesIO(self._read(path)))
        return [dict(record) for record in rows if isinstance(record, dict)]


def find_path(location: str) -> Path:
    """Return the local path of a location."""
    return Path(unquote(urlparse(location).path)) if location.startswith("file:") else Path(location)


def _parse_record(row: Mapping[str, Any]) -> SourceRecord:
    versions = [header["value"] for header in row["headers"] or () if header["key"] == VERSION_HEADER]
    return SourceRecord(
        row["partition"],
        row["offset"],
        row["key"],
        row["value"],
        round(row["timestamp"].timestamp() * 1000),
        versions[-1] if versions else None,
    )


def _parse_snapshot(document: dict[str, Any]) -> Snapshot:
    summary = document["summary"]
    state = summary.get("winnow.state")
    return Snapshot(
        document["snapshot-id"],
        document["timestamp-ms"],
        summary.get("winnow.operation", ""),
        find_path(document["manifest-list"]),
        None if state is None else find_path(json.loads(state)["path"]),
        summary.get("winnow.plan-id"),
        None if "winnow.latest.snapshot-id" not in summary else int(summary["winnow.latest.snapshot-id"]),
    )
