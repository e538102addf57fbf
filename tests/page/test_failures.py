"""What a caller is answered when something went wrong: a status that says what to do, and a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.page.conftest import Visitor
from tests.page.sample_rows import put, put_run
from winnow import errors
from winnow.store import Store
from winnow_airflow.page.failures import find_kind, make_refusal

OWN = {"X-Winnow-Page": "1"}
HALF = "\ud800"
"""Half of a surrogate pair, which JSON can hold and UTF-8 cannot."""


@pytest.mark.parametrize(
    ("kind", "status", "seconds"),
    [
        ("UnknownTopicError", 404, None),
        ("DeletedTopicError", 404, None),
        ("UsageError", 400, None),
        ("ConfigurationError", 400, None),
        ("ForeignTableError", 409, None),
        ("ForeignConfigurationError", 409, None),
        ("BadInputError", 400, None),
        ("DamagedSegmentError", 500, None),
        ("DamagedMetadataError", 500, None),
        ("RunAgainError", 503, "3"),
        ("TopicBusyError", 503, "3"),
        ("ServiceError", 503, "30"),
        ("WinnowError", 500, None),
        ("Iterable", 500, None),
        ("NoSuchError", 500, None),
    ],
)
def test_status_says_what_the_caller_should_do(kind: str, status: int, seconds: str | None) -> None:
    """Ask for something else, settle something first, tell who runs it, or ask again and when."""
    refusal = make_refusal(find_kind(kind), "A sentence.")
    assert (refusal.status_code, refusal.detail) == (status, "A sentence.")
    assert (refusal.headers or {}).get("Retry-After") == seconds


def test_each_error_of_winnow_has_a_status() -> None:
    """Those to come, too."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.WinnowError)]
    assert {make_refusal(kind, "").status_code for kind in kinds} == {400, 404, 409, 500, 503}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("api/topics/orders/preview", {"config": {HALF: "1"}}),
        ("api/topics/orders/preview", {"config": {"retention.ms": HALF}}),
        ("api/topics/orders/preview", {HALF: {}}),
        ("api/alerts/acknowledge", {"keys": [HALF], "reason": "r"}),
        ("api/alerts/acknowledge", {"keys": ["k"], "reason": HALF}),
    ],
)
def test_half_of_a_surrogate_pair_in_a_request_is_refused_in_a_sentence(admin: Visitor, path: str, body: Any) -> None:
    """400, never a failure of the server, wherever it stands; nothing is started for it."""
    login = {"Authorization": f"Bearer {admin.token}", "Content-Type": "application/json"}
    answer = admin.client.post(f"/winnow/{path}", headers={**login, **OWN}, content=json.dumps(body))
    assert answer.status_code == 400, answer.text
    assert "half of a surrogate pair" in answer.json()["detail"]


def test_half_of_a_surrogate_pair_in_a_stored_document_is_shown_as_its_escape(
    viewer: Visitor, home_store: Store
) -> None:
    """A configuration is stored as JSON, which may hold one."""
    put(home_store, "orders", configuration=json.dumps([{"name": "winnow.owner", "value": HALF}]))
    assert viewer.json("api/topics/orders")["configuration"][0]["value"] == HALF


def test_nul_in_a_request_is_refused_in_a_sentence(viewer: Visitor, home_store: Store) -> None:
    """PostgreSQL can hold none in a text."""
    put_run(home_store, published=True)
    asked = [
        ("api/topics", {"search": "\0"}),
        ("api/topics/%00", {}),
        ("api/runs/a%00b", {}),
        ("api/audit", {"actor": "\0"}),
    ]
    for path, parameters in asked:
        answer = viewer.get(path, **parameters)
        assert answer.status_code == 400, path
        assert "NUL" in answer.json()["detail"]
