"""Reads manifest lists and manifests, limited to the columns that decisions need.

PyIceberg's own walk reads the schema in every file's header anew and makes two records, two enums and four maps of
every entry. Here a reader is made once per schema, rows are plain lists, and bounds are decoded on demand.
Columns are found by their field ids, as Iceberg requires, so it does not matter which tool wrote the manifest.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.avro.decoder import StreamingBinaryDecoder, new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from winnow.errors import WinnowError
from winnow.files.segments import FIELD_IDS
from winnow.log.file_checksums import has_checksum, make_damage_error, read_checked
from winnow.values.model import Segment

if TYPE_CHECKING:
    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

Row = list[Any]

_SYNC_BYTES: Final = 16
_SCHEMA_KEY: Final = "avro.schema"
_DELETED: Final = int(ManifestEntryStatus.DELETED)
_OFFSET, _TIMESTAMP = FIELD_IDS["offset"], FIELD_IDS["timestamp"]
_KEY, _VALUE = FIELD_IDS["key"], FIELD_IDS["value"]

# The specification's field ids. PyIceberg cannot skip maps and lists, so unused ones are read too.
_FILE_PATH, _PARTITION, _RECORDS, _SIZE, _NULLS, _LOWER, _UPPER = 100, 102, 103, 104, 110, 125, 128
_READ_ALONG: Final = (108, 109, 137, 132, 135)
_COLUMNS: Final = (_FILE_PATH, _PARTITION, _RECORDS, _SIZE, _NULLS, _LOWER, _UPPER, *_READ_ALONG)
_STATUS_ID, _DATA_FILE_ID, _PARTITION_SUMMARY_ID, _CONTENT_ID = 0, 2, 508, 517
_FORMAT_ID, _FILE_CONTENT_ID = 101, 134


@contextmanager
def reduce_garbage_collection() -> Iterator[None]:
    """Keep Python's cycle collector from scanning a hundred thousand new objects repeatedly.

    The objects form no cycles, and reading manifests takes half as long. Threads may nest it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def list_live_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """List the manifests that ``snapshot`` names.

    Raises:
        DamagedMetadataError: the manifest list is damaged or cut off.
    """
    data = read_checked(io, snapshot.manifest_list)
    return list(_read_rows(snapshot.manifest_list, data, _list_reader))


def list_live_segments(io: FileIO, manifest: ManifestFile, foreign: Callable[[str], Exception]) -> list[Segment]:
    """List the segments of the live entries of ``manifest``, in its order; opens no data file.

    Args:
        io: the table's access to files.
        manifest: of data files, not of deletes.
        foreign: makes the error for an entry at this path without bounds, which Winnow did not write.

    Raises:
        DamagedMetadataError: the manifest is damaged or cut off. Also the error that ``foreign`` makes.
    """
    found = []
    for status, row in _read_entry_rows(io, manifest):
        if status != _DELETED:
            try:
                found.append(_make_segment_from_row(row))
            except (KeyError, TypeError, IndexError, AttributeError, ValueError) as problem:
                raise foreign(row[0]) from problem
    if len(found) != count_live_files(manifest):
        raise make_damage_error(manifest.manifest_path)
    return found


def list_live_paths(io: FileIO, manifest: ManifestFile) -> list[str]:
    """List the paths of the live entries of ``manifest``, also where another tool wrote them.

    Raises:
        DamagedMetadataError: the manifest is damaged or cut off.
    """
    found = [row[0] for status, row in _read_entry_rows(io, manifest) if status != _DELETED]
    if len(found) != count_live_files(manifest):
        raise make_damage_error(manifest.manifest_path)
    return found


def read_live_sizes(io: FileIO, manifest: ManifestFile) -> dict[str, tuple[int, int]]:
    """Read records and bytes of the live entries of ``manifest`` by path, also where another tool wrote them.

    Raises:
        DamagedMetadataError: the manifest is damaged or cut off.
    """
    found = {row[0]: (row[2], row[3]) for status, row in _read_entry_rows(io, manifest) if status != _DELETED}
    if len(found) != count_live_files(manifest):
        raise make_damage_error(manifest.manifest_path)
    return found


def read_live_places(io: FileIO, manifest: ManifestFile) -> dict[str, tuple[Any, ...]]:
    """Read the partition values of the live entries of ``manifest`` by path, without the topic partition.

    Raises:
        DamagedMetadataError: the manifest is damaged or cut off.
    """
    return {row[0]: tuple(row[1][1:]) for status, row in _read_entry_rows(io, manifest) if status != _DELETED}


def read_live_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Read the live entries of ``manifest`` with all their columns, for a commit that takes them over.

    Raises:
        DamagedMetadataError: the manifest is damaged or cut off.
    """
    rows = _read_entry_rows(io, manifest, _make_full_entry_reader)
    found = [_inherit_from_manifest(entry, manifest) for entry in rows if entry.status != ManifestEntryStatus.DELETED]
    if len(found) != count_live_files(manifest):
        raise make_damage_error(manifest.manifest_path)
    return found


def count_live_files(manifest: ManifestFile) -> int:
    """Count the files that ``manifest`` says are in the log, without opening it."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _read_entry_rows(
    io: FileIO, manifest: ManifestFile, reader_of: Callable[[str], Reader] | None = None
) -> Iterator[Any]:
    data = read_checked(io, manifest.manifest_path)
    if len(data) != manifest.manifest_length:
        raise make_damage_error(manifest.manifest_path)  # may be cut off between two blocks, unseen by readers
    return _read_rows(manifest.manifest_path, data, reader_of or _make_entry_reader)


def make_segment(file: DataFile) -> Segment:
    """Make the segment of a manifest entry that PyIceberg read."""
    return _make_segment_from_row(
        [
            file.file_path,
            file.partition,
            file.record_count,
            file.file_size_in_bytes,
            file.null_value_counts,
            file.lower_bounds,
            file.upper_bounds,
        ]
    )


def _make_segment_from_row(row: Row) -> Segment:
    path, partition, records, size_bytes, nulls, lower, upper = row[:7]
    oldest, youngest = lower.get(_TIMESTAMP), upper.get(_TIMESTAMP)
    has_time = oldest is not None and youngest is not None
    return Segment(
        path=path,
        partition=int(partition[0]),
        first_offset=decode_long(lower[_OFFSET]),
        last_offset=decode_long(upper[_OFFSET]),
        records=records,
        size_bytes=size_bytes,
        min_timestamp_ms=decode_long(oldest) // 1000 if has_time else None,
        max_timestamp_ms=decode_long(youngest) // 1000 if has_time else None,
        tombstones=nulls.get(_VALUE, 0),  # not counted in a typed table, which has none
        keyless=nulls.get(_KEY, 0),
    )


def decode_long(bound: bytes) -> int:
    """Decode a long or timestamptz bound (microseconds): both are 8 bytes, little-endian (Iceberg's appendix D)."""
    return int.from_bytes(bound, "little", signed=True)


def _read_rows(path: str, data: bytes, reader_of: Callable[[str], Reader]) -> Iterator[Any]:
    # PyIceberg's compiled decoder does not check where its bytes end, and a damaged length can end the process. It is
    # used for content with a correct checksum; the slow one for files without checksums (older or another tool's).
    decoder_of = new_decoder if has_checksum(path) else StreamingBinaryDecoder
    decoder = decoder_of(data)
    try:
        header = _HEADER.read(decoder)
        reader = reader_of(header.meta[_SCHEMA_KEY])
        codec = header.compression_codec()
        while decoder.tell() < len(data):
            count, size_bytes = decoder.read_int(), decoder.read_int()
            # The decoder does not check where its bytes end.
            if decoder.tell() + size_bytes + _SYNC_BYTES > len(data):
                raise EOFError
            block = decoder.read(size_bytes)
            plain = block if codec is None else codec.decompress(block)
            rows = decoder_of(plain)
            for _ in range(count):
                yield reader.read(rows)
            if rows.tell() != len(plain):
                raise EOFError  # the count differs from the block's: entries would be missing
            if decoder.read(_SYNC_BYTES) != header.sync:
                raise EOFError
    except WinnowError:
        raise
    except Exception as problem:
        # Exceptions that a decoder raises for damaged bytes. PyIceberg reads a truncated file as a short one, and
        # segments would be missing.
        raise make_damage_error(path) from problem


_HEADER: Final = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


def _make_row(*values: object) -> Row:
    return list(values)


@lru_cache(maxsize=64)
def _make_entry_reader(schema: str) -> Reader:
    kinds: Any = {-1: _make_row, _DATA_FILE_ID: _make_row, _PARTITION: _make_row}
    return resolve_reader(_parse_schema(schema), _ENTRY, kinds, {})


@lru_cache(maxsize=64)
def _make_full_entry_reader(schema: str) -> Reader:
    kinds: Any = {-1: ManifestEntry, _DATA_FILE_ID: DataFile}
    names: Any = {_STATUS_ID: ManifestEntryStatus, _FORMAT_ID: FileFormat, _FILE_CONTENT_ID: DataFileContent}
    return resolve_reader(_parse_schema(schema), MANIFEST_ENTRY_SCHEMAS[2], kinds, names)


@lru_cache(maxsize=64)
def _list_reader(schema: str) -> Reader:
    kinds: Any = {-1: ManifestFile, _PARTITION_SUMMARY_ID: PartitionFieldSummary}
    return resolve_reader(_parse_schema(schema), MANIFEST_LIST_FILE_SCHEMAS[2], kinds, {_CONTENT_ID: ManifestContent})


def _parse_schema(text: str) -> Schema:
    return AvroFileHeader(b"", {_SCHEMA_KEY: text}, b"").get_schema()


def _make_entry_schema() -> Schema:
    file = {field.field_id: field for field in DATA_FILE_TYPE[2].fields}
    entry = {field.field_id: field for field in MANIFEST_ENTRY_SCHEMAS[2].fields}
    columns = StructType(*(file[number] for number in _COLUMNS))
    return Schema(entry[_STATUS_ID], NestedField(_DATA_FILE_ID, "data_file", columns, required=True))


_ENTRY: Final = _make_entry_schema()
