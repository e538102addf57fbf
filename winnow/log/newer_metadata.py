"""Finds metadata files in a table's folder that prove commits after the head that the catalog names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadataV1

from winnow.errors import DamagedMetadataError, WinnowError
from winnow.files import storage
from winnow.log.catalog_access import translate_catalog_errors
from winnow.log.file_checksums import ChecksumNames
from winnow.log.head import Head
from winnow.log.table import FENCE_PROPERTY

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

_NUMBER: Final = re.compile(r"(\d+)-[^/]*\.metadata\.json$")

MAXIMUM_DEAD_COMMITS: Final = 1
"""How far above the head's a metadata file's number may be without proof that the file was ever a head.

A commit that dies before the catalog took it leaves a file with the next number. The one after that can only be written
over a commit that the catalog took.
"""


@dataclass(frozen=True, slots=True)
class NewerMetadata:
    """A metadata file of the table that was written over a later commit than the head. ``metadata``: its contents."""

    location: str
    number: int
    metadata: TableMetadata


def parse_metadata_number(location: str) -> int | None:
    """Return the number in the name of a metadata file; None: it has none, as in some catalogs."""
    found = _NUMBER.search(location)
    return None if found is None else int(found[1])


def read_sequence_number(metadata: TableMetadata) -> int:
    """Return the sequence number that the table gave out last; 0: none."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def read_fence(metadata: TableMetadata) -> int:
    """Return the topic's fence as far as the table's properties tell."""
    text = metadata.properties.get(FENCE_PROPERTY, "0")
    return int(text) if text.isdecimal() else 0


def list_metadata_files(table_location: str) -> dict[str, int]:
    """List the metadata files in a table's folder that have a number in their names, with that number.

    Raises:
        ServiceError: the folder cannot be listed.
    """
    with translate_catalog_errors(f"The metadata files in {table_location} could not be listed"):
        entries = storage.list_files(storage.join(table_location, "metadata"))
    numbered = ((entry.uri, parse_metadata_number(entry.uri)) for entry in entries)
    return {uri: number for uri, number in numbered if number is not None}


def find_newer_metadata(head: Head) -> NewerMetadata | None:
    """Find the newest metadata file that was written over a later commit than ``head`` to the same table.

    Files of another table that had the folder before, and those that cannot be read, prove nothing.

    Raises:
        ServiceError: the folder cannot be listed.
    """
    number = parse_metadata_number(head.table.metadata_location)
    if number is None:
        return None
    files = list_metadata_files(head.location)
    later = [uri for uri, found in files.items() if found > number + MAXIMUM_DEAD_COMMITS]
    for uri in sorted(later, key=lambda each: (files[each], each), reverse=True):
        metadata = read_metadata(head.table.io, uri)
        if metadata is not None and str(metadata.table_uuid) == head.table_uuid:
            return NewerMetadata(uri, files[uri], metadata)
    return None


def read_metadata(io: FileIO, location: str) -> TableMetadata | None:
    """Read a metadata file; None: it is gone, damaged, or not one.

    Raises:
        ServiceError: the warehouse cannot be reached.
    """
    with translate_catalog_errors(f"The metadata file {location} could not be read"):
        try:
            return FromInputFile.table_metadata(ChecksumNames(io).new_input(location))
        except (FileNotFoundError, DamagedMetadataError):
            return None
        except (OSError, WinnowError):
            raise
        except Exception:  # PyIceberg's exception depends on where decoding fails
            return None
