"""``winnow try-suite``: which expectations of a content suite the newest records of a topic hold."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.options import Json, Topic, open_for_command
from winnow.cli.output import print_lines, print_table, write_json
from winnow.values.counts import format_count
from winnow.values.model import Severity

if TYPE_CHECKING:
    from winnow.pipeline.explain.suite_trial import SuiteTrial, TriedExpectation

_EFFECTS = {Severity.FAIL: "blocks", Severity.WARN: "warns"}


def try_suite(
    topic: Topic,
    suite: Annotated[
        str, typer.Option("--suite", metavar="NAME", help="The suite to try; by default the topic's own.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Judge the newest records of a topic by a content suite, before it may block a run.

    At most 10,000 records and 64 MiB, shared among the partitions, are judged as a run would judge them. Shows which
    expectations hold, how many records violate the others and their first offsets. Changes nothing.

    Example: winnow try-suite orders --suite example_json_values
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.explain.suite_trial import try_suite as judge

        trial = judge(installation, topic, suite)
    if as_json:
        write_json(asdict(trial))
        return
    _show(trial)


def _show(trial: SuiteTrial) -> None:
    records = format_count(sum(each.records for each in trial.partitions), "record")
    is_whole = all(each.is_whole for each in trial.partitions)
    print_lines(f"{'All' if is_whole else 'The newest'} {records} of {trial.topic}, judged by {trial.suite}:")
    rows = [[each.id, _describe_outcome(each), _list_places(trial.topic, each)] for each in trial.expectations]
    print_table(["expectation", "outcome", "first offsets"], rows, sentences=(2,))
    print_lines(
        "A run that writes these records would be refused."
        if trial.would_block
        else "The suite would not block a run that writes these records."
    )


def _describe_outcome(tried: TriedExpectation) -> str:
    if tried.is_held:
        return "held"
    records = sum(each.records for each in tried.violations)
    by = format_count(records, "record") if records else "the column"
    return f"violated by {by}, {_EFFECTS[tried.severity]}"


def _list_places(topic: str, tried: TriedExpectation) -> str:
    return "; ".join(
        f"{topic}-{each.partition}: {', '.join(map(str, each.first_offsets))}"
        for each in tried.violations
        if each.first_offsets
    )
