"""``winnow schemas pull``: schemas that are kept with a topic, and stay with it whatever is done to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.test_typed_table import create, encode, read_table, update
from tests.support.schema_registry import serve_answers
from tests.support.world import TOPIC, FakeClock, World, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.errors import ConfigurationError, DamagedMetadataError
from winnow.log.kept_schemas import read_kept_schemas
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.read.schema_pull import SchemaPull, pull_schemas
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.pipeline.topics.recovery import recover_topic
from winnow.schemas.documents import SchemaDocument, SchemaId, SchemaReference
from winnow.schemas.kept_documents import pack_documents, unpack_documents
from winnow.values.kept_schemas import KeptSchemas

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "long"}]}
UNKNOWN = 9
GUID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")


def answer(path: str) -> tuple[int, bytes]:
    """A registry with the schemas 1 to 8 and one GUID, all of them the same."""
    if path.endswith(f"/{UNKNOWN}") or ("/guids/" in path and not path.endswith(str(GUID))):
        return 404, b'{"error_code": 40403}'
    return 200, json.dumps({"schema": json.dumps(POINT)}).encode()


@pytest.fixture(scope="module")
def registry() -> Iterator[tuple[str, list[str]]]:
    with serve_answers(answer) as served:
        yield served


@pytest.fixture
def world(tmp_path: Path, registry: tuple[str, list[str]]) -> Iterator[World]:
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), {"WINNOW_SCHEMA_REGISTRY__URL": registry[0]}) as opened:
        create(opened, winnow_value_format="avro")
        yield opened


def frame(schema_id: int, x: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + encode(POINT, {"x": x})


def ingest(world: World, *schema_ids: int, first: int = 0) -> None:
    world.ingest([record(first + n, b"%d" % (first + n), frame(each, n)) for n, each in enumerate(schema_ids)])


def pull(world: World) -> SchemaPull:
    return pull_schemas(world.installation, TOPIC)


def read_without_registry(folder: Path) -> list[int | None]:
    """The rows of the table, built by who has no registry."""
    with open_world(folder, FakeClock(read_wall_clock_ms())) as world:
        update(world)
        return [row["x"] for row in read_table(world)]


def test_pulling_again_asks_for_what_is_new_only_and_changes_nothing_without(
    world: World, registry: tuple[str, list[str]]
) -> None:
    ingest(world, 1, 2, 1)
    assert (pull(world).pulled, pull(world).pulled) == ((1, 2), ())
    before = world.snapshot_ids()
    asked = len(registry[1])
    repeated = pull(world)
    assert (repeated.schemas, repeated.snapshot_id, repeated.is_whole) == (2, None, True)
    assert (world.snapshot_ids(), len(registry[1])) == (before, asked)
    ingest(world, 3, first=3)
    assert (pull(world).pulled, pull(world).schemas) == ((3,), 3)
    assert registry[1][asked:] == ["/schemas/ids/3"]
    assert len(world.head().state.schemas) == 2


def test_guids_are_kept_as_ids_are_and_those_that_the_registry_does_not_know_are_counted(
    world: World, registry: tuple[str, list[str]]
) -> None:
    """One text serves an id and a GUID; in a header or at the head of a datum, each is asked for once."""
    body = encode(POINT, {"x": 1})
    ingest(world, 1)
    world.ingest(
        [
            record(1, b"1", body, headers=(("__value_schema_id", b"\1" + GUID.bytes),)),
            record(2, b"2", b"\1" + GUID.bytes + body),
            record(3, b"3", b"\1" + b"a secret of some" + body),
        ]
    )
    done = pull(world)
    assert (done.pulled, done.schemas, done.guids, done.is_whole) == ((1, str(GUID)), 2, 1, False)
    asked = len(registry[1])
    again = pull(world)
    assert (again.pulled, again.snapshot_id, again.guids) == ((), None, 1)
    assert len(registry[1]) == asked + 1
    (kept,) = read_kept_schemas(world.head().state)
    assert (len(kept.texts), kept.guids) == (1, {str(GUID): 0})
    assert read_without_registry(world.folder) == [0, 1, 1, None]


def test_ids_that_the_registry_does_not_know_are_named_and_the_others_kept(world: World) -> None:
    """The keys, which the topic says nothing of, are not taken for framed datums."""
    world.ingest([record(0, b"\0\0\0\0\7", frame(UNKNOWN, 1)), record(1, b"b", frame(2, 2))])
    done = pull(world)
    assert (done.pulled, done.unknown, done.is_whole) == ((2,), (UNKNOWN,), False)


def test_what_is_kept_is_read_before_any_registry(world: World) -> None:
    ingest(world, 1, 2)
    pull(world)
    with open_world(world.folder, world.clock) as bare:
        assert pull(bare).schemas == 2
        ingest(bare, 4, first=2)
        with pytest.raises(ConfigurationError, match="No schema registry is set"):
            pull(bare)
    assert read_without_registry(world.folder)[:2] == [0, 1]


def test_kept_schemas_come_back_with_a_deleted_topic_and_stay_through_sweeps(world: World) -> None:
    ingest(world, 1)
    pull(world)
    delete_topic(world.installation, TOPIC)
    restore_topic(world.installation, TOPIC)
    world.clock.now_ms += 400 * 86_400_000
    sweep_topics(world.installation, [TOPIC])
    assert read_without_registry(world.folder) == [0]


def test_kept_schemas_go_with_a_topic_that_goes_for_good(world: World) -> None:
    ingest(world, 1)
    pull(world)
    home = world.folder / "home"
    assert len(list(home.rglob("schemas/*.json"))) == 2
    delete_topic(world.installation, TOPIC)
    world.clock.now_ms += 400 * 86_400_000
    for _ in range(3):
        sweep_topics(world.installation, [])
        world.clock.now_ms += 400 * 86_400_000
    assert list(home.rglob("schemas/*.json")) == []


def test_kept_schemas_are_in_backups(world: World) -> None:
    ingest(world, 1)
    pull(world)
    create_backup(world.installation, str(world.folder / "backup"))
    (world.folder / "home").rename(world.folder / "aside")
    with open_world(world.folder, world.clock) as restored:
        restore_backup(restored.installation, str(world.folder / "backup"))
        assert [list(kept.schemas) for kept in read_kept_schemas(restored.head().state)] == [[1]]
    assert read_without_registry(world.folder) == [0]


def test_a_state_that_is_rebuilt_finds_the_kept_schemas_again(world: World) -> None:
    ingest(world, 1)
    pull(world)
    for folder in list((world.folder / "home").rglob("_winnow/state")):
        shutil.rmtree(folder)
    with pytest.raises(DamagedMetadataError):
        world.head()
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    assert read_without_registry(world.folder) == [0]


def test_a_document_that_is_damaged_is_read_from_its_copy(world: World) -> None:
    ingest(world, 1)
    pull(world)
    (reference,) = world.head().state.schemas
    Path(reference.path.removeprefix("file://")).write_bytes(b"damaged")
    assert read_without_registry(world.folder) == [0]


@st.composite
def draw_documents(draw: st.DrawFn) -> dict[SchemaId, SchemaDocument]:
    """Documents that refer to each other in any way without a circle."""
    made: list[SchemaDocument] = []
    for _ in range(draw(st.integers(1, 6))):
        names = draw(st.lists(st.sampled_from("abc"), max_size=2)) if made else []
        references = tuple(SchemaReference(name, draw(st.sampled_from(made))) for name in names)
        made.append(SchemaDocument("AVRO", draw(st.sampled_from(("1", "2", "3"))), references))
    return draw(st.dictionaries(st.one_of(st.integers(0, 2**32 - 1), st.uuids()), st.sampled_from(made)))


@given(draw_documents())
def test_documents_are_the_same_after_they_were_kept(documents: dict[SchemaId, SchemaDocument]) -> None:
    schemas, guids, texts = pack_documents(documents)
    assert unpack_documents([KeptSchemas(TOPIC, "u", 0, "", schemas, texts, guids)]) == documents
    assert len(set(texts)) == len(texts)


def test_documents_that_double_with_each_reference_are_kept_once_each() -> None:
    document = SchemaDocument("AVRO", "0")
    for number in range(1, 60):
        document = SchemaDocument("AVRO", str(number), (SchemaReference("a", document), SchemaReference("b", document)))
    assert len(pack_documents({1: document})[2]) == 60
