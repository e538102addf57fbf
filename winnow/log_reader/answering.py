"""Finds the question of a request, opens the installation to read, and answers; makes errors into documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from winnow.config.settings import Settings, load_settings
from winnow.errors import ServiceError, UsageError, WinnowError
from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow
from winnow.files.storage_health import make_service_error
from winnow.log_reader import (
    consequences,
    erasures,
    ingest_calls,
    latest_state,
    records,
    search,
    suite_trials,
    undoable_changes,
)
from winnow.log_reader.documents import Document
from winnow.log_reader.question import Answer, Parameters
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.rights import require_right

QUESTIONS: Final[Mapping[str, Callable[[Installation, str, Parameters], Answer]]] = {
    "browse": records.browse,
    "newest": records.browse_newest,
    "search": search.search,
    "record": records.show_record,
    "why": records.explain_record,
    "key": records.show_key,
    "latest": latest_state.list_rows,
    "latest_key": latest_state.show_row,
    "suite": suite_trials.try_suite,
    "explain": consequences.explain,
    "forecast": consequences.forecast,
    "preview": consequences.preview,
    "ingests": ingest_calls.list_calls,
    "changes": undoable_changes.list_changes,
    "erasures": erasures.list_erasures,
    "erasure_preview": erasures.preview,
    "certificate": erasures.certify,
}

ENGINE_MEMORY_SHARE: Final = 4
"""DuckDB gets this part of the address space: the libraries, Arrow and the answer need the rest."""


def answer_request(request: Mapping[str, Any], memory_bytes: int) -> tuple[str, Document]:
    """Answer a request; returns what an audit entry says about it, and the document.

    Raises:
        WinnowError: the question cannot be answered.
    """
    keep_pandas_out_of_pyarrow()
    pa.set_cpu_count(1)
    parameters = Parameters(dict(request))
    ask = QUESTIONS.get(parameters.text("question"))
    if ask is None:
        raise UsageError("There is no such question.")
    with open_installation(_limit_engine(load_settings(), memory_bytes), to_read=True) as installation:
        if "user" in request:
            require_right(installation, [parameters.text("topic")], parameters.text("user"))
        found = ask(installation, parameters.text("topic"), parameters)
    return found.seen, found.document


def _limit_engine(settings: Settings, memory_bytes: int) -> Settings:
    engine_bytes = min(settings.engine.memory_bytes, memory_bytes // ENGINE_MEMORY_SHARE)
    engine = settings.engine.model_copy(update={"memory_bytes": engine_bytes, "threads": 1})
    return settings.model_copy(update={"engine": engine})


def describe_failure(problem: Exception) -> tuple[Document, int]:
    """Make the document of an error, and the exit code of its class. Only texts of Winnow's own errors are repeated."""
    if _is_out_of_memory(problem):
        known: WinnowError = UsageError(
            "The answer needs more memory than a reader process of the page may use.",
            next="Raise page.reader_memory_bytes, or ask at a shell: winnow read and winnow why have no such limit.",
        )
    elif isinstance(problem, WinnowError):
        known = problem
    else:
        known = _explain_disk_or_store(problem) or WinnowError(
            f"Unexpected {type(problem).__name__} while the log was read.",
            left="Nothing was changed.",
            next="The same at a shell says where: WINNOW_DEBUG=1 with winnow read, why or explain.",
        )
    return {"kind": type(known).__name__, "message": str(known)}, known.exit_code


def _is_out_of_memory(problem: Exception) -> bool:
    if isinstance(problem, ImportError):  # of a library that is loaded only for some questions
        return "failed to map segment" in str(problem) or "annot allocate memory" in str(problem)
    return isinstance(problem, MemoryError | pa.ArrowMemoryError) or type(problem).__name__ == "OutOfMemoryException"


def _explain_disk_or_store(problem: Exception) -> ServiceError | None:
    try:
        return make_service_error(problem, load_settings().places)
    except WinnowError:
        return None
