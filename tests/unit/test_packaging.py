"""What is installed and shipped: the lock, the wheel, and the folders that travel in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import winnow
from winnow.embedded.bundle import Kind, find_bundled_folder
from winnow.errors import ConfigurationError

KINDS: tuple[Kind, ...] = ("jobs", "expectations", "dags", "plugins")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The ``[project]`` table."""
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return table


@pytest.fixture(scope="module")
def lock(root: Path) -> str:
    """The text of the lock."""
    return (root / "requirements.lock").read_text()


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with what the lock installed and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=root,
        capture_output=True,
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content as an installer lays it out."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def files_below(folder: Path) -> set[str]:
    """Relative paths of the files in ``folder``, compiled ones left out."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_locked_requirement_has_hashes_and_a_version(lock: str) -> None:
    """Each entry of the lock is pinned to a version and to its files' hashes."""
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert len(entries) > 150
    loose = [entry.splitlines()[0] for entry in entries if not re.match(r"\S+==\S+ .*--hash=sha256:", entry, re.DOTALL)]
    assert loose == []


def test_lock_names_no_addresses_and_no_folders(root: Path, lock: str) -> None:
    """The lock works with whatever index its user has: no addresses, no options, and no second lock beside it."""
    assert "://" not in lock
    assert [line for line in lock.splitlines() if re.match(r"\s*(-f|-i|--index|--find|--extra|#|.* @ )", line)] == []
    assert not (root / "uv.lock").exists()


def test_lock_of_the_page_linter_has_hashes_and_names_no_addresses(root: Path) -> None:
    """Each npm package is pinned to a version and a hash, and no registry is named."""
    packages = json.loads((root / "package-lock.json").read_text())["packages"]
    del packages[""]
    locked = {name.removeprefix("node_modules/"): package["version"] for name, package in packages.items()}
    assert locked == json.loads((root / "package.json").read_text())["optionalDependencies"]
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_every_pin_of_the_project_is_in_the_lock(project: dict[str, Any], lock: str) -> None:
    """Pins in pyproject.toml and versions in the lock are the same ones."""
    pins = [*project["dependencies"], *(pin for extra in project["optional-dependencies"].values() for pin in extra)]
    for pin in pins:
        name, _, version = re.sub(r"\[.*?\]", "", pin).partition("==")
        assert version, f"{pin} names no version"
        assert re.search(rf"^{re.escape(name)}(\[.*\])?=={re.escape(version)} ", lock, re.MULTILINE), pin


def test_core_dependencies_name_no_airflow(project: dict[str, Any]) -> None:
    """A Spark image installs the core alone, and gets no scheduler with it."""
    assert [pin for pin in project["dependencies"] if "airflow" in pin] == []


def test_spark_and_its_client_have_one_version(project: dict[str, Any]) -> None:
    """Both install into one folder, so their pins move together."""
    pins = {pin for extra in ("airflow",) for pin in project["optional-dependencies"][extra]}
    (spark,) = [pin for pin in project["dependencies"] if pin.startswith("pyspark==")]
    assert spark.replace("pyspark", "pyspark-client") in pins


@pytest.mark.parametrize("kind", KINDS)
def test_wheel_carries_the_folders_beside_the_package(root: Path, unpacked: Path, kind: Kind) -> None:
    """Every file of the folder is in the wheel, equal to the last byte, and found by the package there."""
    expected = files_below(root / kind)
    assert files_below(unpacked / "winnow" / "_bundled" / kind) == expected
    for name in expected:
        assert (unpacked / "winnow" / "_bundled" / kind / name).read_bytes() == (root / kind / name).read_bytes()


def test_wheel_carries_the_whole_package_and_nothing_beside_it(root: Path, unpacked: Path) -> None:
    """No module is lost to an ignore rule; tests stay at home; the types are marked as such."""
    shipped = {name for name in files_below(unpacked / "winnow") if not name.startswith("_bundled/")}
    assert shipped == files_below(root / "winnow")
    assert "py.typed" in shipped
    assert {path.name for path in unpacked.iterdir()} == {"winnow", f"winnow_log-{winnow.__version__}.dist-info"}


def test_wheel_carries_the_licence_that_the_project_declares(root: Path, unpacked: Path) -> None:
    """The wheel alone has the full terms, as the licence asks."""
    folder = unpacked / f"winnow_log-{winnow.__version__}.dist-info"
    text = (folder / "licenses" / "LICENSE").read_text()
    assert text == (root / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "License-Expression: Apache-2.0" in (folder / "METADATA").read_text()


def test_bundled_folder_in_a_checkout_lies_beside_the_package(root: Path) -> None:
    """A checkout uses its own jobs folder."""
    assert find_bundled_folder("jobs") == root / "jobs"


def test_bundled_folder_in_a_wheel_lies_inside_the_package(unpacked: Path) -> None:
    """An installed package uses the folder that came with it."""
    assert find_bundled_folder("jobs", package=unpacked / "winnow") == unpacked / "winnow" / "_bundled" / "jobs"


def test_folder_of_strangers_beside_an_installed_package_is_not_taken(tmp_path: Path) -> None:
    """A folder of the same name in site-packages belongs to somebody else."""
    (tmp_path / "winnow").mkdir()
    (tmp_path / "dags").mkdir()
    with pytest.raises(ConfigurationError, match="incomplete"):
        find_bundled_folder("dags", package=tmp_path / "winnow")


def test_version_is_that_of_the_project(project: dict[str, Any]) -> None:
    """The version the package names is the one it is released under."""
    assert winnow.__version__ == project["version"]


def test_continuous_integration_runs_what_a_person_runs(root: Path) -> None:
    """The script is executable and calls ``make test`` alone."""
    script = root / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "set -euo pipefail"
    assert lines[-1] == "make test"
