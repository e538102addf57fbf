"""Round after round of ingest, compaction, failure and sweep leaves nothing behind but what must stay."""

from __future__ import annotations

from pathlib import Path

from tests.soak.rounds import soak


def test_nothing_grows_over_twelve_rounds_but_what_must(tmp_path: Path) -> None:
    """Files of every kind, rows of every table, snapshots; `make soak` does it a thousand times, judged by GX."""
    found = soak(tmp_path, 12, judged=False)
    assert {each.kind: (each.earlier, each.later) for each in found if each.is_too_much} == {}
    by_kind = {each.kind: each for each in found}
    assert by_kind["log: ingests"].later == 12  # or it would have looked in the wrong place
    assert by_kind["winnow_run"].later > 0
    assert by_kind["log: data"].later > 0
