"""The alarm rules, evaluated by Prometheus itself: by promtool over hours, and by a server that scrapes a real page."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.docs.runbook import sections
from tests.support.prometheus import find_program, open_prometheus
from tests.support.waiting import wait_until
from winnow.report.metric_formats import format_exposition
from winnow.report.metrics import Measurement
from winnow_airflow.page.runbook import make_anchor

RULES = "monitoring/prometheus/winnow.rules.yml"
MINUTE_S = 60


@dataclass(frozen=True)
class Story:
    """What a rule sees: series with their values every minute, and whether it fires ``at_minutes``."""

    alert: str
    series: Mapping[str, str]
    at_minutes: int
    fires: bool


def list_stories() -> Iterator[Story]:
    """Each rule fires on what it is for, and not on what looks like it."""
    run = "winnow_all_topics_last_run_timestamp_secs"
    yield Story("WinnowNothingRuns", {run: "0x70"}, 60, fires=False)
    yield Story("WinnowNothingRuns", {run: "0x120"}, 90, fires=True)
    yield Story("WinnowNothingRuns", {run: "0+60x120"}, 90, fires=False)
    yield Story("WinnowNothingRuns", {run: "0+60x20 stale"}, 30, fires=False)
    yield Story("WinnowNothingRuns", {run: "0+60x20 stale"}, 50, fires=True)
    yield Story("WinnowNothingRuns", {"up": "1x120"}, 20, fires=True)

    damaged = 'winnow_damaged_segments_count{topic="orders"}'
    yield Story("WinnowSegmentDamaged", {damaged: "0x5"}, 4, fires=False)
    yield Story("WinnowSegmentDamaged", {damaged: "0x2 1x5"}, 4, fires=True)

    def near(seconds: str, paused: int, marked: int, *, topic: str = "orders") -> dict[str, str]:
        return {
            f'winnow_next_deadline_secs{{topic="{topic}"}}': seconds,
            'winnow_paused_partitions_count{topic="orders"}': f"{paused}x5",
            'winnow_uncleanable_partitions_count{topic="orders"}': f"{marked}x5",
        }

    yield Story("WinnowDeadlineNear", near("1800x5", 1, 0), 4, fires=True)
    yield Story("WinnowDeadlineNear", near("1800x5", 0, 2), 4, fires=True)
    yield Story("WinnowDeadlineNear", near("1800x5", 0, 0), 4, fires=False)
    yield Story("WinnowDeadlineNear", near("7200x5", 1, 1), 4, fires=False)
    yield Story("WinnowDeadlineNear", near("-60x5", 1, 0), 4, fires=False)
    yield Story("WinnowDeadlineNear", near("1800x5", 1, 1, topic="payments"), 4, fires=False)


STORIES = tuple(list_stories())


@pytest.fixture(scope="module")
def rules() -> Sequence[Mapping[str, Any]]:
    """The rules as Prometheus reads them."""
    found: list[dict[str, Any]] = msgspec.yaml.decode(_locate_rules().read_bytes())["groups"][0]["rules"]
    return found


def _locate_rules() -> Path:
    return Path(__file__).parents[2] / RULES


def run_promtool(*arguments: object) -> str:
    done = subprocess.run([find_program("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_prometheus_takes_every_rule(rules: Sequence[Mapping[str, Any]]) -> None:
    assert f"{len(rules)} rules found" in run_promtool("check", "rules", _locate_rules())


def test_each_rule_fires_on_what_it_is_for_and_on_nothing_that_looks_like_it(
    tmp_path: Path, rules: Sequence[Mapping[str, Any]]
) -> None:
    """Hours of series, through the rules' own waiting times."""
    by_name = {rule["alert"]: rule for rule in rules}
    fired: dict[bool, list[str]] = {True: [], False: []}
    for number, story in enumerate(STORIES):
        fired[_is_firing(tmp_path / f"{number}.json", story, by_name[story.alert])].append(f"{number} {story}")
    expected = {
        fires: [f"{number} {story}" for number, story in enumerate(STORIES) if story.fires is fires]
        for fires in (True, False)
    }
    assert fired == expected


def _is_firing(file: Path, story: Story, rule: Mapping[str, Any]) -> bool:
    """Whether promtool sees an alert fire: it compares with none, and says what it got instead."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in story.series.items()],
        "alert_rule_test": [{"eval_time": f"{story.at_minutes}m", "alertname": rule["alert"], "exp_alerts": []}],
    }
    document = {"rule_files": [str(_locate_rules())], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(json.dumps(document))
    done = subprocess.run(
        [find_program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, timeout=300
    )
    assert "error" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode != 0


def test_prometheus_can_parse_the_query_of_every_panel(tmp_path: Path) -> None:
    """With values for Grafana's variables, as Grafana sends it."""
    dashboard = json.loads((Path(__file__).parents[2] / "monitoring/grafana/winnow.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    recorded = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m").replace("$topic", "orders")}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}))
    assert f"{len(queries)} rules found" in run_promtool("check", "rules", file)


def test_every_rule_leads_to_a_section_of_the_runbook(rules: Sequence[Mapping[str, Any]]) -> None:
    """Whoever is woken by Prometheus finds the page, and the section is there."""
    anchors = {make_anchor(title) for title in sections("operations.md")}
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "https://github.com/winnow-data/winnow/blob/main/docs/operations.md", rule["alert"]
        assert anchor in anchors, rule["alert"]


class Page:
    """A page of metrics for a scrape; ``measured`` None: there is none any more."""

    def __init__(self) -> None:
        self.measured: Sequence[Measurement] | None = ()
        self.target = ""


@pytest.fixture
def page() -> Iterator[Page]:
    """What ``winnow metrics --prometheus`` prints, behind an address."""
    with serve_page() as served:
        yield served


@contextmanager
def serve_page() -> Iterator[Page]:
    page = Page()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"" if page.measured is None else format_exposition(page.measured).encode()
            self.send_response(200 if page.measured is not None else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page.target = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield page
        server.shutdown()


def test_a_real_prometheus_fires_on_damage_and_when_nothing_runs_or_nothing_is_sent_any_more(
    tmp_path: Path, page: Page, rules: Sequence[Mapping[str, Any]]
) -> None:
    """The rules without their waiting times, over pages as they are sent; each alert ends with its cause."""
    hasty = tmp_path / "rules.json"
    hasty.write_text(
        json.dumps({"groups": [{"name": "w", "rules": [{k: v for k, v in r.items() if k != "for"} for r in rules]}]})
    )

    def make_page(age_s: int, damaged: int = 0) -> list[Measurement]:
        now_ms = int(time.time() * 1000)
        return [Measurement("orders", last_run_ms=now_ms - 1000 * age_s, partitions=1, damaged=damaged)]

    page.measured = make_page(MINUTE_S, damaged=2)
    with open_prometheus(tmp_path, hasty, page.target) as prometheus:
        wait_until(lambda: set(prometheus.list_alerts()) == {"WinnowSegmentDamaged"})
        alert = prometheus.list_alerts()["WinnowSegmentDamaged"]
        assert (alert["state"], alert["labels"]["topic"]) == ("firing", "orders")
        assert "2 segments" in alert["annotations"]["summary"]

        page.measured = make_page(MINUTE_S)
        wait_until(lambda: not prometheus.list_alerts())
        page.measured = make_page(61 * MINUTE_S)
        wait_until(lambda: set(prometheus.list_alerts()) == {"WinnowNothingRuns"})
        page.measured = make_page(MINUTE_S)
        wait_until(lambda: not prometheus.list_alerts())
        page.measured = None
        wait_until(lambda: set(prometheus.list_alerts()) == {"WinnowNothingRuns"})
