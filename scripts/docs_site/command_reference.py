"""Renders the page of all commands from the command line's own tree of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from winnow.cli.app import app

_INTRODUCTION = """\
# Commands

Made from the commands' own help texts when the site is built. `winnow COMMAND --help` prints the same.
"""

_EXIT_CODES = """
## Exit codes

| exit code | meaning |
|---|---|
| 0 | done, also when there was nothing to do |
| 1 | unexpected error |
| 2 | wrong usage or configuration |
| 3 | bad input; nothing was appended |
| 4 | validation failed; nothing was published |
| 5 | run it again |
| 6 | a service cannot be reached |
"""


def list_commands() -> Iterator[tuple[str, Any]]:
    """Each command with its full name, groups before what is in them, in the order of the path of the data."""
    root: Any = typer.main.get_command(app)
    for name in root.list_commands(None):
        command = root.commands[name]
        if not command.hidden:
            yield f"winnow {name}", command
            for inner, subcommand in getattr(command, "commands", {}).items():
                if not subcommand.hidden:
                    yield f"winnow {name} {inner}", subcommand


def render_commands() -> str:
    """Render the page as Markdown."""
    commands = [(name, command) for name, command in list_commands() if not hasattr(command, "commands")]
    index = "".join(
        f"| [`{name}`](#{name.replace(' ', '-')}) | {_first_line(command)} |\n" for name, command in commands
    )
    parts = [_render_command(name, command) for name, command in commands]
    return "".join((_INTRODUCTION, "\n| command | what it does |\n|---|---|\n", index, *parts, _EXIT_CODES))


def _first_line(command: Any) -> str:
    return _escape((command.help or "").strip().partition("\n")[0])


def _render_command(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=name)
    usage = command.get_usage(context).removeprefix("Usage: ")
    usage = " ".join(usage.split())
    rows = [_render_parameter(record) for each in command.params if (record := each.get_help_record(context))]
    table = f"| argument or option | what it is |\n|---|---|\n{''.join(rows)}\n" if rows else ""
    return f"\n## {name}\n\n```sh\n{usage}\n```\n\n{_render_help(command.help or '')}\n\n{table}"


def _render_parameter(record: tuple[str, str]) -> str:
    return f"| `{record[0].replace('|', chr(92) + '|')}` | {_escape(record[1])} |\n"


def _render_help(text: str) -> str:
    """Paragraphs as they are; what is not to be wrapped, and examples, as blocks of code."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines()]
        if lines[0] in {"\b", "\\b"}:
            parts.append("```text\n" + "\n".join(paragraph.splitlines()[1:]) + "\n```")
        elif lines[0].startswith("Example:"):
            parts.append("```sh\n" + " ".join(lines).removeprefix("Example:").strip() + "\n```")
        else:
            parts.append(_escape(" ".join(lines)))
    return "\n\n".join(parts)


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
