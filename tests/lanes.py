"""Every test, in lanes side by side, so that both cores are busy: each lane is one pytest process over some folders.

    python -m tests.lanes [FOLDER ...]

A folder runs whole and in one process, because its tests share servers and because Airflow reads its settings once a
process. The output of the first lane is shown as it comes, that of the others when they have ended. The exit code is 0
when every lane is green.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
LANES: Final = (
    ("contract", "unit", "catalogue", "integration", "page"),
    ("dags", "bench", "docs", "faults", "spark"),
    ("airflow", "browser", "cluster"),
)
"""The folders of each lane, in the order in which they run: tests that compute, that start Spark, and that wait for
servers. A folder that is in no lane runs in the first."""


def list_folders() -> list[str]:
    """List the folders that have tests."""
    return sorted(folder.name for folder in TESTS.iterdir() if any(folder.glob("test_*.py")))


def plan_lanes(folders: Sequence[str]) -> list[list[str]]:
    """Distribute ``folders`` over the lanes; lanes without a folder are left out."""
    lanes = [[folder for folder in lane if folder in folders] for lane in LANES]
    lanes[0] += [folder for folder in folders if not any(folder in lane for lane in LANES)]
    return [lane for lane in lanes if lane]


def run_lanes(lanes: Sequence[Sequence[str]]) -> int:
    """Run all lanes at once and return the worst exit code."""
    with tempfile.TemporaryDirectory(prefix="winnow-lanes-") as folder:
        outputs = [Path(folder, f"{number}.log") for number in range(1, len(lanes))]
        others: list[subprocess.Popen[bytes]] = []
        try:
            for lane, output in zip(lanes[1:], outputs, strict=True):
                with output.open("wb") as stream:
                    others.append(subprocess.Popen(_command(lane), stdout=stream, stderr=subprocess.STDOUT))
            codes = [subprocess.call(_command(lanes[0]))]
            for lane, process, output in zip(lanes[1:], others, outputs, strict=True):
                codes.append(process.wait())
                print(f"\nBeside it {', '.join(lane)}:\n", flush=True)
                sys.stdout.buffer.write(output.read_bytes())
                sys.stdout.flush()
        finally:
            for process in others:
                process.terminate()
                process.wait()
    return max(abs(code) for code in codes)  # negative when a signal ended it


def _command(folders: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "--durations=15", *(str(TESTS / folder) for folder in folders)]


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description="Every test, in lanes side by side.")
    parser.add_argument("folders", nargs="*", help="folders of tests; all when left out")
    options = parser.parse_args()
    return run_lanes(plan_lanes(options.folders or list_folders()))


if __name__ == "__main__":
    sys.exit(main())
