"""Runs checks in parallel, each with its own timeout."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from winnow.errors import ConfigurationError, ServiceError, WinnowError


class CheckStatus(StrEnum):
    """The outcome of a check. A warning stops nothing."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. ``fix``: what to do, with the command; empty if nothing.

    ``exit_code``: 0, or for a failure 2 (something here must be changed), 4 (data) or 6 (a service is unreachable).
    """

    check: str
    status: CheckStatus
    detail: str
    fix: str = ""
    exit_code: int = 0


def build_ok(check: str, detail: str) -> CheckResult:
    """Build the result of a check that found no problem."""
    return CheckResult(check, CheckStatus.OK, detail)


def build_warning(check: str, detail: str, fix: str) -> CheckResult:
    """Build a result that works and may be intended, or will matter later."""
    return CheckResult(check, CheckStatus.WARNING, detail, fix)


def build_failure(check: str, detail: str, fix: str, exit_code: int = ConfigurationError.exit_code) -> CheckResult:
    """Build a result with which runs will fail."""
    return CheckResult(check, CheckStatus.FAILURE, detail, fix, exit_code)


def build_failure_from_error(check: str, problem: Exception, fix: str) -> CheckResult:
    """Build the failure for ``problem``. Of other exceptions only the type is shown: a text may quote a password."""
    if isinstance(problem, WinnowError):
        return build_failure(check, str(problem), fix, problem.exit_code)
    if isinstance(problem, OSError) and problem.strerror:
        where = f" ({problem.filename})" if problem.filename else ""
        return build_failure(check, f"{problem.strerror}{where}.", fix)
    return build_failure(check, f"Unexpected {type(problem).__name__}.", fix, WinnowError.exit_code)


@dataclass(frozen=True)
class Check:
    """One check: its name, its function, the advice for an unexpected failure, and its timeout in seconds."""

    name: str
    look: Callable[[], Sequence[CheckResult]]
    fix: str
    timeout_s: float


@dataclass
class CheckReport:
    """The findings in the order of the checks. ``is_hanging``: a check never ended, and its thread still runs."""

    findings: list[CheckResult] = field(default_factory=list)
    is_hanging: bool = False


def run_checks(checks: Sequence[Check], report: Callable[[Sequence[str]], None]) -> CheckReport:
    """Run all ``checks`` in parallel. ``report`` gets the names of pending ones, whenever they change."""
    results: dict[str, Sequence[CheckResult]] = {}
    changed = threading.Condition()

    def look(check: Check) -> None:
        try:
            found = check.look()
        except subprocess.TimeoutExpired:
            found = [_build_timeout_failure(check)]
        except Exception as problem:  # a check that breaks is a finding like any other
            found = [build_failure_from_error(check.name, problem, check.fix)]
        with changed:
            results[check.name] = found
            changed.notify()

    begun_s = time.monotonic()
    for check in checks:
        # Not in a pool: Python would wait for its threads at exit.
        threading.Thread(target=look, args=(check,), name=f"doctor {check.name}", daemon=True).start()
    waiting = {check.name: check for check in checks}
    timed_out: set[str] = set()
    while waiting:
        report(list(waiting))
        with changed:
            remaining_s = min(check.timeout_s for check in waiting.values()) - (time.monotonic() - begun_s)
            if not any(name in results for name in waiting) and remaining_s > 0:
                changed.wait(remaining_s)
            done = [name for name in waiting if name in results]
        late = [name for name, check in waiting.items() if time.monotonic() - begun_s >= check.timeout_s]
        timed_out.update(name for name in late if name not in done)
        for name in {*done, *late}:
            del waiting[name]
    report([])
    examination = CheckReport(is_hanging=bool(timed_out))
    for check in checks:
        examination.findings += [_build_timeout_failure(check)] if check.name in timed_out else results[check.name]
    return examination


def _build_timeout_failure(check: Check) -> CheckResult:
    detail = f"No answer within {check.timeout_s:g} s; the other checks did not wait for it."
    return build_failure(check.name, detail, check.fix, ServiceError.exit_code)
