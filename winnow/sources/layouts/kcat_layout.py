"""The layout of ``kcat -J``: one JSON object a line."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.sources.layouts.compression import read_start
from winnow.sources.layouts.kcat import is_kcat, read_kcat
from winnow.sources.layouts.layout import Arrangement, Description, Layout, sort_objects
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, StoredObject

NAME = "kcat"
_START_BYTES = 1 << 18


def recognise_kcat(obj: StoredObject) -> bool:
    """Check whether the first line of ``obj`` is what ``kcat -J`` writes."""
    start = read_start(obj, _START_BYTES)
    line = next((line for line in start.split(b"\n") if line.strip()), b"")
    return is_kcat(line)


def arrange_kcat(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; lines name topic, partition and offset."""
    forms = dict.fromkeys(("key", "value", "headers"), FieldForm.BYTES)
    return Arrangement(sort_objects([ArchiveObject(NAME, each.uri, {"value": each}, forms=forms) for each in stored]))


KCAT = Layout(
    NAME,
    Description(
        title="kcat",
        recognised_by="each line is what `kcat -J` prints: a JSON object with topic, partition, offset, key and "
        "payload. Bytes that are not UTF-8 are read as they are.",
        loses=("nothing",),
        settings=("kcat -C -J -e -b BROKER -t TOPIC > orders.json",),
        settings_note="What `kcat -f` and `kcat -K` print cannot be taken apart again for certain and is refused.",
    ),
    recognise_kcat,
    arrange_kcat,
    read_kcat,
)
