"""Brings older states of topics back without what was erased since: recovery, adoption, an older head, an undeletion.

In each of them one commit makes the older state the present one, and that commit applies the erasures that only the
register knows. Its files are deleted before the call returns.
"""

from __future__ import annotations

from collections.abc import Iterator

from winnow.errors import DeletedTopicError, WinnowError
from winnow.pipeline.admin.older_head import AcceptedHead, accept_older_head
from winnow.pipeline.erase.complete import complete_store, delete_erased_files
from winnow.pipeline.erase.later_erasures import AppliedErasures, LaterErasures, apply_later_erasures
from winnow.pipeline.erase.scan import Progress
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.adoption import FoundFolder, adopt_all, adopt_topic
from winnow.pipeline.topics.deletion import restore_topic
from winnow.pipeline.topics.recovery import recover_topic
from winnow.pipeline.topics.recovery_report import RecoveryReport


def recover_without_erased(
    installation: Installation, topic: str, *, metadata: str | None = None, rebuild: bool = False, run: bool = False
) -> RecoveryReport:
    """Recover a topic (:func:`winnow.pipeline.topics.recovery.recover_topic`) without what was erased since.

    Raises:
        Also the errors of :meth:`winnow.pipeline.erase.later_erasures.LaterErasures.look`, and RunAgainError: it is
        recovered, and not all files of erasures are deleted.
    """
    older = LaterErasures(installation, topic, "winnow topics recover")
    report = recover_topic(installation, topic, metadata=metadata, rebuild=rebuild, run=run, older=older)
    if run:
        finish_older_state(installation, topic)
    return report


def adopt_without_erased(
    installation: Installation,
    topic: str,
    location: str,
    *,
    metadata: str | None = None,
    rebuild: bool = False,
    run: bool = False,
) -> RecoveryReport:
    """Adopt a topic (:func:`winnow.pipeline.topics.adoption.adopt_topic`); raises as :func:`recover_without_erased`."""
    older = LaterErasures(installation, topic, "winnow topics adopt")
    report = adopt_topic(installation, topic, location, metadata=metadata, rebuild=rebuild, run=run, older=older)
    if run:
        finish_older_state(installation, topic)
    return report


def adopt_all_without_erased(
    installation: Installation, *, run: bool = False
) -> Iterator[tuple[FoundFolder, RecoveryReport | WinnowError]]:
    """Adopt all lost tables (:func:`winnow.pipeline.topics.adoption.adopt_all`), each without what was erased since."""

    def make_older(topic: str) -> LaterErasures:
        return LaterErasures(installation, topic, "winnow topics adopt --all")

    for folder, outcome in adopt_all(installation, run=run, make_older=make_older):
        try:
            if run and folder.topic is not None and isinstance(outcome, RecoveryReport):
                finish_older_state(installation, folder.topic)
        except WinnowError as problem:
            yield folder, problem
        else:
            yield folder, outcome


def accept_without_erased(installation: Installation, topic: str, *, reason: str) -> AcceptedHead:
    """Go on from an older head (:func:`winnow.pipeline.admin.older_head.accept_older_head`) without what was erased.

    Raises: as :func:`recover_without_erased`.
    """
    older = LaterErasures(installation, topic, "winnow topics alter --accept-older-head")
    accepted = accept_older_head(installation, topic, reason=reason, older=older)
    finish_older_state(installation, topic)
    return accepted


def restore_without_erased(installation: Installation, topic: str) -> bool:
    """Bring a deleted topic back (:func:`winnow.pipeline.topics.deletion.restore_topic`) without what was erased since.

    Raises: as :func:`recover_without_erased`.
    """
    restored = restore_topic(installation, topic, LaterErasures(installation, topic, "winnow topics restore"))
    finish_older_state(installation, topic)
    return restored


def apply_registered(
    installation: Installation,
    topic: str,
    *,
    break_pins: bool = False,
    engine: str | None = None,
    progress: Progress = lambda done, total: None,
) -> AppliedErasures:
    """Apply the erasures that only the register knows to a topic as it is, and delete the files that held their keys.

    Raises: as :func:`recover_without_erased`.
    """
    applied = apply_later_erasures(
        installation, topic, "winnow erase --registered", break_pins=break_pins, engine=engine, progress=progress
    )
    _delete(installation, topic)
    return applied


def finish_older_state(installation: Installation, topic: str) -> None:
    """Apply what an earlier call left, if it did, and delete the files of erasures; a deleted topic waits as it is.

    Raises: as :func:`recover_without_erased`.
    """
    try:
        apply_later_erasures(installation, topic, "an older state of it", break_pins=True)
        _delete(installation, topic)
    except DeletedTopicError:
        return  # what brings it back ends here, too


def _delete(installation: Installation, topic: str) -> None:
    log = installation.log.open(topic)
    if log.head().state.erasures:
        complete_store(installation, log)
        delete_erased_files(installation, topic)
