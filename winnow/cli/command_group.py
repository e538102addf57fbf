"""Groups of commands whose help shows each command's first sentence whole."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperGroup

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
