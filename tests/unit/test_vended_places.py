"""Settings that contradict vended credentials are refused before anything is opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from winnow.config.settings import load_settings
from winnow.errors import ConfigurationError
from winnow.files import vended_places

VALID = {
    "WINNOW_CATALOG__TYPE": "rest",
    "WINNOW_CATALOG__URI": "https://catalog.example/iceberg",
    "WINNOW_CATALOG__TOKEN": "secret",
    "WINNOW_WAREHOUSE": "s3://lake/warehouse",
    "WINNOW_VENDED_CREDENTIALS": "true",
}


def export(folder: Path, **changed: str) -> dict[str, str]:
    """What a process with those settings leaves for the processes that it starts."""
    env: dict[str, str] = {"WINNOW_VENDED_CREDENTIALS": "true"}
    settings = load_settings(cwd=folder, env={"WINNOW_HOME": str(folder), **VALID, **changed})
    vended_places.export_access(settings, env)
    return env


def test_settings_of_a_file_reach_the_processes_that_are_started(tmp_path: Path) -> None:
    """Under the names that the environment has for them; nothing else of the catalog's."""
    (tmp_path / "winnow.toml").write_text('[catalog]\ncredential = "id:secret"\n"header.x" = "y"\n')
    assert export(tmp_path) == {
        "WINNOW_VENDED_CREDENTIALS": "true",
        "WINNOW_WAREHOUSE": "s3://lake/warehouse",
        "WINNOW_NAMESPACE": "winnow",
        "WINNOW_CATALOG__URI": "https://catalog.example/iceberg",
        "WINNOW_CATALOG__TOKEN": "secret",
        "WINNOW_CATALOG__CREDENTIAL": "id:secret",
    }


def test_without_the_setting_nothing_is_left_on(tmp_path: Path) -> None:
    """An environment of another installation does not decide."""
    assert export(tmp_path, WINNOW_VENDED_CREDENTIALS="false") == {}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"WINNOW_CATALOG__TYPE": "sql"}, "only REST catalogs vend credentials"),
        ({"WINNOW_WAREHOUSE": "gs://lake/warehouse"}, "is not on S3"),
        ({"WINNOW_CATALOG__S3__ACCESS_KEY_ID": "AKIA"}, "catalog.s3.access-key-id is set, too"),
        ({"WINNOW_CATALOG__REST__SIGV4_ENABLED": "true"}, "not with catalog.rest.sigv4-enabled"),
        ({"WINNOW_STAGING": "s3://lake/warehouse/_staging"}, "no credentials are vended for the staging area"),
        ({"WINNOW_STAGING": "s3://lake/warehouse"}, "no credentials are vended for the staging area"),
    ],
)
def test_a_contradiction_is_refused_with_the_way_out(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    """And without a secret in the message."""
    with pytest.raises(ConfigurationError, match=re.escape(told)) as caught:
        export(tmp_path, **changed)
    assert "Nothing was changed." in str(caught.value)
    assert "AKIA" not in str(caught.value)


@pytest.mark.parametrize("staging", ["s3://lake/warehouse/winnow_shared/documents/_winnow/staging", "s3://other/place"])
def test_a_staging_area_in_the_shared_folder_or_elsewhere_is_taken(tmp_path: Path, staging: str) -> None:
    """The first is opened with vended credentials, the second with access of one's own."""
    assert export(tmp_path, WINNOW_STAGING=staging)["WINNOW_WAREHOUSE"] == "s3://lake/warehouse"
