"""Airflow checks of winnow doctor, run in a separate process with Airflow's environment.

    python -m winnow_airflow.health [--embedded]      prints [{"check", "status", "detail", "fix", "exit_code"}]

Database, pools and connection are read directly from Airflow's database, as Airflow's own command line does.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import urllib.request
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winnow.pipeline.doctor.check_runner import CheckResult

MAXIMUM_HTTP_SECONDS = 5
REQUIRED_COMPONENTS = ("metadatabase", "scheduler", "dag_processor")
EMBEDDED_OPTION = "--embedded"
"""Selects the embedded Airflow below WINNOW_HOME; without it, the Airflow that the shell's environment names."""

_INSIDE = "winnow "
"""What stands before ``airflow`` in a command for the embedded Airflow: winnow airflow dags list."""


def main() -> None:
    """Print the findings as one JSON document, and keep Airflow's own output out of it."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out, sys.stdout = sys.stdout, sys.stderr
    out.write(json.dumps([_build_document(finding) for finding in run_checks(EMBEDDED_OPTION in sys.argv[1:])]))


def run_checks(embedded: bool) -> Iterator[CheckResult]:
    """Run all checks in order; skip those that need the database when it is not available."""
    from airflow import __version__
    from airflow.configuration import AIRFLOW_HOME, conf

    from winnow.embedded.bundle import find_bundled_folder
    from winnow.pipeline.doctor.check_runner import CheckStatus, build_ok

    before = _INSIDE if embedded else ""
    whose = "embedded below WINNOW_HOME" if embedded else "the one that this shell names"
    yield build_ok("airflow", f"Airflow {__version__}, {whose}: {AIRFLOW_HOME}.")
    migrated = check_database(before)
    yield migrated
    names, findings = check_dags(find_bundled_folder("dags"), before)
    yield from findings
    if not embedded:
        folders = [Path(conf.get_mandatory_value("core", name)) for name in ("dags_folder", "plugins_folder")]
        yield check_copies(folders[0], folders[1])
    if migrated.status is CheckStatus.OK:
        is_off = embedded and not _is_dag_processor_alive()
        yield check_schedules(names, _start(embedded, "ui"), before, is_off=is_off)
        yield check_pools(before)
        yield check_connection(before)
    yield check_api(embedded)


def _build_document(finding: CheckResult) -> dict[str, Any]:
    return {
        "check": finding.check,
        "status": finding.status.value,
        "detail": finding.detail,
        "fix": finding.fix,
        "exit_code": finding.exit_code,
    }


def _start(embedded: bool, component: str) -> str:
    return "python -m winnow.embedded.airflow_home ui" if embedded else f"airflow {component}"


def check_database(before: str = "") -> CheckResult:
    """Check that Airflow's own database answers and has the tables of this Airflow version."""
    from airflow.utils.db import check_migrations
    from sqlalchemy.exc import SQLAlchemyError

    from winnow.errors import ServiceError
    from winnow.pipeline.doctor.check_runner import build_failure, build_ok

    name = "airflow-database"
    try:
        check_migrations(1)  # type: ignore[no-untyped-call]
    except TimeoutError:
        return build_failure(name, "Its tables are missing or those of another Airflow.", f"{before}airflow db migrate")
    except SQLAlchemyError as problem:
        return build_failure(
            name,
            f"Airflow's database cannot be reached ({type(problem).__name__}).",
            "Start it, or fix AIRFLOW__DATABASE__SQL_ALCHEMY_CONN; then: winnow doctor",
            ServiceError.exit_code,
        )
    return build_ok(name, "Has the tables of this Airflow.")


def check_dags(folder: Path, before: str = "") -> tuple[list[str], list[CheckResult]]:
    """List the DAGs in ``folder``, and check that they parse and that Airflow's plugins load."""
    from winnow.pipeline.doctor.check_runner import build_failure, build_ok
    from winnow_airflow.older_airflow import get_dag_bag_class, get_plugin_errors

    bag = get_dag_bag_class()(dag_folder=folder)
    findings = [
        build_failure(
            "airflow-dags", f"{file} does not parse: {_get_last(error)}", f"{before}airflow dags list-import-errors"
        )
        for file, error in bag.import_errors.items()
    ]
    findings += [
        build_failure("airflow-plugins", f"{file} does not load: {_get_last(error)}", f"{before}airflow plugins")
        for file, error in get_plugin_errors().items()
    ]
    names = sorted(bag.dags)
    return names, findings or [build_ok("airflow-dags", f"{', '.join(names)} parse; every plugin loads.")]


def check_copies(dags: Path, plugins: Path) -> CheckResult:
    """Check that Airflow's folders ``dags`` and ``plugins`` hold the files of this installation of Winnow."""
    from winnow import __version__
    from winnow.embedded.airflow_install import compare_installed
    from winnow.pipeline.doctor.check_runner import build_failure, build_ok, build_warning

    name = "airflow-copies"
    fix = f"winnow airflow install --dags {shlex.quote(str(dags))} --plugins {shlex.quote(str(plugins))}"
    found = compare_installed(dags, plugins)
    if found.is_absent:
        detail = f"Neither {dags} nor {plugins} has Winnow's files, unless another DAG bundle of Airflow's has them."
        return build_warning(name, detail, fix)
    if found.differing:
        whose = f"those of Winnow {found.version}" if found.version not in (None, __version__) else "not the same"
        number = f"{len(found.differing):,} file{'' if len(found.differing) == 1 else 's'} missing or different"
        detail = (
            f"Winnow's files in {dags} and {plugins} are {whose}; this is Winnow {__version__}: {number}, the first "
            f"{found.differing[0]}."
        )
        return build_failure(name, detail, f"{fix}, then restart Airflow's components")
    kind = "this installation itself" if found.is_linked else f"copies of this Winnow, {__version__}"
    return build_ok(name, f"Winnow's files in {dags} and {plugins} are {kind}.")


def _get_last(error: str) -> str:
    return error.strip().splitlines()[-1]


def _is_dag_processor_alive() -> bool:
    from airflow.jobs.job import most_recent_job

    found = most_recent_job("DagProcessorJob")
    return found is not None and found.is_alive()


def check_schedules(names: Sequence[str], start: str, before: str = "", *, is_off: bool = False) -> CheckResult:
    """Check that Airflow has read the DAGs ``names``, and that it may run them.

    ``is_off``: it is an Airflow that is started when it is needed, and it does not run; it reads new DAGs then.
    """
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from winnow.pipeline.doctor.check_runner import build_ok, build_warning

    with create_session() as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(names))).all()
    paused: dict[str, bool] = {row.dag_id: bool(row.is_paused) for row in rows}
    missing = [name for name in names if name not in paused]
    held = [name for name in names if paused.get(name)]
    if missing and is_off and not held:
        return build_ok("airflow-schedules", f"{', '.join(missing)} are read when it is started: {start}")
    if missing and not is_off:
        detail = f"Airflow's dag-processor has not read {', '.join(missing)} yet."
        return build_warning("airflow-schedules", detail, f"Check [core] dags_folder, and start it: {start}")
    if held:
        detail = f"Paused, so nothing starts them: {', '.join(held)}."
        return build_warning("airflow-schedules", detail, f"{before}airflow dags unpause {held[0]}")
    return build_ok("airflow-schedules", "Airflow has read every DAG, and none is paused.")


def check_pools(before: str = "") -> CheckResult:
    """Check that the pools of the tasks exist."""
    from airflow.models.pool import Pool

    from winnow.embedded.airflow_home import POOLS
    from winnow.pipeline.doctor.check_runner import build_failure, build_ok

    slots = {pool.pool: pool.slots for pool in Pool.get_pools()}
    found = {name: slots.get(name) for name in POOLS}
    empty = [name for name, number in found.items() if not number]
    if empty:
        return build_failure(
            "airflow-pools",
            f"No slots in {' and '.join(empty)}: tasks that need them wait forever, and nothing fails.",
            " && ".join(f"{before}airflow pools set {name} {POOLS[name]['slots']} Winnow" for name in empty),
        )
    return build_ok("airflow-pools", ", ".join(f"{name}: {number} slots" for name, number in found.items()) + ".")


def check_connection(before: str = "") -> CheckResult:
    """Check that the connection to Spark exists and matches the settings."""
    from airflow.models.connection import Connection

    from winnow.config.settings import load_settings
    from winnow.pipeline.doctor.check_runner import build_failure, build_ok, build_warning
    from winnow_airflow.older_airflow import AirflowNotFoundException
    from winnow_airflow.task_defaults import SPARK_CONNECTION

    wanted = load_settings().spark.master
    add = f"{before}airflow connections add {SPARK_CONNECTION} --conn-type spark --conn-host {shlex.quote(wanted)}"
    name = "airflow-connection"
    try:
        found = Connection.get_connection_from_secrets(SPARK_CONNECTION)
    except AirflowNotFoundException:
        return build_failure(name, f"There is no connection {SPARK_CONNECTION}, so Spark would look for YARN.", add)
    master = f"{found.host}:{found.port}" if found.port else str(found.host)
    if master != wanted:
        return build_warning(
            name,
            f"{SPARK_CONNECTION} points at {master}, and the setting spark.master at {wanted}: Airflow's tasks use "
            "the first, the command line the second.",
            f"{before}airflow connections delete {SPARK_CONNECTION} && {add}",
        )
    return build_ok(name, f"{SPARK_CONNECTION} points at {master}.")


def check_api(embedded: bool) -> CheckResult:
    """Check that Airflow's API answers at the address that tasks use, and that its components are healthy.

    ``[api] base_url`` is the address for people, which may be another machine or a proxy.
    """
    from airflow.configuration import conf

    from winnow.errors import ServiceError
    from winnow.pipeline.doctor.check_runner import build_failure, build_ok, build_warning

    name = "airflow-api"
    inside = conf.get("core", "execution_api_server_url", fallback="") or ""
    outside = conf.get("api", "base_url", fallback="") or "http://localhost:8080"
    url = inside.rstrip("/").removesuffix("/execution") or outside.rstrip("/")
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=MAXIMUM_HTTP_SECONDS) as answer:
            health = json.load(answer)
        ill = [part for part in REQUIRED_COMPONENTS if health[part]["status"] != "healthy"]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        start = _start(embedded, "api-server")
        if isinstance(getattr(problem, "reason", problem), ConnectionRefusedError):
            if embedded:
                return build_ok(name, f"Nothing listens at {url}, so it is not running. Start it with: {start}")
            return build_failure(name, f"Nothing listens at {url}.", f"Start it: {start}", ServiceError.exit_code)
        return build_failure(
            name,
            f"What listens at {url} does not answer as Airflow does: the port is taken, or the address is wrong.",
            "Stop what listens there, or choose another port: export WINNOW_UI_PORT=8081"
            if embedded
            else "Fix [core] execution_api_server_url, or stop what listens there",
            ServiceError.exit_code,
        )
    if ill:
        detail = f"Airflow at {url} answers, but is not healthy: {', '.join(ill)}."
        return build_warning(name, detail, "Read the logs of these components, and start them again")
    return build_ok(name, f"Airflow at {url} is healthy.")


if __name__ == "__main__":
    main()
