"""The FastAPI application that the plugin mounts below ``/winnow``."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from winnow.errors import WinnowError
from winnow_airflow.page import (
    access,
    alerts,
    audit,
    bulk,
    configuration,
    data_docs,
    erasures,
    exports,
    index_page,
    latest_state,
    log_questions,
    overview,
    quality,
    records,
    run_progress,
    runs,
    topics,
    trends,
)
from winnow_airflow.page.failures import EscapedJson, answer_failure, answer_invalid_request, answer_refusal

PREFIX = "/winnow"

POLICY: Final = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'; object-src 'none'"
"""Content security policy: no inline script, nothing from other hosts, framed by Airflow's own pages only."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SecurityHeaders:
    """Adds :data:`HEADERS`, also to errors. Browsers may cache files but must revalidate them on each use."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; one with NUL in its address is refused, for a database's text can hold none."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "etag" in headers:
                    headers.setdefault("Cache-Control", "no-cache")
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app = _answer_nul if _has_nul(scope) else self._app
        await app(scope, receive, with_headers)


def _has_nul(scope: Scope) -> bool:
    return scope["type"] == "http" and ("\0" in scope["path"] or b"%00" in scope["query_string"])


async def _answer_nul(scope: Scope, receive: Receive, send: Send) -> None:
    answer = EscapedJson({"detail": "The address has the character NUL, which no name has. Nothing was done."}, 400)
    await answer(scope, receive, send)


def make_app() -> FastAPI:
    """Build the app: page, API and Data Docs; everything except static files requires Airflow's login."""
    made = FastAPI(title="Winnow", docs_url=None, redoc_url=None, openapi_url=None, default_response_class=EscapedJson)
    for module in (
        index_page,
        access,
        exports,
        overview,
        trends,
        topics,
        bulk,
        configuration,
        runs,
        run_progress,
        quality,
        alerts,
        audit,
        data_docs,
        log_questions,
        erasures,
        records,
        latest_state,
    ):
        made.include_router(module.router)
    made.include_router(topics.labels)
    made.mount("/static", StaticFiles(directory=index_page.STATIC), name="static")
    made.add_middleware(SecurityHeaders)
    made.add_exception_handler(HTTPException, _answer_refusal)
    made.add_exception_handler(RequestValidationError, answer_invalid_request)
    made.add_exception_handler(WinnowError, answer_failure)
    return made


async def _answer_refusal(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    if problem.status_code == 401 and index_page.wants_html(request):  # noqa: PLR2004 - HTTP status
        return index_page.redirect_to_login(request)
    return answer_refusal(problem)


app = make_app()
