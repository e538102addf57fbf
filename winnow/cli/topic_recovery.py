"""``winnow topics recover`` and ``winnow topics adopt``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import exit_with, print_error
from winnow.cli.options import Json, Reason, Topic, open_for_command
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_short_time,
    print_heading,
    print_lines,
    print_message,
    print_table,
    write_json,
)
from winnow.errors import DamagedMetadataError, UsageError, WinnowError, find_worst_exit_code
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.topics.recovery_report import FoundSnapshot, RecoveryReport

Metadata = Annotated[
    str | None,
    typer.Option(
        "--metadata",
        metavar="FILE",
        help="The metadata file to take, by its name; default: the newest that is proven.",
        show_default=False,
    ),
]
RebuildState = Annotated[
    bool,
    typer.Option("--rebuild-state", help="Rebuild the state if it is gone; shows what is lost.", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without, it is only shown.", show_default=False)]


def recover(
    topic: Topic,
    metadata: Metadata = None,
    rebuild_state: Annotated[
        bool,
        typer.Option(
            "--rebuild-state", help="Rebuild the state if it is gone; shows what is lost.", show_default=False
        ),
    ] = False,
    yes: Yes = False,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Make the newest metadata in a topic's folder the catalog's again.

    For a catalog that is older than the warehouse (restored from a backup, a replica that lagged behind), or whose
    metadata file is gone. Shows what lies there, which of it is proven, and what would be given up; --yes does it, in
    one commit above every number that is known, and rebuilds the metadata store. Repeating it changes nothing.

    If another engine's orphan removal took the state, --rebuild-state makes one from manifests, segments and metadata
    store; it says what is not known any more, and sets that to the safe side.

    Example: winnow topics recover orders

    Example: winnow topics recover orders --yes --reason "catalog restored from Tuesday's backup"
    """
    with open_for_command(to_read=not yes, reason=reason) as installation:
        from winnow.pipeline.erase.older_states import recover_without_erased

        report = recover_without_erased(installation, topic, metadata=metadata, rebuild=rebuild_state, run=yes)
    _show(report, f"recover {topic}{' --rebuild-state' if rebuild_state else ''}", as_json=as_json)


def adopt(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic.", show_default=False)] = None,
    location: Annotated[
        str | None, typer.Argument(metavar="[LOCATION]", help="The folder of its table.", show_default=False)
    ] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every table in the warehouse that the catalog does not name.")
    ] = False,
    metadata: Metadata = None,
    rebuild_state: RebuildState = False,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="The warehouse is another installation's; it is refused there from now on."),
    ] = False,
    yes: Yes = False,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Enter a topic's table into a catalog that has lost it.

    Reads the folder of the table in the warehouse, follows its newest metadata to the last file, and shows what it has;
    --yes enters it, with its side tables, in one commit above every number that is known, and rebuilds the metadata
    store. Refused if the catalog has a topic of that name, or a table in that folder. Repeating it changes nothing.

    Where catalog and metadata store are lost, the warehouse is another installation's: --take-over gives it a new id,
    so that processes of the lost one, which may come back, neither write nor delete there.

    Example: winnow topics adopt orders .winnow/warehouse/winnow/orders

    Example: winnow topics adopt --all --yes --reason "catalog lost"
    """
    if every == (topic is not None) or (location is None) == (topic is not None):
        raise UsageError(
            "Name a topic and the folder of its table, or give --all.",
            left="Nothing was changed.",
        )
    with open_for_command(to_read=not yes, reason=reason, any_installation=take_over) as installation:
        from winnow.pipeline.erase.older_states import adopt_all_without_erased, adopt_without_erased
        from winnow.pipeline.installation_takeover import take_warehouse_from_others

        if take_over and yes:
            take_warehouse_from_others(installation)

        if topic is None or location is None:
            outcomes = [each for _, each in adopt_all_without_erased(installation, run=yes)]
        else:
            outcomes = [
                adopt_without_erased(installation, topic, location, metadata=metadata, rebuild=rebuild_state, run=yes)
            ]
    if every or isinstance(outcomes[0], WinnowError):
        _show_all(outcomes, as_json=as_json, was_run=yes)
        return
    options = " --rebuild-state" if rebuild_state else ""
    _show(outcomes[0], f"adopt {topic} {location}{options}", as_json=as_json)


def _show_all(outcomes: list[RecoveryReport | WinnowError], *, as_json: bool, was_run: bool) -> None:
    reports = [each for each in outcomes if not isinstance(each, WinnowError)]
    problems = [each for each in outcomes if isinstance(each, WinnowError)]
    if as_json:
        write_json([asdict(report) for report in reports])
    elif reports:
        rows = [[each.topic, each.location, _get_name(each.chosen_metadata), _judge(each)] for each in reports]
        print_table(["topic", "folder", "metadata", "state"], rows, sentences=(3,))
        if not was_run:
            print_lines("Nothing was changed. To enter them: winnow topics adopt --all --yes")
    elif not problems:
        print_lines("The catalog names every table among those of the topics.")
    for problem in problems:
        print_error(problem)
    codes = [problem.exit_code for problem in problems] + [_find_exit_code(each) for each in reports]
    exit_with(find_worst_exit_code(codes))


def _judge(report: RecoveryReport) -> str:
    if report.undecided is not None:
        return report.undecided
    if report.problems:
        return f"not complete: {report.problems[0]}"
    if report.was_run:
        return "adopted"
    return "complete" if report.is_landed else "complete; nothing says whether its last commit landed"


def _find_exit_code(report: RecoveryReport) -> int:
    if report.undecided is not None:
        return UsageError.exit_code
    return DamagedMetadataError.exit_code if report.problems else 0


def _show(report: RecoveryReport, command: str, *, as_json: bool) -> None:
    if as_json:
        write_json(asdict(report))
    else:
        _print_report(report, command)
    exit_with(_find_exit_code(report))


def _print_report(report: RecoveryReport, command: str) -> None:
    print_lines(f"Topic {report.topic} at {report.location}")
    rows = [_make_row(each) for each in reversed(report.snapshots[-MAXIMUM_ROWS:])]
    if rows:
        print_table(
            ["metadata", "sequence", "committed", "operation", "records", "log ends", "standing"], rows, right=(1, 4)
        )
    for each in report.set_aside:
        print_message(f"left aside: {each.metadata_location}: {each.reason}")
    for side in report.side_tables:
        print_lines(f"{side.name}: {side.action.value}{f' ({side.reason})' if side.reason else ''}")
    for problem in report.problems:
        print_message(f"not complete: {problem}")
    for notice in report.notices:
        print_message(f"notice: {notice}")
    print_heading(_conclude(report, command))


def _conclude(report: RecoveryReport, command: str) -> str:
    name = _get_name(report.chosen_metadata)
    if report.undecided is not None:
        return f"Nothing was changed. {report.undecided}"
    if not report.was_needed:
        return f"The catalog names the newest metadata that are proven, {name}; nothing was changed."
    if report.problems:
        return f"Nothing was changed: what {name} names is not complete. Restore those files, or take an older file."
    if report.was_run:
        return f"The catalog names what {name} has, with fence {report.fence}. Next: winnow doctor"
    return f"Nothing was changed. To make {name} the newest of the catalog, add --yes to: winnow topics {command}"


def _make_row(each: FoundSnapshot) -> list[str]:
    ends = each.log_end_offsets
    many = ends is not None and len(ends) > _MAXIMUM_PARTITIONS
    told = (
        f"{format_count(sum(ends.values()), 'offset')} in {len(ends)} partitions" if many and ends is not None else ""
    )
    return [
        _get_name(each.metadata_location),
        f"{each.sequence_number:,}",
        format_short_time(each.committed_at_ms),
        each.operation,
        "" if each.records is None else f"{each.records:,}",
        told or " ".join(f"{number}:{end:,}" for number, end in (ends or {}).items()),
        each.standing,
    ]


_MAXIMUM_PARTITIONS = 6
"""Maximum partitions whose log ends are printed one by one; --json has all of them."""


def _get_name(location: str | None) -> str:
    return (location or "none").rpartition("/")[2]
