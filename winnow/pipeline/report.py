"""Step 7: the receipt as a paragraph."""

from __future__ import annotations

from winnow.report.receipts import format_human_bytes, format_receipt

__all__ = ["format_human_bytes", "format_receipt"]
