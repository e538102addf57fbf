"""What an extra brings: the packages that it leads to, and their megabytes, as this environment has them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = "winnow-log"


def list_own_requirements(extras: Iterable[str]) -> list[str]:
    """What the project requires with ``extras``, and with the extras that they include."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = list(project["dependencies"])
    for line in [line for extra in extras for line in project["optional-dependencies"][extra]]:
        included = re.fullmatch(rf"{PROJECT}\[(.+)\]", line)
        found += list_own_requirements(included[1].split(",")) if included else [line]
    return list(dict.fromkeys(found))


def list_packages(extras: Iterable[str], environment: Mapping[str, str] | None = None) -> set[str]:
    """The names of all packages that ``extras`` lead to, where ``environment`` has these markers beside this one's."""
    markers = {name: str(value) for name, value in default_environment().items()} | dict(environment or {})
    waiting = [Requirement(each) for each in list_own_requirements(extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({**markers, "extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        for extra in ["", *requirement.extras]:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _list_requirements(name, extra, markers)
    return {name for name, _ in seen}


def _list_requirements(name: str, extra: str, markers: Mapping[str, str]) -> list[Requirement]:
    found = [Requirement(line) for line in metadata.requires(name) or ()]
    asked = [each for each in found if each.marker is None or each.marker.evaluate({**markers, "extra": extra})]
    for each in asked:
        each.marker = None
    return asked


def measure_mb(names: Iterable[str]) -> int:
    """The files of these packages in MB (10⁶ bytes); what several of them share, once, and without compiled code."""
    files = {Path(str(file.locate())) for name in names for file in metadata.files(name) or () if file.suffix != ".pyc"}
    return round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6)
