"""Finds metadata in a table's folder that prove commits after the head that the catalog names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyiceberg.table.metadata import TableMetadataV1

from winnow.files import storage
from winnow.log.catalog_access import translate_catalog_errors
from winnow.log.head import Head
from winnow.log.table import FENCE_PROPERTY
from winnow.log.warehouse_survey import FoundMetadata, survey_table

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_NUMBER: Final = re.compile(r"v?(\d{1,15})[-.][^/]*metadata\.json(?:\.gz)?$")

MAXIMUM_DEAD_COMMITS: Final = 1
"""How far above the head's a metadata file's number may be without proof that the file was ever a head.

A commit that dies before the catalog took it leaves a file with the next number. The one after that can only be written
over a commit that the catalog took.
"""


def parse_metadata_number(location: str) -> int | None:
    """Return the number in the name of a metadata file; None: it has none."""
    found = _NUMBER.fullmatch(storage.get_name(location))
    return None if found is None else int(found[1])


def read_sequence_number(metadata: TableMetadata) -> int:
    """Return the sequence number that the table gave out last; 0: none."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def read_fence(metadata: TableMetadata) -> int:
    """Return the topic's fence as far as the table's properties tell."""
    text = metadata.properties.get(FENCE_PROPERTY, "0")
    return int(text) if text.isdecimal() else 0


def find_newer_metadata(head: Head) -> FoundMetadata | None:
    """Find the newest metadata file of the table of ``head`` that the catalog has had after it.

    The folder is listed. Files are read only where a number in their names is too high for a commit that died.

    Raises:
        ServiceError: the folder cannot be listed.
    """
    number = parse_metadata_number(head.table.metadata_location)
    if number is None or not is_folder_newer(head.table.metadata_location):
        return None
    survey = survey_table(
        head.table.io, head.location, table_uuid=head.table_uuid, known=[head.table.metadata_location]
    )
    mine = (read_sequence_number(head.table.metadata), number)
    later = [each for each in survey.landed if each.rank[:2] > mine]
    return later[-1] if later else None


def is_folder_newer(metadata_location: str) -> bool:
    """Check whether the folder of a metadata file has one with a number that no commit over it can have that died.

    Raises:
        ServiceError: the folder cannot be listed.
    """
    number, folder = parse_metadata_number(metadata_location), metadata_location.rpartition("/")[0]
    if number is None:
        return False
    with translate_catalog_errors(f"The metadata files in {folder} could not be listed"):
        entries = storage.list_files(folder)
    return any((parse_metadata_number(entry.uri) or 0) > number + MAXIMUM_DEAD_COMMITS for entry in entries)
