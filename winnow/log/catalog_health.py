"""Checks the catalog: its tables, which of them are Winnow's, and access to the warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.io import load_file_io

from winnow.errors import ServiceError, WinnowError
from winnow.files import storage
from winnow.files.storage_health import make_file_name
from winnow.log.catalog_access import translate_catalog_errors
from winnow.log.topics import TopicLogs

MAXIMUM_HEADS = 100
"""Maximum topics whose newest snapshot is read; each costs a read of catalog and warehouse."""


@dataclass(frozen=True, slots=True)
class CatalogHealth:
    """``topics``: all of them. ``left_alone``: why Winnow ignores some of the first ``looked_at`` ones."""

    topics: tuple[str, ...]
    left_alone: dict[str, str]
    looked_at: int


def examine_catalog(logs: TopicLogs, *, most: int = MAXIMUM_HEADS) -> CatalogHealth:
    """List the topics and read the heads of the first ``most``.

    Raises:
        ServiceError: the catalog cannot be reached, or names tables whose files are out of reach.
    """
    topics = logs.names()
    left_alone = {}
    for topic in topics[:most]:
        try:
            log = logs.open(topic)
            log.config(log.head())
        except ServiceError:
            raise
        except WinnowError as problem:
            left_alone[topic] = str(problem)
    return CatalogHealth(tuple(topics), left_alone, min(len(topics), most))


def write_through_catalog(logs: TopicLogs, warehouse: str) -> None:
    """Write and remove a small file below ``warehouse`` as a commit would: with the catalog's own credentials.

    A REST catalog gives each table its own access, so this does nothing there.

    Raises:
        ServiceError: the file cannot be written or removed.
    """
    if "Rest" in type(logs.catalog).__name__:
        return
    place = storage.join(warehouse, make_file_name())
    with translate_catalog_errors("The catalog could not write to the warehouse"):
        try:
            io = load_file_io(logs.catalog.properties, place)
            with io.new_output(place).create() as stream:
                stream.write(b"written by winnow doctor")
            io.delete(place)
        except OSError as problem:
            raise ServiceError(
                f"The catalog's own access to {warehouse} was refused: {problem.strerror or type(problem).__name__}."
            ) from problem
