"""Says what else a key may be that was typed at a shell and that nothing has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from winnow.cli.output import print_message
from winnow.values.typed_keys import TypedKey

if TYPE_CHECKING:
    import pyarrow as pa


MAY_BE_BASE64: Final = (
    "No record has this key as text. It may be base64, as winnow read shows it: write base64:KEY, or text:KEY."
)


def hint_if_none(batches: Iterator[pa.RecordBatch], typed: TypedKey | None) -> Iterator[pa.RecordBatch]:
    """Yield ``batches``; if none has a row and the key may be base64 too, say so at the end."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    if not rows and typed is not None and typed.other:
        print_message(MAY_BE_BASE64)
