"""``python -m winnow.log_reader``: loads the libraries, and answers each question by a process that it forks.

Its standard input is a socket, on which questions come as :mod:`winnow.log_reader.forking` says. A question is one line
of JSON: ``question``, ``topic`` and the question's parameters. The answer is two lines of JSON: what an audit entry
says about it, and the document; or, with a code of :mod:`winnow.errors` as exit code, one line with the class and the
text of the error.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import socket
from typing import Any, Final

from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow
from winnow.log_reader.forking import ForkingProcess
from winnow.log_reader.limits import end_with_caller, limit_memory, limit_seconds

LOADED: Final = b"L"
"""Said on the socket, once, as soon as questions are heard."""


def main() -> None:
    """Answer questions until the caller closes its end of the socket."""
    control = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # what a library prints goes nowhere
        os.dup2(nowhere, number)
    keep_pandas_out_of_pyarrow()
    # Nothing of a record may reach a log, whatever a library would like to say.
    logging.disable(logging.CRITICAL)
    load_libraries()
    with contextlib.suppress(OSError):  # the caller may have gone
        control.send(LOADED)
    ForkingProcess(control, answer).serve()


def load_libraries() -> None:
    """Import what questions need, but for Great Expectations: few need that, and it takes as long as all the rest."""
    # Imports make many objects and no garbage.
    gc.disable()
    import winnow.files.duckdb_connection
    import winnow.log.file_io
    import winnow.log.sql_catalog
    import winnow.log_reader.answering  # noqa: F401

    # These objects are never garbage: collecting them would copy their memory in every child.
    gc.freeze()
    gc.enable()


def answer(talk: socket.socket, seconds: int, memory_bytes: int) -> int:
    """Answer the one question that comes on ``talk``; return the exit code."""
    from winnow.log_reader.answering import answer_request, describe_failure

    limit_seconds(seconds)
    source = talk.makefile("rb")
    line = source.readline()
    if not line:
        return 0
    end_with_caller(source)
    limit_memory(memory_bytes)  # now that there is a thread: one whose start finds no memory waits for ever
    try:
        lines: tuple[Any, ...] = answer_request(json.loads(line), memory_bytes)
        code = 0
    except Exception as problem:
        failure, code = describe_failure(problem)
        lines = (failure,)
    with talk.makefile("wb") as output:
        output.writelines(json.dumps(each, ensure_ascii=True, allow_nan=False).encode() + b"\n" for each in lines)
    return code


if __name__ == "__main__":
    main()
