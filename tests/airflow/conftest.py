"""One real Airflow for all tests of this folder: it takes half a minute to start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.docs.runbook import DOCS
from tests.support.chromium import find_chromium
from tests.support.embedded_airflow import EmbeddedAirflow, start_airflow
from tests.support.receivers import Posted, open_webhook
from winnow.embedded.airflow_users import LOGIN, read_or_create_login_password
from winnow.embedded.bundle import find_bundled_folder
from winnow.pipeline.installation import Installation, open_installation

DAGS = (
    "backfill_topics",
    "change_partitions",
    "change_topics",
    "compact_now",
    "compact_topics",
    "ingest_topics",
    "sweep_topics",
)
OTHER_DAG = "orders_report"
USERS = {"vera": "viewer", "uma": "user", "otto": "op", "rita": "op", "dora": "op"}
"""The last two lose their rights in ``test_users``."""
BROWSER_MS = 120_000
TIMEOUT_S = 2_400
"""Half of a test's time is Airflow's and Spark's starting; a machine with other work to do takes several times that."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests take minutes where others take seconds."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def webhook() -> Iterator[Posted]:
    """Where the alerts of that Airflow go."""
    with open_webhook() as received:
        yield received


@pytest.fixture(scope="session")
def airflow_of_the_session(webhook: Posted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAirflow]:
    """The embedded Airflow with every DAG parsed, Spark on one core, and a lake of its own."""
    # Beside Winnow's DAGs the one of docs/airflow.md.
    others = tmp_path_factory.mktemp("dags")
    (block,) = re.findall(r"^```python dag\n(.*?)^```$", (DOCS / "airflow.md").read_text(), re.MULTILINE | re.DOTALL)
    (others / f"{OTHER_DAG}.py").write_text(block)
    bundles = [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(path)},
        }
        for name, path in (("dags-folder", find_bundled_folder("dags")), ("others", others))
    ]
    variables = {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "WINNOW_SPARK__MASTER": "local[1]",
        "WINNOW_CHANGE__APPROVALS": "2",
        "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "1",
        "WINNOW_ALERT__WEBHOOK": webhook.url,
        "WINNOW_PAGE__RECORD_READERS": LOGIN,
    }
    with start_airflow(tmp_path_factory.mktemp("airflow"), variables, (*DAGS, OTHER_DAG), USERS) as airflow:
        yield airflow


@pytest.fixture
def real_airflow(airflow_of_the_session: EmbeddedAirflow) -> Iterator[EmbeddedAirflow]:
    """That Airflow with every DAG paused, before the test and after it."""
    yield airflow_of_the_session
    airflow_of_the_session.pause(*DAGS)


@pytest.fixture
def lake(real_airflow: EmbeddedAirflow) -> Iterator[Installation]:
    """The lake of that Airflow, as a person at a shell beside it has it."""
    with open_installation(real_airflow.settings) as installation:
        yield installation


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"], timeout=BROWSER_MS
        )
        yield launched
        launched.close()


def log_in(page: Page, airflow: EmbeddedAirflow) -> None:
    """Fill in the form that Airflow shows."""
    page.locator('input[name="username"]').fill(LOGIN)
    page.locator('input[name="password"]').fill(read_or_create_login_password(airflow.settings))
    page.keyboard.press("Enter")
