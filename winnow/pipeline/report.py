"""Step 7: the receipt as a paragraph."""

from __future__ import annotations

from winnow.report.receipts import human_bytes, paragraph

__all__ = ["human_bytes", "paragraph"]
