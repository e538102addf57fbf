"""``winnow partitions``: what keeps topic partitions from being compacted, and how to let them go on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.options import Json, Reason, Topic, open_for_command
from winnow.cli.output import MAXIMUM_ROWS, format_short_time, print_lines, print_table, write_json
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.topics.partitions import PartitionRow

Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", metavar="P", min=0, help="A partition; may be repeated; all when left out.", show_default=False
    ),
]

By = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="NAME", help="The pause's name; default: the operating system's user.", show_default=False
    ),
]


def list_all(topic: Topic, partition: Partitions = None, as_json: Json = False) -> None:
    """List the partitions of a topic and what keeps them from being compacted.

    in_progress: a run holds the topic. aborted: paused while a run holds it, so that run will not publish. paused: by
    these names. uncleanable: it failed; it is tried again at the next attempt, or after a release. none: nothing.

    Example: winnow partitions list orders
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.topics.partitions import list_partitions

        found = list_partitions(installation, topic, partition)
    if as_json:
        write_json([_build_document(row) for row in found])
    else:
        _show(found)


def pause(topic: Topic, partition: Partitions = None, by: By = None, as_json: Json = False) -> None:
    """Pause the compaction of partitions.

    A run that is working on them publishes nothing. A partition stays paused until every name that paused it has
    resumed it; pausing twice under one name counts once. Reading and ingesting continue.

    Example: winnow partitions pause orders --partition 3 --by restore-42
    """
    with open_for_command() as installation:
        from winnow.pipeline.topics.audit import get_user_name
        from winnow.pipeline.topics.partitions import pause_partitions

        found = pause_partitions(installation, topic, partition, by=get_user_name() if by is None else by)
    back = f"winnow partitions resume {topic}{_parse_partitions(partition)}" + (
        f" --by {shlex.quote(by)}" if by else ""
    )
    _print_answer(found, as_json, f"Next: {back}", done="Paused", idle="they are already paused under that name")


def resume(
    topic: Topic,
    partition: Partitions = None,
    by: By = None,
    everybody: Annotated[bool, typer.Option("--all", help="Remove all pauses, under every name.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a pause.

    A partition is compacted again when the last name that paused it has resumed it.

    Example: winnow partitions resume orders --partition 3 --by restore-42
    """
    with open_for_command() as installation:
        from winnow.pipeline.topics.audit import get_user_name
        from winnow.pipeline.topics.partitions import resume_partitions

        found = resume_partitions(
            installation, topic, partition, by=get_user_name() if by is None else by, everybody=everybody
        )
    held = sorted({name for row in found for name in row.paused_by})
    hint = f"Next: winnow assess {topic}"
    if held:
        hint = f"Still paused by {', '.join(held)}; to remove every pause: winnow partitions resume {topic} --all"
    _print_answer(found, as_json, hint, done="Resumed", idle="none of them is paused under that name")


def _parse_partitions(partitions: Sequence[int] | None) -> str:
    return "".join(f" --partition {number}" for number in partitions or ())


def release(topic: Topic, partition: Partitions = None, reason: Reason = None, as_json: Json = False) -> None:
    """Release uncleanable partitions: the next run tries them again.

    Use it when the cause is fixed, for example a damaged segment restored from a backup. A partition that fails again
    waits 15 minutes, as after its first failure.

    Example: winnow partitions release orders --partition 3
    """
    with open_for_command() as installation:
        from winnow.pipeline.topics.audit import get_user_name
        from winnow.pipeline.topics.partitions import list_partitions, release_partitions

        by = f"released by {get_user_name()}"
        released = release_partitions(installation, topic, partition, why=f"{by}: {reason}" if reason else by)
        found = list_partitions(installation, topic, partition)
    if as_json:
        write_json([_build_document(row) | {"changed": row.partition in released} for row in found])
        return
    names = ", ".join(f"{topic}-{number}" for number in released)
    print_lines(f"Released: {names}.\nNext: winnow compact {topic}" if released else "Nothing was marked uncleanable.")


def _build_document(row: PartitionRow) -> dict[str, Any]:
    return {**asdict(row), "paused_by": list(row.paused_by)}


def _print_answer(found: Sequence[PartitionRow], as_json: bool, hint: str, *, done: str, idle: str) -> None:
    if as_json:
        write_json([_build_document(row) for row in found])
        return
    changed = [f"{row.topic}-{row.partition}" for row in found if row.changed]
    print_lines(f"{done}: {', '.join(changed)}." if changed else f"Nothing was changed: {idle}.")
    _show([row for row in found if row.paused_by])
    print_lines(hint)


def _show(found: Sequence[PartitionRow]) -> None:
    rows = [
        [
            f"{row.topic}-{row.partition}",
            row.state.replace("_", " "),
            format_short_time(row.since_ms),
            str(row.attempts) if row.attempts else "",
            format_short_time(row.next_attempt_ms),
            ", ".join(row.paused_by),
            row.reason or "",
        ]
        for row in found[:MAXIMUM_ROWS]
    ]
    if rows:
        header = ["partition", "state", "since", "failures", "next attempt", "paused by", "reason"]
        print_table(header, rows, right=(3,), sentences=(6,))
    if len(found) > len(rows):
        print_lines(f"{format_count(len(found) - len(rows), 'more partition')}; --json lists all")
