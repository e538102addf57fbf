"""The class archive of Spark's driver: who writes it, who uses it, and who goes without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from winnow.files.class_archive import KEPT, MAXIMUM_TRIES, name_archive, use_class_archive

OPTIONS = "-XX:+UseSerialGC"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A Java and a Spark of a few bytes, and a cache."""
    for path in ("java/bin/java", "spark/jars/spark-core.jar"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(path)
    homes = {"JAVA_HOME": "java", "SPARK_HOME": "spark", "XDG_CACHE_HOME": "cache"}
    return {name: str(tmp_path / folder) for name, folder in homes.items()}


def run_jvm(env: dict[str, str], options: str = OPTIONS, *, can_write: bool = True) -> str:
    """Do what a JVM does with its options: write the archive that they name, if it can; return them."""
    with use_class_archive(options, env) as given:
        for option in given.split():
            if option.startswith("-XX:ArchiveClassesAtExit=") and can_write:
                Path(option.partition("=")[2]).write_text("classes")
    return given


def test_first_application_writes_the_archive_and_later_ones_use_it(env: dict[str, str]) -> None:
    assert "-XX:ArchiveClassesAtExit=" in run_jvm(env)
    second = run_jvm(env)
    assert second.startswith(OPTIONS)
    [archive] = [option.partition("=")[2] for option in second.split() if option.startswith("-XX:SharedArchiveFile=")]
    assert Path(archive).read_text() == "classes"


def test_jvm_that_cannot_write_one_is_not_asked_forever(env: dict[str, str]) -> None:
    for _ in range(MAXIMUM_TRIES):
        assert "ArchiveClassesAtExit" in run_jvm(env, can_write=False)
    assert run_jvm(env) == OPTIONS


@pytest.mark.parametrize("change", ["java/bin/java", "spark/jars/spark-core.jar"])
def test_another_java_or_spark_has_an_archive_of_its_own(env: dict[str, str], tmp_path: Path, change: str) -> None:
    before = name_archive(OPTIONS, env)
    (tmp_path / change).write_text("another version")
    assert name_archive(OPTIONS, env) not in {before, None}
    assert name_archive(f"{OPTIONS} -ea", env) != name_archive(OPTIONS, env)


@pytest.mark.parametrize(
    "own", ["-Xshare:off", "-XX:SharedArchiveFile=/mine.jsa", "-XX:ArchiveClassesAtExit=/mine.jsa"]
)
def test_options_that_choose_for_themselves_stay(env: dict[str, str], own: str) -> None:
    assert run_jvm(env, own) == own


@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_archive_that_the_environment_chooses_stays_the_only_one(env: dict[str, str], name: str) -> None:
    """A JVM that is to write an archive and is given another does not start."""
    assert run_jvm({**env, name: "-XX:SharedArchiveFile=/mine.jsa"}) == OPTIONS


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", None])
def test_spark_with_configuration_goes_without(env: dict[str, str], tmp_path: Path, variable: str | None) -> None:
    """A JVM with a folder on its class path ends with an error when it is to write an archive."""
    conf = tmp_path / "spark" / "conf" if variable is None else tmp_path / "conf"
    conf.mkdir()
    found = env if variable is None else env | {variable: str(conf)}
    assert "ArchiveClassesAtExit" in run_jvm(found, can_write=False), "an empty folder does no harm"
    (conf / "spark-defaults.conf").touch()
    assert run_jvm(found) == OPTIONS


def test_folder_that_others_can_write_to_is_not_trusted(env: dict[str, str], tmp_path: Path) -> None:
    """Whoever writes there would run code in the driver."""
    run_jvm(env)
    folder = tmp_path / "cache" / "winnow" / "class-archives"
    folder.chmod(0o777)
    assert run_jvm(env) == OPTIONS


def test_nothing_changes_where_java_spark_or_cache_are_missing(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, place in (("JAVA_HOME", "none"), ("SPARK_HOME", "none"), ("XDG_CACHE_HOME", "file")):
        assert run_jvm(env | {name: str(tmp_path / place)}) == OPTIONS


def test_old_archives_go(env: dict[str, str], tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        run_jvm(env, f"-Dnumber={number}")
        for each in (tmp_path / "cache").rglob("*.jsa"):
            os.utime(each, ns=(each.stat().st_mtime_ns - 10**9,) * 2)
    assert len(list((tmp_path / "cache").rglob("*.jsa"))) == KEPT
    assert "SharedArchiveFile" in run_jvm(env, f"-Dnumber={KEPT + 1}")


def find_draft(given: str) -> Path:
    return Path(next(part for part in given.split() if "AtExit" in part).partition("=")[2])


def test_drafts_of_killed_applications_go_and_those_of_living_ones_stay(env: dict[str, str], tmp_path: Path) -> None:
    """A process that is killed unlocks its folder; the next one that makes an archive removes it."""
    child = os.fork()
    if child == 0:
        with use_class_archive(OPTIONS, env) as given:
            find_draft(given).write_text("classes")
            os._exit(0)
    os.waitpid(child, 0)
    cache = tmp_path / "cache"
    (left,) = cache.rglob("*.draft")
    with use_class_archive(OPTIONS, env) as given:
        draft = find_draft(given)
        draft.write_text("classes")
        assert not left.exists()
        run_jvm(env, "-Dof=another")
        assert draft.exists()
    assert list(cache.rglob("*.draft")) == []
    assert "SharedArchiveFile" in run_jvm(env)


def test_counts_of_tries_go_with_the_archive_and_with_what_they_counted(env: dict[str, str], tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        run_jvm(env, f"-Dnumber={number}", can_write=False)
    run_jvm(env, OPTIONS, can_write=False)
    run_jvm(env)
    names = {path.stem for path in (tmp_path / "cache").rglob("*.tries")}
    assert len(names) == KEPT
    assert name_archive(OPTIONS, env) not in names
