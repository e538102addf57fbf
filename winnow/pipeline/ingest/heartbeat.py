"""The row in the metadata store by which a sweep knows that an ingest call is running."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

from winnow.errors import WinnowError
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import renew_in_background
from winnow.store import OpenIngest
from winnow.values.topic_state import TopicState


class IngestHeartbeat:
    """Marks an ingest call as running, so that a sweep neither deletes its files nor voids it.

    The row decides nothing: whether the call may commit depends on the topic's state (:meth:`is_voided`).

    Args:
        installation: the installation.
        topic: the topic that the call appends to.
        ingest_id: the call's id.
        least_number: as :meth:`winnow.store.ingests.Ingests.open`.
    """

    def __init__(self, installation: Installation, topic: str, ingest_id: str, *, least_number: int) -> None:
        self._installation = installation
        self._topic = topic
        self._ingest_id = ingest_id
        self._least_number = least_number
        self._opened: OpenIngest | None = None

    def open(self) -> None:
        """Write the row, if there is none. Call it before the first file.

        Raises:
            ServiceError: the metadata store cannot be reached.
        """
        if self._opened is None:
            installation = self._installation
            self._opened = installation.store.ingests.open(
                self._ingest_id,
                self._topic,
                least_number=self._least_number,
                holder=installation.holder,
                now_ms=installation.now_ms(),
            )

    def is_voided(self, state: TopicState) -> bool:
        """Check whether a commit has voided the call, which must have written files for that."""
        return self._opened is not None and state.is_voided(self._ingest_id, self._opened.number)

    def close(self) -> None:
        """Remove the row, once the call is committed or its files are gone. If that fails, the sweep does it."""
        if self._opened is not None:
            with contextlib.suppress(WinnowError):
                self._installation.store.ingests.close([self._ingest_id])

    def renew_in_background(self) -> AbstractContextManager[None]:
        """Mark the call as running in the background, until the block ends."""
        return renew_in_background(self._installation, self._renew, name="ingest row")

    def _renew(self) -> None:
        if self._opened is not None:
            with contextlib.suppress(Exception):  # a sweep that takes the call for dead costs work, no data
                self._installation.store.ingests.renew(self._ingest_id, self._installation.now_ms())
