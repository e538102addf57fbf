"""Datums that Confluent's own serializers write with a real registry, and registries that fail."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.integration.test_typed_table import create, read_table
from tests.kafka.certificates import Authority
from tests.support.schema_registry import serve_answers, serve_apicurio
from tests.support.world import TOPIC, FakeClock, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.config.setting_fields import SchemaRegistrySettings
from winnow.errors import ConfigurationError, ServiceError
from winnow.files.segments import HEADERS_TYPE
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.read.schema_pull import pull_schemas
from winnow.schemas.decoder import DecodedBatch
from winnow.schemas.documents import UnusableSchemaError
from winnow.schemas.formats import make_decoder
from winnow.schemas.framing import FramedDecoder
from winnow.schemas.header_ids import find_header_ids
from winnow.schemas.registry import SchemaRegistry
from winnow.schemas.schema_cache import MAXIMUM_MISSING_IDS, KeptDocuments, SchemaCache
from winnow.values.formats import Format
from winnow.values.typed_columns import Side

VALUE = SerializationContext("orders", MessageField.VALUE)
ADDRESS = {"type": "record", "name": "n.Address", "fields": [{"name": "city", "type": "string"}]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_apicurio(tmp_path_factory.mktemp("registry")) as url:
        yield url


@pytest.fixture
def client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


def open_registry(url: str, **settings: Any) -> SchemaRegistry:
    timeout_s = settings.pop("timeout_s", 10)
    return SchemaRegistry(SchemaRegistrySettings(url=url, **settings), timeout_s=timeout_s)


def decode(kind: Format, url: str, *datums: bytes | None) -> DecodedBatch:
    decoder = make_decoder(kind, source=SchemaCache([open_registry(url)]))
    array = pa.array(datums, pa.binary())
    return decoder.decode(array)


def list_rows(batch: DecodedBatch) -> dict[int, Any]:
    return {
        position: row
        for group in batch.groups
        for position, row in zip(group.positions.to_pylist(), group.rows.to_pylist(), strict=True)
    }


def make_order_schema(*more: dict[str, Any]) -> str:
    fields = [{"name": "id", "type": "long"}, {"name": "to", "type": "n.Address"}, *more]
    return json.dumps({"type": "record", "name": "n.Order", "fields": fields})


def test_avro_with_references_and_two_versions_is_read(url: str, client: SchemaRegistryClient) -> None:
    """Each version of a schema has rows of its own type; what a schema refers to is fetched with it."""
    client.register_schema("address", Schema(json.dumps(ADDRESS), "AVRO"))
    references = [SchemaReference("n.Address", "address", 1)]
    later = make_order_schema({"name": "note", "type": ["null", "string"], "default": None})
    first, second = (AvroSerializer(client, Schema(text, "AVRO", references)) for text in (make_order_schema(), later))
    order = {"id": 1, "to": {"city": "Paris"}}
    datums = [first(order, VALUE), second(order | {"note": "now"}, VALUE), first(order, VALUE), b"", b"\x00\x00"]
    batch = decode(Format.AVRO, url, *datums)
    assert list_rows(batch) == {0: order, 1: order | {"note": "now"}, 2: order}
    assert [group.positions.to_pylist() for group in batch.groups] == [[0, 2], [1]]
    assert set(batch.errors) == {3, 4}
    assert "does not begin with the id of a schema" in batch.errors[3]


def test_json_with_a_schema_is_read(url: str, client: SchemaRegistryClient) -> None:
    """The framed text of JSON."""
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string"}}}
    serialize = JSONSerializer(json.dumps(schema), client)
    context = SerializationContext("carts", MessageField.VALUE)
    datum = serialize({"id": 1, "at": "now"}, context)
    assert list_rows(decode(Format.JSON_SCHEMA, url, datum)) == {0: {"id": 1, "at": "now"}}
    errors = decode(Format.AVRO, url, datum).errors
    assert "cannot be used: it is of the kind JSON, not AVRO" in errors[0]


def test_protobuf_is_read_by_the_path_to_its_message(url: str, client: SchemaRegistryClient) -> None:
    """The first message of a document, a later one, and one inside of that."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name in ("Cart", "Order"):
        message = file.message_type.add(name=name)
        message.field.add(name="id", number=1, type=3, label=1)
        message.nested_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    context = SerializationContext("shop", MessageField.VALUE)
    datums = []
    for name, values in (("Cart", {"id": 1}), ("Order", {"id": 2}), ("Order.Line", {"sku": "a"})):
        message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
        serialize = ProtobufSerializer(message_class, client, {"use.deprecated.format": False})
        datums.append(serialize(message_class(**values), context))
    batch = decode(Format.PROTOBUF, url, *datums, datums[0][:5], datums[0][:5] + b"\x02")
    assert list_rows(batch) == {0: {"id": 1}, 1: {"id": 2}, 2: {"sku": "a"}}
    assert set(batch.errors) == {3, 4}


def test_schema_of_a_deleted_subject_is_still_read(url: str, client: SchemaRegistryClient) -> None:
    """A registry keeps what was deleted softly, for the datums that name it; one that it lost is an error of datums."""
    schema_id = client.register_schema("gone", Schema('"double"', "AVRO"))
    client.delete_subject("gone")
    datum = b"\0" + schema_id.to_bytes(4) + b"\0" * 8
    batch = decode(Format.AVRO, url, datum, b"\0\0\1\0\0abc")
    host = url.split("/")[2]
    assert batch.errors[1] == f"Schema 65536 is not in the schema registry {host}."
    assert (
        list_rows(batch) == {0: {"": 0.0}}
        or batch.errors[0] == f"Schema {schema_id} is not in the schema registry {host}."
    )


def test_ids_in_headers_are_read_and_a_guid_that_a_registry_cannot_answer_is_an_error(
    url: str, client: SchemaRegistryClient
) -> None:
    """What Confluent's serializer writes where it leaves the bytes bare; Apicurio finds no schema by its GUID."""

    def write_header(payload: bytes, context: SerializationContext | None, schema_id: Any) -> bytes:
        assert context is not None
        assert isinstance(context.headers, list)
        context.headers.append(("__value_schema_id", schema_id.id_to_bytes()))
        return payload

    text = '{"type": "record", "name": "n.Visit", "fields": [{"name": "id", "type": "long"}]}'
    serialize = AvroSerializer(client, Schema(text, "AVRO"), conf={"schema.id.serializer": write_header})
    context = SerializationContext("visits", MessageField.VALUE, [])
    bare = serialize({"id": 5}, context)
    assert bare == b"\n"
    assert isinstance(context.headers, list)
    (header,) = context.headers
    framed = AvroSerializer(client, Schema(text, "AVRO"))({"id": 6}, SerializationContext("visits", MessageField.VALUE))
    decoder = make_decoder(Format.AVRO, source=SchemaCache([open_registry(url)]))
    assert isinstance(decoder, FramedDecoder)
    headers = pa.array([header[1], None, b"\1" + b"g" * 16], pa.binary())
    batch = decoder.decode(pa.array([bare, framed, bare], pa.binary()), headers)
    assert list_rows(batch) == {0: {"id": 5}, 1: {"id": 6}}
    assert batch.errors == {2: f"The schema of a GUID is not in the schema registry {url.split('/')[2]}."}


def test_apicurio_answers_content_ids_as_its_own_serializers_write_them(url: str, client: SchemaRegistryClient) -> None:
    """Two artifacts of one content have two global ids, which its API for Confluent's clients does not know."""
    text = '{"type": "record", "name": "n.Parcel", "fields": [{"name": "id", "type": "long"}]}'
    subjects = ("parcels", "parcels-again")
    (content_id,) = {client.register_schema(subject, Schema(text, "AVRO")) for subject in subjects}
    native = f"{url.partition('/apis/')[0]}/apis/registry/v3/groups/default/artifacts"
    versions = [httpx.get(f"{native}/{subject}/versions/1").json() for subject in subjects]
    assert [version["contentId"] for version in versions] == [content_id] * 2
    (global_id,) = {version["globalId"] for version in versions} - {content_id}
    named = [[("apicurio.value.contentId", content_id)], [("apicurio.value.globalId", global_id)]]
    pairs = [[{"key": name, "value": number.to_bytes(8)} for name, number in row] for row in named]
    headers = find_header_ids(pa.array(pairs, HEADERS_TYPE), Side.VALUE)
    decoder = make_decoder(Format.AVRO, source=SchemaCache([open_registry(url)]))
    assert isinstance(decoder, FramedDecoder)
    batch = decoder.decode(pa.array([b"\n", b"\n"], pa.binary()), headers)
    assert list_rows(batch) == {0: {"id": 5}}
    assert list(batch.errors) == [1]


def test_a_schema_is_asked_for_by_its_guid(tmp_path: Path) -> None:
    """A table whose records name a schema so is built, and one that nobody knows is an error of its row."""
    guid = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
    schema = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}

    def answer(path: str) -> tuple[int, bytes]:
        known = path == f"/schemas/guids/{guid}"
        return (200, json.dumps({"schema": json.dumps(schema), "guid": str(guid)}).encode()) if known else (404, b"no")

    with serve_answers(answer) as (url, paths):
        here = {"WINNOW_SCHEMA_REGISTRY__URL": url}
        with open_world(tmp_path, FakeClock(read_wall_clock_ms()), here) as world:
            create(world, winnow_value_format="avro")
            named = (guid, guid, UUID(int=1))
            world.ingest(
                [
                    record(n, b"%d" % n, b"\2", headers=(("__value_schema_id", b"\1" + name.bytes),))
                    for n, name in enumerate(named)
                ]
            )
            update_latest_table(world.installation, TOPIC)
            rows = [(row["x"], row["__error"] is None) for row in read_table(world)]
    assert rows == [(1, True), (1, True), (None, False)]
    assert sorted(paths) == sorted(f"/schemas/guids/{name}" for name in set(named))


def test_subjects_of_a_schema_are_named(url: str, client: SchemaRegistryClient) -> None:
    """For people who ask what an id is."""
    schema_id = client.register_schema("named-value", Schema('{"type": "map", "values": "int"}', "AVRO"))
    assert open_registry(url).list_subjects(schema_id) == ["named-value 1"]


def answer_with(status: int, body: bytes) -> Callable[[str], tuple[int, bytes]]:
    return lambda _path: (status, body)


def fail(url: str, **settings: Any) -> str:
    registry = open_registry(url, **settings)
    with pytest.raises(ServiceError) as failure:
        registry.find_document(7)
    registry.close()
    assert url.split("/")[2] in failure.value.what
    assert "schema 7" in failure.value.what
    assert failure.value.next
    assert "secret" not in str(failure.value)
    return failure.value.what


def test_registry_that_is_down_slow_or_refuses_is_an_error_of_a_service() -> None:
    """It names the registry, what was asked and what to do, and no secret."""
    assert "cannot be reached" in fail("http://127.0.0.1:1", user="me", password="secret")
    with serve_answers(answer_with(200, b"{}"), delay_s=3) as (url, _):
        assert "did not answer within 0.2 s" in fail(url, timeout_s=0.2)
    with serve_answers(answer_with(200, b'{"schema": "\\"int\\""}'), token="Bearer right") as (url, _):
        assert "refuses access with status 401" in fail(url, token="secret")
        assert open_registry(url, token="right").find_document(7) is not None
    for status, body in ((302, b""), (500, b"secret"), (404, b"<html>"), (404, b'{"error_code": 1}')):
        with serve_answers(answer_with(status, body)) as (url, _):
            assert f"answered with status {status}" in fail(url, user="me", password="secret")
    for body in (b"<html>secret", b"[]", b'{"schema": 5}', b"[" * 100_000):
        with serve_answers(answer_with(200, body)) as (url, _):
            assert "is not one of a schema registry" in fail(url)


def test_user_and_password_are_sent() -> None:
    """By HTTP's basic scheme."""
    with serve_answers(answer_with(200, b'{"schema": "\\"int\\""}'), token="Basic bWU6c2VjcmV0") as (url, _):
        assert open_registry(url, user="me", password="secret").find_document(7) is not None


def test_certificates_of_both_sides_are_checked(tmp_path: Path) -> None:
    """A registry whose certificate is not of the named authority, and a client without one, get nowhere."""
    authority, other = Authority("authority"), Authority("other")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.sign("registry", "127.0.0.1").write_store(tmp_path / "registry.pem"))
    tls.load_verify_locations(authority.write(tmp_path / "ca.pem"))
    tls.verify_mode = ssl.CERT_REQUIRED
    client = str(authority.sign("client").write_store(tmp_path / "client.pem"))
    with serve_answers(answer_with(200, b'{"schema": "\\"int\\""}'), tls=tls) as (url, _):
        ca_file = str(tmp_path / "ca.pem")
        assert open_registry(url, ca_file=ca_file, certificate_file=client).find_document(7) is not None
        assert "certificates" in fail(url, ca_file=ca_file)
        assert "certificates" in fail(url, ca_file=str(other.write(tmp_path / "other.pem")), certificate_file=client)
        assert "certificates" in fail(url, certificate_file=client)


def test_hostile_answers_are_errors_of_the_datums() -> None:
    """A document without end, one that refers to itself, to what is not there, or to ever more."""
    circle = json.dumps({"schema": "{}", "references": [{"name": "a", "subject": "s/1", "version": 1}]}).encode()
    with serve_answers(answer_with(200, circle)) as (url, paths):
        with pytest.raises(UnusableSchemaError, match="refers to itself"):
            open_registry(url).find_document(7)
        assert paths == ["/schemas/ids/7", "/subjects/s%2F1/versions/1?deleted=true"]
    with serve_answers(answer_with(200, b'{"schema": "' + b" " * (20 << 20) + b'"}')) as (url, _):
        batch = decode(Format.AVRO, url, b"\0\0\0\0\7abc")
        assert batch.errors[0].endswith("cannot be used: it is larger than 4,194,304 bytes.")
    with (
        serve_answers(lambda path: (200, circle) if "ids" in path else (404, b'{"error_code":40401}')) as (url, _),
        pytest.raises(UnusableSchemaError, match="refers to a schema that is not there"),
    ):
        open_registry(url).find_document(7)

    def refer_on(path: str) -> tuple[int, bytes]:
        subject = f"{path.split('/')[2]}x"
        return 200, json.dumps(
            {"schema": "{}", "references": [{"name": "a", "subject": subject, "version": 1}]}
        ).encode()

    with serve_answers(refer_on) as (url, paths):
        with pytest.raises(UnusableSchemaError, match="refers to more than"):
            open_registry(url).find_document(7)
        assert len(paths) < 100


def test_answer_without_end_is_not_read_to_its_end() -> None:
    """What is no schema at all is given up before it is whole."""
    with (
        serve_answers(answer_with(200, b" " * (30 << 20))) as (url, _),
        pytest.raises(UnusableSchemaError, match="is larger than"),
    ):
        open_registry(url).find_document(7)


def test_no_id_is_asked_for_twice_and_bytes_that_are_no_datums_not_without_end() -> None:
    """Datums that are not framed at all look like ever new ids."""
    with serve_answers(answer_with(404, b'{"error_code": 40403}')) as (url, paths):
        cache = SchemaCache([KeptDocuments("the kept schemas", {}), open_registry(url)])
        decoder = make_decoder(Format.AVRO, source=cache)
        datums = pa.array([b"\0" + number.to_bytes(4) for number in range(3_000)] * 2, pa.binary())
        batch = decoder.decode(datums)
        assert len(batch.errors) == 6_000
        assert len(paths) == len(set(paths)) == MAXIMUM_MISSING_IDS
        assert make_decoder(Format.AVRO, source=cache).decode(datums).errors == batch.errors
        assert len(paths) == MAXIMUM_MISSING_IDS
        few = SchemaCache([open_registry(url)])
        for _ in range(2):
            assert few.find_document(5_000) is None
        assert paths.count("/schemas/ids/5000") == 1


def test_a_topic_whose_schemas_were_pulled_needs_its_registry_no_more(tmp_path: Path) -> None:
    """Both versions of the values' schema and what they refer to; the table is built when there is no registry."""
    order = {"id": 1, "to": {"city": "Paris"}}
    with serve_apicurio(tmp_path) as url:
        client = SchemaRegistryClient({"url": url})
        client.register_schema("address", Schema(json.dumps(ADDRESS), "AVRO"))
        references = [SchemaReference("n.Address", "address", 1)]
        later = make_order_schema({"name": "note", "type": ["null", "string"], "default": None})
        first, second = (
            AvroSerializer(client, Schema(text, "AVRO", references)) for text in (make_order_schema(), later)
        )
        here = {"WINNOW_SCHEMA_REGISTRY__URL": url}
        with open_world(tmp_path, FakeClock(read_wall_clock_ms()), here) as world:
            world.create(1, winnow_latest_table="true", winnow_key_format="string", winnow_value_format="avro")
            values = [first(order, VALUE), second(order | {"note": "now"}, VALUE)]
            world.ingest([record(0, b"a", values[0]), record(1, b"b", values[1])])
            assert len(pull_schemas(world.installation, TOPIC).pulled) == 2
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as world:
        update_latest_table(world.installation, TOPIC)
        assert [(row["id"], row["to"], row["note"]) for row in read_table(world)] == [
            (1, {"city": "Paris"}, None),
            (1, {"city": "Paris"}, "now"),
        ]


def test_certificates_that_cannot_be_read_are_errors_of_the_configuration(tmp_path: Path) -> None:
    """They name the settings."""
    nothing = tmp_path / "nothing.pem"
    for name in ("ca_file", "certificate_file"):
        with pytest.raises(ConfigurationError, match=r"schema_registry\.ca_file"):
            open_registry("https://localhost", **{name: str(nothing)})
    with pytest.raises(ConfigurationError, match="No schema registry is set"):
        SchemaRegistry(SchemaRegistrySettings())
    with pytest.raises(ValueError, match="neither a user nor"):
        SchemaRegistrySettings(url="https://me:secret@localhost")


def test_the_typed_table_follows_versions_and_waits_for_a_registry_that_is_down(
    url: str, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    """A version with a new field is a new column; while nobody knows the schema, the table is as before."""
    later = {"name": "note", "type": ["null", "string"], "default": None}
    first, second = (
        AvroSerializer(client, Schema(json.dumps({"type": "record", "name": "Cart", "fields": fields}), "AVRO"))
        for fields in ([{"name": "id", "type": "int"}], [{"name": "id", "type": "long"}, later])
    )
    context = SerializationContext("typed", MessageField.VALUE)
    here = {"WINNOW_SCHEMA_REGISTRY__URL": url}
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), here) as world:
        world.create(1, winnow_latest_table="true", winnow_key_format="string", winnow_value_format="avro")
        world.ingest([record(0, b"a", first({"id": 1}, context))])
        update_latest_table(world.installation, TOPIC)
        world.ingest([record(1, b"b", second({"id": 2**40, "note": "large"}, context))])
    nowhere = {"WINNOW_SCHEMA_REGISTRY__URL": "http://127.0.0.1:9"}
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), nowhere) as world:
        with pytest.raises(ServiceError, match=r"127\.0\.0\.1:9"):
            update_latest_table(world.installation, TOPIC)
        assert [row["id"] for row in read_table(world)] == [1]
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), here) as world:
        assert update_latest_table(world.installation, TOPIC).columns_added == ("note",)
        assert [(row["id"], row["note"], row["key"]) for row in read_table(world)] == [
            (1, None, "a"),
            (2**40, "large", "b"),
        ]
