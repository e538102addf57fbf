"""``--output FOLDER``: many Parquet files, written by this process or by tasks on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.output import print_message
from winnow.errors import UsageError
from winnow.sources.choices import check_choice
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.engine.read_plans import ReadPlan
    from winnow.log.topic_log import TopicLog
    from winnow.pipeline.installation import Installation

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="local|spark",
        help="Write a folder in this process or on Spark. Default: by size (read.spark_from_bytes).",
        show_default=False,
    ),
]


def choose_folder(output: Path | None, engine: str | None, *, parquet: bool, narrowing: str = "") -> Path | None:
    """Return the folder that ``output`` names for many files; None: it is one file, or standard output.

    ``narrowing``: options that were given and go with one file only.

    Raises:
        UsageError: the folder is not empty, the options go with one file, or Spark was asked for where one is written.
    """
    check_choice("--engine", engine, ("local", "spark"))
    if output is None or not output.is_dir() or not parquet:
        if engine == "spark":
            raise UsageError(
                "--engine spark writes many files.",
                next="Name an empty folder with --format parquet --output FOLDER, or use --engine local.",
            )
        return None
    if narrowing:
        raise UsageError(
            f"--output {output} is a folder, for many files; with {narrowing} there is one.", next="Name a file in it."
        )
    if any(output.iterdir()):
        raise UsageError(
            f"--output {output} is a folder that is not empty.", next="Name an empty one, or a file in it."
        )
    return output


def write_to_folder(
    installation: Installation, log: TopicLog, plan: ReadPlan, folder: Path, engine: str | None, noun: str
) -> None:
    """Write the files of ``plan`` and say how much they hold. ``noun``: what a row is.

    Raises:
        WinnowError: see :func:`winnow.pipeline.read.folder.write_folder`.
    """
    from winnow.pipeline.read.folder import write_folder

    written = write_folder(installation, log, plan, folder, engine)
    print_message(f"Wrote {format_count(written.rows, noun)} to {folder}, in {format_count(written.files, 'file')}")
