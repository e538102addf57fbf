"""What must answer from here: catalog, warehouse, staging area, metadata store, Spark's master; and their clocks."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse

from winnow.clock import CLOCK_SKEW_MS, Clock
from winnow.config.settings import Settings
from winnow.errors import ServiceError, WinnowError
from winnow.files.probe import nearest_folder, probe
from winnow.files.storage import is_local, local_path
from winnow.log.health import CatalogHealth, examine_catalog, write_through_catalog
from winnow.log.topics import TopicLogs
from winnow.pipeline.doctor.examination import Finding, failed, failure, ok, warning
from winnow.pipeline.doctor.machine import LOW_DISK_BYTES, room
from winnow.store.health import StoreHealth, examine_store

SHOWN = 3
CONNECT_TIMEOUT_S = 5


def catalog(settings: Settings) -> list[Finding]:
    """Whether the catalog answers, which topics it has, and which of them Winnow would leave alone."""
    logs = TopicLogs(settings.catalog, settings.warehouse, settings.topic_defaults)
    fix = "Start the catalog, or mend WINNOW_CATALOG__* (winnow settings shows them); then: winnow doctor"
    try:
        health = examine_catalog(logs)
    except WinnowError as problem:
        return [failed("catalog", problem, fix)]
    findings = [_topics(health)]
    try:
        write_through_catalog(logs, settings.warehouse)
    except ServiceError as problem:
        fix = "Give the catalog the same access: WINNOW_CATALOG__S3__*, or the environment's AWS_*; then: winnow doctor"
        findings.append(failed("catalog-files", problem, fix))
    return findings


def _topics(health: CatalogHealth) -> Finding:
    looked = "" if health.looked_at == len(health.topics) else f"; of these {health.looked_at} were looked at"
    topics = f"{len(health.topics):,} topic{'' if len(health.topics) == 1 else 's'}{looked}"
    if not health.left_alone:
        return ok("catalog", f"Answers; {topics}.")
    named = list(health.left_alone)
    sentences = " ".join(health.left_alone[topic] for topic in named[:SHOWN])
    more = f" And {len(named) - SHOWN} more." if len(named) > SHOWN else ""
    return warning(
        "catalog",
        f"Answers; {topics}. Left alone: {', '.join(named[:SHOWN])}. {sentences}{more}",
        f"Mend the table as it says, then: winnow assess {named[0]}",
    )


def place(name: str, uri: str, variable: str, now_ms: Clock, *, low_bytes: int = LOW_DISK_BYTES) -> list[Finding]:
    """Whether files below ``uri`` can be written, read, listed and removed; room where it is local; its clock."""
    try:
        seen = probe(uri, now_ms)
    except WinnowError as problem:
        fix = (
            f"Mend access to {uri} (bucket, endpoint, credentials), or point {variable} elsewhere; then: winnow doctor"
        )
        return [failed(name, problem, fix)]
    except OSError as problem:
        return [failed(name, problem, _mend(uri, variable))]
    findings = [room(name, uri, "takes, gives back, lists and removes files", variable, seen.free_bytes, low_bytes)]
    return [*findings, *clock(f"clock-{name}", uri, seen.ahead_ms, is_local(uri))]


def _mend(uri: str, variable: str) -> str:
    if not is_local(uri):
        return f"Mend access to {uri}, or point {variable} elsewhere; then: winnow doctor"
    there = nearest_folder(local_path(uri))
    return f"Make {there} a folder that this user may write to (ls -ld {there}), or point {variable} elsewhere"


def clock(name: str, whose: str, ahead_ms: int | None, is_ours: bool) -> list[Finding]:
    """Whether two clocks agree well enough for leases, retention and as-of. Ours alone is told when it is wrong."""
    if ahead_ms is None or (is_ours and abs(ahead_ms) <= CLOCK_SKEW_MS):
        return []
    skew = f"{abs(ahead_ms) / 1000:,.1f} s {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    if abs(ahead_ms) <= CLOCK_SKEW_MS:
        return [ok(name, f"The clock of {whose} is {skew}.")]
    return [
        failure(
            name,
            f"The clock of {whose} is {skew}, more than {CLOCK_SKEW_MS // 1000} s: leases, grace and retention go "
            "wrong.",
            "Let both keep time (chronyc tracking, timedatectl status); then: winnow doctor",
        )
    ]


def store(settings: Settings, now_ms: Clock) -> list[Finding]:
    """Whether the metadata store answers and can be written to, which schema it has, and its clock."""
    fix = "Start the database, or mend WINNOW_STORE_URL (winnow settings shows it); then: winnow doctor"
    try:
        health = examine_store(settings.store_url, now_ms)
    except WinnowError as problem:
        return [failed("store", problem, fix)]
    if not health.is_there:
        return _not_there(settings, health, now_ms)
    is_ours = settings.store_url.startswith("sqlite")
    return [_schema(health), *clock("clock-store", health.address, health.ahead_ms, is_ours)]


def _not_there(settings: Settings, health: StoreHealth, now_ms: Clock) -> list[Finding]:
    folder = Path(settings.store_url.partition(":///")[2]).parent
    try:
        probe(str(folder), now_ms)
    except OSError as problem:
        return [failed("store", problem, _mend(str(folder), "WINNOW_STORE_URL"))]
    return [ok("store", f"{health.address} is not there yet; the first command makes it.")]


def _schema(health: StoreHealth) -> Finding:
    if health.revision == health.newest:
        return ok("store", f"{health.address} can be written to; schema {health.revision}, the newest.")
    if health.revision is None:
        return ok("store", f"{health.address} can be written to and is empty; the first command makes its tables.")
    if health.revision > health.newest:
        return failure(
            "store",
            f"{health.address} has schema {health.revision}, but this Winnow knows up to {health.newest}: a newer one "
            "was here.",
            "Install that Winnow here too (winnow --version), or point WINNOW_STORE_URL at an empty database and: "
            "winnow store rebuild",
        )
    return warning(
        "store",
        f"{health.address} has schema {health.revision}; this Winnow's is {health.newest}.",
        "Stop older Winnows, back the database up, then let the next command upgrade it: winnow topics list",
    )


def spark_master(settings: Settings) -> list[Finding]:
    """Whether the masters of a standalone cluster accept connections; of other masters nothing is known here."""
    addresses = _addresses(settings.spark.master)
    refused = []
    for host, port in addresses:
        try:
            with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
                return [ok("spark-master", f"{host}:{port} accepts connections.")]
        except OSError as problem:
            refused.append(f"{host}:{port}: {problem.strerror or 'no answer'}")
    if not addresses:
        return []
    return [
        failure(
            "spark-master",
            f"{'; '.join(refused)}.",
            "Start Spark's master and a worker, or point WINNOW_SPARK__MASTER elsewhere; then: winnow doctor --spark",
            ServiceError.exit_code,
        )
    ]


def _addresses(master: str) -> Sequence[tuple[str, int]]:
    if not master.startswith("spark://"):
        return ()
    found = [urlparse(f"spark://{each}") for each in master.removeprefix("spark://").split(",")]
    return [(each.hostname or "", each.port or 7077) for each in found]
