"""The layout of what ``kafka-console-consumer`` prints with partition and offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from winnow.sources.layouts.compression import read_start
from winnow.sources.layouts.console import is_console_line, read_console
from winnow.sources.layouts.layout import Arrangement, Description, Layout, sort_objects
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, StoredObject

NAME: Final = "console"
_START_BYTES: Final = 1 << 18


def suggest_console(obj: StoredObject) -> bool:
    """Check whether the first line of ``obj`` is what the console consumer prints of a record."""
    return is_console_line(read_start(obj, _START_BYTES).split(b"\n", 1)[0])


def arrange_console(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; lines tell partition and offset, nothing the topic."""
    forms = dict.fromkeys(("key", "value", "headers"), FieldForm.BYTES)
    return Arrangement(sort_objects([ArchiveObject(NAME, each.uri, {"value": each}, forms=forms) for each in stored]))


CONSOLE: Final = Layout(
    NAME,
    Description(
        title="kafka-console-consumer",
        recognised_by="nothing for certain: `--layout console` says that key and value alone, or the value alone, are "
        "printed behind partition and offset, and that none of them has a tab or a line break, of which not all would "
        "show. Where they show, the call is refused. A key printed as `null` is refused, a value printed so needs "
        "`--deletes null-text`.",
        loses=("headers", "a key or a value that is the text `null`", "nothing else: bytes are printed as they are"),
        settings=(
            "kafka-console-consumer --bootstrap-server BROKER --topic TOPIC --from-beginning \\",
            "  --formatter-property print.partition=true --formatter-property print.offset=true \\",
            "  --formatter-property print.timestamp=true --formatter-property print.key=true > orders.txt",
        ),
        settings_note="Before Kafka 4 the option is `--property`. What the one of Kafka 4.3.1 printed of a topic was "
        "compared with the topic (2026-11-25). `kcat -J` loses nothing; prefer it.",
    ),
    lambda _: False,
    arrange_console,
    read_console,
    suggest=suggest_console,
    suggestion="that key and value alone are printed behind its offsets, none of them with a tab or a line break",
)
