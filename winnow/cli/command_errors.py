"""Turns exceptions into an exit code and a message on standard error: sentences, or with --json a document."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import typer

from winnow.cli.output import print_message
from winnow.errors import WinnowError, find_worst_exit_code

T = TypeVar("T")

DEBUG_VARIABLE = "WINNOW_DEBUG"
"""Set to 1 it adds tracebacks. Not a setting: it says nothing about an installation."""
INTERRUPTED = 130
"""128 and the number of SIGINT, as shells count it."""
_wants_json: ContextVar[bool] = ContextVar("wants_json", default=False)
"""Whether the command that runs was given ``--json``."""


def print_error(error: WinnowError) -> None:
    """Print what went wrong: sentences for people, with ``--json`` a document of one line."""
    if _wants_json.get():
        print_message(json.dumps({"error": make_error_document(error)}))
    else:
        print_message(str(error), prefix="error: ")


def make_error_document(error: WinnowError) -> dict[str, Any]:
    """Make the document about ``error``: its class, what happened, what was left behind, what to do, the exit code."""
    return {"kind": type(error).__name__, **error.explanation._asdict(), "exit_code": error.exit_code}


def report_problem(problem: Exception) -> int:
    """Say what ``problem`` is and return its exit code; the traceback only where WINNOW_DEBUG is set to 1."""
    if os.environ.get(DEBUG_VARIABLE) == "1":
        typer.echo("".join(traceback.format_exception(problem)), err=True)
    error = problem if isinstance(problem, WinnowError) else _explain(problem)
    print_error(error)
    return error.exit_code


def _explain(problem: Exception) -> WinnowError:
    return _explain_machine_error(problem) or WinnowError(
        _format_sentence(problem), "The command did not finish.", f"Set {DEBUG_VARIABLE}=1 for the traceback."
    )


def _explain_machine_error(problem: Exception) -> WinnowError | None:
    from winnow.config.settings import load_settings
    from winnow.files.storage_health import make_service_error

    try:
        places = load_settings().places
    except WinnowError:
        places = ()
    return make_service_error(problem, places)


def _format_sentence(problem: Exception) -> str:
    # An unexpected exception may quote its input, which may be a key or a value: only the operating
    # system's own words are repeated.
    if isinstance(problem, OSError) and problem.strerror:
        return f"Unexpected: {problem.strerror}{f' ({problem.filename})' if problem.filename else ''}."
    if isinstance(problem, ImportError):
        # The names of modules, and what their maker says of versions, is what mends it.
        return f"A package cannot be imported: {problem}. See what is installed: winnow doctor."
    return f"Unexpected {type(problem).__name__} in {_find_place(problem)}."


def _find_place(problem: Exception) -> str:
    package = Path(__file__).parents[1]
    ours = [
        frame for frame in traceback.extract_tb(problem.__traceback__) if Path(frame.filename).is_relative_to(package)
    ]
    if not ours:
        return "a library"
    return f"{Path(ours[-1].filename).relative_to(package.parent)} line {ours[-1].lineno}"


def guard_command(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with every exception turned into a sentence and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        token = _wants_json.set(bool(kwargs.get("as_json")))
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            print_message("Interrupted. What was published stays; the next run completes or closes what was not.")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as problem:
            raise typer.Exit(report_problem(problem)) from None
        finally:
            _wants_json.reset(token)

    return run


@dataclass
class TopicOutcomes(Generic[T]):
    """What became of several topics: the results of those that went well, and one exit code for all."""

    results: list[T] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 when all went well."""
        return find_worst_exit_code(self.codes)

    @property
    def all_failed(self) -> bool:
        """Whether there is nothing to show: some failed and none went well."""
        return bool(self.codes) and not self.results


def run_for_each_topic(topics: Sequence[str], action: Callable[[str], T]) -> TopicOutcomes[T]:
    """Run ``action`` for one topic after another; a topic's failure is printed and does not stop the others."""
    outcome: TopicOutcomes[T] = TopicOutcomes()
    for topic in dict.fromkeys(topics):
        try:
            outcome.results.append(action(topic))
        except Exception as problem:
            outcome.codes.append(report_problem(problem))
    return outcome


def exit_with(code: int) -> None:
    """End the command with ``code``."""
    if code:
        raise typer.Exit(code)
