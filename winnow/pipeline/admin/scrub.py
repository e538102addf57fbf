"""Reads the live files of topics in full to find damaged and missing ones.

It reads segments, files of the quarantine, receipts, ledgers and their chains. The file with the oldest check comes
first, each check is recorded, and a maximum of bytes ends a scrub early: an interrupted scrub continues where it was,
and several scrubs check a large log in turn.

Only reads. A finding does not mark a partition as uncleanable: compaction refuses to copy from a damaged segment, and
one kept by reference does not get worse, while the rest of the partition must stay compacted.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from winnow.clock import format_ms
from winnow.engine.job_documents import DAMAGED, MISSING
from winnow.engine.task_resources import Throttle
from winnow.errors import DamagedSegmentError, Explanation, UsageError, join_first, make_error
from winnow.files import storage
from winnow.files.checked_reading import SCRUB_BUFFER_BYTES, check_quarantine_file, read_segment
from winnow.log import reference_chains
from winnow.log.head import Head
from winnow.log.snapshot_expiry import list_state_documents
from winnow.pipeline.admin.scrub_on_spark import read_on_spark
from winnow.pipeline.installation import Installation
from winnow.report import alert_kinds
from winnow.report.alert_kinds import AlertKind, Finding
from winnow.report.events import log_event
from winnow.report.receipts import format_human_bytes
from winnow.store.segment_checks import FileCheck
from winnow.values.counts import format_count
from winnow.values.model import Segment

DAY_MS = 86_400_000
MAXIMUM_CHECKS_PER_WRITE = 64
"""Checks buffered before they are recorded: after a crash at most this number of files is read again."""
MAXIMUM_BYTES_PER_WRITE = 64 << 20
MAXIMUM_NAMED_FILES = 3
"""Maximum findings of a partition that an alert describes."""

SEGMENT, QUARANTINE, DOCUMENT = "segment", "quarantine", "document"

Progress = Callable[[int, int], None]
"""Called with the bytes checked so far and in total."""
ReadFile = Callable[[Callable[[int], None]], None]
"""Reads a file in full; calls its argument with the bytes about to be read."""


@dataclass(frozen=True, slots=True)
class ScrubFinding:
    """A file that is ``missing`` or ``damaged``. ``partition`` None: it belongs to no single one."""

    partition: int | None
    path: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """The result of a scrub for one topic, and how far its log is checked.

    ``segments``: live ones; ``segments_checked``: by this scrub. ``other_files``: quarantine files and documents.
    ``bytes_left``: of files that this scrub did not check. ``oldest_checked_ms``: every live file was checked at that
    time or later, None: some never were, or there is none. ``findings``: all open ones, of this scrub and of earlier
    ones.
    """

    topic: str
    segments: int
    segments_checked: int
    other_files: int
    other_files_checked: int
    bytes_checked: int
    bytes_left: int
    last_checked_ms: int | None
    oldest_checked_ms: int | None
    findings: tuple[ScrubFinding, ...]
    message: str

    def is_checked_since(self, since_ms: int) -> bool:
        """Check whether every live file was checked at ``since_ms`` or later; so it is if there is none."""
        if not self.segments + self.other_files:
            return True
        return self.oldest_checked_ms is not None and self.oldest_checked_ms >= since_ms


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a topic's head names. ``read`` reads it in full and raises if it is damaged.

    ``segment``, ``records``: of a segment, and of a file of the quarantine, for a task that reads it elsewhere.
    """

    topic: str
    path: str
    kind: str
    partition: int | None
    size_bytes: int
    read: ReadFile
    segment: Segment | None = None
    records: int = 0


@dataclass(slots=True)
class _ScrubbedTopic:
    """One topic of a scrub: its live files, and their last checks."""

    name: str
    files: list[LiveFile]
    checks: dict[str, FileCheck]
    checked: dict[str, int] = field(default_factory=dict)
    """Path to bytes, for files that this scrub checked."""


class Scrub:
    """One scrub over several topics. Add each, then :meth:`run`.

    Args:
        installation: the installation.
        max_bytes: stops before the file that would exceed it, but reads at least one; None: what the setting
            ``scrub.bytes_per_day`` leaves of the last 24 hours, or no limit without it.
        bytes_per_second: average rate; None: the setting ``scrub.bytes_per_second``.
        progress: called after each file and while one is read.
        checked_before_ms: only files whose last check is older than this; None: all.
        runner: where files are read, ``local`` or ``spark``; None: by their size.
    """

    def __init__(
        self,
        installation: Installation,
        *,
        max_bytes: int | None = None,
        bytes_per_second: float | None = None,
        progress: Progress = lambda done, total: None,
        checked_before_ms: int | None = None,
        runner: str | None = None,
    ) -> None:
        self._installation = installation
        self._max_bytes = compute_bytes_left_today(installation) if max_bytes is None else max_bytes
        self._bytes_per_second = bytes_per_second or installation.settings.scrub.bytes_per_second
        self._throttle = Throttle(self._bytes_per_second)
        self._runner = runner
        self._progress = progress
        self._checked_before_ms = checked_before_ms
        self._topics: list[_ScrubbedTopic] = []
        self._unwritten: list[FileCheck] = []
        self._lives: dict[str, str] = {}
        self._done_bytes = self._total_bytes = self._told_bytes = 0

    def add(self, topic: str) -> None:
        """List the live files of ``topic``, and forget the checks of files that left it.

        Raises:
            UnknownTopicError, ForeignTableError: there is no such topic, or its head is not Winnow's.
            ServiceError: catalog or metadata store cannot be reached.
        """
        head = self._installation.log.open(topic).head()
        self._lives[topic] = head.table_uuid
        files = list_live_files(self._installation, topic, head)
        known = self._installation.store.segment_checks.list_checks(topic)
        live = {file.path for file in files}
        self._installation.store.segment_checks.forget(topic, known.keys() - live)
        self._topics.append(_ScrubbedTopic(topic, files, {path: known[path] for path in known.keys() & live}))

    def run(self) -> list[ScrubReport]:
        """Check files, the oldest check first, and open or close alerts; return a report for each topic.

        Raises:
            ServiceError: the object store or the metadata store does not answer; finished checks are recorded.
        """
        chosen = self._choose_files()
        self._total_bytes = sum(file.size_bytes for _, file in chosen)  # documents are small beside it
        in_tasks = self._choose_for_tasks(chosen)
        try:
            self._check_in_tasks(in_tasks)
            for topic, file in chosen if not in_tasks else [each for each in chosen if each[1].kind == DOCUMENT]:
                self._check(topic, file)
        finally:
            self._write()
        return [self._report(topic) for topic in self._topics]

    def _choose_files(self) -> list[tuple[_ScrubbedTopic, LiveFile]]:
        found = [(topic, file) for topic in self._topics for file in topic.files]
        if self._checked_before_ms is not None:
            before_ms = self._checked_before_ms
            found = [each for each in found if _build_age_key(*each)[0] < before_ms]
        found.sort(key=lambda each: _build_age_key(*each))
        if self._max_bytes is None:
            return found
        chosen, remaining_bytes = list[tuple[_ScrubbedTopic, LiveFile]](), self._max_bytes
        for topic, file in found:
            is_first = remaining_bytes == self._max_bytes > 0
            size_bytes = _find_size_bytes(topic, file)
            if size_bytes > remaining_bytes and not is_first:
                break  # not a smaller one instead: the oldest would wait for ever
            chosen.append((topic, file))
            remaining_bytes -= size_bytes
        return chosen

    def _choose_for_tasks(
        self, chosen: Sequence[tuple[_ScrubbedTopic, LiveFile]]
    ) -> list[tuple[_ScrubbedTopic, LiveFile]]:
        """Return the files that tasks read; empty: this process reads all."""
        large = [each for each in chosen if each[1].kind != DOCUMENT]
        if self._runner is not None:
            return large if self._runner == "spark" else []
        size_bytes = sum(file.size_bytes for _, file in large)
        return large if size_bytes >= self._installation.settings.scrub.spark_from_bytes else []

    def _check_in_tasks(self, chosen: Sequence[tuple[_ScrubbedTopic, LiveFile]]) -> None:
        """Have tasks read the files, and record what they found; then raise for a file that could not be read."""
        if not chosen:
            return

        def follow(size_bytes: int) -> None:
            self._told_bytes = size_bytes
            self._progress(size_bytes, self._total_bytes)

        files = [(file.path, file.size_bytes, file.segment, file.records) for _, file in chosen]
        failures = []
        for outcome in read_on_spark(self._installation, files, self._bytes_per_second, follow):
            topic, file = chosen[outcome.number]
            if outcome.exit_code:
                failures.append(make_error(outcome.exit_code, Explanation(outcome.text or "")))
            elif outcome.finding != MISSING or self._is_live(topic, file):
                self._note(topic, file, outcome.finding, outcome.text, file.size_bytes)
        if failures:
            raise failures[0]

    def _check(self, topic: _ScrubbedTopic, file: LiveFile) -> None:
        done_bytes = self._done_bytes
        read_bytes = 0  # of a document the size is known only then

        def take_bytes(size_bytes: int) -> None:
            nonlocal done_bytes, read_bytes
            read_bytes += size_bytes
            self._progress(done_bytes, self._total_bytes)
            self._throttle.take(size_bytes)
            done_bytes += size_bytes

        try:
            file.read(take_bytes)
            finding, text = None, None
        except FileNotFoundError:
            if not self._is_live(topic, file):
                return
            finding, text = MISSING, "is missing"
        except DamagedSegmentError as problem:
            finding, text = DAMAGED, str(problem)
        self._note(topic, file, finding, text, read_bytes)

    def _is_live(self, topic: _ScrubbedTopic, file: LiveFile) -> bool:
        """Check whether a missing ``file`` should be there; else it is forgotten."""
        if file.path in {each.path for each in list_live_files(self._installation, topic.name)}:
            return True
        topic.files.remove(file)  # compacted away and swept meanwhile
        topic.checks.pop(file.path, None)
        self._installation.store.segment_checks.forget(topic.name, [file.path])
        return False

    def _note(
        self, topic: _ScrubbedTopic, file: LiveFile, finding: str | None, text: str | None, read_bytes: int
    ) -> None:
        now_ms = self._installation.now_ms()
        before = topic.checks.get(file.path)
        since_ms = now_ms if before is None or before.since_ms is None else before.since_ms
        check = FileCheck(
            topic=topic.name,
            path=file.path,
            kind=file.kind,
            partition=file.partition,
            size_bytes=max(file.size_bytes, read_bytes if file.kind == DOCUMENT else 0),
            checked_at_ms=now_ms,
            finding=finding,
            text=text,
            since_ms=None if finding is None else since_ms,
        )
        topic.checks[file.path] = check
        topic.checked[file.path] = check.size_bytes
        self._unwritten.append(check)
        unwritten_bytes = sum(each.size_bytes for each in self._unwritten)
        if (
            len(self._unwritten) >= MAXIMUM_CHECKS_PER_WRITE
            or unwritten_bytes >= MAXIMUM_BYTES_PER_WRITE
            or finding is not None
        ):
            self._write()
        self._done_bytes += check.size_bytes
        if self._done_bytes > self._told_bytes:  # tasks tell while they read
            self._progress(self._done_bytes, self._total_bytes)

    def _write(self) -> None:
        self._installation.store.segment_checks.record(self._unwritten, self._lives)
        self._unwritten = []

    def _report(self, topic: _ScrubbedTopic) -> ScrubReport:
        segments = [file for file in topic.files if file.kind == SEGMENT]
        checks = topic.checks.values()
        found = tuple(
            ScrubFinding(each.partition, each.path, each.finding, each.text or "")
            for each in sorted(checks, key=_build_check_key)
            if each.finding is not None
        )
        times_ms = [each.checked_at_ms for each in checks]
        left = [file for file in topic.files if file.path not in topic.checked]
        report = ScrubReport(
            topic=topic.name,
            segments=len(segments),
            segments_checked=sum(file.path in topic.checked for file in segments),
            other_files=len(topic.files) - len(segments),
            other_files_checked=len(topic.checked) - sum(file.path in topic.checked for file in segments),
            bytes_checked=sum(topic.checked.values()),
            bytes_left=sum(file.size_bytes for file in left),
            last_checked_ms=max(times_ms, default=None),
            oldest_checked_ms=min(times_ms, default=None) if len(times_ms) == len(topic.files) else None,
            findings=found,
            message="",
        )
        self._alert(topic)
        log_event(
            "scrubbed",
            topic.name,
            segments=report.segments,
            segments_checked=report.segments_checked,
            bytes_checked=report.bytes_checked,
            bytes_left=report.bytes_left,
            findings=len(found),
        )
        return replace(report, message=_format_message(report))

    def _alert(self, topic: _ScrubbedTopic) -> None:
        now_ms = self._installation.now_ms()
        findings = [check for check in topic.checks.values() if check.finding is not None]
        damaged = {check.partition for check in findings}
        alerted = self._installation.store.alerts.list_open({AlertKind.SEGMENT_DAMAGED}, topic.name)
        repaired = {row.partition for row in alerted} - damaged
        # Closing a partition's alert also closes that of the topic as a whole.
        if repaired and not (None in damaged and None in {row.partition for row in alerted}):
            numbers = [number for number in repaired if number is not None]
            how = "has no damaged file any more"
            self._installation.alerts.recover(topic.name, {AlertKind.SEGMENT_DAMAGED}, numbers, how)
        if findings:
            grouped = [_build_finding(partition, findings) for partition in sorted(damaged, key=_build_partition_key)]
            self._installation.alerts.open_alert(alert_kinds.make_segment_damaged(topic.name, grouped, at_ms=now_ms))


def list_live_files(installation: Installation, topic: str, head: Head | None = None) -> list[LiveFile]:
    """List all files that ``head`` of ``topic`` names: segments, quarantine files, receipts, ledgers and chains.

    ``head`` None: the newest.
    """
    log = installation.log.open(topic)
    head = head or log.head()
    files = [
        LiveFile(topic, each.path, SEGMENT, each.partition, each.size_bytes, partial(_read_segment, each), each)
        for segments in log.segments(head).values()
        for each in segments
    ]
    if head.state.quarantine_ingests:
        files += [
            LiveFile(
                topic,
                each.path,
                QUARANTINE,
                None,
                each.size_bytes,
                partial(check_quarantine_file, each.path, each.records, each.size_bytes),
                records=each.records,
            )
            for each in installation.log.quarantine(topic, head).files()
        ]
    return [*files, *_list_documents(topic, head)]


def compute_bytes_left_today(installation: Installation) -> int | None:
    """Return what ``scrub.bytes_per_day`` leaves of the last 24 hours; None: there is no such limit."""
    limit = installation.settings.scrub.bytes_per_day
    if limit is None:
        return None
    used = sum(
        size_bytes
        for _, size_bytes in installation.store.segment_checks.list_sizes_since(installation.now_ms() - DAY_MS)
    )
    return max(0, limit - used)


def find_budget_free_at_ms(installation: Installation) -> int:
    """Return when the oldest bytes of the last 24 hours leave the day's budget; now if there are none."""
    used = installation.store.segment_checks.list_sizes_since(installation.now_ms() - DAY_MS)
    return used[0][0] + DAY_MS if used else installation.now_ms()


def open_scrub(
    installation: Installation,
    topics: Iterable[str],
    *,
    max_bytes: int | None = None,
    bytes_per_second: float | None = None,
    checked_before_ms: int | None = None,
    runner: str | None = None,
) -> list[ScrubReport]:
    """Run one :class:`Scrub` over ``topics``; raises what its methods do.

    Raises:
        UsageError: ``max_bytes`` is not above 0.
    """
    if max_bytes is not None and max_bytes <= 0:
        raise UsageError(
            "A scrub needs a limit of at least one byte.",
            left="Nothing was read.",
        )
    work = Scrub(
        installation,
        max_bytes=max_bytes,
        bytes_per_second=bytes_per_second,
        checked_before_ms=checked_before_ms,
        runner=runner,
    )
    for topic in topics:
        work.add(topic)
    return work.run()


def _read_segment(segment: Segment, on_progress: Callable[[int], None]) -> None:
    for _ in read_segment(segment, buffer_bytes=SCRUB_BUFFER_BYTES, on_progress=on_progress):
        continue


def _list_documents(topic: str, head: Head) -> list[LiveFile]:
    """List the documents of the head and their copies, if it has any."""
    documents = [*list_state_documents(head.table), *reference_chains.list_documents(head.state)]
    places = [
        (place, document.sha256)
        for document in documents
        for place in (head.documents.list_places(document.path) if head.state.copies is not None else (document.path,))
    ]
    return [
        LiveFile(topic, place, DOCUMENT, None, 0, partial(_read_document, place, sha256)) for place, sha256 in places
    ]


def _read_document(path: str, sha256: str, on_progress: Callable[[int], None]) -> None:
    data = storage.read_bytes(path)
    on_progress(len(data))
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedSegmentError("is not the document that was committed; if its copy is, the next sweep puts it back")


def _find_size_bytes(topic: _ScrubbedTopic, file: LiveFile) -> int:
    """Find how much a check of ``file`` reads; references to documents do not tell their size."""
    if file.kind != DOCUMENT:
        return file.size_bytes
    check = topic.checks.get(file.path)
    return (check.size_bytes if check is not None else 0) or storage.read_size_bytes(file.path) or 0


def _build_age_key(topic: _ScrubbedTopic, file: LiveFile) -> tuple[int, str, int, str]:
    """Return the sort key by the time of the last check, never checked first, then by partition and path."""
    check = topic.checks.get(file.path)
    partition = -1 if file.partition is None else file.partition
    return (-1 if check is None else check.checked_at_ms, file.topic, partition, file.path)


def _build_check_key(check: FileCheck) -> tuple[int, str]:
    return _build_partition_key(check.partition), check.path


def _build_partition_key(partition: int | None) -> int:
    return -1 if partition is None else partition


def _build_finding(partition: int | None, findings: Collection[FileCheck]) -> Finding:
    of = sorted((check for check in findings if check.partition == partition), key=operator.attrgetter("path"))
    described = join_first([f"{check.path} {check.text}" for check in of], MAXIMUM_NAMED_FILES)
    return Finding(partition, min(check.since_ms or check.checked_at_ms for check in of), described)


def _format_message(report: ScrubReport) -> str:
    text = (
        f"{report.topic}: {report.segments_checked:,} of {format_count(report.segments, 'segment')} read in full "
        f"({format_human_bytes(report.bytes_checked)}), {_count_findings(report.findings)}."
    )
    if report.bytes_left:
        text += f" {format_human_bytes(report.bytes_left)} are left for the next scrub."
    if report.oldest_checked_ms is not None:
        text += f" Every live file was checked since {format_ms(report.oldest_checked_ms)}."
    return text


def _count_findings(findings: Sequence[ScrubFinding]) -> str:
    return f"{len(findings):,} damaged or missing" if findings else "nothing damaged"
