"""``python -m winnow.log_reader``: reads one request from standard input, answers on standard output, ends.

The request is one line of JSON: ``question``, ``topic`` and the question's parameters. The answer is two lines of JSON:
what an audit entry says about it, and the document; or, with a code of :mod:`winnow.errors` as exit code, one line
with the class and the text of the error.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from typing import Any, BinaryIO, Final

from winnow.log_reader.limits import end_with_caller, limit_memory, limit_seconds, take_standard_output

_OBJECTS_PER_COLLECTION: Final = 50_000
IDLE_SECONDS: Final = 120
"""How long a process that was started ahead waits for its question."""


def main(arguments: list[str]) -> None:
    """Answer one question; ``arguments``: the maximum seconds and the maximum bytes of memory."""
    seconds, memory_bytes = map(int, arguments)
    limit_memory(memory_bytes)
    limit_seconds(IDLE_SECONDS)
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    output = take_standard_output()
    # Nothing of a record may reach a log, whatever a library would like to say.
    logging.disable(logging.CRITICAL)
    code = _answer(sys.stdin.buffer, output, seconds, memory_bytes)
    output.flush()
    # Without Python's own end, which takes a third of a second with these libraries. Nothing is left to be written.
    os._exit(code)


def _answer(source: BinaryIO, output: BinaryIO, seconds: int, memory_bytes: int) -> int:
    from winnow.log_reader.answering import answer_request, describe_failure

    line = source.readline()
    if not line:
        return 0
    limit_seconds(seconds)
    end_with_caller(source)
    try:
        lines: tuple[Any, ...] = answer_request(json.loads(line), memory_bytes)
        code = 0
    except Exception as problem:
        failure, code = describe_failure(problem)
        lines = (failure,)
    output.writelines(json.dumps(each, ensure_ascii=True, allow_nan=False).encode() + b"\n" for each in lines)
    return code


if __name__ == "__main__":
    main(sys.argv[1:])
