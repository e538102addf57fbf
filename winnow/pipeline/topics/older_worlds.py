"""The commit by which an older state of a topic becomes the present one again, for those who bring one back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from winnow.log.head import Change, Committed, Head
from winnow.log.snapshot_expiry import Expiry
from winnow.log.topic_log import TopicLog


class OlderWorld(Protocol):
    """An older state of a topic that is brought back, and what was done to the topic since and has to be done again."""

    @property
    def is_behind(self) -> bool:
        """Whether something has to be done again, as far as was looked at."""

    def look(self, log: TopicLog, head: Head) -> None:
        """Look at the head that is to be brought back, before anything changes; raises what refuses it."""

    def commit(
        self, log: TopicLog, build: Callable[[Head], Change], *, even_deleted: bool = False, over_older: bool = False
    ) -> Committed:
        """Commit what ``build`` makes, as :meth:`winnow.log.topic_log.TopicLog.commit`, with what is done again."""

    def list_hidden_files(self) -> Collection[str]:
        """List the files that no snapshot may name when the commit is seen."""

    def record_expiring(self, expiry: Expiry) -> None:
        """Record what is left of snapshots that the commit leaves out."""


class UnchangedWorld:
    """An older state that is brought back as it is."""

    is_behind = False

    def look(self, log: TopicLog, head: Head) -> None:
        """Look at nothing."""

    def commit(
        self, log: TopicLog, build: Callable[[Head], Change], *, even_deleted: bool = False, over_older: bool = False
    ) -> Committed:
        """Commit what ``build`` makes."""
        return log.commit(build, even_deleted=even_deleted, over_older=over_older)

    def list_hidden_files(self) -> Collection[str]:
        """None."""
        return ()

    def record_expiring(self, expiry: Expiry) -> None:
        """Nothing is left out."""


UNCHANGED = UnchangedWorld()
