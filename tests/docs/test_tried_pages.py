"""The pages that begin in an empty folder: each command of them, in the order in which it stands there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.docs.runbook import DOCS, list_blocks, prompt_program, run_block

ROOT = DOCS.parent
FIRST_PAGE = "index.md"
HOW_TO = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "how-to").glob("*.md") if path.stem != "index")
TRIED_BY_THEMSELVES = ("how-to/delete-a-key.md", "how-to/query-typed-columns.md")
PAGES_WITH_INSTALLATION = ("index.md", "start/airflow.md", "start/kafka.md")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a prompt ``winnow``."""
    with prompt_program("winnow", tmp_path_factory.mktemp("bin")) as folder:
        yield folder


def run_page(page: str, folder: Path, scripts: Path) -> list[str]:
    """Run the blocks of ``page`` in one folder, as they would be pasted; what each printed."""
    env = {"WINNOW_SPARK__MASTER": "local[2]"}
    return [run_block(block, folder, env, first_on_path=scripts) for block in list_blocks(page)]


def test_first_page_leads_from_an_empty_folder_to_a_compacted_log(tmp_path: Path, scripts: Path) -> None:
    """The sample of the page is cleaned as the picture on it shows, and the questions after it are answered."""
    *_, compacted, asked = run_page(FIRST_PAGE, tmp_path, scripts)
    assert "Of 6 records 3 were kept: 3 were superseded" in compacted
    assert [int(offset) for offset in re.findall(r'^\{"partition":0,"offset":(\d+)', asked, re.MULTILINE)] == [3, 4, 5]
    assert re.findall(r'^\{"partition":0,"key":"(\w+)","value":"(\w+)"', asked, re.MULTILINE) == [
        ("cleo", "oslo"),
        ("ann", "madrid"),
    ]
    assert "customers-0, offset 0 was removed by run" in asked
    assert "superseded by another record of its key. A reader that starts here gets offset 3 next." in asked


def test_readme_gives_the_commands_of_the_first_page() -> None:
    """What is tried there is what stands in README."""
    blocks = re.findall(
        r"^```sh.*?\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    typed = {line.partition("#")[0].strip() for block in blocks for line in block.splitlines()}
    first = {line.partition("#")[0].strip() for block in list_blocks(FIRST_PAGE) for line in block.splitlines()}
    ours = {line for line in typed if line.startswith("winnow ")}
    assert len(ours) > 4
    assert ours - first == set()
    (installation,) = list_blocks(FIRST_PAGE, "install")
    assert installation in blocks


def test_readme_is_short() -> None:
    """A newcomer reads it to its end."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", [page for page in HOW_TO if page not in TRIED_BY_THEMSELVES])
def test_commands_of_a_task_work_on_the_topic_of_these_pages(page: str, tmp_path: Path, scripts: Path) -> None:
    """None fails, in the order of the page."""
    run_page("how-to/index.md", tmp_path, scripts)
    assert run_page(page, tmp_path, scripts)


def test_deleted_key_is_gone_from_the_disk_when_its_page_says_so(tmp_path: Path, scripts: Path) -> None:
    """Of all files of the warehouse one holds the key, and only as a tombstone."""
    run_page("how-to/index.md", tmp_path, scripts)
    run_page("how-to/delete-a-key.md", tmp_path, scripts)
    files = list((tmp_path / ".winnow" / "warehouse").rglob("*.parquet"))
    rows = [
        row for file in files for row in pq.read_table(file, columns=["key", "value"], partitioning=None).to_pylist()
    ]
    assert [row["value"] for row in rows if row["key"] == b"order-12"] == [None]
    assert [row["value"] for row in rows if row["key"] == b"order-13"] == [b"paid"]


def test_a_topic_of_avro_is_asked_in_sql(tmp_path: Path, scripts: Path) -> None:
    """The answer is that of the page; with a mask, no address is shown any more."""
    run_page("how-to/index.md", tmp_path, scripts)
    _, asked, decoded, partitioned, masked = run_page("how-to/query-typed-columns.md", tmp_path, scripts)
    answer = [("Bonn", "1", "7"), ("Kiel", "2", "7")]
    for printed in (asked, masked):
        assert re.findall(r"│ (\w+) +│ +(\d+) │ +(\d+) │$", printed, re.MULTILINE) == answer
    assert "bert@example.com" in asked
    assert '"decoded_value":{"city":"Ulm","visits":1,"email":"anna@example.com"}' in decoded
    assert "@example.com" not in masked
    assert "3 rows" in partitioned


def test_dags_and_plugin_are_put_where_the_page_says(tmp_path: Path, scripts: Path) -> None:
    """Into the folders of an Airflow that is there already."""
    (block,) = re.findall(
        r"^ +```sh\n(.*?)^ +```$", (DOCS / "start" / "airflow.md").read_text(), re.MULTILINE | re.DOTALL
    )
    run_block(block.replace("/opt/airflow", str(tmp_path / "airflow")), tmp_path, {}, first_on_path=scripts)
    assert (tmp_path / "airflow" / "dags" / "winnow_dags").is_dir()
    assert any((tmp_path / "airflow" / "plugins").iterdir())


def test_every_task_is_in_the_list() -> None:
    """Pages of the folder that the list does not link to are found by nobody."""
    text = (DOCS / "how-to" / "index.md").read_text(encoding="utf-8")
    assert [page for page in HOW_TO if f"({page.removeprefix('how-to/')})" not in text] == []


@pytest.mark.parametrize("page", PAGES_WITH_INSTALLATION)
def test_extras_of_installations_exist(page: str) -> None:
    """What installs is not run here; that each page names extras that the project has is checked."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    blocks = list_blocks(page, "install")
    for block in blocks:
        named = {name for found in re.findall(r"\[([\w,-]+)\]", block) for name in found.split(",")}
        assert named - {"driver"} <= set(extras)
        # Where the command is an extra of its own, it comes with this one or with Airflow's.
        assert named & {"driver", "airflow"}
