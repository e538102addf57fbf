"""Which metadata file the catalog names for each table of a topic, at one moment; and registering tables by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from winnow.errors import RunAgainError
from winnow.log.catalog_access import ensure_namespace, translate_catalog_errors, wait_before_retry
from winnow.log.topic_log import MAXIMUM_COMMIT_TRIES

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from winnow.log.topics import TopicLogs


class TableRole(StrEnum):
    """What a table is to its topic, in the order in which a topic's tables are registered: its log makes it one."""

    LATEST = "latest"
    QUARANTINE = "quarantine"
    LOG = "log"


def find_namespace(logs: TopicLogs, role: TableRole) -> str:
    """Return the namespace in which the tables of that role are."""
    spaces = logs.namespaces
    return {
        TableRole.LATEST: spaces.latest,
        TableRole.QUARANTINE: spaces.quarantine,
        TableRole.LOG: spaces.topics,
    }[role]


@dataclass(frozen=True)
class TopicPointers:
    """The metadata files of a topic's tables, as of one moment. The log's is always there."""

    topic: str
    locations: Mapping[TableRole, str]


def read_pointers(logs: TopicLogs, topic: str | None = None) -> list[TopicPointers]:
    """Read the pointers of all topics, deleted ones too, or of one; none if it is not there.

    A SQL catalog answers with one query, which is one moment for all tables. Others are asked table by table: the rows
    of an ingest call are in the quarantine before the log names the call, and leave it after the log does not. So the
    log is asked before and after its quarantine, until both answers are the same.

    Raises:
        RunAgainError: commits to a log came so often that no two answers were the same.
        ServiceError: the catalog cannot be reached.
    """
    catalog = logs.catalog
    with translate_catalog_errors("The catalog's tables could not be listed"):
        list_at_once = getattr(catalog, "list_all_metadata_locations", None)
        if list_at_once is not None:
            spaces = {find_namespace(logs, role): role for role in TableRole}
            found: dict[tuple[str, str], str] = list_at_once(list(spaces))
            by_role = {(spaces[space], name): location for (space, name), location in found.items()}
            return [pointers for pointers in _group(by_role) if topic in {None, pointers.topic}]
        names = [topic] if topic is not None else _list_names(catalog, logs.namespaces.topics)
        asked = (_ask_in_turn(logs, name) for name in names)
        return [each for each in asked if each is not None]


def _group(found: Mapping[tuple[TableRole, str], str]) -> list[TopicPointers]:
    names = sorted(name for role, name in found if role is TableRole.LOG)
    return [
        TopicPointers(name, {role: found[role, name] for role in TableRole if (role, name) in found}) for name in names
    ]


def _ask_in_turn(logs: TopicLogs, topic: str) -> TopicPointers | None:
    def ask(role: TableRole) -> str | None:
        try:
            return str(logs.catalog.load_table((find_namespace(logs, role), topic)).metadata_location)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    for attempt in range(MAXIMUM_COMMIT_TRIES):
        locations: dict[TableRole, str | None] = {
            role: ask(role) for role in TableRole if role is not TableRole.QUARANTINE
        }
        log = locations[TableRole.LOG]
        if log is None:
            return None
        locations[TableRole.QUARANTINE] = ask(TableRole.QUARANTINE)
        if ask(TableRole.LOG) == log:
            return TopicPointers(topic, {role: place for role, place in locations.items() if place is not None})
        wait_before_retry(attempt)
    raise RunAgainError(
        f"Other commits to topic {topic} came {MAXIMUM_COMMIT_TRIES} times while its tables were looked up.",
        next="Run it again.",
    )


def list_registered(logs: TopicLogs) -> set[tuple[TableRole, str]]:
    """List every table in Winnow's namespaces, by role and name.

    Raises:
        ServiceError: the catalog cannot be reached.
    """
    with translate_catalog_errors("The catalog's tables could not be listed"):
        return {(role, name) for role in TableRole for name in _list_names(logs.catalog, find_namespace(logs, role))}


def _list_names(catalog: Catalog, namespace: str) -> list[str]:
    try:
        return sorted(str(each[-1]) for each in catalog.list_tables(namespace))
    except NoSuchNamespaceError:
        return []


def register_table(logs: TopicLogs, role: TableRole, name: str, metadata_location: str) -> None:
    """Enter a table into the catalog by its metadata file.

    Raises:
        RunAgainError: there is a table of that name now.
        ServiceError: the catalog cannot be reached.
    """
    namespace = find_namespace(logs, role)
    with translate_catalog_errors(f"The table {namespace}.{name} was not registered"):
        ensure_namespace(logs.catalog, namespace)
        try:
            logs.catalog.register_table((namespace, name), metadata_location)
        except TableAlreadyExistsError as problem:
            raise RunAgainError(
                f"The table {namespace}.{name} was not registered: another process did so at this moment.",
                left="The catalog is as that process left it.",
                next="Run it again when that process has ended.",
            ) from problem
