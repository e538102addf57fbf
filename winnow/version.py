"""Winnow's version, from git's tags: a checkout's when it is asked for, a wheel's and an sdist's when they are built.

The build loads this file alone (``tool.hatch.version``): it imports the standard library only, and nothing of Winnow.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_DESCRIBE = ("git", "describe", "--tags", "--long", "--always", "--dirty", "--abbrev=10")
_TAGS = ("--match=v[0-9]*.[0-9]*.[0-9]*", "--exclude=v*[!0-9.]*")
"""``vX.Y.Z`` and no other tag."""


def find_version() -> str:
    """Find the version of this installation; of a checkout, even if it is installed, that of its present commit."""
    from importlib import metadata

    try:
        if (_ROOT / "pyproject.toml").is_file():
            return find_source_version(_ROOT)
        return metadata.version("winnow-log")
    except (ValueError, metadata.PackageNotFoundError):  # part of an installation, copied to where Python looks for it
        return "0.0.0+unknown"


def find_source_version(root: Path) -> str:
    """Find the version (PEP 440) of the sources in ``root``.

    - A commit with a tag ``vX.Y.Z``: ``X.Y.Z``.
    - Later commits: a development version of the release that the changelog prepares, with the number of commits since
      the tag and the commit, ``0.2.0.dev7+g0123456789``. ``dirty`` at its end, or behind a tag's ``+``: files of the
      checkout were changed since.
    - An sdist: what its metadata say.
    - Sources without git: the newest release of the changelog; ``.dev0`` of it while it is not released.

    Raises:
        ValueError: there is neither git nor a release in CHANGELOG.md.
    """
    if (root / ".git").exists() and (described := _describe(root)) is not None:
        return described
    if (root / "PKG-INFO").is_file():
        found = re.search(r"^Version: (.+)$", (root / "PKG-INFO").read_text(encoding="utf-8"), re.MULTILINE)
        if found is not None:
            return found[1]
    release, day = read_newest_release(root)
    return release if day is not None else f"{release}.dev0"


def read_newest_release(root: Path) -> tuple[str, str | None]:
    """Read the first heading of the changelog: a version, and its day; None while it is not released.

    Raises:
        ValueError: there is no changelog, or it has no such heading.
    """
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
    found = re.search(r"^## (\d+\.\d+\.\d+) \((?:unreleased|(\d{4}-\d\d-\d\d))\)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{changelog} has no heading of a release, such as '## 0.1.0 (unreleased)'.")
    return found[1], found[2]


def _describe(root: Path) -> str | None:
    said = _ask_git(root, *_DESCRIBE, *_TAGS)
    found = re.fullmatch(r"(?:v([\d.]+)-(\d+)-g)?([0-9a-f]+)(-dirty)?", said or "")
    if found is None:
        return None
    tag, commits, commit, dirty = found.groups()
    if tag is not None and commits == "0":
        return tag if dirty is None else f"{tag}+dirty"
    # Without a tag yet, every commit counts.
    commits = commits or _ask_git(root, "git", "rev-list", "--count", "HEAD") or "0"
    return f"{_find_next_release(root, tag)}.dev{commits}+g{commit}" + ("" if dirty is None else ".dirty")


def _find_next_release(root: Path, tag: str | None) -> str:
    release, day = read_newest_release(root)
    if tag is None or day is None:
        return release
    # Commits after a release whose changelog has no next section yet.
    major, minor, patch = tag.split(".")[:3]
    return f"{major}.{minor}.{int(patch) + 1}"


def _ask_git(root: Path, *command: str) -> str | None:
    import subprocess

    # A commit hook's variables name another index, or another repository; asking must not write to this one.
    env = {
        name: value for name, value in os.environ.items() if name not in {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"}
    }
    try:
        said = subprocess.run(
            command, cwd=root, env=env | {"GIT_OPTIONAL_LOCKS": "0"}, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # no git, no commit, or a checkout of another user
        return None
    return said.stdout.strip()
