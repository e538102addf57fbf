"""Answers to what went wrong: the status says what the caller should do, and the sentence is Winnow's own.

Every text is written in ASCII: half of a surrogate pair, which a request or a stored document may hold, is shown as its
escape instead of failing the answer.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from winnow import errors
from winnow.errors import WinnowError
from winnow_airflow.page.request_body import HALF_PAIR, NOT_UTF8

_STATUSES: Final[dict[type[WinnowError], int]] = {
    errors.UnknownTopicError: 404,
    errors.ForeignTableError: 409,
    errors.UndoRefusedError: 409,
    errors.EraseRefusedError: 409,
    errors.FormatVersionError: 409,
    errors.UsageError: 400,
    errors.BadInputError: 400,
    errors.ValidationFailedError: 500,
    errors.RunAgainError: 503,
    errors.ServiceError: 503,
    WinnowError: 500,
}
"""HTTP status of an error, and of the classes below it that are not named: ask for something else (400, 404), settle
something first (409), the data or the server is damaged (500), ask again later (503)."""
_RETRY_AFTER_SECONDS: Final[dict[type[WinnowError], int]] = {errors.RunAgainError: 3, errors.ServiceError: 30}


class EscapedJson(JSONResponse):
    """JSON in ASCII."""

    def render(self, content: Any) -> bytes:
        """Write the document."""
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def make_refusal(kind: type[WinnowError], message: str) -> HTTPException:
    """Make the refusal for an error of class ``kind``."""
    status = next(_STATUSES[each] for each in kind.__mro__ if each in _STATUSES)
    seconds = next((_RETRY_AFTER_SECONDS[each] for each in kind.__mro__ if each in _RETRY_AFTER_SECONDS), None)
    return HTTPException(status, message, headers=None if seconds is None else {"Retry-After": str(seconds)})


def find_kind(name: str) -> type[WinnowError]:
    """Find the class of an error of another process by its name; one that is not known is unexpected."""
    kind = getattr(errors, name, WinnowError)
    return kind if isinstance(kind, type) and issubclass(kind, WinnowError) else WinnowError


def answer_refusal(problem: Any) -> Response:
    """Answer with an HTTPException's status, sentence and headers."""
    return EscapedJson({"detail": problem.detail}, problem.status_code, headers=problem.headers)


async def answer_failure(request: Request, problem: Exception) -> Response:
    """Answer a WinnowError of the api-server itself, which reads the metadata store and its settings."""
    assert isinstance(problem, WinnowError)
    refusal = make_refusal(type(problem), str(problem))
    if isinstance(problem, errors.ConfigurationError):  # the server's, which no caller can mend
        refusal.status_code = 500
    return answer_refusal(refusal)


async def answer_invalid_request(request: Request, problem: Exception) -> Response:
    """Answer a request that is not valid by the names of its parts; what was sent is not repeated: it may be a key."""
    assert isinstance(problem, RequestValidationError)
    if any(each["type"] in {NOT_UTF8, "string_unicode"} for each in problem.errors()):
        return EscapedJson({"detail": HALF_PAIR}, 400)
    told = [{name: each[name] for name in ("type", "loc", "msg")} for each in problem.errors()]
    return EscapedJson({"detail": told}, 422)
