"""Recomputes the facts of staged files independently, and validates them with Great Expectations.

Importing this package is cheap. Importing GX takes 3 to 8 s: :func:`start_import` does it in the background.

- :mod:`winnow.quality.fact_table`: the independent recomputation, and the fact table of both computations.
- :mod:`winnow.quality.validation`: the structural suite over the fact table, as a verdict.
- :mod:`winnow.quality.content_validation`: a topic's own suite over the staged records.
- :mod:`winnow.quality.suites`: suites as reviewed JSON.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

__all__ = ["start_import", "wait_until_ready"]


def start_import(*modules: str, data_docs: Path | None = None) -> None:
    """Import ``modules``, DuckDB and GX in a background thread and return at once; the first use waits for the rest.

    ``data_docs``: also prepare what the structural suite's first judgement and page there need. Repeating it costs
    nothing. A failure is not reported here: it comes again where the module is used.
    """
    threading.Thread(
        target=_import_quietly, args=(modules, data_docs), name="winnow-quality-warm-up", daemon=True
    ).start()


def wait_until_ready() -> None:
    """Wait until GX is imported; start the import if nothing has.

    Raises:
        ImportError: it cannot be imported.
    """
    from winnow.quality.gx_runtime import import_great_expectations

    import_great_expectations()


def _import_quietly(modules: Sequence[str], data_docs: Path | None) -> None:
    from winnow.quality.gx_runtime import import_great_expectations

    with suppress(ImportError):
        for module in (*modules, "duckdb"):
            import_module(module)
        import_great_expectations()
        if data_docs is not None:
            from winnow.quality.validation import prepare_first_judgement

            prepare_first_judgement(data_docs)
