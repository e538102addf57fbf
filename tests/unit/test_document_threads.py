"""Documents are decoded by several threads at once: topics of a batch are validated and published side by side."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from winnow import documents
from winnow.model import Append, Cleaning, OffsetRange, PartitionState, TopicState

KINDS = (Append, Cleaning, OffsetRange, PartitionState, TopicState)


def test_decoders_are_built_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that let msgspec learn of the same dataclass at once end in an endless loop or a crash."""
    build = msgspec.json.Decoder
    building: list[int] = []
    most: list[int] = []
    count = threading.Lock()

    def build_slowly(kind: Any) -> Any:
        with count:
            building.append(1)
            most.append(len(building))
        time.sleep(0.02)
        made = build(kind)
        with count:
            building.pop()
        return made

    monkeypatch.setattr(documents, "_decoders", {})
    monkeypatch.setattr(msgspec.json, "Decoder", build_slowly)
    begin = threading.Barrier(8)

    def decode(number: int) -> list[object]:
        begin.wait()
        return [documents.load_json(Cleaning, b'{"end_offset":7,"cleaning_time_ms":1,"delete_horizon_ms":2}')] + [
            documents._get_decoder(kind) for kind in KINDS
        ]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(decode, range(8)))
    assert max(most) == 1
    assert len(most) == len(KINDS)
    assert all(each == found[0] for each in found)
    assert found[0][0] == Cleaning(7, 1, 2)
