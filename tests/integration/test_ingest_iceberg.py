"""Iceberg tables of other programs are ingested once, then by what was appended to them; changed rows are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.types import StringType

from tests.support.cli_runner import winnow
from tests.support.erased_keys import erase_keys
from tests.support.foreign_tables import (
    add_delete_manifest,
    create_kafka_table,
    make_catalog,
    make_rows,
    unpack_sink_table,
)
from tests.support.sample_archives import decode, load_dump
from tests.support.world import (
    NOW_MS,
    TOPIC,
    World,
    build_versions,
    define_world,
    record,
    run_between_head_and_commit,
)
from winnow.errors import BadInputError, CommitConflictError, ServiceError, UndoRefusedError, UsageError
from winnow.log.reference_chains import read_ledgers
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest import table as table_ingest
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.ingest.table import TableRequest, find_earlier_ingest, ingest_table
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.sources.choices import Choices
from winnow.sources.formats.parquet import read_stream_batches
from winnow.sources.iceberg import source_table
from winnow.values.model import Record

TABLE = "lake.shop.orders"
FIRST = [
    record(3, b"a", b"1", headers=(("h", b"\x00"), ("h", None))),
    record(5, b"b", None, timestamp_ms=None),
    record(0, b"\xff", b"", partition=1, timestamp_type=1, headers=()),
]
SECOND = build_versions(6, 3) + build_versions(1, 2, partition=1)


world = define_world(2, min_cleanable_dirty_ratio="0.01")


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    return make_catalog(tmp_path / "lake", monkeypatch)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table of Spark's that holds the first records."""
    created = create_kafka_table(catalog)
    created.append(make_rows(FIRST))
    return created


def ingest(
    world: World,
    table: str | Path = TABLE,
    *,
    topic: str = TOPIC,
    source_topic: str | None = None,
    creates: bool = False,
    choices: Choices | None = None,
    **columns: str,
) -> IngestReport:
    request = TableRequest(str(table), columns, source_topic, choices or Choices(), creates)
    return ingest_table(world.installation, topic, request, as_of_ms=NOW_MS)


def sort_records(records: Sequence[Record]) -> list[Record]:
    """As a reader sees them; a missing timestamp is the as-of, and no headers are an empty list."""
    return sorted(
        [
            Record(
                each.offset,
                each.key,
                each.value,
                NOW_MS if each.timestamp_ms is None else each.timestamp_ms,
                each.headers or (),
                each.timestamp_type,
                each.partition,
            )
            for each in records
        ],
        key=lambda each: (each.partition, each.offset),
    )


def read(world: World, topic: str = TOPIC) -> list[Record]:
    return sort_records(world.read(topic=topic))


def assert_refused(world: World, *words: str) -> None:
    """An ingest is refused with these words, and nothing of it is left."""
    before = (world.listing(), world.snapshot_ids())
    with pytest.raises(BadInputError) as caught:
        ingest(world)
    for word in (*words, "Nothing of this call landed"):
        assert word in str(caught.value), str(caught.value)
    assert (world.listing(), world.snapshot_ids()) == before


def rewrite(table: Table, *, loses_rows: bool = False) -> None:
    """Replace all files by one with the same rows, as a compaction of the table does."""
    rows = table.scan().to_arrow()
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        for task in table.scan().plan_files():
            update.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, rows.slice(int(loses_rows)), table.io):
            update.append_data_file(file)
        genuine = update._summary

        def summarize(properties: Mapping[str, str]) -> Summary:
            # PyIceberg itself writes no replacements.
            return Summary(Operation.REPLACE, **genuine(dict(properties)).additional_properties)

        update._summary = summarize  # type: ignore[method-assign,assignment]


# ------------------------------------------------------------------ what arrives


def test_every_field_of_spark_s_kafka_columns_arrives(world: World, table: Table) -> None:
    report = ingest(world)
    assert report.records_appended == 3
    assert report.layout == "iceberg"
    assert read(world) == sort_records(FIRST)
    assert any("day" in notice and "left out" in notice for notice in report.notices)


def test_what_iceberg_s_sink_wrote_is_the_dump_without_keys_headers_and_tombstones(
    world: World, tmp_path: Path
) -> None:
    folder = unpack_sink_table(tmp_path / "sink")
    report = ingest(world, folder, topic="shop", source_topic="orders-schema", creates=True, key="id")
    dump = load_dump("iceberg/orders-schema.read_committed")
    payloads = {
        place: json.loads(decode(each["value"]) or b"")["payload"]
        for place, each in dump.items()
        if each["value"] is not None
    }
    assert len(dump) - len(payloads) == 229
    assert report.records_appended == len(payloads) == 2771
    found = {(each.partition, each.offset): each for each in read(world, "shop")}
    assert found.keys() == payloads.keys()
    for place, each in found.items():
        assert json.loads(each.value or b"") == payloads[place]
        assert each.key == str(payloads[place]["id"]).encode()
        assert each.timestamp_ms == dump[place]["timestamp"]
        assert each.headers == ()
    first = found[0, 0].value
    assert first == b'{"id":165,"status":"paid","total":197.41,"lines":[]}'
    assert len(world.head("shop").state.partitions) == 3


def test_the_sink_s_struct_of_metadata_is_found_and_a_column_called_value_stays_in_the_value(
    world: World, catalog: Catalog
) -> None:
    place = pa.struct(
        [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
    )
    rows = pa.table(
        {
            "id": pa.array(["a", None]),
            "value": pa.array([1.5, None]),
            "_kafka_metadata": pa.array(
                [{"topic": TOPIC, "partition": 0, "offset": 0}, {"topic": TOPIC, "partition": 0, "offset": 1}], place
            ),
        }
    )
    world.create(1, topic="kept", cleanup_policy="delete")
    catalog.create_table("shop.orders", rows.schema).append(rows)
    ingest(world, topic="kept", source_topic=TOPIC)
    assert [(each.key, each.value) for each in world.read(topic="kept")] == [
        (None, b'{"id":"a","value":1.5}'),
        (None, b'{"id":null,"value":null}'),
    ]


def test_a_table_without_keys_is_refused_for_a_compacted_topic(world: World, tmp_path: Path) -> None:
    folder = unpack_sink_table(tmp_path / "sink")
    before = world.listing()
    with pytest.raises(BadInputError, match="sink drops the keys") as caught:
        ingest(world, folder, source_topic="orders-schema")
    assert "--map key=COLUMN" in str(caught.value)
    assert world.listing() == before


def test_a_refused_call_creates_no_topic(world: World, tmp_path: Path) -> None:
    folder = unpack_sink_table(tmp_path / "sink")
    with pytest.raises(BadInputError, match="winnow topics create shop --partitions N"):
        ingest(world, folder, topic="shop", source_topic="orders-schema", creates=True)
    assert world.installation.log.names() == [TOPIC]


def test_a_table_without_offsets_is_refused(world: World, catalog: Catalog) -> None:
    rows = pa.table({"id": pa.array([1]), "status": pa.array(["new"])})
    catalog.create_table("shop.orders", rows.schema).append(rows)
    assert_refused(world, "no column for the partition and the offset", "KafkaMetadataTransform")


def test_a_row_without_an_offset_is_refused(world: World, table: Table) -> None:
    rows = make_rows([record(9, b"a", b"1")])
    table.append(rows.set_column(4, "offset", pa.array([None], pa.int64())))
    assert_refused(world, "row 1: it has no offset")


def test_a_column_that_is_not_there_is_named(world: World, table: Table) -> None:
    with pytest.raises(UsageError, match="no column 'kee'"):
        ingest(world, key="kee")


def test_columns_are_found_after_they_were_renamed_and_added(world: World, table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("value", "payload")
        update.add_column("more", StringType())
    report = ingest(world, value="payload")
    assert read(world) == sort_records(FIRST)
    again = ingest(world)
    assert again.snapshot_id is None
    assert report.snapshot_id is not None


def test_records_of_another_topic_are_never_taken_unasked(world: World, table: Table) -> None:
    table.append(make_rows([record(4, b"x", b"other")], topic="payments"))
    assert_refused(world, "names topic payments", "--source-topic NAME")
    report = ingest(world, source_topic=TOPIC)
    assert (report.records_appended, report.records_left_out) == (3, 1)
    assert read(world) == sort_records(FIRST)


def test_old_copies_of_erased_keys_stay_out_of_the_log_and_the_position_moves(world: World, table: Table) -> None:
    erased = FIRST[0].key
    assert erased is not None
    erase_keys(world, erased)
    kept = [each for each in FIRST if each.key != erased]
    report = ingest(world)
    assert (report.records_appended, report.records_erased) == (len(kept), len(FIRST) - len(kept))
    assert read(world) == sort_records(kept)
    table.append(make_rows([record(4, erased, b"old")]))
    assert (ingest(world).records_erased, ingest(world).records_erased) == (1, 0)
    assert read(world) == sort_records(kept)


def test_a_snapshot_with_other_topics_alone_moves_the_position(world: World, table: Table) -> None:
    ingest(world, source_topic=TOPIC)
    table.append(make_rows([record(4, b"x", b"other")], topic="payments"))
    report = ingest(world, source_topic=TOPIC)
    assert (report.records_appended, report.records_left_out) == (0, 1)
    assert ingest(world, source_topic=TOPIC).records_left_out == 0


# ------------------------------------------------------------------ by snapshot


def test_a_second_call_reads_only_what_was_appended(world: World, table: Table) -> None:
    ingest(world)
    table.append(make_rows(SECOND))
    report = ingest(world)
    assert (report.records_appended, report.records_skipped, report.files) == (5, 0, 1)
    assert read(world) == sort_records([*FIRST, *SECOND])
    position = list(read_ledgers(world.head().state))[-1].table
    assert position is not None
    assert (position.table_uuid, position.snapshot_id) == (
        str(table.metadata.table_uuid),
        str(table.metadata.current_snapshot_id),
    )


def test_a_call_with_nothing_new_changes_nothing(world: World, table: Table) -> None:
    ingest(world)
    before = (world.listing(), world.snapshot_ids())
    report = ingest(world)
    assert (report.snapshot_id, report.records_appended, report.records_skipped) == (None, 0, 0)
    assert (world.listing(), world.snapshot_ids()) == before


def test_a_rewrite_of_the_table_is_no_new_data(world: World, table: Table) -> None:
    ingest(world)
    table.append(make_rows(SECOND[:2]))
    rewrite(table)
    table.append(make_rows(SECOND[2:]))
    report = ingest(world)
    assert (report.records_appended, report.records_skipped) == (5, 0)
    rewrite(table)
    report = ingest(world)
    assert (report.records_appended, report.records_skipped, report.files) == (0, 0, 0)
    assert any("only rewritten" in notice for notice in report.notices)
    assert read(world) == sort_records([*FIRST, *SECOND])


def test_a_rewritten_table_is_read_as_it_is_by_the_first_call(world: World, table: Table) -> None:
    table.append(make_rows(SECOND))
    rewrite(table)
    assert ingest(world).records_appended == 8
    assert read(world) == sort_records([*FIRST, *SECOND])


def test_rows_that_the_writer_appended_twice_land_once(world: World, table: Table) -> None:
    table.append(make_rows(SECOND[::-1]))
    table.append(make_rows([*SECOND[:1], *FIRST]))
    report = ingest(world)
    assert (report.records_appended, report.records_skipped) == (8, 4)
    assert read(world) == sort_records([*FIRST, *SECOND])


def test_records_that_were_compacted_away_do_not_come_back(world: World, table: Table) -> None:
    table.append(make_rows(build_versions(6, 9)))
    ingest(world)
    world.clock.now_ms += 30 * 86_400_000
    table.append(make_rows(build_versions(20, 3)))
    ingest(world)
    world.compact()
    before = read(world)
    assert len(before) < 15
    assert ingest(world).snapshot_id is None
    rewrite(table)
    assert ingest(world).records_appended == 0
    assert read(world) == before


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize("is_first", [True, False])
def test_deleted_rows_are_refused(world: World, table: Table, is_first: bool) -> None:
    table.append(make_rows(SECOND))
    if not is_first:
        ingest(world)
    table.delete("offset = 6")
    assert_refused(world, "removes rows or changes them", "CREATE TABLE")


@pytest.mark.parametrize("is_first", [True, False])
def test_overwritten_rows_are_refused(world: World, table: Table, is_first: bool) -> None:
    if not is_first:
        ingest(world)
    table.overwrite(make_rows(SECOND))
    assert_refused(world, "removes rows or changes them")


@pytest.mark.parametrize("is_first", [True, False])
def test_delete_files_are_refused_whatever_the_snapshot_calls_itself(
    world: World, table: Table, is_first: bool
) -> None:
    if not is_first:
        ingest(world)
    table.append(make_rows(SECOND))
    add_delete_manifest(table)
    assert_refused(world, "has delete files")


def test_a_replacement_that_loses_rows_is_refused(world: World, table: Table) -> None:
    ingest(world)
    table.append(make_rows(SECOND))
    rewrite(table, loses_rows=True)
    assert_refused(world, "another number of rows")


def test_an_expired_position_is_refused(world: World, table: Table) -> None:
    ingest(world)
    first = table.metadata.current_snapshot_id
    assert first is not None
    table.append(make_rows(SECOND[:3]))
    table.append(make_rows(SECOND[3:]))
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert_refused(world, "no longer in the history", "expired")


def test_a_table_that_was_set_back_is_refused(world: World, table: Table) -> None:
    first = table.metadata.current_snapshot_id
    assert first is not None
    table.append(make_rows(SECOND))
    ingest(world)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert_refused(world, "rolled back")


def test_a_table_that_was_created_again_is_refused(world: World, catalog: Catalog, table: Table) -> None:
    ingest(world)
    catalog.drop_table("shop.orders")
    create_kafka_table(catalog).append(make_rows(FIRST))
    assert_refused(world, "dropped and created again", "new topic")


def test_a_data_file_that_is_gone_is_refused(world: World, table: Table) -> None:
    for task in table.scan().plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()
    assert_refused(world, "is not there")


def test_a_manifest_that_names_more_rows_than_the_file_has_is_refused(
    world: World, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        source_table, "read_stream_batches", lambda *given: (batch.slice(1) for batch in read_stream_batches(*given))
    )
    assert_refused(world, "another number of rows")


def test_a_table_or_catalog_that_is_not_there_is_named(world: World, catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no table lake\.shop\.orders"):
        ingest(world)
    with pytest.raises(UsageError, match="no catalog 'pond'"):
        ingest(world, "pond.shop.orders")
    with pytest.raises(UsageError, match="neither CATALOG"):
        ingest(world, "orders")
    with pytest.raises(UsageError, match="no Iceberg table at"):
        ingest(world, tmp_path / "nothing")


def test_metadata_that_are_no_metadata_end_in_a_sentence(world: World, tmp_path: Path) -> None:
    path = tmp_path / "v1.metadata.json"
    path.write_text("{}")
    with pytest.raises(ServiceError, match="cannot be opened"):
        ingest(world, path)


def test_data_files_that_are_not_parquet_are_refused(
    world: World, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DataFile, "file_format", property(lambda _: FileFormat.ORC))
    assert_refused(world, "is ORC")


def test_the_command_creates_the_topic_and_prints_one_document(
    world: World, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    answer = winnow("ingest", "iceberg", "copy", TABLE, "--source-topic", TOPIC, "--create", "--json")
    assert answer.document["layout"] == "iceberg"
    assert answer.document["records_appended"] == 3
    assert [each["log_end_offset"] for each in answer.document["partitions"]] == [6, 1]
    again = winnow("ingest", "iceberg", "copy", TABLE, "--source-topic", TOPIC)
    assert "Nothing was committed" in again.stdout
    assert "nothing new" in again.stderr
    winnow("ingest", "iceberg", "copy", TABLE, "--map", "kee=id", code=2)


def test_inspect_says_what_a_table_of_spark_s_holds(table: Table) -> None:
    table.append(make_rows([record(7, b"x", None, timestamp_ms=5_000)]))
    answer = winnow("inspect", TABLE, "--json")
    (entry,) = [each for each in answer.document if each["partition"] == 0]
    assert (entry["layout"], entry["records"], entry["first_offset"], entry["last_offset"]) == ("iceberg", 1, 7, 7)
    assert (entry["tombstones"], entry["keyless"], entry["max_timestamp_ms"]) == (1, 0, 5_000)
    assert entry["findings"] == []
    (mixed,) = [each for each in answer.document if each["partition"] is None]
    assert (mixed["records"], mixed["first_offset"], mixed["last_offset"]) == (3, 0, 5)


def test_inspect_says_what_iceberg_s_sink_lost(tmp_path: Path) -> None:
    folder = unpack_sink_table(tmp_path / "sink")
    entries = winnow("inspect", folder, "--json").document
    assert [(each["partition"], each["records"]) for each in entries] == [(0, 962), (1, 879), (2, 930)]
    assert {each["tombstones"] for each in entries} == {0}
    for entry in entries:
        assert entry["keyless"] == entry["records"]
        assert {each["kind"] for each in entry["findings"]} == {"no_keys", "no_tombstones", "headers_lost"}
    shown = winnow("inspect", folder).stdout
    assert f"Next: winnow ingest iceberg TOPIC {folder} --map key=COLUMN --create" in shown


# ------------------------------------------------------------------ exactly once


@pytest.mark.parametrize("is_late", [False, True])
def test_a_call_that_dies_at_its_commit_lands_nothing_or_all_and_the_next_one_completes_it(
    world: World, table: Table, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    genuine = TopicLog._try

    def die(log: TopicLog, *given: object) -> object:
        if is_late:
            genuine(log, *given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    ingest(world)
    table.append(make_rows(SECOND))
    with monkeypatch.context() as patch:
        patch.setattr(TopicLog, "_try", die)
        with pytest.raises(KeyboardInterrupt):
            ingest(world)
    assert read(world) == sort_records([*FIRST, *SECOND] if is_late else FIRST)
    assert ingest(world).records_appended == (0 if is_late else 5)
    assert read(world) == sort_records([*FIRST, *SECOND])
    assert ingest(world).snapshot_id is None


def test_two_calls_at_once_append_the_rows_once(world: World, table: Table) -> None:
    with (
        run_between_head_and_commit(lambda: ingest(world)),
        pytest.raises(CommitConflictError, match="Another call ingested from table"),
    ):
        ingest(world)
    assert read(world) == sort_records(FIRST)
    assert ingest(world).snapshot_id is None


@pytest.mark.parametrize("undoes_the_first", [False, True])
def test_what_an_undone_ingest_had_appended_is_read_again(world: World, table: Table, undoes_the_first: bool) -> None:
    """A later call that only moved the position, after a rewrite, has to be undone before it."""
    if not undoes_the_first:
        ingest(world)
    table.append(make_rows(SECOND))
    undone = ingest(world)
    rewrite(table)
    moved = ingest(world)
    assert moved.ingest_id is not None
    assert undone.ingest_id is not None
    with pytest.raises(UndoRefusedError, match="a later call continued to read the same source"):
        undo_ingest(world.installation, TOPIC, undone.ingest_id)
    undo_ingest(world.installation, TOPIC, moved.ingest_id)
    undo_ingest(world.installation, TOPIC, undone.ingest_id)
    assert read(world) == ([] if undoes_the_first else sort_records(FIRST))
    assert ingest(world).records_appended == undone.records_appended
    assert read(world) == sort_records([*FIRST, *SECOND])
    assert ingest(world).snapshot_id is None


def test_a_call_that_continued_one_that_is_gone_stands_for_no_position(
    world: World, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo refuses to leave such a call behind; where one is all the same, its table is read from its beginning."""
    ingest(world)
    table.append(make_rows(SECOND))
    ingest(world)
    state, source = world.head().state, source_table.open_source_table(TABLE)
    first, second = read_ledgers(state, of_archives=True)
    assert find_earlier_ingest(state, source, None).position == second.table
    monkeypatch.setattr(table_ingest, "read_ledgers", lambda *_, **__: [second])
    assert find_earlier_ingest(state, source, None).position is None
    monkeypatch.setattr(table_ingest, "read_ledgers", lambda *_, **__: [first])
    assert find_earlier_ingest(state, source, None).position == first.table


def test_an_older_call_never_sets_the_position_back(world: World, table: Table) -> None:
    ingest(world)
    table.append(make_rows(SECOND[:1]))

    def overtake() -> None:
        table.append(make_rows(SECOND[1:]))
        ingest(world)

    with run_between_head_and_commit(overtake), pytest.raises(CommitConflictError):
        ingest(world)
    assert ingest(world).snapshot_id is None
    assert read(world) == sort_records([*FIRST, *SECOND])
