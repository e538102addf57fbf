"""Erases keys of a world's topic in one commit, without the command: for tests of what arrives afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.world import TOPIC, World
from winnow.files import storage
from winnow.files.checked_reading import read_segment
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.files.segments import SegmentWriter
from winnow.log.erasures import write_erasure
from winnow.log.head import Change, Head
from winnow.pipeline.erased_keys import load_secret
from winnow.values.erasures import ErasureDocument, KeyDigester, RemainingTombstone, compute_key_id, encode_digests
from winnow.values.model import Segment


def erase_keys(
    world: World,
    *keys: bytes,
    topic: str = TOPIC,
    at_ms: int | None = None,
    lifts: bool = False,
    tombstones: Collection[RemainingTombstone] = (),
) -> None:
    """Erase ``keys`` as of now, or ``at_ms``, or lift their erasure; the first makes the secret of the installation.

    ``tombstones``: places of records of these keys that become tombstones, of the time of the erasure.
    """
    log = world.installation.log.open(topic)
    erasure_id = uuid.uuid4().hex

    def build_change(head: Head) -> Change:
        secret = load_secret(world.installation, head.state, left="Nothing was changed.", makes=True)
        digester = KeyDigester(secret, head.table_uuid)
        old = [each for found in log.segments(head).values() for each in found]
        document = ErasureDocument(
            erasure_id=erasure_id,
            topic=topic,
            table_uuid=head.table_uuid,
            at_ms=world.clock() if at_ms is None else at_ms,
            by="a test",
            reason="asked for",
            key_id=compute_key_id(secret),
            keys=len(keys),
            keys_found=len(keys),
            hashes=encode_digests(map(digester.compute, keys)),
            ends={number: part.log_end_offset for number, part in head.state.partitions.items()},
            tombstones=tuple(tombstones),
            lifts=lifts,
        )
        kept = [] if lifts else [each for part in old for each in _write_without(head, part, keys, document)]
        state = replace(head.state, erasures=(*head.state.erasures, write_erasure(head.documents, document)))
        removed = [] if lifts else [segment.path for segment in old]
        return Change(state=state, add=kept, remove=removed, summary={"winnow.operation": "erase"})

    log.commit(build_change)


def get_secret_file(world: World) -> Path:
    """Return where the installation keeps its secret."""
    return Path(world.installation.settings.erase.hmac_key_file)


def _write_without(
    head: Head, segment: Segment, keys: Collection[bytes], erasure: ErasureDocument
) -> Iterator[Segment]:
    folder = locate_ingest_folder(head.location, uuid.uuid4().hex)
    writer = SegmentWriter(
        partition=segment.partition,
        segment_bytes=1 << 30,
        name=lambda number: storage.join(
            folder, f"{segment.partition:05d}-{segment.first_offset:020d}-{number}.parquet"
        ),
        below=head.location,
    )
    remaining = [each.offset for each in erasure.tombstones if each.partition == segment.partition]
    for batch in read_segment(segment):
        is_erased = pc.is_in(batch.column("key"), pa.array(keys, pa.binary()))
        stays = pc.is_in(batch.column("offset"), pa.array(remaining, pa.int64()))
        changed = batch
        now = pa.scalar(erasure.at_ms * 1000, pa.int64()).cast(batch.schema.field("timestamp").type)
        for name, other in (("value", pa.scalar(None, pa.binary())), ("timestamp", now)):
            place = batch.schema.get_field_index(name)
            changed = changed.set_column(place, batch.schema.field(place), pc.if_else(stays, other, batch.column(name)))
        writer.write(changed.filter(pc.or_(pc.invert(pc.fill_null(is_erased, False)), stays)))
    yield from writer.finish()
