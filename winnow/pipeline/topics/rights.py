"""Which topics a user may not act on, by the owners that the topics' own configurations name."""

from __future__ import annotations

from collections.abc import Iterable

from winnow.config.owners import may_act
from winnow.errors import DeletedTopicError, ServiceError, UnknownTopicError, UsageError, WinnowError
from winnow.pipeline.installation import Installation


def find_forbidden(installation: Installation, topics: Iterable[str], user: str) -> dict[str, str]:
    """Return those of ``topics`` that ``user`` may not act on, each with its owner; topics that do not exist are none.

    The owner of a topic that is deleted, or whose configuration cannot be read, is not known.
    """
    owners = installation.settings.owners
    found: dict[str, str] = {}
    for topic in topics if owners else ():
        try:
            owner = _read_owner(installation, topic)
        except UnknownTopicError:
            continue
        if not may_act(owners, owner, user):
            found[topic] = owner or "somebody whom its configuration does not tell"
    return found


def _read_owner(installation: Installation, topic: str) -> str | None:
    try:
        return installation.log.open(topic).config().owner
    except DeletedTopicError:
        return None
    except (ServiceError, UnknownTopicError):
        raise
    except WinnowError:
        return None  # a topic that is not well stops no other


def require_right(installation: Installation, topics: Iterable[str], user: str) -> None:
    """Check that ``user`` may act on all of ``topics``.

    Raises:
        UsageError: not on all; the message names them.
    """
    forbidden = find_forbidden(installation, topics, user)
    if forbidden:
        shown = ", ".join(f"{topic} is owned by {owner}" for topic, owner in sorted(forbidden.items())[:5])
        more = f" and {len(forbidden) - 5:,} more" if len(forbidden) > 5 else ""  # noqa: PLR2004 - those shown
        raise UsageError(
            f"{shown}{more}, for whom {user or 'nobody by name'} may not act.",
            left="Nothing was done.",
            next="Ask the owner, or have the user named in the setting owners (docs/airflow.md).",
        )
