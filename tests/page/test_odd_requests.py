"""Odd requests at every route of the page that reads the store are refused in a sentence, or find nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from tests.page.conftest import ReadFrom, Visitor
from tests.page.sample_rows import put, put_run
from winnow.store import Store

TEXT = "%ED%A0%80%FF" + quote("' OR 1=1 --%_\\")
"""Half of a surrogate pair and another byte that is no UTF-8, then what means something to a database."""
NUMBER = "9" * 40
"""More than 64 bits hold."""
TRAVERSAL = "..%2F..%2Fetc%2Fpasswd"
NUMBERS = frozenset({"page", "size", "days", "limit"})
READ_THE_LOG = ("/explain", "/forecast", "/ingests", "/changes")


def list_addresses() -> Iterator[str]:
    """Addresses of all GET routes with something odd in the path, and in each parameter of the query."""
    from winnow_airflow.page.app import app

    for route in app.routes:
        if not isinstance(route, APIRoute) or "GET" not in route.methods or route.path.endswith(READ_THE_LOG):
            continue
        if "{" in route.path:
            yield from (re.sub(r"\{[^}]+\}", odd, route.path) for odd in (TEXT, NUMBER, TRAVERSAL))
        usual = re.sub(r"\{[^}]+\}", "orders", route.path)
        names = {each.alias for found in _list_dependants(route.dependant) for each in found.query_params}
        yield from (f"{usual}?{name}={NUMBER if name in NUMBERS else TEXT}" for name in sorted(names))


def _list_dependants(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _list_dependants(each)


def test_no_odd_request_is_a_failure_of_the_server(viewer_login: Visitor, read_from: ReadFrom, store: Store) -> None:
    """In every part of the path and every parameter of the query, on both databases."""
    put(store, "orders")
    put_run(store, "orders", published=True)
    read_from(store)
    login = {"Authorization": f"Bearer {viewer_login.token}", "Accept": "application/json"}
    addresses = list(list_addresses())
    assert len(addresses) > 50
    answers = {each: viewer_login.client.get(f"/winnow{each}", headers=login) for each in addresses}
    failed = {
        each: (found.status_code, found.text[:300]) for each, found in answers.items() if found.status_code >= 500
    }
    assert failed == {}
    refused = [found for found in answers.values() if found.status_code >= 400]
    assert all(found.json()["detail"] for found in refused)
