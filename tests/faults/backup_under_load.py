"""Makes one backup after another while processes append, compact and sweep: ``FOLDER SEED SECONDS``.

The processes are those of concurrent_workers.py, with leases of two seconds and no grace, so what a backup is about to
copy is swept all the time.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.faults.concurrent_workers import open_topic, start
from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.verify import verify_backup

PROCESSES = 4


def main() -> None:
    """Prints the id of each backup; ends with the worst exit code of the processes, 90 if a backup is damaged."""
    folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    keep_pandas_out_of_pyarrow()
    destination = str(folder / "backup")
    until = time.monotonic() + seconds
    # Forked before anything is read or written here: Arrow's threads do not live on in a child.
    workers = [start(folder, number, seed, until) for number in range(PROCESSES)]
    worst = 0
    with open_topic(folder) as world:
        while time.monotonic() < until:
            made = create_backup(world.installation, destination)
            if made.left_out or verify_backup(destination).findings:
                worst = 90
            print(made.backup_id, flush=True)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers]
    sys.exit(max(worst, *map(abs, codes)))


if __name__ == "__main__":
    main()
