"""What of an archive is read: files, folders, globs; not what sinks write beside their data."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import BadInputError
from winnow.sources.listing import list_objects

NAMES = (
    "orders/partition=0/orders+0+0000000000.json",
    "orders/partition=0/orders+0+0000000400.json",
    "orders/partition=1/orders+1+0000000000.json",
    "clicks/2026/part-1.parquet",
    "_schemas/partition=0/_schemas+0+0000000000.json",
    "orders/_SUCCESS",
    "orders/.orders.json.crc",
    "orders/_temporary/0/part-9.parquet",
    "orders/_committed_123",
)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / "archive" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    return tmp_path / "archive"


def list_names(archive: Path, *paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    """The names below ``archive`` that are listed for ``paths`` below it."""
    found = list_objects([f"{archive}/{path}" if path else str(archive) for path in paths], exclude)
    assert {each.size_bytes for each in found} <= {5}
    return [each.uri.removeprefix(f"{archive}/") for each in found]


def test_a_folder_stands_for_all_below_it_but_hidden_files_and_sidecars(archive: Path) -> None:
    """Sorted by name; a topic whose name begins with an underscore is a topic."""
    assert list_names(archive, "") == sorted(NAMES[:5])


def test_files_and_folders_that_meet_are_listed_once(archive: Path) -> None:
    """The same file by its name, by its folder, and by a glob."""
    assert list_names(archive, NAMES[0], "orders/partition=0", "orders/*/orders+0*") == sorted(NAMES[:2])


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("orders/partition=?/*.json", NAMES[:3]),
        ("orders/partition=[1-9]", NAMES[2:3]),
        ("**/*.parquet", NAMES[3:4]),
        ("*/partition=0/*", (NAMES[0], NAMES[1], NAMES[4])),
        ("orders/partition=[!0]/*", NAMES[2:3]),
    ],
)
def test_a_glob_stands_for_what_it_matches(archive: Path, glob: str, names: tuple[str, ...]) -> None:
    """Within one name, or over any folders; a folder that matches stands for all below it."""
    assert list_names(archive, glob) == sorted(names)


def test_what_is_excluded_is_left_out(archive: Path) -> None:
    """By its name, or by the end of its path."""
    assert list_names(archive, "", exclude=("*.json",)) == [NAMES[3]]
    assert list_names(archive, "orders", exclude=("partition=0/*",)) == [NAMES[2]]


@pytest.mark.parametrize("path", ["nothing", "nothing/*.json", "orders/*.csv"])
def test_a_path_that_names_nothing_is_refused(archive: Path, path: str) -> None:
    """Nothing is guessed from a typing error."""
    with pytest.raises(BadInputError, match="Nothing of this call landed"):
        list_names(archive, path)


def test_a_name_with_letters_that_uris_escape_is_listed_as_it_can_be_opened(tmp_path: Path) -> None:
    """In a URI it is quoted, in a plain path it is not."""
    (tmp_path / "a b%20+c.json").write_bytes(b"12345")
    assert [each.uri for each in list_objects([str(tmp_path)])] == [f"{tmp_path}/a b%20+c.json"]
    assert [each.uri for each in list_objects([tmp_path.as_uri()])] == [f"{tmp_path.as_uri()}/a%20b%2520%2Bc.json"]


@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("orders/_delta_log/00000000000000000000.json", "orders is a table of Delta Lake", "format('delta')"),
        ("orders/.hoodie/hoodie.properties", "orders is a table of Hudi", "format('hudi')"),
        ("orders/metadata/v1.metadata.json", "orders is a table of Iceberg", "winnow ingest iceberg"),
        ("metadata/version-hint.text", "archive is a table of Iceberg", "winnow ingest iceberg"),
    ],
)
def test_a_lake_table_is_not_read_file_by_file(archive: Path, name: str, kind: str, advice: str) -> None:
    """Files that its log no longer names would bring back what was deleted."""
    (archive / name).parent.mkdir(parents=True, exist_ok=True)
    (archive / name).write_bytes(b"{}")
    for path in ("", "**/*+0000000000.json"):
        with pytest.raises(BadInputError) as caught:
            list_names(archive, path)
        assert kind in str(caught.value)
        assert advice in str(caught.value)


@pytest.mark.parametrize("marker", ["_delta_log", ".hoodie"])
def test_a_partition_s_folder_of_a_lake_table_is_no_archive(archive: Path, marker: str) -> None:
    (archive / "orders" / marker).mkdir()
    (archive / "orders" / "day=1" / "hour=2").mkdir(parents=True)
    for path in ("orders/partition=0", "orders/day=1/hour=2", "orders/partition=0/*.json"):
        with pytest.raises(BadInputError, match="orders is a table of"):
            list_names(archive, path)


def test_objects_beside_a_lake_table_are_read(archive: Path) -> None:
    (archive / "orders" / "_delta_log").mkdir()
    (archive / "orders" / "_delta_log" / "00000000000000000000.json").write_bytes(b"12345")
    assert list_names(archive, "*/2026/*") == [NAMES[3]]


def test_a_topic_called_metadata_is_an_archive_like_any_other(archive: Path) -> None:
    (archive / "metadata").mkdir()
    (archive / "metadata" / "metadata+0+0000000000.json").write_bytes(b"12345")
    assert "metadata/metadata+0+0000000000.json" in list_names(archive, "")
