"""Questions about what a run would do: explain, forecast, and the preview of a changed configuration. No user bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from winnow.config.topic import TopicConfig, list_entries
from winnow.config.units import convert_units
from winnow.errors import ConfigurationError, UsageError
from winnow.log_reader.documents import Document, describe
from winnow.log_reader.question import Answer, Parameters
from winnow.pipeline.explain.explain import Explanation, explain_compaction, explain_view
from winnow.pipeline.installation import Installation
from winnow.pipeline.monitor.metrics import compute_forecast, load_deadlines
from winnow.pipeline.topics.definition import preview_config
from winnow.pipeline.topics.second_person import takes_second_person
from winnow.report.receipts import explain_reason

MAXIMUM_PARTITIONS: Final = 200
"""Maximum partitions that an answer lists, eligible ones first; the totals are of all."""

_SUMMED: Final = (
    "segments", "records", "bytes_to_read", "at_most_bytes_to_write", "tombstones_in_expired_ranges",
    "at_least_records_kept", "at_most_records_kept", "records_to_quarantine", "segments_retired", "records_retired",
    "bytes_retired",
)  # fmt: skip
_ESTIMATED: Final = ("expected_records_kept", "expected_bytes_out", "reclaimed_bytes")


def explain(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Explain what a run would read, write and remove now; ``closes_active``: with active segments closed."""
    found = explain_compaction(
        installation, topic, as_of_ms=installation.now_ms(), closes_active=parameters.flag("closes_active")
    )
    return Answer(describe_explanation(found))


def describe_explanation(found: Explanation) -> Document:
    """Describe what a run would do, and the totals of the partitions that it would take.

    Totals of estimates are of the ``estimated_partitions``; None: no earlier run gives an estimate of any.
    """
    eligible = [each for each in found.partitions if each.eligible]
    totals: dict[str, Any] = {name: sum(getattr(each, name) for each in eligible) for name in _SUMMED}
    for name in _ESTIMATED:
        known = [value for each in eligible if (value := getattr(each, name)) is not None]
        totals[name] = sum(known) if known or not eligible else None
    totals["estimated_partitions"] = sum(each.reclaimed_bytes is not None for each in eligible)
    listed = sorted(found.partitions, key=lambda each: (not each.eligible, each.partition))
    return {
        **describe(found),
        "partitions": [
            {**describe(each), "reason_text": explain_reason(each.reason)} for each in listed[:MAXIMUM_PARTITIONS]
        ],
        "partitions_total": len(found.partitions),
        "eligible_total": len(eligible),
        "totals": totals,
    }


def forecast(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Forecast which partitions of the topic will miss their deadline at the pace of its recent runs."""
    as_of_ms = installation.now_ms()
    found = compute_forecast(installation, [load_deadlines(installation, topic, as_of_ms=as_of_ms)], as_of_ms=as_of_ms)
    prospects = [{**describe(each), "late_by_ms": each.late_by_ms} for each in found.prospects[:MAXIMUM_PARTITIONS]]
    counts: dict[str, int] = {}
    for each in found.prospects:
        counts[each.outlook.value] = counts.get(each.outlook.value, 0) + 1
    return Answer({**describe(found), "topic": topic, "prospects": prospects, "counts": counts})


def preview(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Check a change of configuration as ``winnow topics alter`` does, and show what it changes; changes nothing.

    ``error``: why the change is refused; then there is no ``before`` and ``after``. ``takes_second_person``: whether it
    waits for another user's approval.

    Parameters: ``config``, a map of texts to set, and ``reset``, names that go back to their default.
    """
    changes, deletions = parameters.values.get("config", {}), parameters.values.get("reset", [])
    if not _is_map_of_texts(changes) or not _is_list_of_texts(deletions):
        raise UsageError("config must map names to texts, and reset must list names.")
    try:
        found = preview_config(installation, topic, convert_units(changes), deletions)
    except ConfigurationError as problem:
        return Answer({"topic": topic, "error": str(problem), "changes": [], "notices": []})
    as_of_ms = found.before.now_ms
    document = {
        "topic": topic,
        "error": None,
        "changes": list(_list_changes(found.before.config, found.after.config)),
        "notices": list(found.shown.notices),
        "takes_second_person": takes_second_person(installation, found.shown),
        "before": describe_explanation(explain_view(installation, found.before, as_of_ms=as_of_ms)),
        "after": describe_explanation(explain_view(installation, found.after, as_of_ms=as_of_ms)),
    }
    return Answer(document)


def _list_changes(before: TopicConfig, after: TopicConfig) -> Iterable[Document]:
    old = {each.name: each for each in list_entries(before)}
    new = {each.name: each for each in list_entries(after)}
    for name in sorted({*old, *new}):
        was, becomes = old.get(name), new.get(name)
        if was != becomes:
            yield {
                "name": name,
                "before": None if was is None else asdict(was),
                "after": None if becomes is None else asdict(becomes),
            }


def _is_map_of_texts(value: object) -> bool:
    return isinstance(value, dict) and _is_list_of_texts([*value, *value.values()])


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
