"""The FastAPI application that the plugin mounts below ``/winnow``."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from winnow.errors import WinnowError
from winnow_airflow.page import access, data_docs, index_page, quality, runs, topics
from winnow_airflow.page.security_headers import SecurityHeaders

PREFIX = "/winnow"


def make_app() -> FastAPI:
    """The page, its API and the Data Docs; everything but static files behind Airflow's login."""
    made = FastAPI(title="Winnow", docs_url=None, redoc_url=None, openapi_url=None)
    for module in (index_page, access, topics, runs, quality, data_docs):
        made.include_router(module.router)
    made.mount("/static", StaticFiles(directory=index_page.STATIC), name="static")
    made.add_middleware(SecurityHeaders)
    made.add_exception_handler(HTTPException, _refuse)
    made.add_exception_handler(WinnowError, _unavailable)
    return made


async def _refuse(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    if problem.status_code == 401 and index_page.wants_html(request):  # noqa: PLR2004 - HTTP's own number
        return index_page.redirect_to_login(request)
    return await http_exception_handler(request, problem)


async def _unavailable(request: Request, problem: Exception) -> Response:
    # Requests only read the store, so whatever it raises is about the store.
    return JSONResponse({"detail": str(problem)}, status_code=503)


app = make_app()
