"""Serves the page's HTML and redirects visitors without a login."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from winnow_airflow.page.access import may_view

STATIC: Final = Path(__file__).parent / "static"
router = APIRouter(dependencies=[may_view])

_LOGIN: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Winnow</title>
<script type="module" src="{root}/static/login.js"></script>
<p><a id="login" href="{login}">Log in to Airflow</a> to see this page.</p>
</html>
"""


@router.get("/page")
def serve_index() -> HTMLResponse:
    """Serve the HTML document; all its data comes from the API."""
    return HTMLResponse(_make_index())


@cache
def _make_index() -> str:
    """Add to the document a link for each module of its script, which the browser then loads all at once."""
    document = (STATIC / "index.html").read_text(encoding="utf-8")
    paths = sorted(f"static/{path.relative_to(STATIC).as_posix()}" for path in (STATIC / "js").rglob("*.js"))
    links = [f'    <link rel="modulepreload" href="{path}" />\n' for path in paths if f'"{path}"' not in document]
    return document.replace("  </head>\n", f"{''.join(links)}  </head>\n")


def wants_html(request: Request) -> bool:
    """Check whether the client is a browser that shows the answer to a person."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def redirect_to_login(request: Request) -> HTMLResponse:
    """Answer 401 and send a browser through Airflow's login back to the address it asked for.

    Uses a script instead of a redirect: the part after the ``#`` of a link (which run an alert is about) is known to
    the browser only, and a redirect to the login would lose it. Browsers without scripts get a link.
    """
    root = request.scope.get("root_path", "")
    login = f"{request.scope.get('app_root_path', '')}/api/v2/auth/login"
    return HTMLResponse(_LOGIN.format(root=escape(root), login=escape(login)), status_code=401)
