"""Checks whether the catalog is older than the log: than what was recorded, and than what lies in the warehouse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from winnow.clock import Clock
from winnow.config.settings import Settings
from winnow.errors import OlderHeadError, WinnowError
from winnow.log.head_age import compare_table, describe_for_readers, describe_newer_metadata
from winnow.log.newer_metadata import find_newer_metadata, is_folder_newer
from winnow.log.topics import MAXIMUM_QUESTIONS, TopicLogs
from winnow.pipeline.doctor.check_runner import CheckResult, build_failure, build_ok
from winnow.pipeline.recorded_heads import RecordedHeads
from winnow.store import Store
from winnow.values.topic_state import TopicHead

MAXIMUM_SHOWN_TOPICS = 3

CHECK = "older-catalog"


def check_older_catalog(settings: Settings, now_ms: Clock) -> list[CheckResult]:
    """Compare the catalog's entry of every topic with its record in the metadata store and with its table's folder.

    A topic whose entry is the one recorded, and whose folder has no later metadata file, costs one listing.
    """
    with Store.open_to_read(settings.store_url) as store:
        logs = TopicLogs(
            settings.catalog,
            settings.warehouse,
            settings.topic_defaults,
            namespace=settings.namespace,
            vends=settings.vended_credentials,
        )
        try:
            topics = [*logs.names(), *logs.list_deleted()]
            # First, so that a commit in between does not look like an older catalog.
            recorded = _read_records(RecordedHeads(store, now_ms), topics)
            locations = logs.find_metadata_locations(topics)
        except WinnowError:
            return []  # the check of the catalog says why
    older = find_older_topics(logs, locations, recorded)
    if not older:
        return [build_ok(CHECK, f"{len(locations):,} topics are as they were committed last.")] if locations else []
    named = list(older)[:MAXIMUM_SHOWN_TOPICS]
    more = f" And {len(older) - len(named):,} more." if len(older) > len(named) else ""
    return [
        build_failure(
            CHECK,
            f"{' '.join(older[topic] for topic in named)}{more}",
            f"Put the newer catalog back; or: winnow topics recover {named[0]}",
            OlderHeadError.exit_code,
        )
    ]


def _read_records(records: RecordedHeads, topics: Sequence[str]) -> Mapping[str, Sequence[TopicHead]]:
    try:
        return records.list_lives_of(topics) if records.is_readable() else {}
    except WinnowError:
        return {}  # the check of the store says why; the folders are looked at all the same


def find_older_topics(
    logs: TopicLogs, locations: Mapping[str, str], recorded: Mapping[str, Sequence[TopicHead]]
) -> dict[str, str]:
    """Find the topics whose entries are older than recorded or than their folders; why, by topic.

    Args:
        logs: the topics.
        locations: the metadata file that the catalog names of each.
        recorded: the recorded lives of each.
    """

    def look(topic: str) -> str | None:
        lives = recorded.get(topic, ())
        return _find_age(logs, topic, locations[topic], lives)

    with ThreadPoolExecutor(MAXIMUM_QUESTIONS, thread_name_prefix="ages") as pool:
        found = zip(locations, pool.map(_guard(look), locations), strict=True)
        return {topic: said for topic, said in found if said is not None}


def _guard(look: Callable[[str], str | None]) -> Callable[[str], str | None]:
    def guarded(topic: str) -> str | None:
        try:
            return look(topic)
        except OlderHeadError as problem:
            return str(problem)
        except WinnowError:
            return None  # the check of the catalog says what is wrong with the topic

    return guarded


def _find_age(logs: TopicLogs, topic: str, location: str, lives: Sequence[TopicHead]) -> str | None:
    log = logs.open(topic)
    if lives and lives[-1].metadata_location != location:
        older = compare_table(topic, log.load_table(), lives)
        if older is not None:
            return f"{describe_for_readers(older)}."
    if not is_folder_newer(location):
        return None
    head = log.head(even_deleted=True)
    newer = find_newer_metadata(head)
    return None if newer is None else describe_newer_metadata(head, newer)
