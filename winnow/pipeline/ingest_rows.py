"""The metadata store's row of an ingest call: there before its first file, gone when nothing is left to sweep."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from winnow.errors import WinnowError
from winnow.model import TopicState
from winnow.pipeline.context import Context
from winnow.store import OpenIngest


class IngestHeartbeat:
    """Says that an ingest call is at work, so that a sweep neither forgets its files nor takes it for dead.

    The row decides nothing: whether the call may commit is what the topic's state says (:meth:`is_voided`).

    Args:
        ctx: where.
        topic: where the call appends.
        ingest_id: its id.
        least_number: as :meth:`winnow.store.ingests.Ingests.open_ingest`.
    """

    def __init__(self, ctx: Context, topic: str, ingest_id: str, *, least_number: int) -> None:
        self._ctx = ctx
        self._topic = topic
        self._ingest_id = ingest_id
        self._least_number = least_number
        self._opened: OpenIngest | None = None

    def open(self) -> None:
        """Write the row, unless it is there. Call it before the first file.

        Raises:
            ServiceError: the metadata store cannot be reached.
        """
        if self._opened is None:
            ctx = self._ctx
            self._opened = ctx.store.ingests.open(
                self._ingest_id,
                self._topic,
                least_number=self._least_number,
                holder=ctx.holder,
                now_ms=ctx.now_ms(),
            )

    def is_voided(self, state: TopicState) -> bool:
        """Whether a commit has voided the call; one that wrote no file cannot be."""
        return self._opened is not None and state.is_voided(self._ingest_id, self._opened.number)

    def close(self) -> None:
        """Remove the row: the call is committed, or nothing is left of it. Where that fails the sweep does it."""
        if self._opened is not None:
            with contextlib.suppress(WinnowError):
                self._ctx.store.ingests.close([self._ingest_id])

    @contextlib.contextmanager
    def renew_in_background(self) -> Iterator[None]:
        """Note in the background that the call is at work, until the block ends."""
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(self._ctx.settings.lease_ms / 3000):
                if self._opened is not None:
                    with contextlib.suppress(Exception):  # a sweep that takes the call for dead costs work, no data
                        self._ctx.store.ingests.renew(self._ingest_id, self._ctx.now_ms())

        thread = threading.Thread(target=renew, daemon=True, name="ingest row")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
