"""The benchmark of the control plane, small: it measures what it says it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import control_plane
from bench.command_costs import measure_commands
from bench.control_plane import run_control
from bench.io_limits import compute_allowed_bytes
from bench.lake import Lake, open_home, prepare
from bench.peers import control
from bench.results import Results
from bench.synthetic_topics import register_topic
from bench.workloads import SMALL, Workload
from winnow.engine import staging
from winnow.pipeline.compaction.plan import plan_topic


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "lake" / "home"
    folder.mkdir(parents=True)
    return folder


def test_synthetic_topic_has_every_segment_and_is_decided_without_a_data_file(home: Path) -> None:
    """All entries are walked, all partitions assessed, and not one Parquet file exists."""
    with open_home(home) as installation:
        register_topic(installation, "wide", partitions=20, segments=3, clean=2, commits=3)
        assert control.walk(installation, "wide")["entries"] == 60
        assert control.assess(installation, "wide")["partitions"] == 20
        assert control.assess(installation, "")["topics"] == 1
    assert not list(home.rglob("*.parquet"))


def test_commits_in_a_row_are_real_publications(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round ingests, compacts and publishes; a figure per round, a receipt per publication, of both topics."""
    monkeypatch.setattr(control, "COMPACTIONS", 3)
    monkeypatch.setattr(control, "EDGE", 2)
    with open_home(home) as installation:
        figures = control.commits(installation, "often")
        assert len(installation.log.open("often").receipts()) == 3
    with open_home(home.with_name("home-new")) as installation:
        assert len(installation.log.open("often").receipts()) == 2
    assert {name: len(values) for name, values in figures.items()} == {
        "publish_seconds": 3, "ingest_seconds": 3, "manifests": 3,
        "first_publish_seconds": 2, "first_ingest_seconds": 2, "first_manifests": 2,
    }  # fmt: skip


def test_allowed_bytes_are_columns_of_all_segments_and_whole_segments_that_lose_something(tmp_path: Path) -> None:
    """Of unique keys nothing is lost, so nothing may be written and only key and offset are read."""
    config = {"min.cleanable.dirty.ratio": "0"}
    unique = Lake(Workload("one", "", keys="unique", keys_share=1.0, config=config), SMALL, tmp_path)
    uniform = Lake(Workload("ten", "", config=config), SMALL, tmp_path)
    found = {}
    for lake in (unique, uniform):
        prepare(lake)
        with open_home(lake.home) as installation:
            reference = plan_topic(installation, lake.topic, as_of_ms=installation.now_ms(), attempt="a")
            assert reference is not None
            plan = staging.read_plan(reference.uri)
        found[lake.topic] = (compute_allowed_bytes(plan), sum(part.size_bytes for part in plan.partitions))
    allowed, size_bytes = found["one"]
    assert allowed["allowed_written_bytes"] == 0
    assert 0 < allowed["allowed_read_bytes"] < size_bytes // 2
    allowed, size_bytes = found["ten"]
    assert allowed["allowed_written_bytes"] == size_bytes
    assert allowed["allowed_read_bytes"] > size_bytes


def test_short_commands_are_measured_beside_python_itself(home: Path) -> None:
    found = measure_commands(home, rounds=1)
    assert found["python_cpu_seconds"] > 0
    for name in ("help", "topics_list", "assess"):
        assert found[f"{name}_multiple"] == found[f"{name}_cpu_seconds"] / found["python_cpu_seconds"] > 1


def test_part_of_the_control_plane_is_saved_and_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark that was cut goes on with the parts that are missing; one that is asked for is measured anew."""
    asked: list[str] = []

    def part(name: str) -> Callable[[Path, object], dict[str, float]]:
        def measure(folder: Path, report: object) -> dict[str, float]:
            asked.append(name)
            return {"ratio": 1.0}

        return measure

    monkeypatch.setattr(control_plane, "PARTS", {"assess": part("assess"), "commits": part("commits")})
    results = Results(tmp_path / "results.json", control={"assess": {"ratio": 2.0}})
    run_control(tmp_path, results, (), lambda _: None)
    assert asked == ["commits"]
    assert Results.load(tmp_path / "results.json").control["commits"] == {"ratio": 1.0}
    run_control(tmp_path, results, ("assess",), lambda _: None)
    assert asked == ["commits", "assess"]
    with pytest.raises(ValueError, match="there are assess, commits"):
        run_control(tmp_path, results, ("nothing",), lambda _: None)
