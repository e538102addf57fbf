"""Archives of real sinks and the dumps of the topics that they were made from, in tests/samples/archives."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from winnow.sources.objects import ArchiveObject, FieldForm, RecordChunk, StoredObject

SAMPLES = Path(__file__).parents[1] / "samples" / "archives"

Dump = dict[tuple[int, int], dict[str, Any]]


def unpack_sample(name: str, folder: Path) -> list[Path]:
    """Unpack ``name``.tar.xz into ``folder``; return its files in order, without hidden ones."""
    with tarfile.open(SAMPLES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._")


def store_bytes(path: Path, data: bytes) -> StoredObject:
    """Write an object."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return StoredObject(str(path), len(data))


def make_archive(
    layout: str,
    path: Path | StoredObject,
    *,
    topic: str | None = None,
    partition: int | None = None,
    first_offset: int | None = None,
    forms: Mapping[str, FieldForm] | None = None,
) -> ArchiveObject:
    """Make an archive object of one stored object."""
    obj = path if isinstance(path, StoredObject) else StoredObject(str(path), path.stat().st_size)
    return ArchiveObject(layout, obj.uri, {"value": obj}, topic, partition, first_offset, forms or {})


def load_dump(name: str) -> Dump:
    """Return the records of a topic by partition and offset, with headers as a list."""
    with gzip.open(SAMPLES / f"{name}.jsonl.gz") as stream:
        records = [json.loads(line) for line in stream]
    for record in records:
        record["headers"] = [tuple(pair) for pair in record["headers"] or []]
    return {(record["partition"], record["offset"]): record for record in records}


def list_rows(chunks: Iterable[RecordChunk]) -> list[dict[str, Any]]:
    """Return the records of ``chunks`` as a dump has them."""
    return [
        {
            "partition": row["partition"],
            "offset": row["offset"],
            "timestamp": row["timestamp"],
            "key": encode(row["key"]),
            "value": encode(row["value"]),
            "headers": [(header["key"], encode(header["value"])) for header in row["headers"]],
        }
        for chunk in chunks
        for row in chunk.records.to_pylist()
    ]


def select_fields(dump: Dump, *left_out: str) -> list[dict[str, Any]]:
    """Return the records of a dump in order as :func:`list_rows` has them, without the fields ``left_out``."""
    names = ("partition", "offset", "timestamp", "key", "value", "headers")
    return [{name: record[name] for name in names if name not in left_out} for _, record in sorted(dump.items())]


def encode(data: bytes | None) -> str | None:
    """Return bytes as a dump has them."""
    return None if data is None else base64.b64encode(data).decode()


def decode(text: str | None) -> bytes | None:
    """Return the bytes that a dump has as ``text``."""
    return None if text is None else base64.b64decode(text)
