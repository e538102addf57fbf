"""Every test, in two lanes side by side: those that wait for services most of the time, and those that compute.

    python -m tests.lanes

Either lane alone leaves a machine of two cores half idle. A lane is one pytest process; the second one's output follows
when the first has ended. The exit code is 0 when both lanes are green.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
SERVICES = ("airflow", "browser", "cluster")
"""Folders whose tests start Airflow, browsers, Spark clusters, and wait for them."""


def folders() -> list[Path]:
    """Every folder of tests; one that is new belongs to the lane that computes."""
    return sorted(folder for folder in TESTS.iterdir() if any(folder.glob("test_*.py")))


def command(names: list[Path]) -> list[str]:
    """What runs the tests in ``names``."""
    return [sys.executable, "-m", "pytest", "-q", "--durations=10", *map(str, names)]


def main() -> int:
    """Run both lanes; the worst exit code."""
    waiting = [folder for folder in folders() if folder.name in SERVICES]
    computing = [folder for folder in folders() if folder.name not in SERVICES]
    with tempfile.TemporaryFile() as output:
        services = subprocess.Popen(command(waiting), stdout=output, stderr=subprocess.STDOUT)
        try:
            codes = [subprocess.call(command(computing))]
            print(f"\nAnd beside it {', '.join(folder.name for folder in waiting)}:\n", flush=True)
            codes.append(services.wait())
        finally:
            services.terminate()
            services.wait()
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
    return max(abs(code) for code in codes)  # negative when a signal ended it


if __name__ == "__main__":
    sys.exit(main())
