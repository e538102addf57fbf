"""Recomputes the facts of staged files independently, and validates them with Great Expectations.

Importing this package is cheap. Importing GX costs 3 to 8 s: :func:`warm_up` starts it while something else works.

- :mod:`winnow.quality.fact_table`: the independent recomputation, and the fact table of both computations.
- :mod:`winnow.quality.validation`: the structural suite over the fact table, as a verdict.
- :mod:`winnow.quality.content_validation`: a topic's own suite over the staged records.
- :mod:`winnow.quality.suites`: suites as reviewed JSON.
"""

from __future__ import annotations

import threading

__all__ = ["start_import", "wait_until_ready"]


def start_import() -> None:
    """Import GX in a background thread. Returns at once; whoever needs GX first waits for the rest of the import.

    Repeating it is free. An import that fails is not reported here: it fails again, loudly, where GX is used.
    """
    threading.Thread(target=_import_quietly, name="winnow-quality-warm-up", daemon=True).start()


def wait_until_ready() -> None:
    """Wait until GX is imported, importing it if nobody has begun.

    Raises:
        ImportError: it cannot be imported.
    """
    from winnow.quality.gx_runtime import import_great_expectations

    import_great_expectations()


def _import_quietly() -> None:
    from winnow.quality.gx_runtime import import_great_expectations

    try:
        import_great_expectations()
    except ImportError:
        return
