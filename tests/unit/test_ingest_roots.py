"""A DAG run reads only below the configured folders, whatever paths it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.config.settings import load_settings
from winnow.errors import BadInputError, ConfigurationError, UsageError
from winnow.sources.ingest_roots import check_ingest_paths

S3 = "s3://lake/kafka"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a file, beside one that is not to be read."""
    for folder in ("archive/orders", "archive-of-others", "private"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "1.jsonl").write_text("{}\n")
    return tmp_path / "archive"


def test_everything_below_a_root_may_be_read(root: Path) -> None:
    """Files, folders, globs and the root itself, as paths and as URIs."""
    allowed = [f"{root}/orders/1.jsonl", f"{root}/orders", f"{root}/*/*.jsonl", str(root), f"file://{root}/orders"]
    check_ingest_paths(allowed, [str(root)])
    check_ingest_paths(allowed, ["s3://lake", f"file://{root}"])


@pytest.mark.parametrize(
    "path",
    [
        "{root}/../private/1.jsonl",
        "{root}/orders/../../private/*.jsonl",
        "{root}-of-others/1.jsonl",
        "file://{root}/%2e%2e/private/1.jsonl",
        "/etc/passwd",
        "/etc/no-such-file",
        "orders/1.jsonl",
        "{root}*/1.jsonl",
        "s3://lake/kafka/orders",
    ],
)
def test_other_places_are_refused_whether_something_is_there_or_not(root: Path, path: str) -> None:
    """By .., by a neighbour whose name begins alike, by an escape, by a glob, by a relative path."""
    with pytest.raises(UsageError, match=r"setting ingest\.roots"):
        check_ingest_paths([f"{root}/orders", path.format(root=root)], [str(root)])


@pytest.mark.parametrize("link", ["orders/2.jsonl", "returns"])
def test_links_that_lead_out_are_refused_and_links_inside_are_followed(root: Path, link: str) -> None:
    """A link to a file and one to a folder, named themselves, by their folder, and by a glob."""
    place = root / link
    target = root.parent / "private"
    inside = root / "orders" / "1.jsonl"
    place.symlink_to(target / "1.jsonl" if link.endswith("jsonl") else target)
    for path in (str(place), str(root), f"{root}/**", f"{place.parent}/*"):
        with pytest.raises(UsageError, match="a link in it leads out"):
            check_ingest_paths([path], [str(root)])
    place.unlink()
    place.symlink_to(inside if link.endswith("jsonl") else inside.parent)
    check_ingest_paths([str(place), str(root), f"{root}/**"], [str(root)])


def test_root_that_is_a_link_counts_as_what_it_leads_to(root: Path) -> None:
    """A mount may be reached by another name."""
    alias = root.parent / "alias"
    alias.symlink_to(root)
    check_ingest_paths([f"{root}/orders", f"{alias}/orders"], [str(alias)])


@pytest.mark.parametrize(
    "path",
    [
        "s3://lake/kafka-private/1.jsonl",
        "s3://lake/kafka/../private/1.jsonl",
        "s3://lake/kafka/%2E%2E/private",
        "s3://other/kafka/1.jsonl",
        "s3://key:secret@lake/kafka/1.jsonl",
        "gs://lake/kafka/1.jsonl",
        "/lake/kafka/1.jsonl",
    ],
)
def test_object_stores_are_compared_by_bucket_and_prefix(path: str) -> None:
    with pytest.raises(UsageError, match=r"setting ingest\.roots"):
        check_ingest_paths([path], [S3])


def test_objects_below_a_prefix_are_allowed_without_asking_the_store() -> None:
    check_ingest_paths([S3, f"{S3}/", f"{S3}/orders/2026-*/*.avro"], [S3])


def test_missing_file_below_a_root_is_bad_input(root: Path) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        check_ingest_paths([f"{root}/missing.jsonl"], [str(root)])


def test_roots_are_a_list_and_by_default_one_folder_in_the_home(tmp_path: Path) -> None:
    """In the environment separated by commas; a relative folder would depend on where Airflow was started."""
    env = {"WINNOW_HOME": str(tmp_path / "a,b")}
    assert load_settings(env=env).ingest.roots == (f"{tmp_path}/a,b/incoming",)
    given = load_settings(env=env | {"WINNOW_INGEST__ROOTS": "/archive/, s3://lake/kafka"})
    assert given.ingest.roots == ("/archive", S3)
    (tmp_path / "winnow.toml").write_text('[ingest]\nroots = ["/a", "/b"]\n')
    assert load_settings(cwd=tmp_path, env=env).ingest.roots == ("/a", "/b")
    for wrong in ("archive", "/", "/archive,", "s3://"):
        with pytest.raises(ConfigurationError, match=r"ingest\.roots"):
            load_settings(env=env | {"WINNOW_INGEST__ROOTS": wrong})
