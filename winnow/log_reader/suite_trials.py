"""The trial of a content suite on records of a topic: counts and offsets, no byte of a record."""

from __future__ import annotations

from typing import Final

from winnow.log_reader.documents import describe
from winnow.log_reader.question import Answer, Parameters
from winnow.pipeline.installation import Installation
from winnow.values.counts import format_count

MAXIMUM_LISTED: Final = 100
"""Partitions that are named of those with violations of one expectation."""


def try_suite(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Judge the newest records of the topic by ``suite``; without one, by the suite that the topic names."""
    # Great Expectations and pandas are imported for this question alone.
    from winnow.pipeline.explain.suite_trial import try_suite as judge

    trial = judge(installation, topic, parameters.optional_text("suite"))
    records = sum(each.records for each in trial.partitions)
    document = {
        "topic": topic,
        "suite": trial.suite,
        "is_in_force": trial.is_in_force,
        "would_block": trial.would_block,
        "records": records,
        "partitions": len(trial.partitions),
        "is_whole": all(each.is_whole for each in trial.partitions),
        "expectations": [
            {
                "id": each.id,
                "sentence": each.sentence,
                "severity": each.severity.value,
                "is_held": each.is_held,
                "records": sum(violated.records for violated in each.violations),
                "violations": [
                    {**describe(violated), "first_offsets": list(map(str, violated.first_offsets))}
                    for violated in each.violations[:MAXIMUM_LISTED]
                ],
            }
            for each in trial.expectations
        ],
    }
    return Answer(document, f"{topic}: suite {trial.suite} tried on {format_count(records, 'record')}")
