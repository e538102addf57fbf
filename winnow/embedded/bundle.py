"""Finds the folders bundled with the package: beside it in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from winnow.errors import ConfigurationError

Kind = Literal["jobs", "expectations", "dags", "plugins", "docs", "demo"]

_PACKAGE = Path(__file__).parents[1]


def find_bundled_folder(kind: Kind, *, package: Path = _PACKAGE) -> Path:
    """Find the folder ``kind`` of this installation, absolute. ``package`` is the folder of the package itself.

    Raises:
        ConfigurationError: the installation has no such folder.
    """
    inside = package / "_bundled" / kind
    if inside.is_dir():
        return inside.resolve()
    # Folders beside an installed package belong to other packages; only in a checkout are they Winnow's.
    beside = package.parent / kind
    if (package.parent / "pyproject.toml").is_file() and beside.is_dir():
        return beside.resolve()
    raise ConfigurationError(
        f"The folder {kind!r} is neither inside the package at {package} nor beside it in a checkout, so this "
        "installation of Winnow is incomplete.",
        left="Nothing was started.",
        next="Install the wheel again, or run from a checkout.",
    )
