"""Makes rows in a task, which cannot give new columns their field ids: those that are missing are only noted."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import SecretStr

from winnow.config.setting_fields import SchemaRegistrySettings
from winnow.schemas.record_decoder import RowTypes
from winnow.schemas.row_decoders import make_record_decoder
from winnow.schemas.row_maker import RowMaker
from winnow.values.row_shape import ColumnsGrewError, TypedRows
from winnow.values.typed_columns import Side


@dataclass(frozen=True, slots=True)
class RowSecrets:
    """What tasks need and no document says. ``latest``: the key of digests; ``registry``: with its credentials."""

    latest: bytes | None
    registry: SchemaRegistrySettings

    def dump(self) -> str:
        """Encode them for a file that only its owner can read."""
        given = {name: value for name, value in self.registry if value is not None}
        secrets = {name: value.get_secret_value() for name, value in given.items() if isinstance(value, SecretStr)}
        return json.dumps(
            {
                "latest": None if self.latest is None else base64.b64encode(self.latest).decode(),
                "registry": {name: str(value) for name, value in given.items() if name not in secrets},
                "registry_secrets": secrets,
            }
        )


def load_secrets(path: str | None) -> RowSecrets:
    """Read the file ``path`` of what :meth:`RowSecrets.dump` gave; None: nothing is needed."""
    if path is None:
        return RowSecrets(None, SchemaRegistrySettings())
    given = json.loads(Path(path).read_text(encoding="utf-8"))
    fields: dict[str, Any] = {
        name: Path(text) if name.endswith("_file") else text for name, text in given["registry"].items()
    }
    fields.update({name: SecretStr(text) for name, text in given["registry_secrets"].items()})
    # They were checked where they were set, and places are absolute since.
    registry = SchemaRegistrySettings.model_construct(**fields)
    return RowSecrets(None if given["latest"] is None else base64.b64decode(given["latest"]), registry)


class TaskRows:
    """Makes rows of the columns that ``typed`` has.

    Raises:
        ConfigurationError: a schema cannot be used, or a library is missing.
    """

    def __init__(self, typed: TypedRows, secrets: RowSecrets) -> None:
        self._columns = decode_type(typed.columns)
        self._schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(typed.schema)))
        texts = {Side.KEY: typed.key_schema, Side.VALUE: typed.value_schema}
        self._decoder = make_record_decoder(
            typed.shape,
            decode_type(typed.known),
            fields=decode_type(typed.fields),
            texts={side: text for side, text in texts.items() if text is not None},
            kept=typed.kept,
            registry=secrets.registry,
            secret=secrets.latest,
        )
        self._maker = RowMaker(self._decoder, self._columns, self._require_same)
        self._types: dict[str, None] = {}

    @property
    def rows_not_decoded(self) -> int:
        """How many rows could not be decoded so far."""
        return self._maker.rows_not_decoded

    @property
    def drops_rows(self) -> bool:
        """Whether a record can be no row."""
        return self._maker.drops_rows

    def get_schema(self) -> pa.Schema:
        """Return the schema of rows."""
        return self._schema

    def convert(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make the rows of ``records``, as :meth:`winnow.schemas.row_maker.RowMaker.convert`.

        Raises:
            ColumnsGrewError: they need other columns.
        """
        fields = self._maker.fields
        rows = self._maker.convert(records)
        if self._maker.fields is not fields and not self._maker.fields.equals(fields, check_metadata=True):
            raise ColumnsGrewError
        return rows

    def learn(self, records: pa.RecordBatch) -> None:
        """Note what types the rows of ``records`` have."""
        for side, row_type in self._decoder.read_types(records):
            self._types[encode_types(((side, row_type),))[0]] = None

    def list_types(self) -> tuple[str, ...]:
        """List the noted types, encoded, each once and in the order in which they came."""
        return tuple(self._types)

    def _require_same(self, columns: pa.StructType) -> pa.Schema:
        if not columns.equals(self._columns, check_metadata=True):
            raise ColumnsGrewError
        return self._schema


def encode_type(row_type: pa.StructType) -> str:
    """Encode a row type, with what is noted of its fields."""
    return encode_schema(pa.schema(list(row_type)))


def decode_type(text: str) -> pa.StructType:
    """Decode a row type."""
    return pa.struct(list(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))))


def encode_schema(schema: pa.Schema) -> str:
    """Encode a schema, with its metadata."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def encode_types(types: RowTypes) -> tuple[str, ...]:
    """Encode types of rows, each with the datum that it is of."""
    return tuple(f"{side.value}:{encode_type(row_type)}" for side, row_type in types)


def decode_types(texts: Iterable[str]) -> RowTypes:
    """Decode types of rows."""
    parts = (text.partition(":") for text in texts)
    return tuple((Side(side), decode_type(text)) for side, _, text in parts)
