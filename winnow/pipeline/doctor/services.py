"""What must answer from here: catalog, warehouse, staging area, metadata store, Spark's master; and their clocks."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, Clock
from winnow.config.settings import Settings
from winnow.errors import ServiceError, WinnowError
from winnow.files.probe import find_nearest_folder, probe_folder
from winnow.files.storage import is_local, parse_local_path
from winnow.log.health import CatalogHealth, examine_catalog, write_through_catalog
from winnow.log.topics import TopicLogs
from winnow.pipeline.doctor.examination import (
    CheckResult,
    build_failure,
    build_failure_from_error,
    build_ok,
    build_warning,
)
from winnow.pipeline.doctor.machine import MINIMUM_RECOMMENDED_DISK_BYTES, check_free_space
from winnow.store.health import StoreHealth, examine_store

MAXIMUM_SHOWN_TOPICS = 3
DEFAULT_CONNECT_TIMEOUT_S = 5


def check_catalog(settings: Settings) -> list[CheckResult]:
    """Whether the catalog answers, which topics it has, and which of them Winnow would leave alone."""
    logs = TopicLogs(settings.catalog, settings.warehouse, settings.topic_defaults)
    fix = "Start the catalog, or mend WINNOW_CATALOG__* (winnow settings shows them); then: winnow doctor"
    try:
        health = examine_catalog(logs)
    except WinnowError as problem:
        return [build_failure_from_error("catalog", problem, fix)]
    findings = [_check_topics(health)]
    try:
        write_through_catalog(logs, settings.warehouse)
    except ServiceError as problem:
        fix = "Give the catalog the same access: WINNOW_CATALOG__S3__*, or the environment's AWS_*; then: winnow doctor"
        findings.append(build_failure_from_error("catalog-files", problem, fix))
    return findings


def _check_topics(health: CatalogHealth) -> CheckResult:
    looked = "" if health.looked_at == len(health.topics) else f"; of these {health.looked_at} were looked at"
    topics = f"{len(health.topics):,} topic{'' if len(health.topics) == 1 else 's'}{looked}"
    if not health.left_alone:
        return build_ok("catalog", f"Answers; {topics}.")
    named = list(health.left_alone)
    sentences = " ".join(health.left_alone[topic] for topic in named[:MAXIMUM_SHOWN_TOPICS])
    more = f" And {len(named) - MAXIMUM_SHOWN_TOPICS} more." if len(named) > MAXIMUM_SHOWN_TOPICS else ""
    return build_warning(
        "catalog",
        f"Answers; {topics}. Left alone: {', '.join(named[:MAXIMUM_SHOWN_TOPICS])}. {sentences}{more}",
        f"Mend the table as it says, then: winnow assess {named[0]}",
    )


def check_storage(
    name: str, uri: str, variable: str, now_ms: Clock, *, low_bytes: int = MINIMUM_RECOMMENDED_DISK_BYTES
) -> list[CheckResult]:
    """Whether files below ``uri`` can be written, read, listed and removed; room where it is local; its clock."""
    try:
        seen = probe_folder(uri, now_ms)
    except WinnowError as problem:
        fix = (
            f"Mend access to {uri} (bucket, endpoint, credentials), or point {variable} elsewhere; then: winnow doctor"
        )
        return [build_failure_from_error(name, problem, fix)]
    except OSError as problem:
        return [build_failure_from_error(name, problem, _describe_storage_fix(uri, variable))]
    findings = [
        check_free_space(name, uri, "takes, gives back, lists and removes files", variable, seen.free_bytes, low_bytes)
    ]
    return [*findings, *check_clock(f"clock-{name}", uri, seen.ahead_ms, is_local(uri))]


def _describe_storage_fix(uri: str, variable: str) -> str:
    if not is_local(uri):
        return f"Mend access to {uri}, or point {variable} elsewhere; then: winnow doctor"
    there = find_nearest_folder(parse_local_path(uri))
    return f"Make {there} a folder that this user may write to (ls -ld {there}), or point {variable} elsewhere"


def check_clock(name: str, whose: str, ahead_ms: int | None, is_ours: bool) -> list[CheckResult]:
    """Whether two clocks agree well enough for leases, retention and as-of. Ours alone is told when it is wrong."""
    if ahead_ms is None or (is_ours and abs(ahead_ms) <= MAXIMUM_CLOCK_SKEW_MS):
        return []
    skew = f"{abs(ahead_ms) / 1000:,.1f} s {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    if abs(ahead_ms) <= MAXIMUM_CLOCK_SKEW_MS:
        return [build_ok(name, f"The clock of {whose} is {skew}.")]
    return [
        build_failure(
            name,
            f"The clock of {whose} is {skew}, more than {MAXIMUM_CLOCK_SKEW_MS // 1000} s: leases, grace and retention go "
            "wrong.",
            "Let both keep time (chronyc tracking, timedatectl status); then: winnow doctor",
        )
    ]


def check_store(settings: Settings, now_ms: Clock) -> list[CheckResult]:
    """Whether the metadata store answers and can be written to, which schema it has, and its clock."""
    fix = "Start the database, or mend WINNOW_STORE_URL (winnow settings shows it); then: winnow doctor"
    try:
        health = examine_store(settings.store_url, now_ms)
    except WinnowError as problem:
        return [build_failure_from_error("store", problem, fix)]
    if not health.is_there:
        return _build_missing_store_results(settings, health, now_ms)
    is_ours = settings.store_url.startswith("sqlite")
    return [_check_schema(health), *check_clock("clock-store", health.address, health.ahead_ms, is_ours)]


def _build_missing_store_results(settings: Settings, health: StoreHealth, now_ms: Clock) -> list[CheckResult]:
    folder = Path(settings.store_url.partition(":///")[2]).parent
    try:
        probe_folder(str(folder), now_ms)
    except OSError as problem:
        return [build_failure_from_error("store", problem, _describe_storage_fix(str(folder), "WINNOW_STORE_URL"))]
    return [build_ok("store", f"{health.address} is not there yet; the first command makes it.")]


def _check_schema(health: StoreHealth) -> CheckResult:
    if health.revision == health.newest:
        return build_ok("store", f"{health.address} can be written to; schema {health.revision}, the newest.")
    if health.revision is None:
        return build_ok(
            "store", f"{health.address} can be written to and is empty; the first command makes its tables."
        )
    if health.revision > health.newest:
        return build_failure(
            "store",
            f"{health.address} has schema {health.revision}, but this Winnow knows up to {health.newest}: a newer one "
            "was here.",
            "Install that Winnow here too (winnow --version), or point WINNOW_STORE_URL at an empty database and: "
            "winnow store rebuild",
        )
    return build_warning(
        "store",
        f"{health.address} has schema {health.revision}; this Winnow's is {health.newest}.",
        "Stop older Winnows, back the database up, then let the next command upgrade it: winnow topics list",
    )


def check_spark_master(settings: Settings) -> list[CheckResult]:
    """Whether the masters of a standalone cluster accept connections; of other masters nothing is known here."""
    addresses = _parse_addresses(settings.spark.master)
    refused = []
    for host, port in addresses:
        try:
            with socket.create_connection((host, port), timeout=DEFAULT_CONNECT_TIMEOUT_S):
                return [build_ok("spark-master", f"{host}:{port} accepts connections.")]
        except OSError as problem:
            refused.append(f"{host}:{port}: {problem.strerror or 'no answer'}")
    if not addresses:
        return []
    return [
        build_failure(
            "spark-master",
            f"{'; '.join(refused)}.",
            "Start Spark's master and a worker, or point WINNOW_SPARK__MASTER elsewhere; then: winnow doctor --spark",
            ServiceError.exit_code,
        )
    ]


def _parse_addresses(master: str) -> Sequence[tuple[str, int]]:
    if not master.startswith("spark://"):
        return ()
    found = [urlparse(f"spark://{each}") for each in master.removeprefix("spark://").split(",")]
    return [(each.hostname or "", each.port or 7077) for each in found]
