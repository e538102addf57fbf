"""Random logs and configurations through oracle and engine: the same records, the same checkpoint, after every step."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.world import NOW_MS, TOPIC, FakeClock, World, open_world
from winnow import semantics
from winnow.model import Record
from winnow.semantics import NO_MAX_LAG_MS, LogModel, ModelConfig

HOUR_MS = 3_600_000

_keys = st.sampled_from([b"", b"a", b"b", b"ab", b"\xff\x00", b"k" * 40])
_values = st.none() | st.sampled_from([b"", b"null", b"x", b"y" * 200])
_headers = st.none() | st.just(()) | st.just((("h", None), ("h", b""), ("v", b"\x00\x01")))
_rows = st.lists(
    st.tuples(st.integers(1, 4), _keys, _values, st.none() | st.integers(0, 5 * HOUR_MS), _headers),
    min_size=1,
    max_size=12,
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _rows),
        st.tuples(st.just("compact"), st.integers(-2, 30)),
        st.tuples(st.just("tick"), st.integers(0, 30)),
    ),
    min_size=2,
    max_size=8,
)
_configs = st.fixed_dictionaries(
    {
        "min.cleanable.dirty.ratio": st.sampled_from(["0", "0.3", "0.5"]),
        "min.compaction.lag.ms": st.sampled_from(["0", str(HOUR_MS)]),
        "max.compaction.lag.ms": st.sampled_from([str(2 * HOUR_MS), str(NO_MAX_LAG_MS)]),
        "delete.retention.ms": st.sampled_from(["0", str(3 * HOUR_MS)]),
        "segment.ms": st.sampled_from(["1", str(4 * HOUR_MS)]),
        "segment.bytes": st.sampled_from(["14", "3000", str(1 << 30)]),
    }
)


def _model_config(config: dict[str, str]) -> ModelConfig:
    return ModelConfig(
        min_cleanable_dirty_ratio=float(config["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=int(config["min.compaction.lag.ms"]),
        max_compaction_lag_ms=int(config["max.compaction.lag.ms"]),
        segment_bytes=int(config["segment.bytes"]),
        segment_ms=int(config["segment.ms"]),
        delete_retention_ms=int(config["delete.retention.ms"]),
    )


def _append(world: World, model: LogModel, rows: list[tuple[int, bytes, bytes | None, int | None, object]]) -> None:
    offset = model.log_end_offset - 1
    records = []
    for gap, key, value, age_ms, headers in rows:
        offset += gap
        timestamp_ms = None if age_ms is None else world.clock() - age_ms
        records.append(Record(offset, key, value, timestamp_ms, headers))  # type: ignore[arg-type]
    world.ingest(records)
    if not model.files and model.log_end_offset == 0:
        model.log_start_offset = records[0].offset
    model.append(records, world.clock(), size_bytes=_newest_size(world))


def _newest_size(world: World) -> int:
    log = world.ctx.log.open(TOPIC)
    return log.segments(log.head())[0][-1].size_bytes


def _mirror(world: World, model: LogModel) -> None:
    """Give the model the real files' shape, so that byte sums and ratios stay comparable after a compaction."""
    log = world.ctx.log.open(TOPIC)
    records = {r.offset: r for file in model.files for r in file.records}
    as_of = {r.offset: file.as_of_ms for file in model.files for r in file.records}
    files = []
    for segment in log.segments(log.head()).get(0, ()):
        inside = tuple(records[o] for o in sorted(records) if segment.first_offset <= o <= segment.last_offset)
        files.append(semantics.ModelFile(inside, segment.size_bytes, max(as_of[r.offset] for r in inside)))
    model.files = files


@settings(max_examples=max(25, settings().max_examples // 2))
@given(config=_configs, steps=_steps)
def test_random_logs_survive_as_the_oracle_says(config: dict[str, str], steps: list[tuple[str, object]]) -> None:
    """Append, move the clock, compact at any as-of: every record and every checkpoint equals the oracle's."""
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder), FakeClock(NOW_MS)) as world:
        world.create(1, **{name.replace(".", "_"): value for name, value in config.items()})
        model = LogModel()
        for action, argument in steps:
            if action == "append":
                _append(world, model, argument)  # type: ignore[arg-type]
            elif action == "tick":
                world.clock.now_ms += int(argument) * HOUR_MS  # type: ignore[call-overload]
            else:
                as_of_ms = world.clock() + int(argument) * HOUR_MS  # type: ignore[call-overload]
                _compact_both(world, model, _model_config(config), as_of_ms)
            assert world.read() == model.read()


def _compact_both(world: World, model: LogModel, config: ModelConfig, as_of_ms: int) -> None:
    outcome = model.compact(config, as_of_ms, world.clock())
    receipt = world.compact(as_of_ms)
    assert (receipt is None) == (outcome is None)
    if receipt is None or outcome is None:
        return
    (part,) = receipt.partitions
    below = part.next_first_dirty_offset
    assert part.next_first_dirty_offset == model.first_dirty_offset
    assert (part.records_superseded, part.tombstones_expired) == (
        len(outcome.superseded),
        len(outcome.tombstones_expired),
    )
    assert part.records_kept == sum(r.offset < below for r in outcome.kept)
    assert part.records_in == part.records_kept + part.records_superseded + part.tombstones_expired
    _mirror(world, model)
