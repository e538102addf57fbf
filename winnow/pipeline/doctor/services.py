"""Checks the services: catalog, warehouse, store, Spark's master, Airflow, the alert webhook."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import urlparse, urlsplit

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, Clock
from winnow.config.settings import Settings
from winnow.errors import DeletedTopicError, ServiceError, WinnowError
from winnow.files.storage import is_local, parse_local_path
from winnow.files.storage_health import find_nearest_folder, probe_folder
from winnow.log.catalog_health import CatalogHealth, examine_catalog, write_through_catalog
from winnow.log.topics import TopicLogs
from winnow.pipeline.doctor.check_runner import (
    CheckResult,
    CheckStatus,
    build_failure,
    build_failure_from_error,
    build_ok,
    build_warning,
)
from winnow.pipeline.doctor.machine import MINIMUM_RECOMMENDED_DISK_BYTES, check_free_space
from winnow.report.alert_kinds import AlertKind
from winnow.report.alert_manager import Webhook
from winnow.report.alerts import Alert
from winnow.store.migration import StoreHealth, examine_store

AIRFLOW_CHECK_COMMAND = (sys.executable, "-m", "winnow.embedded.airflow_home", "check")


def check_airflow(timeout_s: float) -> list[CheckResult]:
    """Check database, DAGs, plugin, pools, connection and API of the shell's Airflow, else of the embedded one."""
    try:
        metadata.version("apache-airflow-core")
    except metadata.PackageNotFoundError:
        return [
            build_warning(
                "airflow",
                "Airflow is not installed; the command line works without it.",
                "pip install 'winnow-log[airflow]'",
            )
        ]
    output = subprocess.run(
        AIRFLOW_CHECK_COMMAND,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )
    try:
        return [_parse_result(document) for document in json.loads(output.stdout)]
    except (ValueError, LookupError, TypeError):
        last = output.stderr.strip().splitlines()[-1:] or ["there was no output"]
        return [
            build_failure(
                "airflow",
                f"Airflow could not be asked (exit code {output.returncode}): {last[0][:300]}",
                "See why: python -m winnow.embedded.airflow_home check",
                max(WinnowError.exit_code, output.returncode),
            )
        ]


def _parse_result(document: dict[str, object]) -> CheckResult:
    return CheckResult(
        str(document["check"]),
        CheckStatus(str(document["status"])),
        str(document["detail"]),
        str(document["fix"]),
        int(str(document["exit_code"])),
    )


DEFAULT_WEBHOOK_TIMEOUT_S = 10

WEBHOOK_VARIABLE = "WINNOW_ALERT__WEBHOOK"


def check_webhook(settings: Settings, now_ms: Clock, *, send: bool) -> list[CheckResult]:
    """Check the webhook: with ``send`` by a message, else only by a connection, since a message disturbs people."""
    if settings.alert.webhook is None:
        if settings.alert.notifiers:
            return [build_ok("webhook", "None; alerts go to Airflow's notifiers.")]
        where = "alerts are in the logs and on Winnow's page only"
        if not send:
            return [build_ok("webhook", f"None: {where}. To send them: export {WEBHOOK_VARIABLE}=https://...")]
        return [
            build_warning(
                "webhook",
                f"Alerts are not sent anywhere: {where}.",
                f"export {WEBHOOK_VARIABLE}=https://... && winnow doctor --alert",
            )
        ]
    url = settings.alert.webhook.get_secret_value()
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    fix = f"Fix {WEBHOOK_VARIABLE}, or the connection from here to {host}:{port}; then: winnow doctor --alert"
    try:
        if send:
            Webhook(url).deliver(_build_test_alert(now_ms()))
        else:
            socket.create_connection((host, port), timeout=DEFAULT_WEBHOOK_TIMEOUT_S).close()
    except ServiceError as problem:
        return [build_failure("webhook", str(problem), fix, ServiceError.exit_code)]
    except OSError as problem:
        reason = problem.strerror or "no answer"
        return [build_failure("webhook", f"{host}:{port} does not answer: {reason}.", fix, ServiceError.exit_code)]
    result = "accepted a message" if send else "accepts connections; --alert sends it a test message"
    return [build_ok("webhook", f"{host}:{port} {result}.")]


def _build_test_alert(at_ms: int) -> Alert:
    """Build a test alert: a document like any alert's, of the kind that needs no action."""
    message = "A test of this channel: somebody ran winnow doctor --alert."
    safe, to_do = "Nothing is wrong.", "There is nothing to do."
    return Alert(
        kind=AlertKind.RECOVERED,
        topic="winnow-doctor",
        partitions=None,
        message=message,
        at_ms=at_ms,
        since_ms=at_ms,
        safe=safe,
        next=to_do,
        link=None,
        plan_id=None,
        severity="info",
        text=f"{message}\n{safe} {to_do}",
    )


MAXIMUM_SHOWN_TOPICS = 3

MAXIMUM_LATEST_TABLES = 50
"""Maximum tables of latest states that are looked at: each is opened with its topic."""

DEFAULT_CONNECT_TIMEOUT_S = 5


def check_catalog(settings: Settings) -> list[CheckResult]:
    """Check whether the catalog answers, which topics it has, and which of them Winnow would leave alone."""
    logs = _open_logs(settings)
    fix = "Start the catalog, or fix WINNOW_CATALOG__* (winnow settings shows them); then: winnow doctor"
    try:
        health = examine_catalog(logs)
    except WinnowError as problem:
        return [build_failure_from_error("catalog", problem, fix)]
    findings = [_check_topics(health), *check_latest_tables(logs)]
    try:
        write_through_catalog(logs, settings.warehouse)
    except ServiceError as problem:
        fix = "Give the catalog the same access: WINNOW_CATALOG__S3__*, or the environment's AWS_*; then: winnow doctor"
        findings.append(build_failure_from_error("catalog-files", problem, fix))
    return findings


def _open_logs(settings: Settings) -> TopicLogs:
    return TopicLogs(
        settings.catalog,
        settings.warehouse,
        settings.topic_defaults,
        namespace=settings.namespace,
        vends=settings.vended_credentials,
    )


def check_warehouse(settings: Settings, now_ms: Clock) -> list[CheckResult]:
    """Check the warehouse as :func:`check_storage`; with vended credentials the folder that is no topic's."""
    logs = _open_logs(settings)
    if settings.vended_credentials:
        try:
            _ = logs.catalog  # makes the table of that folder
        except WinnowError as problem:
            return [build_failure_from_error("warehouse", problem, "Fix WINNOW_CATALOG__*; then: winnow doctor")]
    return check_storage("warehouse", logs.probed, "WINNOW_WAREHOUSE", now_ms)


def check_latest_tables(logs: TopicLogs) -> list[CheckResult]:
    """Check whether tables of latest states reflect the newest publish of their topics; nothing if there are none."""
    from winnow.pipeline.latest.table import describe_late_table

    late: dict[str, str] = {}
    try:
        topics = logs.list_latest_tables()
    except WinnowError as problem:
        return [build_failure_from_error("latest-tables", problem, "winnow doctor")]
    for topic in topics[:MAXIMUM_LATEST_TABLES]:
        try:
            found = describe_late_table(logs, topic)
        except DeletedTopicError:
            continue  # it goes with its topic, or comes back with it
        except WinnowError as problem:
            found = problem.explanation.clause
        if found is not None:
            late[topic] = found
    if not topics:
        return []
    checked = "" if len(topics) <= MAXIMUM_LATEST_TABLES else f"; {MAXIMUM_LATEST_TABLES} of them were checked"
    if not late:
        return [build_ok("latest-tables", f"{len(topics):,} reflect the newest publish of their topics{checked}.")]
    named = list(late)[:MAXIMUM_SHOWN_TOPICS]
    more = f" And {len(late) - len(named)} more." if len(late) > len(named) else ""
    return [
        build_warning(
            "latest-tables",
            f"{'. '.join(late[topic] for topic in named)}.{more}{checked}",
            f"winnow latest-table update {named[0]}",
        )
    ]


def _check_topics(health: CatalogHealth) -> CheckResult:
    checked = "" if health.looked_at == len(health.topics) else f"; {health.looked_at} of them were checked"
    topics = f"{len(health.topics):,} topic{'' if len(health.topics) == 1 else 's'}{checked}"
    if not health.left_alone:
        return build_ok("catalog", f"Answers; {topics}.")
    named = list(health.left_alone)
    sentences = " ".join(health.left_alone[topic] for topic in named[:MAXIMUM_SHOWN_TOPICS])
    more = f" And {len(named) - MAXIMUM_SHOWN_TOPICS} more." if len(named) > MAXIMUM_SHOWN_TOPICS else ""
    return build_warning(
        "catalog",
        f"Answers; {topics}. Not usable: {', '.join(named[:MAXIMUM_SHOWN_TOPICS])}. {sentences}{more}",
        f"Fix the table as described, then: winnow assess {named[0]}",
    )


def check_storage(
    name: str, uri: str, variable: str, now_ms: Clock, *, low_bytes: int = MINIMUM_RECOMMENDED_DISK_BYTES
) -> list[CheckResult]:
    """Check that files below ``uri`` can be written, read, listed and removed; local free space; the store's clock."""
    try:
        seen = probe_folder(uri, now_ms)
    except WinnowError as problem:
        fix = f"Fix access to {uri} (bucket, endpoint, credentials), or point {variable} elsewhere; then: winnow doctor"
        return [build_failure_from_error(name, problem, fix)]
    except OSError as problem:
        return [build_failure_from_error(name, problem, _describe_storage_fix(uri, variable))]
    findings = [check_free_space(name, uri, "works (write, read, list, remove)", variable, seen.free_bytes, low_bytes)]
    return [*findings, *check_clock(f"clock-{name}", uri, seen.ahead_ms, is_local(uri))]


def _describe_storage_fix(uri: str, variable: str) -> str:
    if not is_local(uri):
        return f"Fix access to {uri}, or point {variable} elsewhere; then: winnow doctor"
    there = find_nearest_folder(parse_local_path(uri))
    return f"Make {there} a folder that this user may write to (ls -ld {there}), or point {variable} elsewhere"


def check_clock(name: str, whose: str, ahead_ms: int | None, is_ours: bool) -> list[CheckResult]:
    """Check whether two clocks agree well enough for leases, retention and as-of; of ours report only a skew."""
    if ahead_ms is None or (is_ours and abs(ahead_ms) <= MAXIMUM_CLOCK_SKEW_MS):
        return []
    skew = f"{abs(ahead_ms) / 1000:,.1f} s {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    if abs(ahead_ms) <= MAXIMUM_CLOCK_SKEW_MS:
        return [build_ok(name, f"The clock of {whose} is {skew}.")]
    return [
        build_failure(
            name,
            f"The clock of {whose} is {skew}, more than {MAXIMUM_CLOCK_SKEW_MS // 1000} s: leases, grace periods and "
            "retention depend on it.",
            "Synchronise both clocks (chronyc tracking, timedatectl status); then: winnow doctor",
        )
    ]


def check_store(settings: Settings, now_ms: Clock) -> list[CheckResult]:
    """Check whether the metadata store answers and is writable, its schema, and its clock."""
    fix = "Start the database, or fix WINNOW_STORE_URL (winnow settings shows it); then: winnow doctor"
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
    return [build_ok("store", f"{health.address} does not exist yet; the first command creates it.")]


def _check_schema(health: StoreHealth) -> CheckResult:
    if health.revision == health.newest:
        return build_ok("store", f"{health.address} can be written to; schema {health.revision}, the newest.")
    if health.revision is None:
        return build_ok(
            "store", f"{health.address} can be written to and is empty; the first command creates its tables."
        )
    if health.revision > health.newest:
        return build_failure(
            "store",
            f"{health.address} has schema {health.revision}, but this Winnow knows up to {health.newest}: a newer "
            "Winnow has migrated it.",
            "Install that Winnow here too (winnow --version), or point WINNOW_STORE_URL at an empty database and: "
            "winnow store rebuild",
        )
    if health.revision < health.oldest:
        return build_failure(
            "store",
            f"{health.address} has schema {health.revision}, from before the first release; this Winnow knows "
            f"{health.oldest} to {health.newest}.",
            "Point WINNOW_STORE_URL at an empty database and: winnow store rebuild",
        )
    return build_warning(
        "store",
        f"{health.address} has schema {health.revision}; this Winnow's is {health.newest}.",
        "Stop older Winnows, back the database up, then let the next command upgrade it: winnow topics list",
    )


def check_spark_master(settings: Settings) -> list[CheckResult]:
    """Check whether the masters of a standalone cluster accept connections; other masters are not checked here."""
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
