"""Runs checks side by side, each with its own timeout."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from winnow.errors import ConfigurationError, ServiceError, WinnowError


class CheckStatus(StrEnum):
    """How a check ended. A warning stops nothing."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check saw. ``fix``: what to do, with the command; empty when there is nothing to do.

    ``exit_code``: 0, or of a failure 2 (something here must be changed) or 6 (a service is out of reach).
    """

    check: str
    status: CheckStatus
    detail: str
    fix: str = ""
    exit_code: int = 0


def build_ok(check: str, detail: str) -> CheckResult:
    """Nothing to do."""
    return CheckResult(check, CheckStatus.OK, detail)


def build_warning(check: str, detail: str, fix: str) -> CheckResult:
    """Works, and may be meant; or will matter later."""
    return CheckResult(check, CheckStatus.WARNING, detail, fix)


def build_failure(check: str, detail: str, fix: str, exit_code: int = ConfigurationError.exit_code) -> CheckResult:
    """Runs will fail."""
    return CheckResult(check, CheckStatus.FAILURE, detail, fix, exit_code)


def build_failure_from_error(check: str, problem: Exception, fix: str) -> CheckResult:
    """The failure that ``problem`` stands for. Of a stranger the type alone: it may quote a password."""
    if isinstance(problem, WinnowError):
        return build_failure(check, str(problem), fix, problem.exit_code)
    if isinstance(problem, OSError) and problem.strerror:
        where = f" ({problem.filename})" if problem.filename else ""
        return build_failure(check, f"{problem.strerror}{where}.", fix)
    return build_failure(check, f"Unexpected {type(problem).__name__}.", fix, WinnowError.exit_code)


@dataclass(frozen=True)
class Check:
    """One check: its name, what it does, what to do when it fails in a way it does not know, and its time in s."""

    name: str
    look: Callable[[], Sequence[CheckResult]]
    fix: str
    timeout_s: float


@dataclass
class CheckReport:
    """The findings in the order of the checks. ``is_hanging``: a check never ended, and its thread is still there."""

    findings: list[CheckResult] = field(default_factory=list)
    is_hanging: bool = False


def run_checks(checks: Sequence[Check], tell: Callable[[Sequence[str]], None]) -> CheckReport:
    """Run all ``checks`` at once. ``tell`` hears the names of those that are not done, whenever that changes."""
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
        # Not a pool's thread: Python would wait for it before it ends.
        threading.Thread(target=look, args=(check,), name=f"doctor {check.name}", daemon=True).start()
    waiting = {check.name: check for check in checks}
    given_up: set[str] = set()
    while waiting:
        tell(list(waiting))
        with changed:
            left_s = min(check.timeout_s for check in waiting.values()) - (time.monotonic() - begun_s)
            if not any(name in results for name in waiting) and left_s > 0:
                changed.wait(left_s)
            done = [name for name in waiting if name in results]
        late = [name for name, check in waiting.items() if time.monotonic() - begun_s >= check.timeout_s]
        given_up.update(name for name in late if name not in done)
        for name in {*done, *late}:
            del waiting[name]
    tell([])
    examination = CheckReport(is_hanging=bool(given_up))
    for check in checks:
        examination.findings += [_build_timeout_failure(check)] if check.name in given_up else results[check.name]
    return examination


def _build_timeout_failure(check: Check) -> CheckResult:
    detail = f"No answer within {check.timeout_s:g} s; the other checks did not wait for it."
    return build_failure(check.name, detail, check.fix, ServiceError.exit_code)
