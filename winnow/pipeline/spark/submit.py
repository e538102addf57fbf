"""Runs spark-submit and follows the events of its application."""

from __future__ import annotations

import os
import shlex
import string
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from winnow.config.masking import mask
from winnow.config.settings import Settings
from winnow.embedded.bundle import find_bundled_folder
from winnow.embedded.java import (
    check_spark_install,
    find_java,
    find_submitting_spark,
    is_local,
    make_spark_environment,
)
from winnow.engine.events import PlanFailure, parse_event, parse_failure
from winnow.errors import ConfigurationError, Explanation, ServiceError
from winnow.files import private_files
from winnow.files.class_archive import use_class_archive
from winnow.planning.plans import PlanReference

MAXIMUM_TAIL_LINES = 15
_UNESCAPED_CHARACTERS = frozenset(f"{string.ascii_letters}{string.digits}._-/,;*+%@$()[]{{}}")
"""Characters that need no escaping anywhere in a Java properties file."""
JVM_OPTIONS = "spark.driver.extraJavaOptions"
DRIVER_OPTIONS = ("spark.driver.defaultJavaOptions", JVM_OPTIONS)
"""Spark's properties that become arguments of the driver's JVM."""

Progress = Callable[[dict[str, Any]], None]
"""Function called with each event: submitted, then those of the job: started, partition, plan, failed."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a Spark application ended.

    ``failures``: per plan id why it has no staging manifest. ``silent``: the ids of those whose failure is only that
    the application ended without reporting on them. ``digests``: per plan id the sha256 of the document that it wrote.
    """

    exit_code: int | None = 0
    failures: dict[str, PlanFailure] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()

    @property
    def ending(self) -> str:
        """The exit code as text."""
        return "without an exit code" if self.exit_code is None else f"with exit code {self.exit_code}"


class JobOutput:
    """Reads the output of a Spark application line by line; its events report the outcome of ``plan_ids``."""

    def __init__(self, plan_ids: Collection[str]) -> None:
        self._plan_ids = plan_ids
        self._reported: set[str] = set()
        self._failures: dict[str, PlanFailure] = {}
        self._digests: dict[str, str] = {}

    def read_line(self, line: str) -> dict[str, Any] | None:
        """Read one line; return its event, None if it has none."""
        event = parse_event(line)
        if event is not None and event["event"] in {"plan", "failed"}:
            # "failed" concerns the application, and so every plan of it.
            plan_ids = [event["plan_id"]] if event["event"] == "plan" and "plan_id" in event else list(self._plan_ids)
            self._reported.update(plan_ids)
            failure = parse_failure(event)
            self._failures.update({plan_id: failure for plan_id in plan_ids if failure is not None})
            self._digests.update({plan_id: str(event["sha256"]) for plan_id in plan_ids if event.get("sha256")})
        return event

    def end(self, exit_code: int | None) -> JobOutcome:
        """Return the outcome of the application, which ended with ``exit_code``."""
        silent = frozenset(self._plan_ids) - self._reported
        ended = JobOutcome(exit_code, digests=self._digests, silent=silent)
        reason = f"the Spark application ended {ended.ending} before it finished"
        unreported = dict.fromkeys(sorted(silent), PlanFailure(Explanation(reason), ServiceError.exit_code))
        return replace(ended, failures=self._failures | unreported)


def find_job_file(name: str) -> str:
    """Find the program ``name`` that spark-submit starts."""
    return str(find_bundled_folder("jobs") / f"{name}.py")


def build_engine_arguments(settings: Settings) -> list[str]:
    """Build the arguments of every job: the limits of its tasks. Credentials come from environment or instance role."""
    engine = settings.engine
    # On other machines this home does not exist; Spark tells them where to spill.
    is_remote = settings.spill_folder_is_default and not is_local(settings.spark.master)
    return [
        "--memory",
        str(engine.memory_bytes),
        "--threads",
        str(engine.threads),
        "--giant-bytes",
        str(engine.giant_bytes),
        *([] if is_remote else ["--spill", engine.spill_folder]),
        *(["--tasks", str(engine.tasks)] if engine.tasks is not None else []),
        *(["--bytes-per-second", str(engine.bytes_per_second)] if engine.bytes_per_second is not None else []),
    ]


def build_spark_conf(settings: Settings, *, is_from_shell: bool = False) -> dict[str, str]:
    """Build the Spark configuration: no UI, quick to start, workers reused; settings take precedence.

    A ``spark.pyspark.python`` of the settings is for executors; without a word of its own for the driver, Spark would
    start the driver with it, too, which on this machine may not exist or not have Winnow. ``is_from_shell``: no
    connection of Airflow's can put the driver on the cluster.
    """
    is_here = is_driver_here(settings) and (is_from_shell or _is_driver_local(settings))
    names_python = "spark.pyspark.python" in settings.spark.conf
    return {
        **({"spark.pyspark.driver.python": sys.executable} if is_here and names_python else {}),
        "spark.ui.enabled": "false",
        # A progress bar would be drawn over the lines that are parsed.
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        JVM_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "spark.log.level": "WARN",
        **settings.spark.conf,
    }


def is_driver_here(settings: Settings) -> bool:
    """Check whether the drivers of applications that this process starts run on this machine."""
    return settings.spark.conf.get("spark.submit.deployMode", "client") == "client"


@contextmanager
def open_properties_file(settings: Settings, conf: Mapping[str, str]) -> Iterator[list[str]]:
    """Write ``conf`` to a file that only its owner can read, for a block; yield spark-submit's arguments for it.

    A command line can be read by every user of the machine (``ps``), and ends up in logs. All properties go into the
    file: no list of names covers every property that holds a key. Other values in ``spark-defaults.conf`` stay.

    Raises:
        ConfigurationError: options of the driver's JVM with a quotation mark that is not closed.
        ServiceError: the file cannot be written.
    """
    with ExitStack() as stack:
        private = stack.enter_context(private_files.make_private_folder(settings.private_folder))
        properties = dict(conf)
        if settings.spark.class_archive and _is_driver_local(settings):
            options = properties.get(JVM_OPTIONS, "")
            properties[JVM_OPTIONS] = stack.enter_context(use_class_archive(options, os.environ))
        for name in DRIVER_OPTIONS if _is_driver_local(settings) else ():
            options = properties.get(name, "")
            if mask(name, options) != options:
                # Java reads arguments from a file, too; Spark would put them into the command line of the driver.
                arguments = private_files.write_file(private / f"{name}.args", _format_java_arguments(name, options))
                properties[name] = f"@{arguments}"
        text, options_of_spark = _format_java_properties(properties), ["--load-spark-defaults"]
        if (find_submitting_spark(os.environ) or "").startswith("3."):
            # Spark 3.5 has no such option, and takes the file instead of its defaults: the last line of a name holds.
            text, options_of_spark = f"{_read_spark_defaults(os.environ)}\n{text}", []
        path = private_files.write_file(private / "spark.properties", text)
        yield [*options_of_spark, "--properties-file", str(path)]


def _read_spark_defaults(env: Mapping[str, str]) -> str:
    """Read ``spark-defaults.conf`` where spark-submit looks for it; empty without one."""
    folder = env.get("SPARK_CONF_DIR") or (f"{env['SPARK_HOME']}/conf" if env.get("SPARK_HOME") else None)
    if folder is None:
        return ""
    try:
        return Path(folder, "spark-defaults.conf").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(
            f"{folder}/spark-defaults.conf cannot be read ({type(problem).__name__}).",
            left="Nothing was started.",
            next="Make it readable UTF-8, or remove it.",
        ) from None


def _is_driver_local(settings: Settings) -> bool:
    # Spark's own cluster runs no Python driver; on others the driver may run where the file does not exist.
    return is_local(settings.spark.master) or settings.spark.master.startswith("spark://")


def _format_java_properties(conf: Mapping[str, str]) -> str:
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in sorted(conf.items()))


def _escape(text: str) -> str:
    """Escape ``text`` for Java's ``Properties``: ASCII, without characters that end a name or a line."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass")).cast("B")
    codes = [units[place] << 8 | units[place + 1] for place in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code) in _UNESCAPED_CHARACTERS else f"\\u{code:04x}" for code in codes)


def _format_java_arguments(name: str, options: str) -> str:
    try:
        arguments = shlex.split(options)
    except ValueError:
        raise ConfigurationError(
            f"spark.conf.{name} cannot be parsed: a quotation mark in it is not closed.",
            left="Nothing was started.",
        ) from None
    quoted = (each.replace("\\", "\\\\").replace('"', '\\"') for each in arguments)
    return "".join(f'"{each}"\n' for each in quoted)


def run_job(
    settings: Settings,
    job: Sequence[str],
    *,
    name: str,
    plans: Sequence[PlanReference],
    progress: Progress | None = None,
) -> JobOutcome:
    """Run spark-submit for ``job`` (a program and its arguments) with ``plans``, and wait for it.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        ServiceError: there is no spark-submit.
    """
    check_spark_install()
    environment = make_spark_environment(
        os.environ, find_java(os.environ, settings.home / "java"), settings.spark.master
    )
    with open_properties_file(settings, build_spark_conf(settings, is_from_shell=True)) as options:
        command = ["spark-submit", "--master", settings.spark.master, "--name", name, *options, *job]
        return _follow(command, environment, progress, plans)


def _follow(
    command: Sequence[str], environment: dict[str, str], progress: Progress | None, plans: Sequence[PlanReference]
) -> JobOutcome:
    output = JobOutput([plan.plan_id for plan in plans])
    tail: list[str] = []
    try:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
    except FileNotFoundError as problem:
        raise ServiceError(
            "spark-submit was not found on PATH.",
            left="Nothing was changed.",
            next="Install pyspark into this environment.",
        ) from problem
    assert process.stdout is not None
    if progress is not None:
        progress({"event": "submitted"})
    with process:
        for line in process.stdout:
            event = output.read_line(line)
            if event is None:
                tail = [*tail, line.rstrip()][-MAXIMUM_TAIL_LINES:]
                continue
            if progress is not None:
                progress(event)
    outcome = output.end(process.returncode)
    if outcome.silent:
        sys.stderr.write("\n".join(tail) + "\n")
    return outcome
