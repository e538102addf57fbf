"""Gives store and warehouse the id of an installation by a person's command, where nothing decides it by itself."""

from __future__ import annotations

from winnow.log.installation import read_installation, replace_installation
from winnow.pipeline.installation import Installation
from winnow.pipeline.installation_guard import make_installation
from winnow.pipeline.topics.audit import record_action
from winnow.store.audit import AuditAction
from winnow.values.model import InstallationIdentity


def begin_installation_anew(installation: Installation) -> InstallationIdentity:
    """Give store and warehouse a new id: for a restored copy, which is not the installation that it was copied from.

    The warehouse first: after a crash between the two the next command is refused, and repeating it completes it. Open
    the installation with ``any_installation``.
    """
    made = make_installation(installation.now_ms())
    replace_installation(installation.guard.document, made)
    installation.store.installation.replace(made)
    record_action(installation, AuditAction.TAKE_OVER, "", detail=f"a new id, in {installation.guard.document}")
    return made


def take_warehouse_from_others(installation: Installation) -> None:
    """Give store and warehouse a new id, so that the processes of another installation are refused there from now on.

    Nothing changes where the warehouse is this installation's already. Open it with ``any_installation``.
    """
    there, own = read_installation(installation.guard.document), installation.store.installation.find()
    if own is None or there is None or own.installation_id != there.installation_id:
        begin_installation_anew(installation)
