"""Serves Great Expectations' Data Docs behind Airflow's login, without scripts and external files."""

from __future__ import annotations

import mimetypes
import re
from html import escape
from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from winnow.report.evidence import SITE
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep

_EXTERNAL_PARTS: Final = (
    re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE),
    re.compile(r"<link\b[^>]*\bhref=\"(?:https?:)?//[^>]*>", re.IGNORECASE),
    # The icon's relative path is one level short.
    re.compile(r"<link\b[^>]*\brel=\"shortcut icon\"[^>]*>", re.IGNORECASE),
    re.compile(r"<img\b[^>]*\bsrc=\"(?:https?:)?//[^>]*>", re.IGNORECASE),
    re.compile(r"url\(['\"]?(?:https?:)?//[^)]*\)", re.IGNORECASE),
    re.compile(r"\son\w+=\"[^\"]*\"", re.IGNORECASE),
    # A newsletter invitation.
    re.compile(r"<footer>.*?</footer>", re.DOTALL | re.IGNORECASE),
)


def make_self_contained(html: str, style_sheet: str) -> str:
    """Return ``html`` without scripts and external resources, with the style sheet at that address."""
    for pattern in _EXTERNAL_PARTS:
        html = pattern.sub("", html)
    return html.replace("</head>", f'<link rel="stylesheet" href="{escape(style_sheet)}">\n</head>', 1)


POLICY: Final = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""No script runs and no other host is used, because the pages share Airflow's origin."""

INDEX: Final = "index.html"

router = APIRouter(dependencies=[may_view])


@router.get("/data-docs/{path:path}")
def serve_data_docs(request: Request, installation: InstallationDep, path: str) -> Response:
    """Serve a file of the site. Its index needs scripts, so the page's own view of validation results replaces it."""
    root = request.scope.get("root_path", "")
    if path in {"", INDEX}:
        return RedirectResponse(f"{root}/page#/quality")
    found = find_file(installation.settings.data_docs / SITE, path)
    if found is None:
        raise HTTPException(
            404,
            "The Data Docs have no such page. They keep the pages of the newest validations; the failing expectations "
            "of an older one are on the page of its run.",
        )
    kind, _ = mimetypes.guess_type(found.name)
    if kind == "text/html":
        text = make_self_contained(found.read_text(encoding="utf-8"), f"{root}/static/data-docs.css")
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})
    return FileResponse(
        found, media_type=kind or "application/octet-stream", headers={"Content-Security-Policy": POLICY}
    )


def find_file(folder: Path, path: str) -> Path | None:
    """Return the file ``path`` below ``folder``; None when it does not exist, or the path or a link leads out of it."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} or part.startswith(".") or {"\\", "\0"} & set(part) for part in parts):
        return None
    try:
        root = folder.resolve(strict=True)
        found = root.joinpath(*parts).resolve(strict=True)
    except OSError:
        return None
    return found if found.is_relative_to(root) and found.is_file() else None
