"""Checks this machine: Python, packages, Java, Spark and disk space."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from winnow.config.masking import mask
from winnow.config.settings import Settings
from winnow.embedded.java import check_spark_install, find_java, inspect_java, make_spark_environment
from winnow.engine.events import parse_event
from winnow.errors import ConfigurationError, ServiceError
from winnow.files import storage, storage_health
from winnow.files.storage import parse_local_path
from winnow.log.namespaces import Namespaces
from winnow.pipeline.doctor.check_runner import CheckResult, build_failure, build_ok, build_warning
from winnow.pipeline.doctor.executors import judge_executors
from winnow.pipeline.spark.submit import build_spark_conf, find_job_file, open_properties_file

DISTRIBUTION_NAME = "winnow-log"
MINIMUM_RECOMMENDED_DISK_BYTES = 5 * 2**30
MINIMUM_DISK_BYTES = 200 * 2**20
"""With less, a run may fail to write its plans and its spill."""

SPARK_DISTRIBUTIONS = ("pyspark", "pyspark-client")
KEPT_SPARK = "Keep this Spark, and try it: winnow doctor --spark"
"""For a Spark outside of the tested range: other programs use it, too, and none of them is asked to go back."""

_SPARK_VERSION = re.compile(r"version (\d+\.\d+\.\d+\S*)")


def check_python(requirement: str | None = None, version: tuple[int, ...] = sys.version_info[:3]) -> list[CheckResult]:
    """Check whether Winnow was tested with this Python. ``requirement`` defaults to the installation's own."""
    wanted = requirement if requirement is not None else _read_required_python()
    found = f"Python {'.'.join(map(str, version))}, {sys.executable}."
    lowest, below = (re.search(rf"{sign}\s*(\d+)\.(\d+)", wanted) for sign in (">=", r"<(?!=)"))
    too_old = lowest is not None and version[:2] < (int(lowest[1]), int(lowest[2]))
    too_new = below is not None and version[:2] >= (int(below[1]), int(below[2]))
    if too_old or too_new:
        return [
            build_failure(
                "python", f"{found} Winnow needs {wanted}.", "Make an environment with such a Python, then: make setup"
            )
        ]
    return [build_ok("python", found)]


def _read_required_python() -> str:
    try:
        return metadata.metadata(DISTRIBUTION_NAME)["Requires-Python"] or ""
    except metadata.PackageNotFoundError:
        return ""


def check_packages(requirements: Iterable[str] | None = None) -> list[CheckResult]:
    """Check whether the installed packages are in the ranges that Winnow was tested with; the default is its own.

    Requirements of an extra count only if the package is installed, those of another Python never.
    """
    try:
        wanted = list(requirements if requirements is not None else metadata.requires(DISTRIBUTION_NAME) or ())
    except metadata.PackageNotFoundError:
        return [
            build_warning(
                "packages", "Winnow itself is not installed here, so required versions are not known.", "make setup"
            )
        ]
    missing, other, commands = [], [], []
    for name, ranges in _group_ranges(wanted).items():
        installed = _find_installed_version(name)
        if installed is None:
            missing += [f"{name}{each.allowed}" for each in ranges if not each.is_of_extra]
        elif unmet := _list_unmet(ranges, installed):
            allowed = " or ".join(dict.fromkeys(each.removeprefix("==") for each in unmet))
            other.append(f"{name} {installed} instead of {allowed}")
            commands += [] if name in SPARK_DISTRIBUTIONS else [f"{name}{unmet[0]}"]
    words = [shlex.quote(each) for each in dict.fromkeys([*missing, *commands])]
    fix = f"python -m pip install {' '.join(words)}" if words else KEPT_SPARK
    if missing:
        return [build_failure("packages", f"Not installed: {', '.join(missing)}.", fix)]
    if other:
        return [build_warning("packages", f"Not what Winnow was tested with: {', '.join(other)}.", fix)]
    return [build_ok("packages", "Every package is at a version that Winnow was tested with.")]


@dataclass(frozen=True, slots=True)
class _Range:
    allowed: SpecifierSet
    is_of_extra: bool


def _group_ranges(lines: Iterable[str]) -> dict[str, list[_Range]]:
    """Group the allowed versions by package, without requirements for another Python or platform."""
    found: dict[str, list[_Range]] = {}
    for line in lines:
        each = Requirement(line)
        extra = re.search(r"extra == ['\"]([^'\"]+)", str(each.marker))
        if each.marker is None or each.marker.evaluate({"extra": extra[1] if extra else ""}):
            found.setdefault(each.name, []).append(_Range(each.specifier, is_of_extra=extra is not None))
    return found


def _list_unmet(ranges: Iterable[_Range], installed: str) -> list[str]:
    """List what ``installed`` is outside of. Extras are alternatives: one that allows it is enough."""
    is_outside = {each: not each.allowed.contains(installed, prereleases=True) for each in ranges}
    optional = [each for each in is_outside if each.is_of_extra]
    unmet = [each for each, outside in is_outside.items() if outside and not each.is_of_extra]
    if all(is_outside[each] for each in optional):
        unmet += optional
    return [str(each.allowed) for each in unmet]


def _find_installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_java_and_spark(
    settings: Settings, env: Mapping[str, str], timeout_s: float, *, start: bool
) -> list[CheckResult]:
    """Check Java, and whether spark-submit starts the installed Spark.

    ``start``: also run a small application on the configured master.
    """
    try:
        home = find_java(env, settings.home / "java")
    except ConfigurationError as problem:
        return [
            build_failure(
                "java",
                str(problem),
                "Install Java 17 or newer and export JAVA_HOME, or: pip install 'winnow-log[java]'",
            )
        ]
    java = inspect_java(home / "bin" / "java")
    findings = [build_ok("java", f"Java {java.feature if java is not None else ''}, {home}.")]
    try:
        check_spark_install()
    except ConfigurationError as problem:
        return [*findings, build_failure("spark", str(problem), _describe_spark_install())]
    environment = make_spark_environment(env, home, settings.spark.master)
    submit = _check_spark_submit(settings, environment, timeout_s, start=start)
    return [*findings, submit]


def _describe_spark_install() -> str:
    """Describe how to make the installed Spark one version: PySpark's own; Spark 3 has no package pyspark-client."""
    version = _find_installed_version("pyspark") or "4.1.3"
    wanted = ["pyspark"] if version.startswith("3.") else SPARK_DISTRIBUTIONS
    installs = " ".join(f"{name}=={version}" for name in wanted)
    return f"pip uninstall -y {' '.join(SPARK_DISTRIBUTIONS)} && pip install {installs}"


def _check_spark_submit(
    settings: Settings, environment: dict[str, str], timeout_s: float, *, start: bool
) -> CheckResult:
    installed = _find_installed_version("pyspark")
    try:
        output = _run_command(["spark-submit", "--version"], environment, timeout_s)
    except FileNotFoundError:
        return build_failure("spark", "There is no spark-submit on PATH.", f"pip install pyspark=={installed}")
    found = _SPARK_VERSION.search(output.stdout)
    where = environment.get("SPARK_HOME")
    if found is None:
        return build_failure(
            "spark",
            f"spark-submit --version ended with exit code {output.returncode}: {_get_last_line(output.stdout)}",
            "spark-submit --version",
        )
    if found[1] != installed:
        because = f" SPARK_HOME leads to {where}." if where else ""
        return build_failure(
            "spark",
            f"spark-submit starts Spark {found[1]}, but PySpark {installed} is installed.{because}",
            "unset SPARK_HOME" if where else "Put this environment's bin folder first on PATH",
        )
    if start:
        return _check_application(settings, environment, timeout_s)
    return build_ok("spark", f"Spark {installed}; master {settings.spark.master}. --spark starts it.")


def _build_command(settings: Settings, options: Sequence[str]) -> list[str]:
    command = ["spark-submit", "--master", settings.spark.master, "--name", "winnow doctor"]
    command += [*options, find_job_file("doctor")]
    probed = Namespaces(settings.namespace, gathered=settings.vended_credentials).probed
    return [*command, storage.join(settings.warehouse, probed) if probed else settings.warehouse, settings.staging]


def _check_application(settings: Settings, environment: dict[str, str], timeout_s: float) -> CheckResult:
    conf = build_spark_conf(settings, is_from_shell=True)
    with open_properties_file(settings, conf) as options:
        output = _run_command(_build_command(settings, options), environment, timeout_s)
    event = next(filter(None, map(parse_event, output.stdout.splitlines())), None)
    if event is None:
        # The text shown ends up in tickets.
        shown = [part for key, value in sorted(conf.items()) for part in ("--conf", f"{key}={mask(key, value)}")]
        return build_failure(
            "spark",
            f"The application on {settings.spark.master} ended with exit code {output.returncode} before its tasks did "
            f"anything: {_get_last_line(output.stdout)}",
            "Read Spark's output: " + shlex.join(_build_command(settings, shown)),
            ServiceError.exit_code,
        )
    return judge_executors(event, settings)


def _run_command(
    command: Sequence[str], environment: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )


def _get_last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "there was no output"


def check_folder(
    name: str, path: str, variable: str, *, low_bytes: int = MINIMUM_RECOMMENDED_DISK_BYTES
) -> list[CheckResult]:
    """Check whether a local folder can be written to, and the free space of its disk."""
    try:
        storage_health.probe_folder(path, _return_no_time)
    except OSError as problem:
        return [build_failure(name, f"{path} cannot be written to: {problem.strerror}.", _describe_fix(path, variable))]
    return [check_free_space(name, path, "", variable, storage_health.measure_free_bytes(path), low_bytes)]


def _return_no_time() -> int:
    return 0


def check_free_space(
    name: str, place: str, answer: str, variable: str, free_bytes: int | None, low_bytes: int
) -> CheckResult:
    """Return the result ``answer`` of ``place``, with its free space if known."""
    if free_bytes is None:
        return build_ok(name, f"{place} {answer}".strip() + ".")
    text = f"{place}{' ' + answer if answer else ''}, {free_bytes / 2**30:,.1f} GiB free."
    fix = f"Make room there (winnow sweep removes what was replaced), or point {variable} at a larger disk"
    if free_bytes < MINIMUM_DISK_BYTES:
        return build_failure(name, text, fix)
    return build_warning(name, text, fix) if free_bytes < low_bytes else build_ok(name, text)


def _describe_fix(path: str, variable: str) -> str:
    place = storage_health.find_nearest_folder(Path(parse_local_path(path)))
    return f"Make {place} writable for {os.environ.get('USER') or 'this user'} (ls -ld {place}), or set {variable}"
