"""A small real log with planted bytes, which the page's reader processes read: they find it by WINNOW_HOME."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import FakeClock, open_world, record
from winnow.config.settings import Settings, load_settings
from winnow.pipeline.compaction.assess import assess_topics
from winnow.store import Store

START_MS = 1_760_000_000_000
HOUR_MS = 3_600_000

PLANTED_KEY = "planted-key-7d1c"
PLANTED_VALUE = "planted-value-93ae"
PLANTED_HEADER = "planted-header-51f0"
PLANTED = (PLANTED_KEY, PLANTED_VALUE, PLANTED_HEADER)

OTHERS = 60
"""Records with keys of their own, around the planted ones."""
LARGE_VALUE_BYTES = 3 << 20


def build_lake(folder: Path) -> None:
    """Make ``orders`` with two partitions: an old part that is compacted, and a new one with newer versions."""
    with open_world(folder, FakeClock(START_MS)) as world:
        world.create(2, "orders", segment_ms=str(HOUR_MS), min_cleanable_dirty_ratio="0.1", winnow_owner="payments")
        planted = PLANTED_KEY.encode()
        old = [record(n, planted, f"{PLANTED_VALUE}-{n}".encode(), START_MS - 9 * HOUR_MS + n) for n in range(3)]
        old += [_make_other(n) for n in range(3, OTHERS)]
        world.ingest(old, topic="orders")
        world.clock.now_ms += 2 * HOUR_MS
        assert world.compact(topic="orders") is not None
        body = json.dumps(
            {"card": "4111111111111111", "owner": {"E-Mail": "ada@example.org"}, "id": 12345678901234567890}
        )
        new = [
            record(
                OTHERS,
                planted,
                f"{PLANTED_VALUE}-new".encode(),
                world.clock(),
                headers=(("trace", PLANTED_HEADER.encode()),),
            ),
            record(OTHERS + 1, b'{"id":1}', body.encode(), world.clock() + 1),
            record(OTHERS + 2, b"large", b"x" * LARGE_VALUE_BYTES, world.clock() + 2),
            record(OTHERS + 3, b"gone", None, world.clock() + 3),
        ]
        world.ingest(new, topic="orders")
        assess_topics(world.installation, ["orders"], as_of_ms=world.clock())
        world.create(1, "profiles", winnow_value_format="json", winnow_latest_fields="city,card,id")
        profile = {"city": "Ulm", "card": "4111111111111111", "id": 12345678901234567, "email": PLANTED_VALUE}
        headers = (("trace", PLANTED_HEADER.encode()),)
        values = [json.dumps(profile).encode(), f"no json {PLANTED_VALUE}".encode(), None]
        world.ingest(
            [record(n, PLANTED_KEY.encode(), value, world.clock(), headers=headers) for n, value in enumerate(values)],
            topic="profiles",
        )


def _make_other(offset: int) -> Any:
    return record(offset, f"other-{offset}".encode(), b"v", START_MS - 8 * HOUR_MS + 1000 * offset)


@contextmanager
def at_lake(folder: Path, page: Mapping[str, Any], patch: pytest.MonkeyPatch) -> Iterator[tuple[Settings, Store]]:
    """Settings and store of the lake, with these settings of the page; processes that are started now see them too."""
    patch.setenv("WINNOW_HOME", str(folder / "home"))
    for name, value in page.items():
        text = json.dumps(value) if name == "masked_patterns" else value if isinstance(value, str) else str(value)
        patch.setenv(f"WINNOW_PAGE__{name.upper()}", text)
    settings = load_settings()
    with Store.open(settings.store_url) as store:
        yield settings, store


def find_readers(server: int) -> list[int]:
    """Find the processes below ``server`` that read the log for the page, and the one that they are forked from."""
    parents: dict[int, int] = {}
    readers: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()
            arguments = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        parents[int(place.name)] = int(state[1])
        if b"winnow.log_reader" in arguments and state[0] != "Z":
            readers.append(int(place.name))
    return [pid for pid in readers if _is_below(pid, server, parents)]


def _is_below(pid: int, server: int, parents: Mapping[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == server:
            return True
    return False


def is_alive(pid: int) -> bool:
    """Check whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
