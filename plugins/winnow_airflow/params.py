"""Params that the DAGs share, and the as-of instant of a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import Param

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, format_ms, parse_as_of
from winnow.errors import UsageError
from winnow_airflow.xcom_values import MAXIMUM_REASON_CHARACTERS, TOPIC_PATTERN


def choose_as_of_ms(
    params: Mapping[str, Any], data_interval_end: datetime | None, run_after: datetime | None, *, now_ms: int
) -> int:
    """Choose the as-of of a run (ms since the epoch): its parameter, else its data interval's end, else ``run_after``.

    Manual and asset-triggered runs have no data interval. All three stay the same when a task runs again.

    Raises:
        UsageError: the parameter is not a point in time, or lies more than a minute ahead without ``simulate``.
    """
    given = params.get("as_of")
    if given:
        chosen = parse_as_of(given)
    elif data_interval_end is not None:
        chosen = _convert_to_ms(data_interval_end)
    elif run_after is not None:
        chosen = _convert_to_ms(run_after)
    else:
        raise UsageError(
            "The run has neither data interval nor run_after.",
            next="Trigger it with the Param as_of.",
        )
    if chosen > now_ms + MAXIMUM_CLOCK_SKEW_MS and not params.get("simulate"):
        raise UsageError(
            f"The as-of {format_ms(chosen)} lies {(chosen - now_ms) / 1000:,.0f} seconds ahead of the present. Such a "
            "run compacts what is not due yet and starts delete horizons in the future.",
            left="Nothing was done.",
            next="Trigger it with the Param simulate if that is what you want.",
        )
    return chosen


def _convert_to_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def get_as_of_ms(context: Mapping[str, Any], *, now_ms: int) -> int:
    """Return the as-of of the DAG run that ``context`` belongs to; see :func:`choose_as_of_ms`."""
    return choose_as_of_ms(
        context["params"], context.get("data_interval_end"), context["dag_run"].run_after, now_ms=now_ms
    )


def build_config() -> Param:
    """Build the Param with keys of a topic's configuration to set; one per DAG, since a run gives it its value."""
    return Param(
        {},
        type="object",
        additionalProperties={"type": "string"},
        title="Configuration",
        description='Keys to set, by Kafka\'s names: {"max.compaction.lag.ms": "86400000"}',
    )


def build_reset() -> Param:
    """Build the Param with keys of a topic's configuration to set back to their defaults; one per DAG likewise."""
    return Param(
        [],
        type="array",
        items={"type": "string"},
        title="Keys to reset",
        description="Keys to set back to their defaults, one per line.",
    )


TOPICS = Param(
    [],
    type="array",
    items={"type": "string", "pattern": TOPIC_PATTERN},
    title="Topics",
    description="One name per line; empty: all topics.",
)


LINE_PATTERN = r"^[^\x00-\x1f\x7f]+$"
"""One line of plain text."""


def build_reason(title: str, description: str, *, is_required: bool = False) -> Param:
    """Build the Param with the reason of a change: one line of plain text, as it is quoted in logs and alerts."""
    default: dict[str, Any] = {} if is_required else {"default": "airflow"}
    return Param(
        **default,
        type="string",
        minLength=1,
        maxLength=MAXIMUM_REASON_CHARACTERS,
        pattern=LINE_PATTERN,
        title=title,
        description=description,
    )


REASON = Param(
    "",
    type="string",
    maxLength=MAXIMUM_REASON_CHARACTERS,
    pattern=r"^[^\x00-\x1f\x7f]*$",
    title="Reason",
    description="Why somebody asks for it; kept in the audit log.",
)

AS_OF = Param(
    None,
    type=["null", "string"],
    title="As of",
    description="Decide as of this instant: ISO 8601 with UTC offset (2026-01-31T18:00:00Z), or ms since the epoch. "
    "Empty: the end of the run's data interval, or for a run without one, the time when it was due.",
)

SIMULATE = Param(
    False,
    type="boolean",
    title="Simulate the future",
    description="Allow an instant more than a minute in the future. Such a run compacts records that are not due yet, "
    "and reports which tombstones it removed before their time.",
)

DRY_RUN = Param(
    False,
    type="boolean",
    title="Dry run",
    description="Only report what each topic that is due would read, write and remove. No plan is written, no topic is "
    "locked, nothing is compacted.",
)

SHADOW_STRATEGY = Param(
    None,
    type=["null", "string"],
    enum=[None, "offset", "timestamp", "header"],
    values_display={"null": "no comparison"},
    title="Compare with a strategy",
    description="Report what this strategy would keep of each topic instead of its own strategy, before the run "
    "compacts anything. One Spark application per topic; changes nothing. Empty: no comparison.",
)

COMPACTION: dict[str, Param] = {
    "topics": TOPICS,
    "as_of": AS_OF,
    "simulate": SIMULATE,
    "dry_run": DRY_RUN,
    "shadow_strategy": SHADOW_STRATEGY,
    "reason": REASON,
}
