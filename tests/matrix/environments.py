"""Environments of `make matrix`: the wheel and what one combination asks for, from the registry."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tests.matrix.combinations import Combination
from tests.support.installed_packages import list_own_requirements

UV = Path(sys.executable).parent / "uv"
DISTRIBUTION = "winnow-log"


class NotTriedError(Exception):
    """This machine has no such Python, or the registry cannot be reached; the message says which."""


def find_python(version: str) -> str:
    """Find a Python of ``version`` (``3.12``): this one, one that pyenv installed, or one on PATH.

    Raises:
        NotTriedError: there is none.
    """
    if sys.version.startswith(f"{version}."):
        return sys.executable
    candidates = [
        *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
        shutil.which(f"python{version}"),
    ]
    for candidate in filter(None, candidates):
        said = subprocess.run(
            [str(candidate), "-c", "import sys, venv; print(sys.version)"], capture_output=True, text=True
        )
        if said.returncode == 0 and said.stdout.startswith(f"{version}."):
            return str(candidate)
    raise NotTriedError(f"no Python {version} here")


def build_wheel(root: Path, folder: Path) -> Path:
    """Build the wheel of the checkout ``root`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_arguments(combination: Combination, wheel: Path) -> list[str]:
    """Build what uv is asked to install."""
    dates = [] if combination.as_of is None else ["--exclude-newer", combination.as_of]
    for each in combination.later:
        dates += ["--exclude-newer-package", each]
    extras = f"[{combination.extras}]" if combination.extras else ""
    target = f"{DISTRIBUTION}{extras} @ {wheel.as_uri()}"
    # uv lowers direct requirements only, so those of the wheel are asked for here, too.
    own = list_own_requirements(combination.extras.split(",")) if combination.resolution != "highest" else []
    return [target, *own, *combination.requirements, "--resolution", combination.resolution, *dates]


def make_environment(combination: Combination, wheel: Path, folder: Path) -> Path:
    """Make the environment of ``combination`` in ``folder``; return the folder of its commands.

    Raises:
        NotTriedError: no such Python, or its packages cannot be had; with uv's reason.
    """
    shutil.rmtree(folder, ignore_errors=True)
    _run_uv("venv", "--quiet", "--python", find_python(combination.python), str(folder))
    _run_uv("pip", "install", "--quiet", "--python", str(folder), *build_arguments(combination, wheel))
    return folder / "bin"


def _run_uv(*arguments: str) -> None:
    done = subprocess.run([str(UV), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotTriedError(" ".join(done.stderr.split())[:400])


def list_versions(folder: Path) -> dict[str, str]:
    """List the versions of what is installed in ``folder``, by normalized name."""
    (packages,) = folder.glob("lib/python3*/site-packages")
    found = metadata.distributions(path=[str(packages)])
    return {each.name.lower().replace("_", "-"): each.version for each in found}
