"""Fetches jars from Maven Central once per user, with the Ivy that PySpark ships; no Maven and no Spark is started.

A set of jars is a folder below ``$XDG_CACHE_HOME/winnow/jars`` (``~/.cache`` without it). It appears there whole, by
one rename, so a download that was killed leaves nothing that is ever used, and a set that is there needs neither Java
nor network. Processes that want jars at the same time wait for one another.

A file ``~/.ivy2/ivysettings.xml`` of the user is obeyed: that is where mirrors and their passwords belong.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from xml.sax.saxutils import quoteattr

from winnow.embedded.java import find_java
from winnow.errors import ConfigurationError, ServiceError

DOWNLOAD_TIMEOUT_S = 900
"""Fifty megabytes take about a minute; a slow line gets fifteen."""

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="{usepoms}"/></resolvers>
</ivysettings>
"""


def resolve_jars(coordinates: Sequence[str], name: str, *, exclude: Sequence[str] = ()) -> Path:
    """Return a folder with the jars of ``coordinates`` (``group:artifact:version``) and all that they need.

    With ``:classifier`` behind it, that jar of the artifact comes, too; with ``:classifier@extension`` that file alone.
    ``exclude`` lists modules (``group:artifact``) that are left out. ``name`` begins the folder's name, for people.

    Raises:
        ConfigurationError: PySpark or Java is missing.
        ServiceError: the repository does not answer, or lacks one of the jars.
    """
    wanted = "\n".join([*sorted(coordinates), "-", *sorted(exclude)])
    folder = locate_cache() / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _hold_lock(folder.parent / "download.lock"):
        if not folder.is_dir():
            for left in folder.parent.glob("draft-*"):
                shutil.rmtree(left, ignore_errors=True)  # of processes that were killed
            draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
            try:
                _download(coordinates, exclude, draft)
                (draft / "jars").rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return folder


def locate_cache() -> Path:
    """Return the folder of all sets of jars."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "winnow" / "jars"


def list_spark_jars(*patterns: str) -> list[Path]:
    """List those of PySpark's own jars whose names match ``patterns``, in the order of the patterns.

    Raises:
        ConfigurationError: PySpark is not installed, or has no such jar.
    """
    found = util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError(
            "PySpark is not installed.",
            left="Nothing was started.",
            next="Install 'winnow-log[driver]'.",
        )
    folder = Path(found.submodule_search_locations[0]) / "jars"
    jars = [jar for pattern in patterns for jar in sorted(folder.glob(pattern))]
    if not jars:
        raise ConfigurationError(
            f"PySpark's folder {folder} has no {' or '.join(patterns)}.",
            next="Install PySpark anew.",
        )
    return jars


def _download(coordinates: Sequence[str], exclude: Sequence[str], draft: Path) -> None:
    settings = Path.home() / ".ivy2" / "ivysettings.xml"
    if not settings.is_file():
        settings = draft / "ivysettings.xml"
        # What a single file needs is of no interest, and Ivy does not understand every parent of a POM.
        needs_others = not all("@" in coordinate for coordinate in coordinates)
        settings.write_text(_SETTINGS.format(usepoms=str(needs_others).lower()))
    module = draft / "ivy.xml"
    module.write_text(_describe_module(coordinates, exclude))
    java = find_java(os.environ, locate_cache().parent) / "bin" / "java"
    ivy = list_spark_jars("ivy-*.jar")[0]
    command = [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", ivy, "-settings", settings, "-ivy", module]
    command += ["-cache", locate_cache() / "ivy", "-confs", "default", "-warn"]
    command += ["-retrieve", draft / "jars" / "[organisation]_[artifact]-[revision](-[classifier]).[ext]"]
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=DOWNLOAD_TIMEOUT_S,
            cwd=draft,
        )
    except subprocess.TimeoutExpired:
        raise ServiceError(_describe_failure(coordinates, f"not done after {DOWNLOAD_TIMEOUT_S} s")) from None
    if done.returncode != 0 or not any((draft / "jars").glob("*")):
        raise ServiceError(_describe_failure(coordinates, _summarize(done.stdout)))


def _describe_module(coordinates: Sequence[str], exclude: Sequence[str]) -> str:
    lines = ['<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">']
    lines += ['<info organisation="winnow" module="jars"/>']
    lines += ['<configurations><conf name="default"/></configurations><dependencies>']
    for coordinate in coordinates:
        jar, _, extension = coordinate.partition("@")
        organisation, artifact, version, *classifiers = jar.split(":")
        names = f"org={quoteattr(organisation)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        kind = quoteattr(extension or "jar")
        of_artifact = f"<artifact name={quoteattr(artifact)} type={kind} ext={kind}"
        inside = "".join(f"{of_artifact} m:classifier={quoteattr(each)}/>" for each in classifiers)
        if inside and not extension:
            inside = f"{of_artifact}/>{inside}"
        alone = ' transitive="false"' if extension else ""
        lines.append(f'<dependency {names} conf="default->default"{alone}>{inside}</dependency>')
    for organisation, artifact in (each.split(":") for each in exclude):
        lines.append(f"<exclude org={quoteattr(organisation)} module={quoteattr(artifact)}/>")
    return "\n".join([*lines, "</dependencies></ivy-module>"])


def _describe_failure(coordinates: Sequence[str], cause: str) -> str:
    return (
        f"{', '.join(coordinates)} could not be fetched from Maven Central: {cause}. Nothing was kept. Run it again "
        "when the network is back; a mirror is named in ~/.ivy2/ivysettings.xml."
    )


def _summarize(output: str) -> str:
    lines = [line.strip(" \t:") for line in output.splitlines()]
    told = [line for line in lines if "not found" in line or "FAILED" in line or "Exception" in line or "error" in line]
    return "; ".join(dict.fromkeys(told[:3])) or "Ivy gave no reason"


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
