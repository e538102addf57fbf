"""``winnow airflow install``: what goes into another Airflow's folders, what may be replaced, and what doctor says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_runner import winnow
from winnow.embedded import airflow_install
from winnow.embedded.airflow_install import DAGS_NAME, RECORD_NAME, compare_installed, install
from winnow.errors import UsageError
from winnow.pipeline.doctor.check_runner import CheckStatus
from winnow_airflow import health


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Airflow's folders for DAGs and plugins; neither exists yet."""
    return tmp_path / "dags", tmp_path / "plugins"


def files_below(folder: Path) -> dict[str, bytes]:
    """Content by relative path, hidden files too, of everything that Python did not compile."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_copies_are_the_files_of_the_installation_hidden_ones_too(folders: tuple[Path, Path], root: Path) -> None:
    """File by file; the records are the only other files."""
    install(*folders, link=False)
    dags, plugins = map(files_below, folders)
    assert dags.pop(f"{DAGS_NAME}/{RECORD_NAME}")
    assert plugins.pop(f"winnow_airflow/{RECORD_NAME}")
    assert dags == {f"{DAGS_NAME}/{name}": content for name, content in files_below(root / "dags").items()}
    assert plugins == files_below(root / "plugins")
    assert "winnow_airflow/.airflowignore" in plugins


LOADED = """
import sys, json
from pathlib import Path
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=Path(sys.argv[1]))
names = [plugin.name for plugin in plugins_manager._get_plugins()[0]]
found = {"dags": sorted(bag.dags), "files": sorted({dag.fileloc for dag in bag.dags.values()})}
print(json.dumps({**found, "errors": {**bag.import_errors, **plugins_manager.get_import_errors()}, "plugins": names}))
"""


@pytest.mark.parametrize("link", [False, True], ids=["copies", "links"])
def test_another_airflow_finds_every_dag_and_one_plugin_there(
    folders: tuple[Path, Path], tmp_path: Path, root: Path, link: bool
) -> None:
    """Airflow's own loaders, in a process that knows no other folder of Winnow's; no file is taken for a plugin."""
    install(*folders, link=link)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "WINNOW"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADED, str(folders[0])],
        env={
            **plain,
            "PYTHONPATH": str(_only_winnow(root, tmp_path / "path")),
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folders[0]),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(folders[1]),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "WINNOW_HOME": str(tmp_path / "home"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["errors"] == {}
    assert found["plugins"].count("winnow") == 1
    assert {"compact_topics", "ingest_topics", "sweep_topics", "watch_topics"} <= set(found["dags"])
    assert all(file.startswith(str(folders[0])) for file in found["files"])


def _only_winnow(root: Path, path: Path) -> Path:
    """A folder for imports with the package and nothing beside it."""
    path.mkdir()
    (path / "winnow").symlink_to(root / "winnow")
    return path


def test_a_second_call_changes_nothing(folders: tuple[Path, Path]) -> None:
    """Neither content nor time of any file."""
    first = install(*folders, link=False)
    before = {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*")}
    second = install(*folders, link=False)
    assert (first.unchanged, second.written, second.unchanged) == (0, 0, first.written)
    assert {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*")} == before


def test_an_upgrade_replaces_what_the_earlier_winnow_put_there_and_removes_what_is_gone(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    """Doctor names both versions first; files of other people stay."""
    older = {}
    for kind in ("dags", "plugins"):
        older[kind] = shutil.copytree(root / kind, tmp_path / "older" / kind)
    (older["dags"] / "compact_topics.py").write_text("# of an earlier version\n")
    (older["dags"] / "forgotten_topics.py").write_text("# only there\n")
    with monkeypatch.context() as patch:
        patch.setattr(airflow_install, "find_bundled_folder", lambda kind: older[kind])
        patch.setattr(airflow_install, "__version__", "0.0.1")
        install(*folders, link=False)
    theirs = folders[0] / "billing.py"
    theirs.write_text("# theirs\n")

    said = health.check_copies(*folders)
    assert said.status is CheckStatus.FAILURE
    assert "those of Winnow 0.0.1" in said.detail
    assert said.fix.startswith(f"winnow airflow install --dags {folders[0]} --plugins {folders[1]}")

    done = install(*folders, link=False)
    assert (done.written, done.removed) == (1, 1)
    assert not (folders[0] / DAGS_NAME / "forgotten_topics.py").exists()
    assert theirs.read_text() == "# theirs\n"
    assert health.check_copies(*folders).status is CheckStatus.OK


@pytest.mark.parametrize("link", [False, True], ids=["copies", "links"])
def test_what_was_changed_by_hand_is_not_replaced(folders: tuple[Path, Path], link: bool) -> None:
    """Nor anything else in the same call."""
    install(*folders, link=False)
    changed = folders[1] / "winnow_airflow" / "params.py"
    changed.write_text("# mine\n")
    (folders[0] / DAGS_NAME / "compact_topics.py").unlink()
    with pytest.raises(UsageError, match=r"params\.py would be replaced.*Nothing was changed"):
        install(*folders, link=link)
    assert changed.read_text() == "# mine\n"
    assert not (folders[0] / DAGS_NAME / "compact_topics.py").exists()
    said = health.check_copies(*folders)
    assert "2 files missing or different" in said.detail


def test_a_file_of_somebody_else_is_not_replaced(folders: tuple[Path, Path]) -> None:
    """A plugin that happens to have the name; nothing is written beside it."""
    folders[1].mkdir()
    (folders[1] / "winnow_plugin.py").write_text("# theirs\n")
    with pytest.raises(UsageError, match=r"winnow_plugin\.py would be replaced"):
        install(*folders, link=False)
    assert [path.name for path in folders[1].iterdir()] == ["winnow_plugin.py"]
    assert not folders[0].exists()


def test_copying_that_was_killed_is_completed(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of both versions are known to the record before the first of them is replaced."""
    install(*folders, link=False)
    record = folders[0] / DAGS_NAME / RECORD_NAME
    known = json.loads(record.read_text())
    name = f"{DAGS_NAME}/compact_topics.py"
    target = folders[0] / name
    target.write_text("# of an earlier version\n")
    known["files"][name] = [airflow_install._hash_file(target)]
    record.write_text(json.dumps({**known, "winnow": "0.0.1"}))
    with monkeypatch.context() as patch:
        patch.setattr(airflow_install, "_copy_file", _kill)
        with pytest.raises(KeyboardInterrupt):
            install(*folders, link=False)
    assert len(json.loads(record.read_text())["files"][name]) == 2
    assert install(*folders, link=False).written == 1
    assert json.loads(record.read_text())["files"][name] == [airflow_install._hash_file(target)]


def _kill(source: Path, target: Path) -> None:
    raise KeyboardInterrupt


def test_copies_become_links_and_links_copies(folders: tuple[Path, Path], root: Path) -> None:
    """A link of another environment is replaced; a link of somebody else is not."""
    install(*folders, link=False)
    install(*folders, link=True)
    assert (folders[0] / DAGS_NAME).resolve() == root / "dags"
    assert compare_installed(*folders).is_linked
    (folders[0] / DAGS_NAME).unlink()
    (folders[0] / DAGS_NAME).symlink_to("/opt/old/site-packages/winnow/_bundled/dags")
    assert install(*folders, link=True).written == 1
    install(*folders, link=False)
    assert not (folders[0] / DAGS_NAME).is_symlink()
    assert health.check_copies(*folders).status is CheckStatus.OK
    assert (root / "dags" / "compact_topics.py").is_file()
    shutil.rmtree(folders[0])
    folders[0].mkdir()
    (folders[0] / DAGS_NAME).symlink_to("/srv/theirs")
    with pytest.raises(UsageError, match="did not come from Winnow"):
        install(*folders, link=True)


def test_doctor_says_when_airflow_has_none_of_the_files(folders: tuple[Path, Path], root: Path) -> None:
    """With the command; and is content where Airflow reads the installation's own folders."""
    said = health.check_copies(*folders)
    assert said.status is CheckStatus.WARNING
    assert said.fix == f"winnow airflow install --dags {folders[0]} --plugins {folders[1]}"
    assert health.check_copies(root / "dags", root / "plugins").status is CheckStatus.OK


def test_the_installation_is_not_copied_into_itself(root: Path) -> None:
    """Airflow reads these files already."""
    with pytest.raises(UsageError, match="a folder of this installation"):
        install(root / "dags", root / "plugins", link=False)


def test_the_command_says_what_to_restart_and_is_one_document_for_programs(folders: tuple[Path, Path]) -> None:
    """What was written, the places, and the components that load plugins only when they start."""
    said = winnow("airflow", "install", "--dags", folders[0], "--plugins", folders[1]).stdout
    assert "files written, 0 in place already" in said
    assert all(f"airflow {name}" in said for name in ("api-server", "scheduler", "dag-processor", "triggerer"))
    again = winnow("airflow", "install", "--dags", folders[0], "--plugins", folders[1], "--json").document
    assert (again["written"], again["linked"], len(again["places"])) == (0, False, 3)
    assert "Restart" not in winnow("airflow", "install", "--dags", folders[0], "--plugins", folders[1]).stdout
    assert "Example: winnow airflow install" in winnow("airflow", "install", "--help").stdout
