"""Groups of commands whose help shows each command's first sentence whole; options that have other names now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

_UNCUT: Final = 1_000
"""Characters of a first sentence; longer than any."""


class CommandGroup(TyperGroup):
    """Lists its commands with sentences that are folded and never cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the section of the commands."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, found.get_short_help_str(_UNCUT)) for name, found in named if found and not found.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def accept_old_options(names: Mapping[str, str]) -> type[TyperCommand]:
    """Make the class of a command that takes options by former names, too: ``names``, former to present."""

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            end = args.index("--") if "--" in args else len(args)
            return super().parse_args(ctx, [_rename(word, names) for word in args[:end]] + args[end:])

    return Command if names else TyperCommand


def _rename(word: str, names: Mapping[str, str]) -> str:
    name, equals, value = word.partition("=")
    return names.get(name, name) + equals + value
