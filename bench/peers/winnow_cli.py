"""Runs Winnow's command line and records its events: ``python -m bench.peers.winnow_cli EVENTS ARGUMENTS...``.

It runs ``winnow ARGUMENTS...`` unchanged. Events of the pipeline and of the Spark application are also written to the
file EVENTS with their time of arrival, on the machine's monotonic clock.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO


class Listener(logging.Handler):
    """Writes events to a file, one JSON object a line."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(logging.INFO)
        self._stream = stream

    def note(self, name: str, **fields: Any) -> None:
        """Write one event with the current time."""
        self._stream.write(json.dumps({"at": time.monotonic(), "event": name, **fields}) + "\n")
        self._stream.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event of the pipeline."""
        from winnow.report.events import read_event

        event = read_event(record)
        if event is not None:
            self.note(event.name, **dict(event.fields))


def main(events_file: str, *arguments: str) -> None:
    """Run the command and record its events."""
    with open(events_file, "w", encoding="utf-8") as stream:  # noqa: PTH123 - no other use for pathlib
        listener = Listener(stream)
        listener.note("process")
        log = logging.getLogger("winnow.events")
        log.setLevel(logging.INFO)
        log.addHandler(listener)
        log.propagate = False
        from winnow.cli.console_script import run

        listen_to_spark(listener)
        listener.note("imported")
        sys.argv = ["winnow", *arguments]
        run()


def listen_to_spark(listener: Listener) -> None:
    """Record the Spark application's events, in the same way as the progress bar."""
    from winnow.cli import compact
    from winnow.cli.progress import CompactionProgress

    class Heard(CompactionProgress):
        def __call__(self, event: dict[str, Any]) -> None:
            listener.note(f"spark_{event['event']}", **{key: value for key, value in event.items() if key != "event"})
            super().__call__(event)

    compact.CompactionProgress = Heard  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
