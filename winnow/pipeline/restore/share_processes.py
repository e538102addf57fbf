"""Lets several processes write a restore and read it back, each a share of the partitions.

One process makes an object of each record and so uses one core. The shares' number is fixed when a restore begins: the
next call has to fence all of them before it reads how far each partition is (:func:`fence_shares`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from winnow.engine.worker_process import WorkerEndedError, WorkerProcess
from winnow.errors import (
    ConfigurationError,
    DamagedSegmentError,
    ServiceError,
    TopicBusyError,
    WinnowError,
    make_error,
)
from winnow.files.private_files import translate_disk_errors
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import TruncatedRangeError
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore.offset_translation import TranslationFile, merge_translations
from winnow.pipeline.restore.read_back import PartitionOffset, ReadBack, TargetContent
from winnow.pipeline.restore.restore_state import RestoreState
from winnow.pipeline.restore.share_names import fence_shares
from winnow.pipeline.restore.share_process import Failure, Order, Share, ShareAnswer
from winnow.pipeline.restore.source_log import SourceLog
from winnow.pipeline.restore.verify_records import PartitionFigures
from winnow.values.model import OffsetRange

MODULE = "winnow.pipeline.restore.share_process"
_KINDS: Final[Mapping[str, type[WinnowError]]] = {
    kind.__name__: kind for kind in (ConfigurationError, DamagedSegmentError, TopicBusyError, TruncatedRangeError)
}
"""Errors that the caller tells apart although they have one exit code."""


class ShareProcesses:
    """The processes of one call. A context manager: leaving it ends them, and their open transactions if it failed."""

    def __init__(
        self,
        source: SourceLog,
        state: RestoreState,
        target: str,
        settings: ClientSettings,
        writer: TransactionalWriter,
        *,
        batch_bytes: int,
        bytes_per_second: float | None,
    ) -> None:
        """``writer``: of the call itself, which has fenced earlier shares. ``bytes_per_second``: of all together."""
        self._source, self._target, self._settings, self._writer = source, target, settings, writer
        self._count = state.identity.shares
        self._opened = ExitStack()
        rate = None if bytes_per_second is None else bytes_per_second / self._count
        self._shares = [
            Share(
                number=number,
                target=target,
                state=RestoreState(state.identity, state.phase, {each: state.partitions[each] for each in own}),
                snapshot_id=source.snapshot_id,
                partitions={each: source.partitions[each] for each in own},
                segments={each: source.segments.get(each, ()) for each in own},
                batch_bytes=batch_bytes,
                bytes_per_second=rate,
                settings=settings,
            )
            for number, own in enumerate(_divide(source, state), 1)
        ]
        self._processes: list[_ShareProcess] = []

    def __enter__(self) -> Self:
        try:
            for share in self._shares:
                self._processes.append(self._opened.enter_context(_ShareProcess(share)))
        except OSError as problem:
            self._opened.close()
            raise ServiceError(f"No process could be started to write a share ({problem.strerror}).") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
        if error is None or isinstance(error, TopicBusyError):
            return
        # What a share left open would hold readers back until the brokers end it. Whoever took over may be writing.
        with contextlib.suppress(WinnowError):
            self._writer.require_held()
            fence_shares(self._settings, self._target, count=self._count)

    def write(
        self, state: RestoreState, on_progress: Callable[[int], None], on_commit: Callable[[RestoreState], None]
    ) -> RestoreState:
        """Write what is missing, as :func:`winnow.pipeline.restore.write_records.write_records`."""
        for process in self._processes:
            process.tell(process.share)
        for _ in self._wait(on_progress):
            pass
        # Each share has its name now. If nobody has taken over by this moment, whoever does later fences them all.
        self._writer.require_held(certain=True)
        for process in self._processes:
            process.tell(Order())
        for _, answer in self._wait(on_progress):
            if answer.moved is not None:
                state = state.advance(answer.moved)
                on_commit(state)
        # The call commits phases; what it knows of the positions is what its shares have committed.
        self._writer.read_positions(state.partitions)
        return state

    def read_back(self, content: TargetContent, on_progress: Callable[[int], None]) -> ReadBack:
        """Read everything back, as :func:`winnow.pipeline.restore.read_back.read_back`."""
        figures: dict[int, PartitionFigures] = {}
        translated: dict[PartitionOffset, int] = {}
        file = Path(content.translation)
        folder = file.absolute().parent
        with (
            translate_disk_errors(folder, "--offsets"),
            tempfile.TemporaryDirectory(dir=folder, prefix=f".{file.name}.") as parts,
        ):
            for process in self._processes:
                own = content.select(process.share.state.partitions, f"{parts}/{process.share.number}.parquet")
                process.content = own
                process.tell(Order(own))
            for process, answer in self._wait(on_progress):
                if answer.read_back is not None:
                    assert process.content is not None
                    figures |= answer.read_back.figures
                    translated |= dict(zip(process.content.wanted, answer.read_back.translated, strict=True))
            with TranslationFile(file) as whole:
                merge_translations([Path(each.content.translation) for each in self._processes if each.content], whole)
        return ReadBack(figures, tuple(translated[each] for each in content.wanted))

    def _wait(self, on_progress: Callable[[int], None]) -> Iterator[tuple[_ShareProcess, ShareAnswer]]:
        """Yield what the shares answer, until each of them has done what it was told."""
        busy: dict[object, _ShareProcess] = {process.connection: process for process in self._processes}
        while busy:
            for connection in wait([process.connection for process in busy.values()]):
                process = busy[connection]
                answer = process.wait_for_answer()
                if answer.failure is not None:
                    raise self._make_error(answer.failure)
                if answer.read_bytes:
                    on_progress(answer.read_bytes)
                yield process, answer
                if answer.is_ready:
                    del busy[process.connection]

    def _make_error(self, failure: Failure) -> WinnowError:
        if failure.missing is not None:
            return self._source.explain_missing(failure.missing)
        kind = _KINDS.get(failure.kind)
        return make_error(failure.exit_code, failure.explanation) if kind is None else kind(*failure.explanation)


class _ShareProcess(WorkerProcess):
    """The process of one share. ``content``: what it reads back."""

    def __init__(self, share: Share) -> None:
        super().__init__(MODULE)
        self.share = share
        self.content: TargetContent | None = None

    def tell(self, message: object) -> None:
        """Send the share, or what is to be done.

        Raises:
            ServiceError: the process has ended.
        """
        try:
            self.send(message)
        except WorkerEndedError as problem:
            raise self._explain(problem) from None

    def wait_for_answer(self) -> ShareAnswer:
        """Wait for the next answer.

        Raises:
            ServiceError: the process has ended.
        """
        try:
            return self.receive(ShareAnswer)
        except WorkerEndedError as problem:
            raise self._explain(problem) from None

    def _explain(self, problem: WorkerEndedError) -> ServiceError:
        numbers = ", ".join(map(str, self.share.state.partitions))
        return ServiceError(
            f"The process of share {self.share.number}, with partitions {numbers} of topic {self.share.target}, ended "
            f"unexpectedly ({problem})."
        )


def _divide(source: SourceLog, state: RestoreState) -> Iterable[list[int]]:
    """Divide the partitions, the largest rest first, to whichever share has least; each share gets one at least."""
    shares: list[list[int]] = [[] for _ in range(state.identity.shares)]
    sizes = [0] * len(shares)
    rests = {
        number: source.compute_size_bytes(number, OffsetRange(each.next_offset, each.end_offset))
        if each.next_offset < each.end_offset
        else 0
        for number, each in state.partitions.items()
    }
    for number in sorted(rests, key=lambda each: (-rests[each], each)):
        least = min(range(len(shares)), key=lambda each: (sizes[each], len(shares[each])))
        shares[least].append(number)
        sizes[least] += rests[number]
    return shares
