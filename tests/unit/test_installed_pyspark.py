"""Which PySpark a process of Spark imports when spark-submit has put its zip first."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from winnow.engine.spark_program import prefer_installed_pyspark


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A path as spark-submit leaves it: the zips of PySpark 4.1.3 and py4j, then a folder to install into."""
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/version.py", '__version__ = "4.1.3"')
    entries = [str(tmp_path / name) for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip", "site-packages")]
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(sys, "path", [*entries])
    return entries


def install(path: list[str], version: str, *, py4j: bool = True) -> None:
    folder = Path(path[-1])
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "version.py").write_text(f'__version__ = "{version}"')
    if py4j:
        (folder / "py4j").mkdir()


def test_installed_pyspark_of_the_same_version_comes_instead_of_the_zip(path: list[str]) -> None:
    install(path, "4.1.3")
    prefer_installed_pyspark()
    assert sys.path == path[2:]


def test_installed_pyspark_of_another_version_stays_behind_the_zip(path: list[str]) -> None:
    """The JVM's own Python code is in the zip: another version of it would not understand that JVM."""
    install(path, "4.1.2")
    prefer_installed_pyspark()
    assert sys.path == path


def test_pyspark_that_is_only_in_the_zip_stays_there(path: list[str]) -> None:
    prefer_installed_pyspark()
    assert sys.path == path


def test_pyspark_installed_without_py4j_stays_behind_the_zip(path: list[str]) -> None:
    install(path, "4.1.3", py4j=False)
    prefer_installed_pyspark()
    assert sys.path == path


def test_path_is_left_alone_once_pyspark_is_imported(path: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    install(path, "4.1.3")
    monkeypatch.setitem(sys.modules, "pyspark", sys)
    prefer_installed_pyspark()
    assert sys.path == path
