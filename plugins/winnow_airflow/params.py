"""The Params that DAGs share, as the trigger form shows them: a title, a sentence, and a section."""

from __future__ import annotations

from airflow.sdk import Param

from winnow_airflow.references import TOPIC_PATTERN

WHAT, WHEN, LOOK = "What", "As of when", "Only look"
"""Sections of the form."""

TOPICS = Param(
    [],
    type="array",
    items={"type": "string", "pattern": TOPIC_PATTERN},
    title="Topics",
    description="One name per line; empty: all topics.",
    section=WHAT,
)

AS_OF = Param(
    None,
    type=["null", "string"],
    title="As of",
    description="The instant to look from: ISO 8601 with its offset (2026-01-31T18:00:00Z), or ms since the epoch. "
    "Empty: the end of the run's data interval; where it has none, when it was due.",
    section=WHEN,
)

SIMULATE = Param(
    False,
    type="boolean",
    title="Simulate the future",
    description="Allow an instant more than a minute ahead of the present. Such a run compacts what is not due yet, "
    "and says which tombstones it removed before their time.",
    section=WHEN,
)

DRY_RUN = Param(
    False,
    type="boolean",
    title="Dry run",
    description="Check and explain only: what each topic that is due would read, write and remove. Plans nothing, "
    "holds nothing, compacts nothing.",
    section=LOOK,
)

SHADOW_STRATEGY = Param(
    None,
    type=["null", "string"],
    enum=[None, "offset", "timestamp", "header"],
    title="Compare with a strategy",
    description="Say what this strategy would keep of each topic instead of its own, before the run compacts anything. "
    "One Spark application per topic; changes nothing. Empty: no comparison.",
    section=LOOK,
)

COMPACTION: dict[str, Param] = {
    "topics": TOPICS,
    "as_of": AS_OF,
    "simulate": SIMULATE,
    "dry_run": DRY_RUN,
    "shadow_strategy": SHADOW_STRATEGY,
}
