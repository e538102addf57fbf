"""Every way a staged result can be wrong is found, by the expectation that guards it and for the partition it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.staging_builder import (
    ATTEMPT,
    MEMORY_LIMIT_BYTES,
    WITHIN_LIMITS,
    Case,
    Scene,
    build_orders_cases,
    list_failed,
    record,
    stage,
    write_quarantine_file,
    write_segment,
)
from winnow.errors import ServiceError
from winnow.files import duckdb_connection
from winnow.files.fingerprint import WINNERS_FINGERPRINT, combine_fingerprints
from winnow.quality.fact_table import compute_fact_table, make_fact_row
from winnow.quality.key_check_spilling import EXACT, HASHED, CensusResult, KeyCensus
from winnow.quality.recomputation import recompute_facts
from winnow.values.model import OffsetRange, Record, Severity
from winnow.values.results import Rewrite
from winnow.values.strategies import Strategy

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return stage(tmp_path, {0: build_orders_cases(0), 1: build_orders_cases(1)})


def test_a_sound_result_passes(scene: Scene) -> None:
    """Two partitions rewritten rightly: nothing failed, nothing is even warned of."""
    verdict = scene.verdict()
    assert verdict.passed
    assert not verdict.broken
    assert verdict.failures == ()
    assert verdict.expectations > 20


def test_a_partition_where_nothing_was_rewritten_passes(tmp_path: Path) -> None:
    """All segments kept by reference: their records are the survivors."""
    inputs = tuple(tuple(record(s * 5 + i, f"{s}-{i}") for i in range(5)) for s in range(2))
    scene = stage(tmp_path, {0: Case(inputs, inputs[0] + inputs[1])})
    assert scene.manifest.partitions[0].rewrites == ()
    assert scene.verdict().failures == ()


def test_a_rewrite_that_leaves_nothing_passes(tmp_path: Path) -> None:
    """A segment whose records are all superseded by a later one has no output."""
    old, new = tuple(record(i, "k") for i in range(3)), (record(3, "k"),)
    scene = stage(tmp_path, {0: Case((old, new), new)})
    assert scene.manifest.partitions[0].rewrites[0].outputs == ()
    assert scene.verdict().failures == ()


def test_expired_tombstones_pass_within_their_range(tmp_path: Path) -> None:
    """A key whose last record is an expired tombstone may go without a survivor."""
    inputs = ((record(0, "gone"), record(1, "stays"), record(2, "gone", None)), (record(3, "other"),))
    case = Case(inputs, (inputs[0][1], inputs[1][0]), expired=(OffsetRange(0, 3),), tombstones_expired=1)
    assert stage(tmp_path, {0: case}).verdict().failures == ()


def test_a_tombstone_that_expired_outside_every_range_fails(tmp_path: Path) -> None:
    """The same result without an expired range breaks the promise of the delete horizon, and nothing else."""
    inputs = ((record(0, "gone"), record(1, "stays"), record(2, "gone", None)), (record(3, "other"),))
    case = Case(inputs, (inputs[0][1], inputs[1][0]), tombstones_expired=1)
    assert list_failed(stage(tmp_path, {0: case}).verdict(), 0) == {"tombstones_within_horizon"}


def test_a_record_missing_from_a_new_file_fails_everything_that_counts_it(scene: Scene) -> None:
    """The file lost a record after it was described; the other partition is not blamed."""
    scene.rewrite_file(lambda records: records[1:], 1, tell=False)
    assert list_failed(scene.verdict(), 1) == {
        "files_as_manifest",
        "records_kept_equal",
        "conservation",
        "winners_equal",
        "content_equal",
        "no_key_lost",
    }


def test_a_key_dropped_knowingly_fails_as_a_lost_key_only(tmp_path: Path) -> None:
    """An engine that drops a key and calls it superseded agrees with itself everywhere but in the count of keys."""
    case = build_orders_cases()
    scene = stage(tmp_path, {0: replace(case, survivors=case.survivors[1:])})
    assert list_failed(scene.verdict(), 0) == {"no_key_lost"}


def test_an_older_record_that_survived_instead_fails_as_a_stale_winner_only(tmp_path: Path) -> None:
    """The right number of records per key, but the wrong one."""
    inputs = ((record(0, "a"), record(1, "a")), (record(2, "b"),))
    scene = stage(tmp_path, {0: Case(inputs, (inputs[0][0], inputs[1][0]))})
    assert list_failed(scene.verdict(), 0) == {"newest_survives"}


def test_a_key_that_survived_twice_fails_as_not_unique(tmp_path: Path) -> None:
    """Both records of a key in the new files: one surplus, one stale."""
    inputs = ((record(0, "a"), record(1, "a"), record(2, "b"), record(3, "b")),)
    scene = stage(tmp_path, {0: Case(inputs, (inputs[0][0], inputs[0][1], inputs[0][3]))})
    (row,) = scene.rows()
    assert row["duplicate_keys"] == 1
    assert list_failed(scene.verdict(), 0) == {"unique_keys", "newest_survives"}


def test_a_key_that_survived_in_a_kept_segment_too_fails_as_not_unique(tmp_path: Path) -> None:
    """Duplicates are counted across new files and segments kept by reference."""
    inputs = ((record(0, "a"), record(1, "x"), record(2, "x")), (record(3, "a"),))
    scene = stage(tmp_path, {0: Case(inputs, (inputs[0][0], inputs[0][2], inputs[1][0]))})
    assert len(scene.manifest.partitions[0].rewrites[0].inputs) == 1
    assert list_failed(scene.verdict(), 0) == {"unique_keys", "newest_survives"}


def test_a_key_in_two_segments_kept_by_reference_fails_as_not_unique(tmp_path: Path) -> None:
    """Nothing was rewritten, so no input is looked up: the survivors themselves say it."""
    inputs = ((record(0, "a"), record(1, "b")), (record(2, "a"),))
    scene = stage(tmp_path, {0: Case(inputs, (*inputs[0], *inputs[1]))})
    assert scene.staged().rewrites == ()
    assert list_failed(scene.verdict(), 0) == {"unique_keys", "newest_survives"}


def test_offsets_out_of_order_fail_alone(scene: Scene) -> None:
    """The same records, the same fingerprints, another order in the file."""
    scene.rewrite_file(lambda records: records[::-1], tell=True)
    assert list_failed(scene.verdict(), 0) == {"offsets_increasing"}


def test_new_files_that_overlap_fail(tmp_path: Path) -> None:
    """Two outputs whose offsets interleave are each in order, but not together."""
    scene = stage(tmp_path, {0: build_orders_cases()})
    records = scene.new_records[0]
    (rewrite,) = scene.staged().rewrites
    halves = tuple(write_segment(scene.output().with_name(f"half-{n}.parquet"), records[n::2], 0) for n in range(2))
    scene.set_staged(replace(scene.staged(), rewrites=(replace(rewrite, outputs=halves),)))
    assert list_failed(scene.verdict(), 0) == {"offsets_increasing"}


def test_rewrites_listed_in_another_order_pass(tmp_path: Path) -> None:
    """A table is a set of files: the order in which the manifest lists them is not an order of records."""
    scene = stage(tmp_path, {0: build_orders_cases()})
    records = scene.new_records[0]
    (rewrite,) = scene.staged().rewrites
    parts = (records[:2], records[2:])
    halves = [write_segment(scene.output().with_name(f"half-{n}.parquet"), p, 0) for n, p in enumerate(parts)]
    scene.set_staged(replace(scene.staged(), rewrites=(replace(rewrite, outputs=tuple(reversed(halves))),)))
    assert scene.verdict().passed


def test_flipped_bytes_in_a_new_file_fail_as_unreadable(scene: Scene) -> None:
    """A page that no longer has its checksum is found, whatever the bytes still decode to."""
    data = bytearray(scene.output().read_bytes())
    data[len(data) // 4] ^= 0xFF
    scene.output().write_bytes(data)
    assert "files_readable" in list_failed(scene.verdict(), 0)


@pytest.mark.parametrize("kept_bytes", [0, 3, 200])
def test_a_truncated_file_fails_as_unreadable(scene: Scene, kept_bytes: int) -> None:
    """An upload that stopped half-way is a fact about the file, not an exception."""
    scene.output().write_bytes(scene.output().read_bytes()[:kept_bytes])
    (row, _) = scene.rows()
    assert row["unreadable_files"] == 1
    assert "files_readable" in list_failed(scene.verdict(), 0)


def test_a_missing_file_fails_as_unreadable(scene: Scene) -> None:
    """A file the manifest names and nobody wrote."""
    scene.output().unlink()
    assert "files_readable" in list_failed(scene.verdict(), 0)


def test_a_file_of_other_columns_fails_as_unreadable(scene: Scene) -> None:
    """A Parquet file that is no segment."""
    pq.write_table(pa.table({"offset": [1, 2]}), scene.output())
    assert "files_readable" in list_failed(scene.verdict(), 0)


def test_one_changed_value_byte_fails_in_the_content_fingerprint_only(scene: Scene) -> None:
    """Everything else about the record stays: key, offset, timestamp, headers, counts."""

    def change(records: list[Record]) -> list[Record]:
        value = records[0].value
        assert value is not None
        return [replace(records[0], value=value[:-1] + b"!"), *records[1:]]

    scene.rewrite_file(change, tell=True)
    assert list_failed(scene.verdict(), 0) == {"content_equal"}


@pytest.mark.parametrize(
    "changed",
    [{"headers": (("trace", b"\x00\x02"), ("empty", None))}, {"timestamp_type": 1}, {"headers": (("trace", None),)}],
)
def test_a_changed_header_or_timestamp_type_fails_in_the_content_fingerprint_only(
    scene: Scene, changed: dict[str, object]
) -> None:
    """The fingerprint covers every field of a record."""
    scene.rewrite_file(lambda rs: [replace(rs[0], **changed), *rs[1:]], tell=True)  # type: ignore[arg-type]
    assert list_failed(scene.verdict(), 0) == {"content_equal"}


def test_a_record_of_another_partition_fails_as_such_only(scene: Scene) -> None:
    """An engine that mixed up partitions and is proud of it."""
    scene.rewrite_file(lambda rs: [replace(rs[0], partition=7), *rs[1:]], tell=True, content=True)
    assert list_failed(scene.verdict(), 0) == {"right_partition"}


def test_a_new_record_above_the_end_fails_as_touched(scene: Scene) -> None:
    """Nothing at or above the first uncleanable offset may be written."""
    scene.rewrite_file(lambda records: [*records, record(25, "late")], tell=True, content=True)
    assert list_failed(scene.verdict(), 0) == {"nothing_above_end", "offsets_from_input", "offsets_increasing"}


def test_a_rewritten_record_above_the_end_fails_as_touched(tmp_path: Path) -> None:
    """An input that reaches past the end: what lies above must not be rewritten, and least of all vanish."""
    inputs = ((record(0, "a"), record(1, "a"), record(2, "b"), record(3, "c")),)
    scene = stage(tmp_path, {0: Case(inputs, (inputs[0][1],), end_offset=2)})
    (row,) = scene.rows()
    assert row["touched_above_end"] == 2
    assert row["recomputed_records_in"] == 2
    assert "nothing_above_end" in list_failed(scene.verdict(), 0)


def test_an_offset_that_no_input_had_fails(tmp_path: Path) -> None:
    """A record between two offsets of the input came from nowhere."""
    inputs = ((record(0, "a"), record(1, "b"), record(5, "a")),)
    scene = stage(tmp_path, {0: Case(inputs, (inputs[0][1], inputs[0][2]))})
    scene.rewrite_file(lambda rs: [rs[0], replace(rs[1], offset=4)], tell=True, content=True)
    scene.report(winners_fingerprint=str(scene.rows()[0]["recomputed_winners_fingerprint"]))
    assert list_failed(scene.verdict(), 0) == {"offsets_from_input", "newest_survives"}


@pytest.mark.parametrize(
    ("figures", "expectations"),
    [
        ({"records_superseded": 15}, {"conservation"}),
        ({"records_kept": 10}, {"records_kept_equal"}),
        ({"records_in": 26}, {"records_in_equal"}),
        ({"records_keyless": 1}, {"records_keyless_equal", "conservation"}),
        ({"records_superseded": 13, "tombstones_expired": 1}, {"tombstones_within_horizon", "no_key_lost"}),
        ({"winners_fingerprint": "11:0:0"}, {"winners_equal"}),
        ({"content_fingerprint": "6:0:0"}, {"content_equal"}),
    ],
)
def test_a_miscount_of_the_engine_fails_where_it_is_counted(
    scene: Scene, figures: dict[str, int | str], expectations: set[str]
) -> None:
    """The files are right; what was said of them is not."""
    assert scene.staged(1).facts.records_superseded == 14
    scene.report(1, **figures)
    assert list_failed(scene.verdict(), 1) == expectations


def one_key_gone(folder: Path, wrong: str) -> Scene:
    """A result that drops a key and says that it was an expired tombstone; "": it was one."""
    last = {
        "value": (record(6, "b"), record(7, "c")),
        "too young": (record(6, "b"), record(7, "b", None)),
        "revived": (record(6, "b", None), record(7, "b")),
        "other key": (record(6, "b"), record(7, "d", None)),
    }.get(wrong, (record(6, "b", None), record(7, "c")))
    inputs = ((record(0, "a", None), record(1, "a"), record(2, "b"), record(3, "b", None)), last)
    kept = [inputs[0][1], *(r for r in last if r.key != inputs[0][2].key)]
    expired = OffsetRange(0, 7) if wrong == "too young" else OffsetRange(0, 8)
    return stage(folder, {0: Case(inputs, tuple(kept), expired=(expired,), tombstones_expired=1)})


@pytest.mark.parametrize("memory_limit_bytes", [MEMORY_LIMIT_BYTES, 1], ids=["looked up", "grouped"])
@pytest.mark.parametrize("strategy", [Strategy.OFFSET, Strategy.TIMESTAMP])
@pytest.mark.parametrize("wrong", ["", "value", "too young", "revived", "other key"])
def test_a_key_that_is_gone_must_have_ended_with_a_tombstone_that_may_go(
    tmp_path: Path, wrong: str, strategy: Strategy, memory_limit_bytes: int
) -> None:
    """A record that was lost is not made up for by a tombstone that lost, may not go yet, or could have gone."""
    scene = one_key_gone(tmp_path, wrong)
    facts = recompute_facts(
        replace(scene.plan, strategy=strategy),
        scene.plan.partitions[0],
        scene.staged(),
        attempt=ATTEMPT,
        memory_limit_bytes=memory_limit_bytes,
        threads=1,
        spill_folder=str(tmp_path / "spill"),
    )
    assert (facts.keys_in - facts.keys_kept, facts.most_tombstones_expired) == (1, 0 if wrong else 1)


def test_a_record_that_was_lost_as_if_it_were_an_expired_tombstone_fails(tmp_path: Path) -> None:
    """Every figure of the engine adds up, and there are tombstones enough in the expired range."""
    assert one_key_gone(tmp_path / "sound", "").verdict().failures == ()
    assert list_failed(one_key_gone(tmp_path / "lost", "revived").verdict(), 0) == {"tombstones_within_horizon"}


def test_misreported_bytes_are_warned_of_and_pass(scene: Scene) -> None:
    """Bytes are for people; a wrong figure harms no data."""
    scene.report(bytes_out=1)
    verdict = scene.verdict()
    assert verdict.passed
    assert list_failed(verdict, 0, Severity.WARN) == {"bytes_out_equal"}
    assert verdict.failing_partitions == ()


def test_keyless_records_that_left_are_warned_of(tmp_path: Path) -> None:
    """They went to quarantine, rightly counted: reported, and passed."""
    inputs = ((record(0, None), record(1, "a"), record(2, "b")),)
    verdict = stage(tmp_path, {0: Case(inputs, inputs[0][1:], keyless=1)}).verdict()
    assert verdict.passed
    assert list_failed(verdict, 0, Severity.WARN) == {"keyless_records_moved"}


KEYLESS = Case(
    ((record(0, None), record(1, "a"), record(2, None, None)), (record(3, "b"), record(4, None))),
    (record(1, "a"), record(3, "b")),
    keyless=3,
)


def test_keyless_records_that_were_dropped_silently_fail(tmp_path: Path) -> None:
    """Counted and gone, as in Kafka: here they must be somewhere."""
    scene = stage(tmp_path, {0: KEYLESS})
    assert scene.verdict().passed
    scene.set_staged(replace(scene.staged(), keyless_files=()))
    (row,) = scene.rows()
    assert row["keyless_not_aside"] == 3
    assert list_failed(scene.verdict(), 0) == {"keyless_records_aside"}


@pytest.mark.parametrize(
    "aside",
    [
        [record(0, None), record(2, None, None)],
        [record(0, None), record(2, None, None), record(4, None), record(4, None)],
        [record(0, None), record(2, None, None), record(4, None), record(5, None)],
        [record(0, None), record(2, None, "not null"), record(4, None)],
        [record(0, None), record(2, None, None), replace(record(4, None), headers=(("trace", b""),))],
        [record(0, None), record(2, None, None), replace(record(4, None), timestamp_ms=None)],
        [record(0, None), record(2, None, None), record(4, "a key")],
        [record(0, None), record(2, None, None), record(4, None, partition=1)],
    ],
    ids=["one too few", "one twice", "one too many", "value", "headers", "timestamp", "key", "partition"],
)
def test_quarantined_rows_that_are_not_the_keyless_records_fail(tmp_path: Path, aside: list[Record]) -> None:
    """Offset by offset and in every field."""
    scene = stage(tmp_path, {0: KEYLESS})
    write_quarantine_file(scene.aside(), aside)
    assert list_failed(scene.verdict(), 0) == {"keyless_records_aside"}


def test_quarantined_rows_under_another_ingest_fail(tmp_path: Path) -> None:
    """The log's state will name the attempt's id, so nobody would ever see them."""
    scene = stage(tmp_path, {0: KEYLESS})
    write_quarantine_file(scene.aside(), [record(0, None), record(2, None, None), record(4, None)], ingest_id="another")
    assert list_failed(scene.verdict(), 0) == {"keyless_records_aside"}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-40])])
def test_a_quarantined_file_that_cannot_be_read_fails(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    scene = stage(tmp_path, {0: KEYLESS})
    damage(scene.aside())
    assert list_failed(scene.verdict(), 0) == {"keyless_records_aside"}


def test_keyless_records_below_the_log_start_need_not_be_quarantined(tmp_path: Path) -> None:
    """Nobody can read them any more, so nothing is taken from anybody; put aside all the same they are too many."""
    scene = stage(tmp_path, {0: replace(KEYLESS, log_start_offset=1)})
    (row,) = scene.rows()
    assert row["keyless_not_aside"] == 1
    write_quarantine_file(scene.aside(), [record(2, None, None), record(4, None)])
    (row,) = scene.rows()
    assert row["keyless_not_aside"] == 0


def test_a_keyless_record_that_stayed_fails(tmp_path: Path) -> None:
    """Compaction knows no record without a key."""
    inputs = ((record(0, None), record(1, "a"), record(2, "a")),)
    verdict = stage(tmp_path, {0: Case(inputs, (inputs[0][0], inputs[0][2]))}).verdict()
    assert list_failed(verdict, 0) == {"no_keyless_record", "records_keyless_equal", "keyless_records_aside"}


def test_a_keyless_record_in_a_segment_kept_by_reference_fails_alike(tmp_path: Path) -> None:
    """It is in both fingerprints, as a survivor that should not be one; beside it the keyed ones are counted."""
    inputs = ((record(0, "b"), record(1, None), record(2, "a")), (record(3, "c"),))
    scene = stage(tmp_path, {0: Case(inputs, (*inputs[0], *inputs[1]))})
    assert scene.staged().rewrites == ()
    assert list_failed(scene.verdict(), 0) == {"no_keyless_record", "records_keyless_equal", "keyless_records_aside"}
    assert scene.rows()[0]["keyless_kept"] == 1


def test_a_planned_partition_without_result_fails(scene: Scene) -> None:
    """A manifest that forgot a partition says nothing about it."""
    scene.manifest = replace(scene.manifest, partitions=scene.manifest.partitions[:1])
    assert "partition_staged_once" in list_failed(scene.verdict(), 1)


def test_a_partition_with_two_results_fails(scene: Scene) -> None:
    """Both sets of files would be published."""
    scene.manifest = replace(scene.manifest, partitions=(*scene.manifest.partitions, scene.staged(1)))
    assert list_failed(scene.verdict(), 1) == {"partition_staged_once"}


def test_one_partition_can_be_recomputed_by_itself(scene: Scene) -> None:
    """The same facts as in the table of the whole topic."""
    partition = scene.plan.partitions[1]
    independent = recompute_facts(
        scene.plan,
        partition,
        scene.staged(1),
        attempt=ATTEMPT,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
        threads=2,
        spill_folder=str(scene.folder / "spill"),
    )
    assert make_fact_row(scene.plan, partition, scene.staged(1), independent) | WITHIN_LIMITS == scene.rows()[1]


@pytest.mark.parametrize("identity", [HASHED, EXACT])
def test_more_keys_than_fit_in_memory_are_counted_all_the_same(tmp_path: Path, identity: str) -> None:
    """60 MB of keys within 32 MiB: counting spills rather than fails, by hash and by exact bytes."""
    keys = 150_000

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, keys, 10_000):
            offsets = range(start, start + 10_000)
            yield pa.record_batch({"key": [b"%0400d" % n for n in offsets], "offset": pa.array(offsets, pa.int64())})

    connection = duckdb_connection.connect(memory_limit_bytes=32 << 20, threads=1, spill_folder=str(tmp_path))
    try:
        with KeyCensus(connection, OffsetRange(0, keys), identity) as census:
            for batch in batches():
                census.add_survivors(batch, by_reference=False)
            assert census.count_keys(batches()) == CensusResult(keys, keys, duplicate_keys=0, stale_winners=0)
    finally:
        connection.close()


def test_partitions_recomputed_side_by_side_give_the_same_table(scene: Scene) -> None:
    """How many workers share the partitions changes nothing, not even the order of rows."""
    tables = [
        compute_fact_table(
            scene.plan,
            scene.manifest,
            memory_limit_bytes=MEMORY_LIMIT_BYTES,
            threads=1,
            spill_folder=str(scene.folder / "spill"),
            workers=workers,
        )
        for workers in (1, 2, 5)
    ]
    assert tables[0] == tables[1] == tables[2]
    assert [row["partition"] for row in tables[0]] == [0, 1]


def test_a_result_for_a_partition_that_was_not_planned_fails(scene: Scene) -> None:
    """What nobody decided is not published."""
    scene.plan = replace(scene.plan, partitions=scene.plan.partitions[:1])
    assert {"partition_planned", "inputs_planned", "nothing_above_end"} <= list_failed(scene.verdict(), 1)


def test_a_rewrite_of_a_file_outside_the_plan_fails(scene: Scene) -> None:
    """An input that the plan does not name would be taken out of the log unseen."""
    staged = scene.staged()
    foreign = Rewrite((*staged.rewrites[0].inputs, "elsewhere.parquet"), staged.rewrites[0].outputs)
    scene.set_staged(replace(staged, rewrites=(foreign,)))
    assert list_failed(scene.verdict(), 0) == {"inputs_planned"}


def test_a_kept_segment_that_cannot_be_read_fails_as_such(scene: Scene) -> None:
    """Keeping by reference is a promise about a file that is there."""
    kept = Path(scene.plan.partitions[0].segments[2].path)
    kept.write_bytes(kept.read_bytes()[:100])
    assert {"inputs_readable", "records_kept_equal"} <= list_failed(scene.verdict(), 0)


def test_an_input_that_cannot_be_read_is_not_called_a_foreign_offset(scene: Scene) -> None:
    """Where the offsets of an input are unknown, none is called wrong because of it."""
    Path(scene.plan.partitions[0].segments[0].path).unlink()
    (row, _) = scene.rows()
    assert row["unreadable_inputs"] == 1
    assert row["offsets_not_in_input"] == 0


def test_offsets_beyond_2_to_the_53_are_judged_exactly(tmp_path: Path) -> None:
    """A double cannot tell these offsets from their neighbours."""
    base = 2**60
    scene = stage(tmp_path, {0: build_orders_cases(base=base)})
    assert scene.verdict().passed
    scene.plan = replace(scene.plan, partitions=(replace(scene.plan.partitions[0], next_first_dirty_offset=base + 24),))
    (row,) = scene.rows()
    assert row["recomputed_records_in"] == 24
    assert row["recomputed_records_kept"] == 10


def test_records_below_the_log_start_are_not_counted(tmp_path: Path) -> None:
    """A segment that straddles the log start counts from it on; the manifest cannot tell how many that are."""
    inputs = (tuple(record(i, f"k{i}") for i in range(4)), (record(4, "k4"),))
    scene = stage(tmp_path, {0: Case(inputs, inputs[0] + inputs[1], log_start_offset=3)})
    (row,) = scene.rows()
    assert (row["recomputed_records_in"], row["recomputed_records_kept"]) == (2, 2)


def test_a_store_that_refuses_to_give_bytes_is_a_service_error(scene: Scene) -> None:
    """Not being able to read is not the same as having read something bad."""
    scene.output().unlink()
    scene.output().mkdir()
    with pytest.raises(ServiceError, match="object store"):
        scene.rows()


def test_the_fact_table_is_the_same_when_computed_again(scene: Scene) -> None:
    """Recomputing reads and changes nothing."""
    assert scene.rows() == scene.rows()


def test_fingerprints_of_parts_combine_into_that_of_the_whole(scene: Scene) -> None:
    """The fingerprint is a sum, so batches may be cut anywhere."""
    from tests.unit.staging_builder import fingerprint

    records = scene.new_records[0]
    parts = [fingerprint(part, WINNERS_FINGERPRINT) for part in (records[:2], records[2:], [])]
    assert combine_fingerprints(parts) == fingerprint(records, WINNERS_FINGERPRINT)
