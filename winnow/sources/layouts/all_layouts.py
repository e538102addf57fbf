"""The table of layouts. To add one: a module that describes it, and its line here (CONTRIBUTING.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from winnow.errors import BadInputError, UsageError
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.kafka_log.layout import KAFKA_LOG
from winnow.sources.layout import Layout
from winnow.sources.layouts.aiven import AIVEN
from winnow.sources.layouts.avro import AVRO
from winnow.sources.layouts.confluent.layout import CONFLUENT
from winnow.sources.layouts.console import CONSOLE
from winnow.sources.layouts.event_hubs import EVENT_HUBS
from winnow.sources.layouts.kcat import KCAT
from winnow.sources.layouts.lenses import LENSES
from winnow.sources.layouts.spark import SPARK
from winnow.sources.layouts.ui_export import UI_EXPORT
from winnow.sources.layouts.unrecognised import make_unrecognised_error
from winnow.sources.layouts.winnow.layout import WINNOW
from winnow.sources.objects import StoredObject

AUTO: Final = "auto"

LAYOUTS: Final[Sequence[Layout]] = (
    KAFKA_LOG,
    CONFLUENT,
    WINNOW,
    LENSES,
    KCAT,
    SPARK,
    EVENT_HUBS,
    UI_EXPORT,
    AIVEN,
    AVRO,
    CONSOLE,
)
"""In the order in which an object is tried: from the surest signs to the weakest."""

_SAMPLES = 5


def get_layout(name: str) -> Layout:
    """Return the layout called ``name``.

    Raises:
        UsageError: there is none.
    """
    for layout in LAYOUTS:
        if layout.name == name:
            return layout
    names = ", ".join([AUTO, *(layout.name for layout in LAYOUTS)])
    raise UsageError(
        f"There is no layout {ascii(name)[:80]}.",
        next=f"Choose one of {names}.",
    )


def is_in_order(name: str) -> bool:
    """Check whether files of the layout ``name`` are taken in the order in which they are named."""
    return any(layout.name == name and layout.keeps_order for layout in LAYOUTS)


def find_layout(stored: Sequence[StoredObject], *, suggests: bool = False) -> Layout:
    """Find the layout of a call's objects by looking at the largest of them.

    ``suggests``: one that only a person can tell, by :attr:`Layout.suggest`, is found, too.

    Raises:
        BadInputError: none is recognised, or the objects are of several layouts.
        ServiceError: an object store cannot be reached.
    """
    for decisive in (layout for layout in LAYOUTS if layout.is_decisive):
        if any(decisive.recognises(obj) for obj in stored):
            return decisive
    found: dict[str, StoredObject] = {}
    for each in sorted(stored, key=lambda each: (-each.size_bytes, each.uri))[:_SAMPLES]:
        layout = _recognise(each)
        if layout is not None:
            found.setdefault(layout.name, each)
    if not found:
        suggested = _suggest(max(stored, key=lambda each: each.size_bytes))
        if suggested is not None and suggests:
            return suggested
        raise make_unrecognised_error(stored, suggested, [layout.name for layout in LAYOUTS])
    if len(found) > 1:
        shown = ", ".join(f"{each.uri} looks like {name}" for name, each in found.items())
        raise BadInputError(
            f"The objects are of several layouts: {shown}.",
            left=NOTHING_INGESTED,
            next="Name those of one layout, leave others out with --exclude GLOB, or say which it is with --layout.",
        )
    return get_layout(next(iter(found)))


def _suggest(obj: StoredObject) -> Layout | None:
    for layout in LAYOUTS:
        try:
            if layout.suggest is not None and layout.suggest(obj):
                return layout
        except BadInputError:
            continue
    return None


def _recognise(obj: StoredObject) -> Layout | None:
    for layout in LAYOUTS:
        try:
            if layout.recognises(obj):
                return layout
        except BadInputError:
            # Cut off or damaged, perhaps: that is said when it is read.
            continue
    return next((layout for layout in LAYOUTS if layout.assume is not None and layout.assume(obj)), None)
