"""Gives store and warehouse the id of an installation by a person's command, where nothing decides it by itself."""

from __future__ import annotations

from winnow.log.installation import read_installation, replace_installation
from winnow.pipeline.context import Context
from winnow.pipeline.installation_guard import make_installation
from winnow.pipeline.topics.audit import record_action
from winnow.store.audit import AuditAction
from winnow.values.model import Installation


def begin_installation_anew(ctx: Context) -> Installation:
    """Give store and warehouse a new id: for a restored copy, which is not the installation that it was copied from.

    The warehouse first: after a crash between the two the next command is refused, and repeating it completes it. Open
    the context with ``any_installation``.
    """
    made = make_installation(ctx.now_ms())
    replace_installation(ctx.installation.document, made)
    ctx.store.installation.replace(made)
    record_action(ctx, AuditAction.TAKE_OVER, "", detail=f"a new id, in {ctx.installation.document}")
    return made


def take_warehouse_from_others(ctx: Context) -> None:
    """Give store and warehouse a new id, so that the processes of another installation are refused there from now on.

    Nothing changes where the warehouse is this installation's already. Open the context with ``any_installation``.
    """
    there, own = read_installation(ctx.installation.document), ctx.store.installation.find()
    if own is None or there is None or own.installation_id != there.installation_id:
        begin_installation_anew(ctx)
