"""A process that writes a share of a restore and reads it back, for the one that started it, and ends with that one.

    python -m winnow.pipeline.restore.share_process SOCKET

It opens its writer, which fences earlier ones of its name, and says so; it writes when the other process has found that
it still holds the restore. Then it keeps its positions until it is told to read back.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from winnow.engine.worker_process import WorkerSocket
from winnow.errors import Explanation, WinnowError
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore import write_records
from winnow.pipeline.restore.read_back import ReadBack, TargetContent, read_back
from winnow.pipeline.restore.restore_state import Progress, RestoreState
from winnow.pipeline.restore.share_names import name_restore, name_share
from winnow.pipeline.restore.source_log import SourceLog
from winnow.values.model import OffsetRange, Segment


@dataclass(frozen=True, slots=True)
class Share:
    """A share: ``state`` has its partitions only, as ``partitions`` and ``segments`` have, which are of the log.

    ``number``: from 1. ``bytes_per_second``: maximum rate of writing.
    """

    number: int
    target: str
    state: RestoreState
    snapshot_id: int | None
    partitions: Mapping[int, OffsetRange]
    segments: Mapping[int, Sequence[Segment]]
    batch_bytes: int
    bytes_per_second: float | None
    settings: ClientSettings = field(repr=False)


@dataclass(frozen=True, slots=True)
class Order:
    """What a share is to do next: write, or read back if ``content`` says what."""

    content: TargetContent | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a share failed. ``kind``: the class of the error. ``missing``: a segment of the log that is not there."""

    kind: str
    exit_code: int
    explanation: Explanation
    missing: Segment | None = None


@dataclass(frozen=True, slots=True)
class ShareAnswer:
    """Something that happened in a share: ``is_ready`` after each thing that was to be done.

    ``read_bytes``: of the log, since the last answer. ``moved``: the positions that a transaction committed.
    """

    is_ready: bool = False
    read_bytes: int = 0
    moved: Mapping[int, Progress] | None = None
    read_back: ReadBack | None = None
    failure: Failure | None = None


class _MissingSegmentError(Exception):
    """A segment is not there. Whether the newest snapshot has it, the other process finds out."""

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.segment = segment


def main(descriptor: int) -> None:
    """Write a share and read it back, or say why not; the other process ends this one."""
    socket = WorkerSocket(descriptor)
    share = socket.receive(Share)
    assert share is not None
    failure: Failure | None = None
    try:
        _write_and_read_back(socket, share)
    except _MissingSegmentError as problem:
        failure = Failure("", WinnowError.exit_code, Explanation(""), problem.segment)
    except WinnowError as problem:
        failure = Failure(type(problem).__name__, problem.exit_code, problem.explanation)
    except Exception as problem:
        what = f"Unexpected {type(problem).__name__} in share {share.number}."
        failure = Failure("", WinnowError.exit_code, Explanation(what))
    if failure is not None:
        socket.answer(ShareAnswer(failure=failure))
    socket.receive(Order)  # the other process ends this one


def _write_and_read_back(socket: WorkerSocket, share: Share) -> None:
    name, group = name_share(share.target, share.number), name_restore(share.target)
    source = _open_source(share)
    with TransactionalWriter(share.settings, share.target, name, share.batch_bytes, group) as writer:
        writer.open()
        socket.answer(ShareAnswer(is_ready=True))
        socket.receive(Order)
        writer.read_positions(share.state.partitions)  # so that it knows those of another
        state = write_records.write_records(
            source,
            TargetTopic(share.settings, share.target),
            writer,
            share.state,
            bytes_per_second=share.bytes_per_second,
            on_progress=lambda size_bytes: socket.answer(ShareAnswer(read_bytes=size_bytes)),
            on_commit=lambda reached: socket.answer(ShareAnswer(moved=reached.partitions)),
        )
        socket.answer(ShareAnswer(is_ready=True, moved=state.partitions))
        # Others may write for days, and brokers forget positions that are not committed again.
        while (order := socket.receive(Order, write_records.REFRESH_SECONDS)) is None:
            writer.begin()
            writer.commit(state.to_positions())
    assert order.content is not None
    done = read_back(
        source,
        share.settings,
        order.content,
        state,
        lambda size_bytes: socket.answer(ShareAnswer(read_bytes=size_bytes)),
    )
    socket.answer(ShareAnswer(is_ready=True, read_back=done))


def _open_source(share: Share) -> SourceLog:
    def give_up(segment: Segment) -> bool:
        raise _MissingSegmentError(segment)

    return SourceLog(share.state.identity.topic, share.snapshot_id, share.partitions, share.segments, give_up)


if __name__ == "__main__":
    main(int(sys.argv[1]))
