"""Topics in AWS Glue's catalog, as moto serves it, with files in its S3: the commits that need no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_runner import record, winnow, write_lines
from tests.support.object_store import REGION, start_object_store


def test_a_topic_in_glue_is_created_ingested_altered_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the settings of the page on Glue, the endpoint added."""
    with start_object_store() as store:
        store.create_bucket("lake")
        for name, value in {
            **store.variables,
            "WINNOW_HOME": str(tmp_path / "home"),
            "WINNOW_CATALOG__TYPE": "glue",
            "WINNOW_CATALOG__GLUE__REGION": REGION,
            "WINNOW_CATALOG__GLUE__ENDPOINT": store.endpoint,
            "WINNOW_WAREHOUSE": "s3://lake/warehouse",
            "WINNOW_STAGING": "s3://lake/staging",
        }.items():
            monkeypatch.setenv(name, value)
        lines = [record(f"k{offset % 3}", f"v{offset}", partition=0, offset=offset) for offset in range(10)]
        winnow("topics", "create", "orders", "--partitions", "1")
        winnow("ingest", "files", "orders", write_lines(tmp_path / "orders.jsonl", lines))
        winnow("topics", "alter", "orders", "--config", "segment.ms=1000")
        assert len(winnow("read", "orders").stdout.splitlines()) == 10
        winnow("topics", "delete", "orders", "--now", "--yes")
        assert [key for key in store.keys("lake") if key.startswith("warehouse/winnow/orders")] == []
