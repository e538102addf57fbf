"""Opens Avro container files by fastavro, block by block, with every way in which one can be damaged as one error.

Blocks have no checksums. A cut inside a block shows, and so does a block that holds more or fewer bytes than its
records; a cut between two blocks does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import fastavro
from fastavro.schema import SchemaParseException

from winnow.errors import WinnowError
from winnow.sources.formats.batches import group_values, number_batches
from winnow.sources.formats.compression import open_decompressed
from winnow.sources.input_errors import COPY_AGAIN_ADVICE, Place, make_file_error
from winnow.sources.objects import StoredObject

MAGIC = b"Obj\x01"

MAXIMUM_READ_BYTES = 1 << 30
"""A damaged length must not be asked for: Python would reserve the memory first."""


class AvroFile:
    """An open container file. ``schema``: that of its records, as JSON."""

    def __init__(self, obj: StoredObject, stream: BinaryIO) -> None:
        self._uri = obj.uri
        with _translate_errors(self._uri):
            self._reader: Any = fastavro.block_reader(cast(BinaryIO, _Bounded(stream)))
            self.schema: Any = json.loads(self._reader.metadata["avro.schema"])

    def read_records(self) -> Iterator[Any]:
        """Yield the records as fastavro decodes them.

        Raises:
            BadInputError: the file is damaged or cut off, or a value has no counterpart in Python.
        """
        with _translate_errors(self._uri):
            for block in self._reader:
                if block.num_records < 0:
                    raise ValueError("a negative number of records")
                yield from block
                if block.bytes_.read(1):
                    raise ValueError("more bytes than records")

    def read_groups(self, batch_bytes: int) -> Iterator[tuple[Place, list[Any]]]:
        """Yield the records in groups that fit into a batch, with their places; raises as :meth:`read_records`."""
        return number_batches(self._uri, "record", group_values(self.read_records(), batch_bytes))


@contextmanager
def open_avro(obj: StoredObject) -> Iterator[AvroFile]:
    """Open ``obj``, a container file that may be compressed as a whole too.

    Raises:
        BadInputError: it is missing, damaged or not Avro.
        ServiceError: its object store cannot be reached.
    """
    with open_decompressed(obj) as stream:
        yield AvroFile(obj, stream)


def read_avro_schema(obj: StoredObject) -> Any:
    """Return the schema of ``obj`` as JSON; raises as :func:`open_avro`."""
    with open_avro(obj) as file:
        return file.schema


class _Bounded:
    """A stream that refuses to read more at once than a block can have."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._done = 0

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAXIMUM_READ_BYTES:
            raise ValueError("a damaged length")
        data = self._stream.read(size)
        self._done += len(data)
        return data

    def tell(self) -> int:
        return self._done


@contextmanager
def _translate_errors(uri: str) -> Iterator[None]:
    """Turn whatever fastavro raises about a file into one error: it raises what it comes across, IndexError for one."""
    try:
        yield
    except (WinnowError, MemoryError):
        raise
    except SchemaParseException:
        raise make_file_error(uri, "its Avro schema is not valid", COPY_AGAIN_ADVICE) from None
    except (OverflowError, ArithmeticError):
        wrong = "it is damaged, or holds a date or a number that has no counterpart (years 1 to 9999)"
        raise make_file_error(uri, wrong, COPY_AGAIN_ADVICE) from None
    except Exception:
        raise make_file_error(uri, "it is not an Avro file, or damaged or cut off", COPY_AGAIN_ADVICE) from None
