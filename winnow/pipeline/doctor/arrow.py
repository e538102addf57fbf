"""Checks whether Arrow can be imported at all, before anything that needs it is."""

from __future__ import annotations

import importlib
from importlib import metadata

from winnow.pipeline.doctor.check_runner import CheckResult, build_failure


def find_broken_arrow() -> CheckResult | None:
    """Return why PyArrow cannot be imported, None if it can.

    PyArrow asks for no version of NumPy, and from its version 26 on needs NumPy 2.
    """
    try:
        importlib.import_module("pyarrow")
    except ImportError as problem:
        versions = ", ".join(f"{name} {_find_version(name)}" for name in ("pyarrow", "numpy"))
        fix = "python -m pip install 'numpy>=2'; or 'pyarrow<26', where something here needs NumPy 1"
        return build_failure("arrow", f"It cannot be imported ({versions}): {problem}", fix)
    return None


def _find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
