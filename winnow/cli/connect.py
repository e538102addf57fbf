"""``winnow connect``: what another program needs to read a topic's table."""

from __future__ import annotations

from typing import Annotated

import typer

from winnow.cli.options import Json, Topic, open_for_command
from winnow.cli.output import print_lines, write_json
from winnow.pipeline.latest.reader_names import ReaderName


def connect(
    topic: Topic,
    *,
    reader: Annotated[
        ReaderName, typer.Option("--for", help="The program that is to read the table.", show_default=False)
    ],
    log: Annotated[
        bool, typer.Option("--log", help="The log, although the topic has a table with typed columns.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the settings and a first query for a program that is to read the topic's table.

    That is the log; or winnow_latest.TOPIC, the latest state, if that has typed columns. They are those of this
    installation's catalog and warehouse, to be pasted as they are. Secrets are not printed: the text names the
    environment variables that hold them.

    Example: winnow connect orders --for spark > read_orders.py

    Example: winnow connect orders --for trino
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.connect.connect import write_connection

        written = write_connection(installation, topic, reader, log=log)
    if as_json:
        write_json({"topic": topic, "reader": reader.value, "text": written})
    else:
        print_lines(written.rstrip("\n"))
