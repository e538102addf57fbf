"""Says in an alert where a verdict's page and a damaged file are, so that it helps on another machine. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

DATA_DOCS: Final = "data_docs"
"""Name of the folder of Great Expectations' Data Docs, wherever it is."""
SITE: Final = "site"
"""Folder of the pages, below that of the Data Docs; the files beside it are internal to Great Expectations."""

_LOCAL_URI: Final = re.compile(r"file://(?=/)")


def find_page_path(address: str | None) -> str | None:
    """Find the path below ``data-docs/`` of the page whose file a verdict names; None when it names none.

    The file may have been written on another machine, where the same folder has another name.
    """
    if address is None:
        return None
    _, mark, below = unquote(urlsplit(address).path).rpartition(f"/{DATA_DOCS}/{SITE}/")
    return quote(below) if mark and below else None


def format_evidence(data_docs: str | None, page_url: str | None, otherwise: str) -> str:
    """Format where a verdict's page is: an address in Airflow where that is known, else the path of the file.

    ``data_docs``: the address of the file that the verdict names; None: there is none, and ``otherwise`` says where to
    look.
    """
    if data_docs is None:
        return otherwise
    below = find_page_path(data_docs)
    if page_url is None or below is None:
        return unquote(remove_local_scheme(data_docs))
    return f"{page_url.rstrip('/')}/winnow/data-docs/{below}"


def remove_local_scheme(text: str) -> str:
    """Remove ``file://`` from paths in ``text``: as a link it opens nothing where a message is read."""
    return _LOCAL_URI.sub("", text)
