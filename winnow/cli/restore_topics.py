"""``winnow restore --topics-regex``: topic after topic with one progress; a topic's failure stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from winnow.cli.command_errors import report_problem
from winnow.cli.output import format_bytes, print_message
from winnow.cli.progress import JobBar
from winnow.errors import WinnowError, find_worst_exit_code

if TYPE_CHECKING:
    from winnow.pipeline.restore.restore_request import RestoreReport

PHASES = ("Measuring", "Writing", "Verifying")
"""What a restore does with the whole of a log, in this order."""


class RestoreOutcomes:
    """What became of each topic. ``codes``: the exit codes of those that failed. ``given_up``: topics and targets."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        self.reports: list[RestoreReport] = []
        self.given_up: list[tuple[str, str]] = []
        self.codes: list[int] = []

    @property
    def exit_code(self) -> int:
        """The worst of all; 0 when all went well."""
        return find_worst_exit_code(self.codes)

    @contextmanager
    def collect(self, topic: str, target: str) -> Iterator[None]:
        """Print the failure of one topic and go on with the next."""
        try:
            yield
        except Exception as problem:  # whatever it is, it is about this topic
            code = report_problem(problem)
            self.codes.append(code)
            words = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
            self.documents.append({"topic": topic, "target_topic": target, "error": words, "exit_code": code})


def restore_each(
    targets: Mapping[str, str],
    sizes: Mapping[str, int],
    restore: Callable[[str, str, TopicsProgress], RestoreReport],
    make_document: Callable[[RestoreReport], dict[str, Any]],
) -> RestoreOutcomes:
    """Restore one topic after another; ``sizes``: bytes of each."""
    outcomes = RestoreOutcomes()
    with TopicsProgress(sizes) as progress:
        for topic, target in targets.items():
            with outcomes.collect(topic, target):
                progress.begin(topic)
                report = restore(topic, target, progress)
                outcomes.reports.append(report)
                outcomes.documents.append({**make_document(report), "error": None, "exit_code": 0})
    return outcomes


class TopicsProgress(JobBar):
    """One bar over the bytes of all topics, each read three times; elsewhere a line as each phase begins."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__("Opening")
        self._sizes, self._topic, self._line = sizes, "", ""
        self._number = 0
        self._begun_bytes = 0

    def begin(self, topic: str) -> None:
        """Go on to the next topic, however far the last one came."""
        self._begun_bytes += self._sizes.get(self._topic, 0) * len(PHASES)
        self._topic, self._number = topic, self._number + 1

    def __call__(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        """Take in how far the topic is."""
        line = f"{self._topic} ({self._number} of {len(self._sizes)}): {phase}"
        if line != self._line:
            self._line = line
            if not self._bar.is_shown:
                print_message(f"{line} {format_bytes(total_bytes)} of segments")
        size_bytes = self._sizes[self._topic]
        share = done_bytes / total_bytes if total_bytes else 1.0
        position = self._begun_bytes + int(size_bytes * (PHASES.index(phase) + share))
        self._bar.move(position, sum(self._sizes.values()) * len(PHASES), line)
