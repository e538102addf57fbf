"""Enters topics into a catalog that has lost them, from the folders of their tables.

As a recovery (:mod:`winnow.pipeline.topics.recovery`), into a catalog that has no topic of that name and no table
in that folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from winnow.config.names import validate_topic_name
from winnow.errors import UsageError, WinnowError
from winnow.files import storage
from winnow.log.places import is_below, is_same_place, normalize_place
from winnow.log.restore_notes import require_no_restore
from winnow.log.table import TOPIC_PROPERTY
from winnow.log.table_recovery import CatalogEntry
from winnow.log.warehouse_survey import FoundMetadata, survey_table
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.older_worlds import UNCHANGED, OlderWorld
from winnow.pipeline.topics.recovery import run_recovery
from winnow.pipeline.topics.recovery_report import RecoveryReport, describe_recovery
from winnow.pipeline.topics.recovery_survey import TopicRecovery, look_at_table
from winnow.store.audit import AuditAction

_UUID_CHARACTERS = 36


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A folder of the warehouse that holds a table no topic of the catalog has.

    ``topic`` None: it cannot be told. ``commits``: the highest sequence number there.
    """

    location: str
    topic: str | None
    commits: int


def adopt_topic(
    installation: Installation,
    topic: str,
    location: str,
    *,
    metadata: str | None = None,
    rebuild: bool = False,
    run: bool = False,
    older: OlderWorld = UNCHANGED,
) -> RecoveryReport:
    """Enter the table at ``location`` into the catalog as ``topic``, above everything that is known of it.

    Repeating it changes nothing. ``metadata``: the metadata file to take; None: the newest that is proven. ``rebuild``:
    if the state is gone, rebuild it. ``run`` False: only look. ``older``: what the commit does again.

    Raises:
        UsageError: the folder is not the topic's, the catalog has such a topic or a table there, or nothing could be
            chosen.
        DamagedMetadataError: the chosen metadata are not complete.
        RunAgainError: a restore of a backup has begun and not ended: the folder may be one of its own.
        CommitConflictError, CommitUnknownError, ServiceError, TopicBusyError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    validate_topic_name(topic)
    place = _find_place(installation, location)
    if not run:
        return describe_recovery(_look_at_folder(installation, topic, place, metadata, rebuild=rebuild))
    with hold_lease(installation, topic):
        return run_recovery(
            _look_at_folder(installation, topic, place, metadata, rebuild=rebuild), AuditAction.ADOPT, older
        )


def list_lost_folders(installation: Installation) -> list[FoundFolder]:
    """List the folders among those of the topics' tables that hold a table which the catalog does not name.

    Raises:
        ServiceError: the catalog or the object store cannot be reached.
    """
    folders = storage.list_folders(storage.join(installation.settings.warehouse, installation.log.identify("")[0]))
    named = {normalize_place(_get_folder(each)) for each in installation.log.list_metadata_locations().values()}
    lost = (each for each in folders if normalize_place(each) not in named and _holds_table(each))
    return [_describe_folder(installation, each) for each in lost]


def _holds_table(location: str) -> bool:
    return any(each.uri.endswith(".metadata.json") for each in storage.list_files(storage.join(location, "metadata")))


def _describe_folder(installation: Installation, location: str) -> FoundFolder:
    """Find the topic whose table lies at ``location``: the one that all of its states and properties name."""
    survey = survey_table(installation.log.open_files(location), location)
    named = {state.topic for state in survey.states.values()} or {_name_topic(each) for each in survey.candidates}
    return FoundFolder(location, named.pop() if len(named) == 1 else None, survey.highest_sequence_number)


def _name_topic(found: FoundMetadata) -> str:
    """Return the topic of a table to which nothing was committed."""
    assert found.metadata is not None
    folder = storage.get_name(found.metadata.location.rstrip("/"))
    return found.metadata.properties.get(TOPIC_PROPERTY) or _strip_uuid(folder, {found.table_uuid})


def _strip_uuid(folder: str, uuids: set[str | None]) -> str:
    name, uuid = folder[: -_UUID_CHARACTERS - 1], folder[-_UUID_CHARACTERS:]
    return name if uuid in uuids and folder[-_UUID_CHARACTERS - 1 :].startswith("-") else folder


def _find_place(installation: Installation, location: str) -> str:
    """Return the folder at ``location`` as the warehouse writes it.

    Raises:
        UsageError: it is not below the warehouse, or behind a link.
    """
    if storage.is_local(location) and not location.startswith("file:"):
        location = str(Path(location).absolute())
    place, warehouse = normalize_place(location).rstrip("/"), normalize_place(installation.settings.warehouse)
    if not is_below(place, warehouse):
        raise UsageError(
            f"The folder {location} is not below the warehouse {installation.settings.warehouse}.",
            left="Nothing was changed.",
            next="Set WINNOW_WAREHOUSE to the folder in which the topics' tables lie.",
        )
    if storage.is_local(place) and os.path.realpath(place) != os.path.realpath(warehouse) + place.removeprefix(
        warehouse
    ):
        raise UsageError(
            f"The folder {location} is behind a link; no table is taken from there.",
            left="Nothing was changed.",
        )
    return storage.join(installation.settings.warehouse, place.removeprefix(warehouse))


def _look_at_folder(
    installation: Installation, topic: str, location: str, metadata: str | None, *, rebuild: bool
) -> TopicRecovery:
    entry = installation.log.find_entry(topic)
    if entry.metadata_location is not None:
        return _look_at_adopted(installation, topic, location, entry, metadata)
    require_no_restore(installation.log.restore_note)
    _require_unnamed_folder(installation, topic, location)
    found = look_at_table(installation, topic, location, CatalogEntry(None, None), metadata=metadata, rebuild=rebuild)
    _require_same_topic(found)
    return found


def _look_at_adopted(
    installation: Installation, topic: str, location: str, entry: CatalogEntry, metadata: str | None
) -> TopicRecovery:
    """Look at a topic that the catalog has: it was adopted from exactly there, or this is another one.

    Raises:
        UsageError: it is another one, or needs a recovery.
    """
    if entry.location is None or not is_same_place(entry.location, location):
        raise UsageError(
            f"The catalog has a topic {topic} already, at {entry.location}.",
            left="Nothing was changed.",
        )
    found = look_at_table(installation, topic, location, entry, metadata=metadata)
    if not found.is_done:
        raise UsageError(
            f"The catalog has topic {topic} at this folder, with older metadata.",
            left="Nothing was changed.",
            next=f"See what is newer: winnow topics recover {topic}",
        )
    return found


def _require_unnamed_folder(installation: Installation, topic: str, location: str) -> None:
    for name, metadata in installation.log.list_metadata_locations().items():
        if is_same_place(_get_folder(metadata), location):
            raise UsageError(
                f"The catalog has the table at {location} already, as topic {name}. Topic {topic} was not adopted.",
                left="Nothing was changed.",
            )


def _get_folder(metadata_location: str) -> str:
    return metadata_location.rpartition("/metadata/")[0]


def _require_same_topic(found: TopicRecovery) -> None:
    """Refuse a table that is another topic's.

    Raises:
        UsageError: its state names another topic, or it has none and its folder has another name.
    """
    if found.chosen is None:
        return
    state = found.survey.states.get(found.chosen.name)
    own = _name_topic(found.chosen) if state is None else state.topic
    if own != found.topic:
        raise UsageError(
            f"The table at {found.location} is that of topic {own}, not of {found.topic}.",
            left="Nothing was changed.",
            next=f"Adopt it with: winnow topics adopt {own} {found.location}",
        )


def adopt_all(
    installation: Installation,
    *,
    run: bool = False,
    make_older: Callable[[str], OlderWorld] = lambda topic: UNCHANGED,
) -> Iterator[tuple[FoundFolder, RecoveryReport | WinnowError]]:
    """Adopt every table that lies among those of the topics and that the catalog does not name, one after another.

    What one of them lacks does not stop the others. ``make_older``: makes what the commit of a topic does again.
    """
    folders = list_lost_folders(installation)
    by_topic: dict[str | None, list[FoundFolder]] = {}
    for each in folders:
        by_topic.setdefault(each.topic, []).append(each)
    for folder in folders:
        try:
            yield folder, _adopt_only(installation, folder, by_topic[folder.topic], make_older, run=run)
        except WinnowError as problem:
            yield folder, problem


def _adopt_only(
    installation: Installation,
    folder: FoundFolder,
    alike: list[FoundFolder],
    make_older: Callable[[str], OlderWorld],
    *,
    run: bool,
) -> RecoveryReport:
    """Adopt ``folder`` if no other one is that of the same topic; one that nothing was committed to does not count.

    Raises:
        UsageError: it is not told whose it is, or which of several is the topic's.
        Also the errors of :func:`adopt_topic`.
    """
    if folder.topic is None:
        raise UsageError(
            f"The folder {folder.location} has metadata of several topics or of none.",
            left="It was left alone.",
        )
    used = [each for each in alike if each.commits > 0]
    if len(used) > 1 or (len(alike) > 1 and folder not in used):
        others = ", ".join(each.location for each in alike if each != folder)
        raise UsageError(
            f"The folder {folder.location} and {others} are of one topic, {folder.topic}; this one was left alone.",
            next=f"If it is the topic's: winnow topics adopt {folder.topic} {folder.location}",
        )
    return adopt_topic(installation, folder.topic, folder.location, run=run, older=make_older(folder.topic))
