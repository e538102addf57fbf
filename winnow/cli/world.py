"""Opening the installation for the duration of one command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from winnow.cli.failures import DEBUG_VARIABLE
from winnow.cli.output import print_message

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.pipeline.context import Context


def load_settings_in_force() -> Settings:
    """The settings; what is odd about them is said."""
    from winnow.config.settings import load_settings

    settings = load_settings()
    for notice in settings.notices:
        if DEBUG_VARIABLE not in notice:
            print_message(f"notice: {notice}")
    return settings


@contextlib.contextmanager
def open_installation(*, to_read: bool = False) -> Iterator[Context]:
    """Store and catalog of the settings in force; ``to_read``: the command changes nothing and needs no right to.

    While it is open whatever a library prints goes to standard error, so that results stay alone on standard output.
    """
    from winnow.files.arrow_alone import keep_pandas_out_of_pyarrow
    from winnow.pipeline.context import open_context

    keep_pandas_out_of_pyarrow()
    with contextlib.redirect_stdout(sys.stderr), open_context(load_settings_in_force(), to_read=to_read) as ctx:
        yield ctx


def choose_topics(ctx: Context, topics: Sequence[str] | None) -> list[str]:
    """The topics that were named, or all; that there are none at all is said."""
    if topics:
        return list(topics)
    found = ctx.log.names()
    if not found:
        print_message("There are no topics yet. Create one with: winnow topics create TOPIC --partitions N")
    return found
