"""Rights by a topic's owner: the setting ``owners`` names the users who may act for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EVERY_OWNER: Final = "*"
"""The entry of ``owners`` whose users may act for every owner."""


def may_act(owners: Mapping[str, str], owner: str | None, user: str) -> bool:
    """Check whether ``user`` may change topics of ``owner``, and read their records, as far as owners decide.

    Everybody may where the setting does not name the owner. ``owner`` None: it is not known, which only users of
    :data:`EVERY_OWNER` pass where the setting names any.
    """
    if not owners or (owner is not None and owner not in owners):
        return True
    allowed = f"{owners.get(owner or EVERY_OWNER, '')},{owners.get(EVERY_OWNER, '')}"
    return bool(user) and user in {name.strip() for name in allowed.split(",")}
