"""Changes that can make runs remove records for good, and the second person whom they take if the settings say so.

The second person is shown what is in force and what would be. An approval is for exactly that: before each commit, on
every turn of its loop, its digest is compared with that of the head which the commit follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from winnow.config.topic import TopicConfig
from winnow.errors import UsageError
from winnow.log.head import Head
from winnow.log.recorded_configuration import read_overrides
from winnow.pipeline.installation import Installation
from winnow.planning.removing_changes import can_remove_records
from winnow.store.erase_requests import is_same_person
from winnow.values import documents

_NOTHING = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change as the second person sees it.

    Args:
        topic: of what topic.
        values: what it is and what it becomes: by key of the configuration (None: not set), or the log start by
            partition.
        removes: whether runs can remove records for good because of it, which they would keep, or keep for longer.
        digest: of the change, of the topic's life and of everything that the topic sets.
        notices: what it does at the next run.
    """

    topic: str
    values: Mapping[str, tuple[str | None, str | None]]
    removes: bool
    digest: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeApproval:
    """That another person approved a change. ``digest``: of the :class:`ShownChange` that this person saw."""

    digest: str
    requested_by: str
    approved_by: str


def show_configuration(
    topic: str, head: Head, before: TopicConfig | None, after: TopicConfig, *, notices: tuple[str, ...] = ()
) -> ShownChange:
    """Show a change of configuration. ``before`` None: what is in force contradicts itself."""
    present = dict(read_overrides(head.table.properties)) if before is None else dict(before.overrides)
    future = after.overrides
    names = sorted(name for name in {*present, *future} if present.get(name) != future.get(name))
    values = {name: (present.get(name), future.get(name)) for name in names}
    return show_values(
        topic, head, values, removes=before is None or can_remove_records(before, after), notices=notices
    )


def show_values(
    topic: str,
    head: Head,
    values: Mapping[str, tuple[str | None, str | None]],
    *,
    removes: bool,
    notices: tuple[str, ...] = (),
) -> ShownChange:
    """Show a change of ``values``."""
    bound = [topic, head.table_uuid, dict(read_overrides(head.table.properties)), dict(values)]
    return ShownChange(topic, values, removes, documents.compute_digest(bound), notices)


def takes_second_person(installation: Installation, shown: ShownChange) -> bool:
    """Check whether a change takes a second person."""
    return shown.removes and installation.settings.change.approvals > 1


def require_second_person(installation: Installation, shown: ShownChange, approval: ChangeApproval | None) -> None:
    """Check that a change may be committed: it takes nobody else, or another person approved what it is.

    Raises:
        UsageError: nobody approved it, whoever asked for it did, or what was shown is not what it is any more.
    """
    if approval is None:
        if takes_second_person(installation, shown):
            raise UsageError(
                f"This change of topic {shown.topic} can remove records for good ({', '.join(shown.values)}), which "
                "takes two persons (change.approvals), and nobody approved it.",
                left=_NOTHING,
                next="Make it on the page, or trigger the DAG change_topics: it waits for another user's approval.",
            )
        return
    if is_same_person(approval.requested_by, approval.approved_by):
        raise UsageError(
            f"This change of topic {shown.topic} takes two persons, and {approval.approved_by} who approved it asked "
            "for it.",
            left=_NOTHING,
            next="Ask for it anew, and have another person approve it.",
        )
    if approval.digest != shown.digest:
        raise UsageError(
            f"The configuration of topic {shown.topic} is not what {approval.approved_by} saw who approved its change.",
            left=_NOTHING,
            next="Look at it again, and ask for it anew.",
        )


def describe_approval(approval: ChangeApproval | None) -> list[str]:
    """Describe who approved a change, for the audit log; nothing if nobody had to."""
    return [] if approval is None else [f"approved by {approval.approved_by}"]
