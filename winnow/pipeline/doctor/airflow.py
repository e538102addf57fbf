"""Asks Airflow how it is, in a process of its own: importing it costs seconds, and needs its environment."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

from winnow.errors import WinnowError
from winnow.pipeline.doctor.examination import CheckResult, CheckStatus, build_failure, build_warning

AIRFLOW_CHECK_COMMAND = (sys.executable, "-m", "winnow.airflow_home", "check")


def check_airflow(timeout_s: float) -> list[CheckResult]:
    """Database, DAGs, plugin, pools, connection, API: of the Airflow that the shell names, else of the embedded one."""
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
    said = subprocess.run(
        AIRFLOW_CHECK_COMMAND,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )
    try:
        return [_parse_result(document) for document in json.loads(said.stdout)]
    except (ValueError, LookupError, TypeError):
        last = said.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return [
            build_failure(
                "airflow",
                f"Airflow could not be asked (exit code {said.returncode}): {last[0][:300]}",
                "See why: python -m winnow.airflow_home check",
                max(WinnowError.exit_code, said.returncode),
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
