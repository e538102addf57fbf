"""Spark's Structured Streaming writes more than data: which of its files are records, its own log says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from winnow.errors import BadInputError
from winnow.sources.listing import list_objects


def write_log(folder: Path, batch: str, *names: str, deleted: tuple[str, ...] = ()) -> None:
    """Write one batch of the log as ``FileStreamSinkLog`` does; the folder has been moved since."""
    entries = [{"path": f"file:///elsewhere/{folder.name}/{name}", "size": 1, "action": "add"} for name in names]
    entries += [{"path": f"file:///elsewhere/{folder.name}/{name}", "size": 1, "action": "delete"} for name in deleted]
    log = folder / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    (log / batch).write_text("\n".join(["v1", *(json.dumps(entry) for entry in entries)]))


def write_data(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}\n")


def list_names(folder: Path, *exclude: str) -> list[str]:
    return [each.name for each in list_objects([str(folder)], exclude)]


def test_files_of_batches_that_spark_did_not_finish_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "sink"
    write_log(folder, "8", "part-0.json", "part-removed.json")
    write_log(folder, "9.compact", "part-0.json", "part-1.json")
    write_log(folder, "10", "part-2.json", deleted=("part-0.json",))
    write_data(folder, "part-0.json", "part-1.json", "day=1/part-2.json", "part-3-failed.json")
    assert list_names(tmp_path) == ["part-2.json", "part-1.json"]
    assert list_names(folder) == ["part-2.json", "part-1.json"]


def test_files_beside_the_sink_s_folder_count_as_ever(tmp_path: Path) -> None:
    write_log(tmp_path / "sink", "0", "part-0.json")
    write_data(tmp_path, "sink/part-0.json", "other.json")
    assert list_names(tmp_path) == ["other.json", "part-0.json"]


def test_a_committed_file_that_is_not_there_is_an_error_until_the_log_is_left_out(tmp_path: Path) -> None:
    write_log(tmp_path, "0", "part-0.json", "part-1.json")
    write_data(tmp_path, "part-0.json", "part-2.json")
    with pytest.raises(BadInputError, match=r"names 1 files that are not there, such as part-1\.json"):
        list_names(tmp_path)
    assert list_names(tmp_path, "_spark_metadata/*") == ["part-0.json", "part-2.json"]


@pytest.mark.parametrize("text", ["", "v2\n{}", "v1\n{"])
def test_a_log_that_cannot_be_read_is_an_error(text: str, tmp_path: Path) -> None:
    write_log(tmp_path, "0")
    write_data(tmp_path, "part-0.json")
    (tmp_path / "_spark_metadata" / "0").write_text(text)
    with pytest.raises(BadInputError, match="batch 0 of Spark's log of its sink cannot be read"):
        list_names(tmp_path)


def test_a_checkpoint_holds_no_records(tmp_path: Path) -> None:
    write_data(
        tmp_path, "checkpoint/metadata", "checkpoint/offsets/0", "checkpoint/commits/0", "checkpoint/sources/0/0"
    )
    write_data(tmp_path, "data/part-0.json", "offsets/1")
    assert list_names(tmp_path) == ["part-0.json", "1"]
