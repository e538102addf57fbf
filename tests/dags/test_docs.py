"""docs/airflow.md against what Airflow has: Params, pools, alerts and channels."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Param
from airflow.sdk.definitions._internal.types import ArgNotSet

from tests.docs.runbook import DOCS, sections
from winnow.config.settings import load_settings
from winnow.embedded.airflow_home import POOLS

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

PAGE = sections("airflow.md")


def rows(text: str) -> list[list[str]]:
    """The cells of every table row in ``text``, without heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def chapters() -> dict[str, str]:
    """The part of the page about each DAG."""
    _, *parts = re.split(r"^### (\w+)$", PAGE["The DAGs"].text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_dag_has_its_chapter_with_its_params(dagbag: DagBag) -> None:
    """Names, titles in the form, and defaults, in the order of the form."""
    said = {dag: [tuple(row) for row in rows(text)] for dag, text in chapters().items()}
    real = {
        dag.dag_id: [
            (f"`{name}`", str(param.schema.get("title", "none")), default_of(param)) for name, param in params_of(dag)
        ]
        for dag in dagbag.dags.values()
    }
    assert said == real


def params_of(dag: Any) -> list[tuple[str, Param]]:
    """The Params of ``dag`` by their names, in the order of the form."""
    return [(name, dag.params.get_param(name)) for name in dag.params]


def default_of(param: Param) -> str:
    """As the tables have it; "none" where the form asks for a value."""
    return "none" if isinstance(param.value, ArgNotSet) else f"`{json.dumps(param.value)}`"


def test_pools_have_their_slots() -> None:
    """As the embedded Airflow gets them."""
    said = {row[0].strip("`"): int(row[1]) for row in rows(PAGE["Pools and connection"].text)}
    assert said == {name: pool["slots"] for name, pool in POOLS.items()}


def test_channels_of_the_page_are_notifiers_that_the_settings_take(tmp_path: Path) -> None:
    """The example as it stands: Slack and e-mail, each with arguments that its class takes."""
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE["Alerts and channels"].text, re.MULTILINE | re.DOTALL)
    assert tomllib.loads(text)
    (tmp_path / "winnow.toml").write_text(text)
    notifiers = load_settings(cwd=tmp_path, env={}).alert.notifiers
    assert len(notifiers) == 2
    for each in notifiers:
        module, _, name = each.path.rpartition(".")
        assert isinstance(getattr(import_module(module), name)(**each.arguments), BaseNotifier)


def test_pictures_and_pages_that_are_linked_are_there() -> None:
    """Nobody meets an empty frame."""
    for page in ("airflow.md", "operations.md"):
        text = (DOCS / page).read_text()
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
        assert [link for link in links if not (DOCS / link).exists()] == [], page


def list_anchors(page: str) -> set[str]:
    """List the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_of_the_pages_of_the_dags_lead_to_headings() -> None:
    """Within a page, and from one to any other."""
    for page in ("airflow.md", "operations.md", "kafka.md"):
        for target, anchor in re.findall(r"\]\(([\w.-]*)#([^)]+)\)", (DOCS / page).read_text()):
            assert anchor in list_anchors(target or page), (page, target, anchor)
