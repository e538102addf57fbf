"""A process that reads ranges for an ingest, and is killed once it has written the segments of its first one.

python -m tests.kafka.dying_range_process SOCKET
"""

from __future__ import annotations

import os
import signal
import sys

from winnow.arrivals.run_task import main
from winnow.arrivals.write_range import RangeWriter
from winnow.values.model import Segment


def _finish_and_die(writer: RangeWriter) -> tuple[Segment, ...]:
    _finish(writer)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


_finish = RangeWriter.finish

if __name__ == "__main__":
    setattr(RangeWriter, "finish", _finish_and_die)  # noqa: B010
    main(int(sys.argv[1]))
