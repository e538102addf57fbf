"""Prints the end of the demo: table, receipts, conservation equation, next commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from demo.expected import Expected
from demo.figures import Measured
from demo.records import AIRCRAFT, DEPARTURES
from demo.screen import Screen
from winnow.config.settings import Settings
from winnow.report.receipts import format_human_bytes, format_receipt
from winnow.values.results import Receipt


def make_table(expected: Mapping[str, Expected], measured: Mapping[str, Measured]) -> Table:
    """Build the table with one column per topic; counts over all partitions."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    made.add_column("")
    for topic in measured:
        made.add_column(topic, justify="right")
    rows = (
        ("records in the archive", [f"{expected[t].arrived:,}" for t in measured]),
        ("  without a key, in quarantine", [f"{m.ingested.quarantined:,}" for m in measured.values()]),
        ("  in the log", [f"{sum(m.ingested.records):,}" for m in measured.values()]),
        ("records after compaction now", [f"{sum(m.first.records):,}" for m in measured.values()]),
        ("  tombstones among them", [f"{sum(m.first.tombstones):,}" for m in measured.values()]),
        ("records after compaction two days on", [f"{sum(m.second.records):,}" for m in measured.values()]),
        ("  tombstones among them", [f"{sum(m.second.tombstones):,}" for m in measured.values()]),
        ("on disk before", [format_human_bytes(m.ingested.disk_bytes) for m in measured.values()]),
        ("  with old and new files", [format_human_bytes(m.second.disk_bytes) for m in measured.values()]),
        ("  after the sweep", [format_human_bytes(m.swept.disk_bytes) for m in measured.values()]),
    )
    for name, cells in rows:
        made.add_row(name, *cells)
    return made


def format_equation(receipt: Receipt) -> str:
    """Format the conservation equation with this receipt's numbers."""
    parts = receipt.partitions
    records_in, kept = sum(p.records_in for p in parts), sum(p.records_kept for p in parts)
    superseded, expired = sum(p.records_superseded for p in parts), sum(p.tombstones_expired for p in parts)
    keyless = sum(p.records_keyless for p in parts)
    return f"{records_in:,} = {kept:,} + {superseded:,} + {expired:,} + {keyless:,}"


def print_figures(
    screen: Screen, expected: Mapping[str, Expected], measured: Mapping[str, Measured], receipts: Sequence[Receipt]
) -> None:
    """Print the table, each receipt as its paragraph, and the conservation equation."""
    screen.say()
    screen.console.print(make_table(expected, measured))
    for receipt in receipts:
        screen.say()
        screen.say(format_receipt(receipt))
    screen.say("\nEvery record is accounted for: in = kept + superseded + expired tombstones + keyless")
    for receipt in receipts:
        screen.say(f"  {receipt.topic:<{len(DEPARTURES)}}  {format_equation(receipt)}")


def print_next_commands(screen: Screen, settings: Settings) -> None:
    """Print the commands to type next."""
    screen.say("\nLook at it yourself:")
    winnow = format_command(settings)
    screen.command(f"{winnow} read {AIRCRAFT} --limit 3", "the last report of three aircraft")
    screen.command(f"{winnow} assess", "why nothing would be compacted now")
    screen.command(f"{winnow} receipts {DEPARTURES}", "what each run did")
    screen.command(f"{winnow} ui", "the runs of this demo in Airflow")
    screen.command(f"{winnow} inspect PATH", "what an archive of your own is, and the command that takes it in")


def format_command(settings: Settings) -> str:
    """Format the command that starts ``winnow`` on this home."""
    program = Path(sys.executable).with_name("winnow")
    return _format_home(settings, shlex.quote(shorten_path(program)))


def _format_home(settings: Settings, text: str) -> str:
    if settings.home == Path.cwd() / ".winnow":
        return text
    return f"WINNOW_HOME={shlex.quote(shorten_path(settings.home))} {text}"


def shorten_path(path: Path) -> str:
    """Shorten ``path`` to what one would type here: below the current folder without that folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
