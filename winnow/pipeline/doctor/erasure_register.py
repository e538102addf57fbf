"""Compares the register of erasures with the topics: an older state that was put back by hand lacks some."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from winnow.config.settings import Settings
from winnow.errors import OlderHeadError, UnknownTopicError, WinnowError, join_first
from winnow.log.erasure_register import ErasureRegister
from winnow.log.topics import MAXIMUM_QUESTIONS, TopicLogs
from winnow.pipeline.doctor.check_runner import (
    CheckResult,
    build_failure,
    build_failure_from_error,
    build_ok,
    build_warning,
)

MAXIMUM_SHOWN_TOPICS = 5

CHECK = "erasure-register"


def check_erasure_register(settings: Settings) -> list[CheckResult]:
    """Compare the register with the heads of the topics that it has erasures of; one listing, and a head of each."""
    try:
        lives = ErasureRegister(settings.erase.register_folder).list_lives()
    except (WinnowError, OSError) as problem:
        return [build_failure_from_error(CHECK, problem, "Check WINNOW_ERASE__REGISTER_FOLDER: winnow settings")]
    if not lives:
        return [build_ok(CHECK, f"No erasure is registered in {settings.erase.register_folder}.")]
    logs = TopicLogs(
        settings.catalog,
        settings.warehouse,
        settings.topic_defaults,
        namespace=settings.namespace,
        vends=settings.vended_credentials,
    )

    def compare(topic: str) -> tuple[int, int]:
        """Count the erasures that the topic does not know, and those that the register does not have."""
        try:
            head = logs.open(topic).head()
        except UnknownTopicError:
            return 0, 0  # it is removed, or a deletion hides it
        except WinnowError:
            return 0, 0  # the check of the catalog says what is wrong with the topic
        known = {each.erasure_id for each in head.state.erasures}
        registered = lives.get((topic, head.table_uuid), set())
        return len(registered - known), len(known - registered)

    topics = sorted({topic for topic, _ in lives})
    with ThreadPoolExecutor(MAXIMUM_QUESTIONS, thread_name_prefix="erasures") as pool:
        compared = dict(zip(topics, pool.map(compare, topics), strict=True))
    lacking = {topic: count for topic, (count, _) in compared.items() if count}
    missing = {topic: count for topic, (_, count) in compared.items() if count}
    found = []
    if lacking:
        found.append(
            build_failure(
                CHECK,
                f"An older state was put back: erasures are registered that these topics do not know: "
                f"{_join(lacking)}. What was erased may be readable again.",
                f"winnow erase {next(iter(lacking))} --registered",
                OlderHeadError.exit_code,
            )
        )
    if missing:
        found.append(
            build_warning(
                CHECK, f"Erasures are not registered yet: {_join(missing)}.", f"winnow sweep {next(iter(missing))}"
            )
        )
    return found or [build_ok(CHECK, f"{len(topics):,} topics know every erasure that is registered.")]


def _join(counts: dict[str, int]) -> str:
    return join_first([f"{topic} ({count:,})" for topic, count in counts.items()], MAXIMUM_SHOWN_TOPICS, ", ")
