"""Tells a sweep that was overtaken by another one from metadata that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from winnow.errors import CommitConflictError, DamagedMetadataError
from winnow.log.snapshot_expiry import collect_references, list_kept_states
from winnow.log.topic_log import TopicLog


@contextmanager
def explain_missing_metadata(log: TopicLog) -> Iterator[None]:
    """Explain a missing metadata file: another sweep removed it while this process was paused, or it is lost.

    Raises:
        CommitConflictError: all files of the newest metadata exist; running it again starts from them.
        DamagedMetadataError: the newest metadata name a missing file.
    """
    try:
        yield
    except (FileNotFoundError, DamagedMetadataError) as problem:
        if isinstance(problem, DamagedMetadataError) and not isinstance(problem.__cause__, FileNotFoundError):
            raise  # it is there, and another one
        newest = log.head()
        try:
            collect_references(newest.table)
            for _ in list_kept_states(log.topic, newest.table):
                pass
        except DamagedMetadataError:
            if log.head().table.metadata_location == newest.table.metadata_location:
                raise
        except FileNotFoundError as missing:
            if log.head().table.metadata_location == newest.table.metadata_location:
                raise DamagedMetadataError(
                    f"A metadata file of topic {log.topic} is gone ({missing}). The table still refers to it.",
                    left="Nothing was deleted.",
                    next="Restore that file from a backup or the object store's versions.",
                ) from missing
        raise CommitConflictError(
            f"Another sweep of topic {log.topic} removed metadata that this one was reading.",
            left="Nothing that is needed is gone.",
            next="Run it again.",
        ) from problem
