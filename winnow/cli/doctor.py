"""``winnow doctor``: what is missing on this machine, and how to fix it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.command_errors import exit_with
from winnow.cli.options import Json
from winnow.cli.output import print_lines, print_table, write_json
from winnow.clock import read_wall_clock_ms
from winnow.errors import find_worst_exit_code
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from winnow.pipeline.doctor.check_runner import CheckReport, CheckResult


def doctor(
    spark: Annotated[bool, typer.Option("--spark", help="Also start a small application on the Spark master.")] = False,
    alert: Annotated[bool, typer.Option("--alert", help="Also send a test alert to the webhook.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            help="Time limit of each check; default: 60, and 180 for Spark and Airflow.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check all that Winnow needs, and say how to fix it.

    Python and its packages, Java, Spark, catalog, warehouse, staging area, metadata store, Airflow, clocks, webhook.
    The checks run in parallel, and one that hangs does not delay the others. Writes and removes small files called
    winnow-doctor-...; changes nothing else. Exit code 0: no check failed; 2: something must be changed here; 6: a
    service cannot be reached.

    Example: winnow doctor --spark
    """
    with contextlib.redirect_stdout(sys.stderr), _show_progress() as tell_waiting:
        examination = _examine(spark, alert, timeout, tell_waiting)
    findings = examination.findings
    if as_json:
        write_json([_build_document(finding) for finding in findings])
    else:
        _show(findings)
    code = find_worst_exit_code(finding.exit_code for finding in findings)
    if examination.is_hanging:
        _exit_process(code)
    exit_with(code)


def _examine(spark: bool, alert: bool, timeout: float | None, report: Callable[[Sequence[str]], None]) -> CheckReport:
    from winnow.config.settings import load_settings
    from winnow.errors import ConfigurationError
    from winnow.pipeline.doctor.arrow import find_broken_arrow
    from winnow.pipeline.doctor.check_runner import CheckReport, build_failure_from_error

    broken = find_broken_arrow()
    if broken is not None:
        return CheckReport([broken])  # all else would fail for this reason, with fixes that fix nothing
    from winnow.pipeline.doctor import machine
    from winnow.pipeline.doctor.all_checks import run_all_checks

    try:
        settings = load_settings()
    except ConfigurationError as problem:
        # What does not depend on settings is looked at all the same.
        fix = "Correct that setting, then: winnow doctor"
        return CheckReport(
            [*machine.check_python(), *machine.check_packages(), build_failure_from_error("settings", problem, fix)]
        )
    return run_all_checks(
        settings,
        env=os.environ,
        now_ms=read_wall_clock_ms,
        start_spark=spark,
        send_alert=alert,
        timeout_s=timeout,
        report=report,
    )


def _build_document(finding: CheckResult) -> dict[str, Any]:
    return {
        "check": finding.check,
        "status": finding.status.value,
        "detail": finding.detail,
        "fix": finding.fix or None,
    }


def _show(findings: Sequence[CheckResult]) -> None:
    from winnow.pipeline.doctor.check_runner import CheckStatus

    rows = [[finding.status.value, finding.check, finding.detail] for finding in findings]
    print_table(["", "check", "result"], rows, sentences=(2,))
    for status, title in ((CheckStatus.FAILURE, "To fix"), (CheckStatus.WARNING, "To check")):
        named = [finding for finding in findings if finding.status is status]
        if named:
            print_lines(f"\n{title}:")
            for finding in named:
                print_lines(f"  {finding.check}: {finding.fix}")
    warnings = sum(finding.status is CheckStatus.WARNING for finding in findings)
    if all(finding.status is not CheckStatus.FAILURE for finding in findings):
        also = f", with {format_count(warnings, 'warning')}" if warnings else ""
        print_lines(f"\nNo check failed{also}. Next: winnow topics list")


@contextlib.contextmanager
def _show_progress() -> Iterator[Callable[[Sequence[str]], None]]:
    """Yield a function that shows which checks still run, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda waiting: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Checking") as status:
        yield lambda waiting: status.update(f"Checking {', '.join(waiting)}")


def _exit_process(code: int) -> None:
    """End the process at once: a library that still waits for a dead service would keep Python from ending."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
