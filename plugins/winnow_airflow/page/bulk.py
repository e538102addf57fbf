"""The review of an action on many topics: which ones it takes, what it does to each, and which it cannot take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from winnow.config.owners import may_act
from winnow.config.settings import Settings
from winnow.config.topic import TopicConfig, is_topic_key, make_unknown_key_error
from winnow.config.units import convert_units
from winnow.errors import ConfigurationError
from winnow.planning.removing_changes import can_remove_records
from winnow.store.rows import TopicFilter, TopicSummary
from winnow.values.bulk_changes import (
    ALTER,
    MAXIMUM_TOPICS,
    RESUME,
    BulkChange,
    compute_fingerprint,
    compute_review_digest,
)
from winnow.values.model import OverviewState
from winnow_airflow.dag_ids import name_dag
from winnow_airflow.page.access import ACTION_DAGS, may_trigger, may_view, own_request
from winnow_airflow.page.configuration import MAXIMUM_KEYS, Values
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation
from winnow_airflow.page.request_body import RequestBody
from winnow_airflow.page.responses import Document

MAXIMUM_SHOWN: Final = 20
"""Maximum topics of each kind that a review shows; it counts the others."""
COMPACT, SWEEP, SCRUB = "compact", "sweep", "scrub"
_RUNNING: Final = frozenset({COMPACT, SWEEP, SCRUB})
"""Actions of DAGs that take a list of names."""


def require_some_right(user: GetUserDep) -> None:
    """Refuse users who may do none of these actions, before what they ask for is looked at."""
    if not any(may_trigger(user, name_dag(_get_dag(action))) for action in (ALTER, *sorted(_RUNNING))):
        raise HTTPException(403, "Your role in Airflow may not trigger any of these actions. Nothing was done.")


def _get_dag(action: str) -> str:
    return ACTION_DAGS[action if action in _RUNNING else "change_many"]


Name = Annotated[str, Field(max_length=249)]
Label = Annotated[str, Field(min_length=1, max_length=100)]
router = APIRouter(prefix="/api/bulk", dependencies=[may_view])


class Filter(RequestBody):
    """Which topics; empty: any."""

    search: str = Field(default="", max_length=249)
    state: OverviewState | None = None
    owner: str = Field(default="", max_length=100)
    tag: str = Field(default="", max_length=50)


class WantedAction(RequestBody):
    """An action on the topics that ``only`` finds, or on those that are named. ``name``: that of a pause that ends."""

    action: Literal["pause", "resume", "alter", "compact", "sweep", "scrub"]
    only: Filter | None = None
    topics: list[Name] = Field(default=[], max_length=MAXIMUM_TOPICS)
    config: Values = Field(default={}, max_length=MAXIMUM_KEYS)
    reset: list[Label] = Field(default=[], max_length=MAXIMUM_KEYS)
    add_tags: list[Label] = Field(default=[], max_length=MAXIMUM_KEYS)
    remove_tags: list[Label] = Field(default=[], max_length=MAXIMUM_KEYS)
    name: str = Field(default="", max_length=100)


@dataclass(slots=True)
class Review:
    """What a review has found so far. ``topics``: those that are taken, each with its fingerprint."""

    topics: dict[str, str] = field(default_factory=dict)
    shown: list[Document] = field(default_factory=list)
    refused: list[Document] = field(default_factory=list)
    refused_total: int = 0
    unchanged: int = 0
    irreversible: int = 0
    size_bytes: int = 0
    retired_bytes: int = 0

    def refuse(self, topic: str, reason: str) -> None:
        """Count a topic that is not taken, and show why."""
        self.refused_total += 1
        if len(self.refused) < MAXIMUM_SHOWN:
            self.refused.append({"topic": topic, "reason": reason})

    def take(
        self, seen: TopicSummary, overrides: Mapping[str, str], changes: list[Document], *, is_irreversible: bool
    ) -> None:
        """Take a topic, and show what changes for it. ``is_irreversible``: runs can remove records for good by it."""
        overview = seen.overview
        self.topics[overview.topic] = compute_fingerprint(overview.location, overrides)
        self.size_bytes += overview.size_bytes
        self.retired_bytes += overview.retired_bytes
        self.irreversible += is_irreversible
        if len(self.shown) < MAXIMUM_SHOWN:
            figures = {name: getattr(overview, name) for name in ("size_bytes", "retired_bytes", "reclaimable_bytes")}
            effect = {"changes": changes, "is_irreversible": is_irreversible}
            self.shown.append({"topic": overview.topic, "state": seen.state, **figures, **effect})


@router.post("/review", dependencies=[own_request, Depends(require_some_right)])
def review_action(installation: InstallationDep, now_ms: NowDep, user: GetUserDep, wanted: WantedAction) -> Document:
    """Resolve which topics an action takes, and say what it does; the user's rights are checked for each.

    ``conf``: what to trigger ``dag`` with, besides the reason; its topics are those of the review, no others.
    ``shown`` and ``refused``: the first ones. ``unchanged``: topics that are as wanted already, which are not taken.
    """
    dag = _get_dag(wanted.action)
    if not may_trigger(user, name_dag(dag)):
        raise HTTPException(403, f"Your role in Airflow may not trigger {name_dag(dag)}. Nothing was done.")
    try:
        config = convert_units(wanted.config)
        for key in (*config, *wanted.reset):
            if not is_topic_key(key):
                raise make_unknown_key_error(key)
    except ConfigurationError as problem:
        raise HTTPException(422, str(problem)) from None
    change = BulkChange(wanted.action, config, tuple(wanted.reset), tuple(wanted.add_tags), tuple(wanted.remove_tags))
    found = _review_topics(installation, user.get_name(), now_ms, wanted, change)
    if len(found.topics) > MAXIMUM_TOPICS:
        raise HTTPException(
            422,
            f"{len(found.topics):,} topics are more than the {MAXIMUM_TOPICS:,} that one action takes. Nothing was "
            "done. Narrow the filter.",
        )
    return {
        "now_ms": now_ms,
        "dag": dag,
        "conf": _build_conf(change, found.topics),
        "total": len(found.topics),
        **{name: getattr(found, name) for name in ("shown", "refused", "refused_total", "unchanged", "irreversible")},
        "size_bytes": found.size_bytes,
        "retired_bytes": found.retired_bytes,
    }


def _build_conf(change: BulkChange, topics: dict[str, str]) -> dict[str, Any]:
    if change.action in _RUNNING:
        return {"topics": sorted(topics)}
    return {
        "action": change.action,
        "topics": topics,
        "config": dict(change.config),
        "reset": list(change.reset),
        "add_tags": list(change.add_tags),
        "remove_tags": list(change.remove_tags),
        "digest": compute_review_digest(change, topics),
    }


def _review_topics(
    installation: ShownInstallation, user: str, now_ms: int, wanted: WantedAction, change: BulkChange
) -> Review:
    review, owners = Review(), installation.settings.owners
    pauses = installation.store.overview.find_pausing_names() if change.action == RESUME else {}
    named = set(wanted.topics)
    for seen in _list_topics(installation, now_ms, wanted):
        topic = seen.overview.topic
        named.discard(topic)
        if not may_act(owners, seen.overview.owner, user):
            review.refuse(topic, f"owned by {seen.overview.owner}, for whom you may not act (setting owners)")
            continue
        overrides = {
            entry["name"]: entry["value"]
            for entry in json.loads(seen.overview.configuration)
            if not entry["is_default"]
        }
        reason = _explain_refusal(seen, change, pauses.get(topic), wanted.name)
        if reason:
            review.refuse(topic, reason)
        elif change.action != ALTER:
            review.take(seen, overrides, [], is_irreversible=False)
        else:
            _review_configuration(review, installation.settings, seen, overrides, change)
    for topic in sorted(named):
        review.refuse(topic, "there is no such topic, or it was never assessed")
    return review


def _list_topics(installation: ShownInstallation, now_ms: int, wanted: WantedAction) -> Iterator[TopicSummary]:
    if wanted.only is not None:
        only = TopicFilter(wanted.only.search, wanted.only.state, wanted.only.owner, wanted.only.tag)
        return installation.store.overview.stream_topics(now_ms, only=only)
    named = set(wanted.topics)
    return (seen for seen in installation.store.overview.stream_topics(now_ms) if seen.overview.topic in named)


def _explain_refusal(seen: TopicSummary, change: BulkChange, names: frozenset[str] | None, name: str) -> str:
    if change.action == COMPACT and seen.states[OverviewState.PAUSED] == seen.overview.partitions:
        return "all of its partitions are paused"
    if change.action != RESUME:
        return ""
    if names is None:
        return "it is not paused"
    # A pause without a name ends under any.
    return "" if not names or name in names else f"it is paused by {', '.join(sorted(names))}"


def _review_configuration(
    review: Review, settings: Settings, seen: TopicSummary, overrides: Mapping[str, str], change: BulkChange
) -> None:
    after = change.apply(overrides)
    if after == overrides:
        review.unchanged += 1
        return
    try:
        config = TopicConfig.parse(after, settings.topic_defaults)
    except ConfigurationError as problem:
        review.refuse(seen.overview.topic, str(problem))
        return
    changes = [
        {"name": key, "before": overrides.get(key), "after": after.get(key)}
        for key in sorted({*overrides, *after})
        if overrides.get(key) != after.get(key)
    ]
    review.take(seen, overrides, changes, is_irreversible=_can_remove_records(overrides, config, settings))


def _can_remove_records(overrides: Mapping[str, str], after: TopicConfig, settings: Settings) -> bool:
    try:
        before = TopicConfig.parse(overrides, settings.topic_defaults)
    except ConfigurationError:
        return True  # nobody can say what it keeps
    return can_remove_records(before, after)
