"""Arguments and options that several commands share, and opening the installation for a command."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import DEBUG_VARIABLE
from winnow.cli.output import print_message
from winnow.clock import format_duration, format_ms, parse_as_of
from winnow.config.units import convert_unit
from winnow.errors import UsageError

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.pipeline.installation import Installation


def load_settings_in_force() -> Settings:
    """Load the settings and print notices about them."""
    from winnow.config.settings import load_settings

    settings = load_settings()
    for notice in settings.notices:
        if DEBUG_VARIABLE not in notice:
            print_message(f"notice: {notice}")
    return settings


@contextlib.contextmanager
def open_for_command(
    *, to_read: bool = False, reason: str | None = None, any_installation: bool = False
) -> Iterator[Installation]:
    """Store and catalog of the settings in force; ``to_read``: the command changes nothing and needs no right to.

    ``reason``: why, for the audit log. ``any_installation``: it works on another installation's warehouse, too.

    While it is open, what libraries print goes to standard error; standard output holds results only.
    """
    from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow
    from winnow.pipeline.installation import open_installation

    keep_pandas_out_of_pyarrow()
    settings = load_settings_in_force()
    with (
        contextlib.redirect_stdout(sys.stderr),
        open_installation(
            settings, to_read=to_read, reason=reason or "", any_installation=any_installation
        ) as installation,
    ):
        yield installation


def choose_topics(installation: Installation, topics: Sequence[str] | None) -> list[str]:
    """Return the named topics, or all; print a notice if there are none."""
    if topics:
        return list(topics)
    found = installation.log.names()
    if not found:
        print_message("There are no topics yet. Create one with: winnow topics create TOPIC --partitions N")
    return found


def parse_time(text: str) -> int:
    """Parse an instant of an option, in ms since the epoch."""
    try:
        return parse_as_of(text)
    except UsageError as problem:
        raise typer.BadParameter(str(problem)) from problem


def complete_topic(incomplete: str) -> list[str]:
    """Return the topics that begin with ``incomplete``, for the shell's completion; none if they cannot be listed."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), open_for_command(to_read=True) as installation:
            return [name for name in installation.log.names() if name.startswith(incomplete)]
    except Exception:  # a shell has no place to show why
        return []


Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="A topic.", show_default=False, autocompletion=complete_topic)
]

Topics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC", help="Topics; all when none is named.", show_default=False, autocompletion=complete_topic
    ),
]

OneTopic = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC", help="A topic; all when it is left out.", show_default=False, autocompletion=complete_topic
    ),
]

AsOf = Annotated[
    int | None,
    typer.Option(
        "--as-of",
        metavar="T",
        parser=parse_time,
        help="The instant to decide as of: ISO 8601 with offset, or ms since the epoch; default: now.",
        show_default=False,
    ),
]

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, and nothing else there.")
]

Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why; the audit log keeps it with your name.", show_default=False),
]

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="KEY=VALUE",
        help="Configuration, such as retention.ms=2d; may be repeated.",
        show_default=False,
    ),
]

IncludeActiveSegment = Annotated[
    bool,
    typer.Option(
        "--include-active-segment",
        help="Count the active segments as closed; minimum lag and dirty ratio still decide.",
    ),
]


Simulate = Annotated[
    bool, typer.Option("--simulate", help="Allow an --as-of that lies more than a minute ahead of the present.")
]


def require_not_ahead(installation: Installation, as_of_ms: int | None) -> None:
    """Check that ``as_of_ms`` does not lie more than a minute ahead of the present, as a run that changes a log must.

    Raises:
        UsageError: it does; nothing was done.
    """
    if as_of_ms is None or not installation.is_simulated(as_of_ms):
        return
    now_ms = installation.now_ms()
    raise UsageError(
        f"--as-of {format_ms(as_of_ms)} lies {format_duration(as_of_ms - now_ms)} ahead of the present "
        f"({format_ms(now_ms)}). Such a run cleans what is not due yet, removes tombstones before their time and "
        "starts delete horizons in the future.",
        left="Nothing was done.",
        next="Add --simulate if that is what you want; winnow explain --as-of shows what it would remove.",
    )


def resolve_as_of(installation: Installation, as_of_ms: int | None) -> int:
    """Return the instant to decide as of. Print a notice first if it lies more than a minute ahead."""
    now_ms = installation.now_ms()
    if as_of_ms is None:
        return now_ms
    if installation.is_simulated(as_of_ms):
        print_message(
            f"simulated: everything is decided as of {format_ms(as_of_ms)}; the present is {format_ms(now_ms)}."
        )
    return as_of_ms


def parse_config(pairs: Sequence[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` arguments as a mapping; a value may hold further equals signs, and have a unit.

    Raises:
        UsageError: one has no equals sign or no key, or a key is given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(
                f"--config takes KEY=VALUE, not {pair!r}.",
                left="Nothing was changed.",
            )
        if key in found:
            raise UsageError(
                f"--config {key} is given twice.",
                left="Nothing was changed.",
                next="Give it once.",
            )
        found[key] = convert_unit(key, value)
    return found
