"""The rules of docker-compose.yml and the Dockerfile: what a first server must never be without."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from tests.cluster.compose_file import Service, load, ordered
from winnow.config.settings import load_settings
from winnow.embedded.airflow_home import POOLS
from winnow.embedded.bundle import find_bundled_folder
from winnow.version import read_newest_release

ROOT = Path(__file__).parents[2]
SERVICES = load(ROOT / "docker-compose.yml")
DOCUMENT: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
OWN = [name for name, each in SERVICES.items() if each.image.startswith("winnow")]
SECRET = re.compile(r"secret|passw|token|credential|(^|_)key(_|$)", re.IGNORECASE)

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def volumes(service: Service) -> Iterator[tuple[str, str, str]]:
    """Name, place and mode of each volume."""
    for each in service.document.get("volumes", ()):
        name, place, *mode = each.split(":")
        yield name, place, mode[0] if mode else "rw"


def settings_of(service: Service) -> dict[str, str]:
    return {name: value for name, value in service.environment.items() if name.startswith("WINNOW_")}


@every_service
def test_service_has_a_health_check_or_ends_by_itself(service: Service) -> None:
    """Whoever waits for it must be able to know."""
    assert (service.check is None) == service.runs_once
    assert service.document["restart"] == ("no" if service.runs_once else "unless-stopped")


@every_service
def test_image_is_pinned_to_a_version(service: Service) -> None:
    """A tag that moves is another server tomorrow."""
    name, _, tag = service.image.rpartition(":")
    assert name
    assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?(-\w+)*", tag), service.image


def test_own_image_is_tagged_with_the_version_of_the_changelog() -> None:
    """And is the same for Airflow and Spark."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    release, _ = read_newest_release(ROOT)
    assert {SERVICES[name].image for name in OWN} == {f"{project['name']}:{release}"}
    assert {"airflow-scheduler", "spark-master", "spark-worker"} <= set(OWN)


@every_service
def test_service_names_no_secret(service: Service) -> None:
    """Variables name files or commands that read one; URLs have no password."""
    for name, value in service.environment.items():
        if SECRET.search(name):
            assert re.fullmatch(r"(cat )?/run/winnow/[\w/.-]+", value), name
        if "://" in value:
            assert urlsplit(value).password is None, name
    text = " ".join([*service.entrypoint, *service.command])
    assert not re.search(r"(secret|password|key)\w*=(?!\$\(cat )", text, re.IGNORECASE)


def test_plain_up_needs_no_variable() -> None:
    """Every reference has a default, and none of them is for a secret."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    references = re.findall(r"(?<!\$)\$\{([^}]*)\}", text)
    assert references
    for reference in references:
        name, _, default = reference.partition(":-")
        assert default.isdigit(), reference
        assert not SECRET.search(name)
    assert not re.search(r"(?<!\$)\$[A-Za-z(]", text.replace("$$", ""))


@every_service
def test_port_is_published_on_the_loopback_interface_only(service: Service) -> None:
    """Whoever opens a server to others puts TLS before it."""
    for port in service.document.get("ports", ()):
        assert str(port).startswith("127.0.0.1:"), port


@every_service
def test_service_is_limited_and_cannot_gain_rights(service: Service) -> None:
    """One service must not take the machine with it, nor its disk with what it says."""
    assert re.fullmatch(r"\d+[mg]", service.document["mem_limit"])
    assert service.document["logging"]["options"].keys() == {"max-size", "max-file"}
    assert "no-new-privileges:true" in service.document["security_opt"]
    assert "privileged" not in service.document
    if service.name in OWN or service.name == "objects":
        assert service.document["cap_drop"] == ["ALL"]


@every_service
def test_service_that_sees_secrets_starts_after_they_were_made(service: Service) -> None:
    """Also those it waits for, and theirs."""
    order = [each.name for each in ordered(SERVICES)]
    seen = {name for name, _, _ in volumes(service) if name.startswith("secrets-")}
    if seen and service.name != "secrets":
        waits, found = set(service.waits_for), set()
        while waits:
            name = waits.pop()
            found.add(name)
            waits |= SERVICES[name].waits_for.keys()
        assert "secrets" in found
        assert order.index("secrets") < order.index(service.name)


def test_each_service_sees_only_the_secrets_that_it_needs() -> None:
    """Spark knows the lake's keys and no database's, PostgreSQL its own password, the broker nothing."""
    seen = {
        each.name: {name.removeprefix("secrets-") for name, _, _ in volumes(each) if name.startswith("secrets-")}
        for each in SERVICES.values()
    }
    airflow = {name: {"objects", "spark", "airflow"} for name in SERVICES if name.startswith("airflow-")}
    assert seen == airflow | {
        "secrets": {"database", "objects", "spark", "airflow"},
        "postgres": {"database"},
        "objects": {"objects"},
        "spark-master": {"spark"},
        "spark-worker": {"objects", "spark"},
        "kafka": set(),
    }
    writers = {
        each.name
        for each in SERVICES.values()
        for name, _, mode in volumes(each)
        if "secrets-o" in name and mode == "rw"
    }
    assert writers == {"secrets"}


def test_memory_that_the_file_asks_for_is_the_sum_of_its_limits() -> None:
    """What keeps running, with Kafka, and what a start needs beside it."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    said = re.search(r"add up to ([\d.]+) GiB, and ([\d.]+) with Kafka; while it starts, ([\d.]+) GiB more", text)
    assert said is not None
    kinds = {"plain": 0.0, "kafka": 0.0, "once": 0.0}
    for each in SERVICES.values():
        number, unit = re.fullmatch(r"(\d+)([mg])", each.document["mem_limit"]).groups()  # type: ignore[union-attr]
        kind = "once" if each.runs_once else "kafka" if each.profiles else "plain"
        kinds[kind] += int(number) / (1024 if unit == "m" else 1)
    assert [float(each) for each in said.groups()] == [kinds["plain"], kinds["plain"] + kinds["kafka"], kinds["once"]]
    assert "Give the machine 18 GiB" in text
    assert sum(kinds.values()) <= 18


def test_everything_that_speaks_with_sparks_master_has_its_secret() -> None:
    """From a file of a volume; the file itself asks for it and names none."""
    who = {name for name in SERVICES if name.startswith(("airflow-", "spark-"))}
    assert {
        name for name, each in SERVICES.items() if each.environment.get("SPARK_CONF_DIR") == "/run/winnow/spark"
    } == who
    assert {each.name for each in SERVICES.values() if "secrets-spark" in {name for name, _, _ in volumes(each)}} == (
        who | {"secrets"}
    )


def test_one_driver_speaks_with_postgresql() -> None:
    """Airflow's, Winnow's and the catalog's; the image has no other."""
    environment = SERVICES["airflow-scheduler"].environment
    urls = {name: value for name, value in environment.items() if value.startswith("postgresql")}
    assert len(urls) == 4
    assert {urlsplit(value).scheme for value in urls.values()} == {"postgresql+psycopg"}


def test_volumes_and_networks_are_declared_and_used() -> None:
    """Neither a name that is nowhere nor one that nobody uses."""
    used = {name for each in SERVICES.values() for name, _, _ in volumes(each)}
    assert used == set(DOCUMENT["volumes"])
    joined = {name for each in SERVICES.values() for name in each.document.get("networks", ())}
    assert joined == set(DOCUMENT["networks"])


def test_databases_and_lake_are_on_a_network_without_a_way_out() -> None:
    """They are reached by services alone."""
    assert DOCUMENT["networks"]["lake"] == {"internal": True}
    for name in ("postgres", "objects", "spark-worker"):
        assert SERVICES[name].document["networks"] == ["lake"]


@pytest.mark.parametrize("name", [name for name in OWN if name.startswith("airflow")])
def test_settings_of_a_service_are_settings_of_winnow(name: str, tmp_path: Path) -> None:
    """A misspelt one would have no effect."""
    settings = load_settings(cwd=tmp_path, env=settings_of(SERVICES[name]))
    assert settings.notices == ()
    assert settings.spark.master == "spark://spark-master:7077"
    assert settings.warehouse.startswith("s3://")


def test_options_of_airflow_are_options_of_airflow() -> None:
    """Airflow does not complain of one that it does not know."""
    from airflow.configuration import conf

    for name in SERVICES["airflow-scheduler"].environment:
        if name.startswith("AIRFLOW__"):
            section, option = name.lower().removeprefix("airflow__").split("__")
            known = conf.configuration_description[section]["options"]
            assert option.removesuffix("_cmd") in known, name


def test_connection_of_airflow_and_setting_of_winnow_name_one_spark() -> None:
    """The shell and the DAGs use the same cluster."""
    environment = SERVICES["airflow-scheduler"].environment
    assert json.loads(environment["AIRFLOW_CONN_WINNOW_SPARK"])["host"] == environment["WINNOW_SPARK__MASTER"]


def test_init_creates_the_pools_that_the_dags_name() -> None:
    """As the embedded Airflow has them."""
    assert "team-server pools > /tmp/winnow-pools.json\nairflow pools import" in SERVICES["airflow-init"].command[-1]
    assert POOLS.keys() == {"winnow_spark", "winnow_commit", "winnow_check", "winnow_scrub"}


# ------------------------------------------------------------------------------------------------------- Dockerfile


def instructions(word: str) -> list[str]:
    """The arguments of each instruction ``word`` of the Dockerfile, lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return [line.removeprefix(word).strip() for line in text.splitlines() if line.startswith(f"{word} ")]


def test_image_is_built_from_the_lock_on_one_python_and_does_not_run_as_root() -> None:
    """Airflow and Spark get the same bytes."""
    bases = {base.split(" ")[0] for base in instructions("FROM")}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.12\.\d+-slim-bookworm", bases.pop())
    text = "\n".join(instructions("RUN"))
    assert "--require-hashes -r requirements-image.lock" in text
    assert "check_spark_install()" in text
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    version = re.search(r"^UV_VERSION := (\S+)$", makefile, re.MULTILINE)
    assert version is not None
    assert f"uv=={version[1]}" in text
    assert instructions("USER") == ["winnow"]


def test_everything_that_the_image_copies_is_sent_to_the_build() -> None:
    """The ignore file lets through what is copied, and the wheel's folders are all there."""
    sources = {
        source
        for copy in instructions("COPY")
        if "--from" not in copy
        for source in [word for word in copy.split() if not word.startswith("--")][:-1]
    }
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    assert sources == {line.removeprefix("!") for line in lines if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]) <= sources
    assert "CHANGELOG.md" in sources, "the version of a build without git"
    assert all((ROOT / source).exists() for source in sources)


def test_folders_that_volumes_are_mounted_on_belong_to_the_user_of_the_image() -> None:
    """A new volume takes its owner from the image; another one's could not be written."""
    made = next(run for run in instructions("RUN") if run.startswith("mkdir"))
    for name in OWN:
        for _, place, _ in volumes(SERVICES[name]):
            assert any(folder == place or folder.startswith(f"{place}/") for folder in made.split()), place


def test_bundled_folders_lie_side_by_side() -> None:
    """The image names them by one link."""
    assert {find_bundled_folder(name).name for name in ("dags", "plugins")} == {"dags", "plugins"}
    assert find_bundled_folder("dags").parent == find_bundled_folder("plugins").parent
    assert Path(SERVICES["airflow-scheduler"].environment["AIRFLOW__CORE__DAGS_FOLDER"]).name == "dags"
