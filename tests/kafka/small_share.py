"""A process of a share whose transactions are small, and which stops or ends at a place that it is told.

    SHARE_PLACE=written:stop python -m tests.kafka.small_share SOCKET

Places are in the first share's second transaction: ``opened`` (its writer), ``written`` (records, uncommitted),
``committed``, ``read`` (back). ``stop`` is SIGSTOP, ``kill`` SIGKILL. ``SHARE_REFRESH_SECONDS``: how often positions
are committed again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore import share_process, write_records

SMALL = 1_500
"""Bytes of a transaction where several are wanted. Here, so that a share imports as little as a real one."""
SIGNALS = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL}


def stop_after(owner: Any, name: str, end: str, calls: int) -> None:
    """Signal this process after so many calls of a method, if it is the first share."""
    genuine = getattr(owner, name)
    count = [0]

    def called(*arguments: Any, **named: Any) -> Any:
        result = genuine(*arguments, **named)
        writer = arguments[0] if arguments else None
        if owner is share_process or str(getattr(writer, "_name", "")).endswith(":1"):
            count[0] += 1
        if count[0] == calls:
            time.sleep(0.3)  # what was written reaches the broker
            os.kill(os.getpid(), SIGNALS[end])
        return result

    setattr(owner, name, called)


def main() -> None:
    """Carry out a share as the environment says."""
    write_records.TRANSACTION_BYTES = SMALL
    write_records.REFRESH_SECONDS = float(os.environ.get("SHARE_REFRESH_SECONDS", write_records.REFRESH_SECONDS))
    place, _, end = os.environ.get("SHARE_PLACE", "").partition(":")
    if place == "opened":
        stop_after(TransactionalWriter, "open", end, 1)
    elif place == "written":
        stop_after(TransactionalWriter, "write", end, 2)
    elif place == "committed":
        stop_after(TransactionalWriter, "_commit", end, 2)
    elif place == "read":
        stop_after(share_process, "read_back", end, 1)
    share_process.main(int(sys.argv[1]))


if __name__ == "__main__":
    main()
