"""Random archives: whatever the cut into objects, their order and their repeats, the log holds each record once."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sample_archives import encode
from tests.support.world import NOW_MS, TOPIC, compute_survivors, open_world
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.sources.choices import Choices
from winnow.values.model import Record

ENCODINGS = Choices(encodings=dict.fromkeys(("key", "value", "headers"), "base64"))
DAY_MS = 86_400_000

_headers = st.lists(st.tuples(st.sampled_from(["a", "b", ""]), st.none() | st.binary(max_size=3)), max_size=2).map(
    tuple
)
_rows = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([b"", b"k", b"\xff\x00", b"other", "größe".encode()]),
        st.none() | st.binary(max_size=12),
        st.integers(0, 40 * DAY_MS),
        _headers,
    ),
    min_size=1,
    max_size=40,
)


@st.composite
def archives(draw: st.DrawFn) -> tuple[list[Record], list[list[tuple[int, int]]]]:
    """A log of one partition, and calls: each a list of ranges of its records, all of which are covered in order."""
    rows = draw(_rows)
    offset, records = -1, []
    for gap, key, value, timestamp_ms, headers in rows:
        offset += gap
        records.append(Record(offset, key, value, timestamp_ms, headers))
    calls, done = [], 0
    while done < len(records):
        end = draw(st.integers(done + 1, len(records)))
        cuts = sorted(draw(st.sets(st.integers(done, end), max_size=4)) | {done, end})
        ranges = [
            (max(done, first - draw(st.integers(0, 3))), min(end, last + draw(st.integers(0, 3))))
            for first, last in pairwise(cuts)
        ]
        calls.append(draw(st.permutations(ranges)))
        done = end
    return records, calls


def format_row(record: Record) -> dict[str, Any]:
    """A record as Aiven's sink writes it."""
    moment = datetime.fromtimestamp((record.timestamp_ms or 0) / 1000, UTC)
    return {
        "key": encode(record.key),
        "value": encode(record.value),
        "offset": record.offset,
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "headers": [{"key": name, "value": encode(value)} for name, value in record.headers or ()],
    }


@settings(max_examples=max(10, settings().max_examples // 10))
@given(archives(), st.booleans(), st.booleans())
def test_random_archives_give_each_record_once_and_compact_as_the_oracle_says(
    archive: tuple[list[Record], list[list[tuple[int, int]]]], in_reverse: bool, again: bool
) -> None:
    """Objects overlap, come in any order and are read in several calls; some are offered twice."""
    records, calls = archive
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder) / "home") as world:
        world.create(1, segment_bytes="2000")
        for number, ranges in enumerate(calls):
            path = Path(folder) / f"call{number}"
            for place, (first, last) in enumerate(ranges):
                rows = [format_row(each) for each in records[first:last]]
                target = path / str(place) / f"orders-0-{records[first].offset}.json"
                target.parent.mkdir(parents=True)
                target.write_text("\n".join(json.dumps(row) for row in (rows[::-1] if in_reverse else rows)))
            for _ in range(2 if again else 1):
                ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock(), choices=ENCODINGS)
        assert world.read() == records
        world.compact(as_of_ms=NOW_MS + 100 * DAY_MS)
        end = world.state().first_dirty_offset
        assert end == records[-1].offset + 1
        compacted = world.read()
        assert compacted == compute_survivors(records)
        for number in range(len(calls)):
            for path in (Path(folder) / f"call{number}").rglob("*.json"):
                path.touch()
            ingest_files(
                world.installation,
                TOPIC,
                [str(Path(folder) / f"call{number}")],
                as_of_ms=world.clock(),
                choices=ENCODINGS,
            )
        assert world.read() == compacted
