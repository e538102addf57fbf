"""The version, which git's tags say: of clones, wheels, sdists, and sources without git."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.version import Version

from winnow.version import find_source_version

CHANGELOG = "# Changelog\n\n## 0.2.0 (2026-05-04)\n\n### Added\n\n## 0.1.0 (2026-01-31)\n"
NOBODY = {"NAME": "nobody", "EMAIL": "nobody@example.org", "DATE": "1700000000 +0000"}
ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in NOBODY.items()},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


@pytest.fixture
def clone(root: Path, tmp_path: Path) -> Path:
    """A git clone with what a build needs, and one commit without a tag."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, folder)
    (folder / "winnow").mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(root / "winnow" / name, folder / "winnow")
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "init", "--quiet")
    commit(folder, CHANGELOG)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder``; return what it prints."""
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENV, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, changelog: str) -> None:
    """Commit everything, with this changelog."""
    (folder / "CHANGELOG.md").write_text(changelog)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "a change")


def build(folder: Path, kind: str) -> Path:
    """Build wheel or sdist of ``folder``; return its file."""
    target = folder / "dist"
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=folder, env=ENV, capture_output=True, check=True)
    (built,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def import_version(folder: Path) -> str:
    """``winnow.__version__`` of the package in ``folder``, in a process that knows no other."""
    command = [sys.executable, "-c", "import winnow; print(winnow.__version__)"]
    done = subprocess.run(
        command, cwd=folder, env=ENV | {"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def unpack(sdist: Path, folder: Path) -> Path:
    """The folder in ``sdist``, unpacked into ``folder``."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return unpacked


def test_tagged_commit_is_that_release_in_the_clone_the_wheel_and_the_sdist(clone: Path, tmp_path: Path) -> None:
    """And in the wheel that is built from the sdist, which is the same to the last byte."""
    git(clone, "tag", "v0.2.0")
    assert import_version(clone) == "0.2.0"
    sdist, wheel = build(clone, "sdist"), build(clone, "wheel")
    assert (sdist.name, wheel.name) == ("winnow_log-0.2.0.tar.gz", "winnow_log-0.2.0-py3-none-any.whl")
    unpacked = unpack(sdist, tmp_path / "unpacked")
    assert import_version(unpacked) == "0.2.0"
    again = build(unpacked, "wheel")
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())


def test_commits_after_the_tag_are_development_versions_of_the_next_release(clone: Path, tmp_path: Path) -> None:
    """The changelog's next section names it; before there is one, it is the next patch. An sdist keeps it."""
    git(clone, "tag", "v0.2.0")
    commit(clone, CHANGELOG)
    found = import_version(clone)
    assert re.fullmatch(r"0\.2\.1\.dev1\+g[0-9a-f]{10}", found)
    commit(clone, f"# Changelog\n\n## 0.3.0 (unreleased)\n\n{CHANGELOG}")
    later = import_version(clone)
    assert later == f"0.3.0.dev2+g{git(clone, 'rev-parse', '--short=10', 'HEAD')}"
    assert Version("0.2.0") < Version(found) < Version(later) < Version("0.3.0")
    wheel = build(clone, "wheel")
    assert wheel.name == f"winnow_log-{later}-py3-none-any.whl"
    unpacked = unpack(build(clone, "sdist"), tmp_path / "unpacked")
    assert (import_version(unpacked), build(unpacked, "wheel").name) == (later, wheel.name)


def test_changed_file_is_no_release(clone: Path) -> None:
    """No registry takes such a version, so nobody uploads other files than the tag's."""
    git(clone, "tag", "v0.2.0")
    (clone / "README.md").write_text("changed")
    assert import_version(clone) == "0.2.0+dirty"
    commit(clone, CHANGELOG)
    (clone / "README.md").write_text("changed again")
    assert re.fullmatch(r"0\.2\.1\.dev1\+g[0-9a-f]{10}\.dirty", import_version(clone))


def test_every_commit_counts_before_the_first_tag_and_other_tags_say_nothing(clone: Path) -> None:
    """Releases are tags ``vX.Y.Z``."""
    for tag in ("demo", "v0.2.0rc1", "vendor/v1.2.3", "v1"):
        git(clone, "tag", tag)
    commit(clone, "# Changelog\n\n## 0.1.0 (unreleased)\n")
    assert import_version(clone) == f"0.1.0.dev2+g{git(clone, 'rev-parse', '--short=10', 'HEAD')}"


def test_sources_without_git_have_the_version_of_the_changelog(clone: Path) -> None:
    """As in an image. Git of a folder around them is another project's."""
    git(clone, "tag", "v7.7.7")
    inside = clone / "unpacked"
    inside.mkdir()
    (inside / "CHANGELOG.md").write_text(CHANGELOG)
    assert find_source_version(inside) == "0.2.0"
    (inside / "CHANGELOG.md").write_text(f"# Changelog\n\n## 0.3.0 (unreleased)\n\n{CHANGELOG}")
    assert find_source_version(inside) == "0.3.0.dev0"
    (inside / "CHANGELOG.md").unlink()
    with pytest.raises(ValueError, match="no heading of a release"):
        find_source_version(inside)


def test_variables_of_a_commit_hook_lead_to_no_other_repository(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git sets them for its hooks, of which each may start a build."""
    git(clone, "tag", "v1.2.3")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere" / "index"))
    assert find_source_version(clone) == "1.2.3"
