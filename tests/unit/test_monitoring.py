"""Dashboard, alert rules, StatsD mapping and pages name what is sent, and nothing else."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from winnow.report.counters import COUNTERS, PHASE
from winnow.report.metric_formats import format_name, list_names, render_events_table, render_metrics_table
from winnow.report.metrics import METRICS, RUN_STATES

NAME = re.compile(r"\bwinnow_[a-z_]+\b")


@pytest.fixture
def dashboard(root: Path) -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    found: dict[str, Any] = json.loads((root / "monitoring/grafana/winnow.json").read_text(encoding="utf-8"))
    return found


def targets(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Every query of every panel."""
    return [target for panel in dashboard["panels"] for target in panel["targets"]]


def strings(value: Any) -> list[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def test_every_metric_of_the_dashboard_is_one_that_winnow_sends(dashboard: dict[str, Any]) -> None:
    """A metric that is renamed or dropped fails here, not on somebody's wall."""
    queries = [target["expr"] for target in targets(dashboard)]
    queries += [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    named = {query: NAME.findall(query) for query in queries}
    assert [query for query, names in named.items() if not names] == []
    assert {name for names in named.values() for name in names} - list_names() == set()


def test_every_metric_has_a_panel(dashboard: dict[str, Any]) -> None:
    """Of a topic or of all together; a metric that is added gets one, or this fails."""
    shown = {name for target in targets(dashboard) for name in NAME.findall(target["expr"])}
    per_topic = {name.replace("winnow_all_topics_", "winnow_") for name in shown}
    # A histogram is shown by its parts.
    expected = {name.replace("winnow_all_topics_", "winnow_") for name in list_names()} - {"winnow_phase_seconds"}
    assert expected - per_topic == set()


def test_dashboard_counts_the_runs_of_every_state(dashboard: dict[str, Any]) -> None:
    """So that no run that failed is missing from the picture."""
    (panel,) = [each for each in dashboard["panels"] if each["title"] == "Runs by outcome"]
    counted = {target["expr"] for target in panel["targets"]}
    assert counted == {f"winnow_all_topics_{state}_runs_count" for state in RUN_STATES}


def test_dashboard_asks_for_its_data_source_and_carries_no_ids_of_another_grafana(dashboard: dict[str, Any]) -> None:
    """It can be imported anywhere: the source is a variable, and nothing is loaded from elsewhere."""
    sources = [each["datasource"]["uid"] for each in (*dashboard["panels"], *targets(dashboard))]
    assert set(sources) == {"${datasource}"}
    (variable,) = [each for each in dashboard["templating"]["list"] if each["type"] == "datasource"]
    assert (variable["name"], variable["query"]) == ("datasource", "prometheus")
    assert dashboard["id"] is None
    assert "__inputs" not in dashboard
    assert [text for text in strings(dashboard) if "://" in text] == []


def test_panels_have_ids_of_their_own_and_do_not_lie_over_one_another(dashboard: dict[str, Any]) -> None:
    """Within the 24 columns of Grafana's grid."""
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    apart = [
        a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"] or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        for a, b in combinations(places, 2)
    ]
    assert all(apart)


def test_every_metric_of_the_alert_rules_is_one_that_winnow_sends(root: Path) -> None:
    """And each rule says what, how bad, and the next step."""
    rules = msgspec.yaml.decode((root / "monitoring/prometheus/winnow.rules.yml").read_bytes())["groups"][0]["rules"]
    assert {name for rule in rules for name in NAME.findall(rule["expr"])} - list_names() == set()
    assert all(rule["labels"]["severity"] in {"critical", "warning"} for rule in rules)
    assert all(set(rule["annotations"]) == {"summary", "description", "runbook_url"} for rule in rules)


def test_mapping_gives_what_comes_over_statsd_the_names_of_the_page(root: Path) -> None:
    """Read as the exporter reads it: the first match of name and kind, then what Prometheus does not take replaced."""
    mappings = msgspec.yaml.decode((root / "monitoring/statsd-exporter.yml").read_bytes())["mappings"]
    sent = [("gauge", f"total.{metric.name}") for metric in METRICS]
    sent += [("gauge", metric.name) for metric in METRICS if not metric.total_only]
    sent += [("counter", counter.name) for counter in COUNTERS] + [("observer", PHASE)]
    mapped = set()
    for kind, name in sent:
        found = next(
            each
            for each in mappings
            if each["match_metric_type"] == kind and fnmatchcase(f"airflow.winnow.{name}", each["match"])
        )
        rest = f"airflow.winnow.{name}".removeprefix(found["match"].removesuffix("*"))
        mapped.add(format_name(found["name"].replace("${1}", rest).replace("$1", rest)))
    assert mapped == {name for name in list_names() if not re.search(r"_seconds_(bucket|sum|count)$", name)}


def test_pages_list_everything_that_is_sent_and_told(root: Path) -> None:
    """Each metric and event has its line; the tables come from: python -m winnow.report.metric_formats."""
    assert render_metrics_table() in (root / "docs/metrics.md").read_text(encoding="utf-8")
    assert render_events_table() in (root / "docs/logs.md").read_text(encoding="utf-8")
