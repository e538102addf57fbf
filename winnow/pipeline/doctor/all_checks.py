"""The list of all checks, their order and their timeouts."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence

from winnow.clock import Clock
from winnow.config.settings import Settings
from winnow.errors import ConfigurationError
from winnow.files import object_store, vended_places
from winnow.files.storage import is_local
from winnow.pipeline.doctor import machine, services
from winnow.pipeline.doctor.check_runner import (
    Check,
    CheckReport,
    CheckResult,
    build_failure,
    build_failure_from_error,
    build_ok,
    build_warning,
    run_checks,
)
from winnow.pipeline.doctor.erasure_register import check_erasure_register
from winnow.pipeline.doctor.installation import check_installation
from winnow.pipeline.doctor.older_catalog import check_older_catalog
from winnow.pipeline.doctor.services import check_airflow
from winnow.pipeline.doctor.unnamed_files import check_unnamed_files

DEFAULT_TIMEOUT_S = 60.0
"""For services that answer at once or not at all; above the 10 s for connecting to PostgreSQL."""

DEFAULT_SLOW_TIMEOUT_S = 180.0
"""For starting a JVM or loading Airflow, on a busy machine."""


def run_all_checks(
    settings: Settings,
    *,
    env: Mapping[str, str],
    now_ms: Clock,
    start_spark: bool = False,
    send_alert: bool = False,
    timeout_s: float | None = None,
    report: Callable[[Sequence[str]], None] = lambda waiting: None,
) -> CheckReport:
    """Run all checks in parallel. ``timeout_s``: for each check; default: its own.

    ``start_spark`` runs a small application on the configured master; ``send_alert`` sends a test alert. ``report``
    gets the names of pending checks.
    """
    object_store.export_credentials(settings.catalog)
    with contextlib.suppress(ConfigurationError):  # the check of the settings says so
        vended_places.export_access(settings, os.environ)
    quick_s, slow_s = timeout_s or DEFAULT_TIMEOUT_S, timeout_s or DEFAULT_SLOW_TIMEOUT_S
    again = "winnow doctor"

    def check(name: str, look: Callable[[], Sequence[CheckResult]], fix: str, seconds: float = quick_s) -> Check:
        return Check(name, look, fix, seconds)

    checks = [
        check("python", machine.check_python, again),
        check("packages", machine.check_packages, again),
        check(
            "java",
            lambda: machine.check_java_and_spark(settings, env, slow_s, start=start_spark),
            "spark-submit --version",
            slow_s,
        ),
        check(
            "spark-master",
            lambda: services.check_spark_master(settings),
            "Check WINNOW_SPARK__MASTER: winnow settings",
        ),
        check("settings", lambda: check_settings(settings), "winnow settings"),
        check(
            "catalog",
            lambda: services.check_catalog(settings),
            "Check that the catalog runs (WINNOW_CATALOG__*): winnow settings",
        ),
        check("installation", lambda: check_installation(settings), again),
        check(
            "older-catalog",
            lambda: check_older_catalog(settings, now_ms),
            "Check that catalog and object store answer: winnow settings",
        ),
        check(
            "erasure-register",
            lambda: check_erasure_register(settings),
            "Check that the register answers (WINNOW_ERASE__REGISTER_FOLDER): winnow settings",
        ),
        check("unnamed-files", lambda: check_unnamed_files(settings), again),
        check(
            "warehouse",
            lambda: services.check_warehouse(settings, now_ms),
            "Check that the object store answers (WINNOW_WAREHOUSE, AWS_ENDPOINT_URL_S3): winnow settings",
        ),
        check(
            "staging",
            lambda: services.check_storage("staging", settings.staging, "WINNOW_STAGING", now_ms),
            "Check that the object store answers (WINNOW_STAGING, AWS_ENDPOINT_URL_S3): winnow settings",
        ),
        check(
            "spill-folder",
            lambda: machine.check_folder("spill-folder", settings.engine.spill_folder, "WINNOW_ENGINE__SPILL_FOLDER"),
            "winnow settings",
        ),
        check(
            "data-docs",
            lambda: machine.check_folder("data-docs", str(settings.data_docs), "WINNOW_HOME"),
            "winnow settings",
        ),
        check(
            "store",
            lambda: services.check_store(settings, now_ms),
            "Check that the database runs (WINNOW_STORE_URL): winnow settings",
        ),
        check("airflow", lambda: check_airflow(slow_s), "python -m winnow.embedded.airflow_home check", slow_s),
        check("webhook", lambda: services.check_webhook(settings, now_ms, send=send_alert), "winnow doctor --alert"),
    ]
    return run_checks(checks, report)


def check_settings(settings: Settings) -> list[CheckResult]:
    """Check the settings themselves."""
    shared = f"{settings.warehouse}/_staging"
    if settings.vended_credentials:
        shared = vended_places.locate_staging(settings)
        try:
            vended_places.check_settings(settings)
        except ConfigurationError as problem:
            return [build_failure_from_error("settings", problem, "winnow settings")]
    found = [
        build_warning("settings", notice, f"unset {' '.join(re.findall(r'WINNOW_[^ ]+', notice)[:1])}")
        for notice in settings.notices
    ]
    if (
        not is_local(settings.warehouse)
        and is_local(settings.staging)
        and not settings.spark.master.startswith("local")
    ):
        found.append(
            build_failure(
                "settings",
                f"Spark's executors on {settings.spark.master} cannot read plans from {settings.staging}, a folder of "
                "this machine.",
                f"export WINNOW_STAGING={shared}",
            )
        )
    return found or [build_ok("settings", f"Valid; winnow settings shows all. Home: {settings.home}.")]
