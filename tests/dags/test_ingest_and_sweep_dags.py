"""``ingest_topics`` and ``sweep_topics`` run whole."""

from __future__ import annotations

from pathlib import Path

from tests.dags.conftest import RunDag
from tests.dags.topics import contents, old_lines, write_lines
from winnow.pipeline.context import Context
from winnow.pipeline.topics import create_topic


def test_ingest_appends_each_entry_once_however_often_it_runs(ctx: Context, run_dag: RunDag, tmp_path: Path) -> None:
    """Two entries are two commits; a second run finds every offset there."""
    for topic in ("orders", "clicks"):
        create_topic(ctx, topic, 1, {})
    path = write_lines(tmp_path / "records.jsonl", old_lines(20, 5))
    conf = {"topic": "orders", "paths": [path], "files": [{"topic": "clicks", "paths": [path]}]}
    for _ in range(2):
        states = run_dag("ingest_topics", **conf)
        assert states["run", -1] == "success"
        assert [states["ingest", number] for number in (0, 1)] == ["success", "success"]
        assert len(contents(ctx, "orders")) == len(contents(ctx, "clicks")) == 20


def test_bad_input_fails_its_entry_alone(ctx: Context, run_dag: RunDag, tmp_path: Path) -> None:
    """A file that is no JSON beside one that is well: nothing of the first lands, all of the second."""
    for topic in ("orders", "clicks"):
        create_topic(ctx, topic, 1, {})
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no json\n")
    good = write_lines(tmp_path / "good.jsonl", old_lines(20, 5))
    files = [{"topic": "orders", "paths": [str(bad)]}, {"topic": "clicks", "paths": [good]}]
    states = run_dag("ingest_topics", files=files)
    assert states["run", -1] == "failed"
    assert [states["ingest", number] for number in (0, 1)] == ["failed", "success"]
    assert (len(contents(ctx, "orders")), len(contents(ctx, "clicks"))) == (0, 20)


def test_a_sweep_goes_through_every_topic(ctx: Context, run_dag: RunDag, tmp_path: Path) -> None:
    """One task per topic; what is referenced stays."""
    create_topic(ctx, "orders", 1, {})
    path = write_lines(tmp_path / "records.jsonl", old_lines(20, 5))
    assert run_dag("ingest_topics", topic="orders", paths=[path])["run", -1] == "success"
    states = run_dag("sweep_topics")
    assert (states["run", -1], states["sweep", 0]) == ("success", "success")
    assert len(contents(ctx, "orders")) == 20
