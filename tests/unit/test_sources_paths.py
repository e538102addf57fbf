"""From named paths to files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from winnow.errors import BadInputError
from winnow.sources.layouts.winnow.files import expand_paths, read_file


def test_folder_stands_for_its_record_files_sorted_by_name(tmp_path: Path) -> None:
    """Folders below it belong to it; hidden files, markers and other suffixes are left out."""
    wanted = ["a.jsonl", "b.json", "below/e.jsonl", "c.jsonl.gz", "d.snappy.parquet"]
    (tmp_path / "below").mkdir()
    for name in [*reversed(wanted), ".hidden.jsonl", "_SUCCESS", "_draft.jsonl", "readme.md", "d.parquet.crc"]:
        (tmp_path / name).touch()
    assert expand_paths([str(tmp_path)]) == [str(tmp_path / name) for name in wanted]


def test_paths_keep_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    """Files and folders may be mixed; a file named twice comes twice."""
    folder = tmp_path / "part"
    folder.mkdir()
    for path in (tmp_path / "z.jsonl", tmp_path / "a.jsonl", folder / "m.jsonl"):
        path.touch()
    named = [str(tmp_path / "z.jsonl"), str(folder), str(tmp_path / "a.jsonl"), str(tmp_path / "z.jsonl")]
    assert expand_paths(named) == [named[0], str(folder / "m.jsonl"), named[2], named[3]]


def test_folder_named_by_uri_gives_uris_that_open(tmp_path: Path) -> None:
    """A name with a space and a percent sign is quoted in a URI, since it is unquoted when opened."""
    (tmp_path / "100% of it.jsonl").write_text('{"partition":0,"key":null,"value":null}\n')
    (found,) = expand_paths([tmp_path.as_uri()])
    assert found.endswith("/100%25%20of%20it.jsonl")
    assert [batch.num_rows for batch in read_file(found, topic="orders", partitions=1)] == [1]


def test_a_file_whose_name_is_not_utf8_is_refused_as_such(tmp_path: Path) -> None:
    """Named by itself or found in a folder; the sentence itself can be printed anywhere."""
    name = os.fsdecode(b"caf\xe9.jsonl")
    (tmp_path / name).touch()
    for path, said in [
        (str(tmp_path / name), f"{tmp_path}/caf\\xe9.jsonl: its name is not UTF-8. Rename it."),
        (str(tmp_path), f"{tmp_path}: the folder holds a file whose name is not UTF-8. Rename that file"),
    ]:
        with pytest.raises(BadInputError) as refused:
            expand_paths([path])
        assert str(refused.value.with_left("")).startswith(said)
        assert str(refused.value).isascii()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.jsonl", "there is no such file or folder"),
        ("empty", "there is nothing to read. Check the path; hidden files are left out"),
        ("notes", "the folder holds no file that ends in .jsonl, .jsonl.gz, .json or .parquet"),
        ("records.csv", "It must end in .jsonl, .jsonl.gz, .json or .parquet"),
    ],
)
def test_path_that_names_no_records_is_refused(tmp_path: Path, name: str, said: str) -> None:
    """The message begins with the path, says what would do, and that nothing landed."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden.jsonl").touch()
    (tmp_path / "records.csv").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.md").touch()
    path = str(tmp_path / name)
    with pytest.raises(BadInputError) as refused:
        expand_paths([path])
    assert refused.value.what.startswith(f"{path}: ")
    assert said in str(refused.value.with_left(""))
    assert refused.value.left == "Nothing of this call landed."


def test_file_of_unknown_suffix_is_refused_when_read(tmp_path: Path) -> None:
    """Reading does not guess at a format either."""
    with pytest.raises(BadInputError, match=r"It must end in \.jsonl, \.jsonl\.gz, \.json or \.parquet"):
        read_file(str(tmp_path / "records.avro"), topic="orders", partitions=1)
