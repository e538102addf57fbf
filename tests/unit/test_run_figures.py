"""A figure of a run is defined once; manifest, receipt, metrics and ``--json`` take it from there, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest

from winnow.cli.receipts import make_document
from winnow.quality.fact_table import COMPARED_COLUMNS, FINDING_COLUMNS
from winnow.values import documents
from winnow.values.model import OffsetRange, Reason, Status
from winnow.values.results import (
    PartitionFacts,
    PartitionReceipt,
    Receipt,
    RunFigures,
    StagedPartition,
    StagingManifest,
    extract_figures,
    sum_figures,
)

FIGURES = RunFigures(
    records_in=100,
    records_kept=40,
    records_superseded=55,
    tombstones_expired=2,
    records_keyless=3,
    bytes_in=4096,
    bytes_out=1024,
    headers_missing=4,
    headers_malformed=2,
    malformed_offsets=(11, 12),
    keys_elsewhere=1,
)
FACTS = PartitionFacts(
    **extract_figures(FIGURES),
    winners_fingerprint="1:2:3",
    content_fingerprint="4:5:6",
    extended=(OffsetRange(3, 9),),
)
MANIFEST = StagingManifest("plan-1", "orders", "a-1", (StagedPartition(0, FACTS, (), 1.5),), "duckdb", "1.0")
RECEIPT = Receipt(
    topic="orders",
    plan_id="plan-1",
    status=Status.PUBLISHED,
    snapshot_id=42,
    partitions=(
        PartitionReceipt(
            **extract_figures(FACTS),
            partition=0,
            first_dirty_offset=10,
            next_first_dirty_offset=60,
            records_retired=7,
            log_start_offset=5,
            bytes_retired=64,
            reason=Reason.DIRTY_RATIO,
            expected_records_kept=41,
            expected_bytes_out=1000,
            seconds=1.5,
            tombstones_expired_early=1,
            offsets_cleaned_early=6,
        ),
    ),
    message="message",
    as_of_ms=1,
    finished_at_ms=2,
    attempt="a-1",
)

# As the release before figures were shared wrote them: figures that were added since are left out of the comparison.
MANIFEST_DOCUMENT = (
    '{"attempt":"a-1","engine":"duckdb","format_version":1,"partitions":[{"facts":{"bytes_in":4096,"bytes_out":1024,'
    '"content_fingerprint":"4:5:6","extended":[{"end":9,"start":3}],"headers_malformed":2,"headers_missing":4,'
    '"keys_elsewhere":1,"malformed_offsets":[11,12],"records_in":100,"records_kept":40,"records_keyless":3,'
    '"records_superseded":55,"tombstones_expired":2,"winners_fingerprint":"1:2:3"},"keyless_files":[],"partition":0,'
    '"rewrite_seconds":0.0,"rewrites":[],"seconds":1.5,"winners_seconds":0.0}],"plan_id":"plan-1","topic":"orders",'
    '"winnow_version":"1.0"}'
)
RECEIPT_DOCUMENT = (
    '{"as_of_ms":1,"attempt":"a-1","data_docs":null,"finished_at_ms":2,"format_version":1,"message":"message",'
    '"partitions":[{"bytes_in":4096,"bytes_out":1024,"bytes_retired":64,"expected_bytes_out":1000,'
    '"expected_records_kept":41,"first_dirty_offset":10,"headers_malformed":2,"headers_missing":4,"keys_elsewhere":1,'
    '"log_start_offset":5,"malformed_offsets":[11,12],"next_first_dirty_offset":60,"offsets_cleaned_early":6,'
    '"partition":0,"reason":"dirty_ratio","records_in":100,"records_kept":40,"records_keyless":3,"records_retired":7,'
    '"records_superseded":55,"seconds":1.5,"tombstones_expired":2,"tombstones_expired_early":1}],"plan_id":"plan-1",'
    '"snapshot_id":42,"status":"published","topic":"orders"}'
)
PRINTED_PARTITION = (
    '{"partition": 0, "first_dirty_offset": 10, "next_first_dirty_offset": 60, "records_in": 100, "records_kept": 40, '
    '"records_superseded": 55, "tombstones_expired": 2, "records_keyless": 3, "records_retired": 7, "bytes_in": 4096, '
    '"bytes_out": 1024, "log_start_offset": 5, "bytes_retired": 64, "reason": "dirty_ratio", "headers_missing": 4, '
    '"headers_malformed": 2, "malformed_offsets": [11, 12], "keys_elsewhere": 1, "expected_records_kept": 41, '
    '"expected_bytes_out": 1000, "seconds": 1.5, "tombstones_expired_early": 1, "offsets_cleaned_early": 6}'
)

ADDED_FIGURES = {"cpu_seconds", "bytes_written", *(each.name for each in fields(RunFigures))} - set(
    json.loads(PRINTED_PARTITION)
)


def leave_out_added_figures(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as that release would have written it."""
    return {name: value for name, value in members if name not in ADDED_FIGURES}


@pytest.mark.parametrize(("value", "document"), [(MANIFEST, MANIFEST_DOCUMENT), (RECEIPT, RECEIPT_DOCUMENT)])
def test_documents_with_figures_stay_byte_for_byte(value: StagingManifest | Receipt, document: str) -> None:
    dumped = json.loads(documents.dump_json(value), object_pairs_hook=leave_out_added_figures)
    assert json.dumps(dumped, separators=(",", ":")) == document
    assert documents.load_json(type(value), document.encode()) == value


def test_receipt_is_printed_with_the_same_keys_in_the_same_order() -> None:
    (printed,) = make_document(RECEIPT)["partitions"]
    assert json.dumps(leave_out_added_figures(printed.items())) == PRINTED_PARTITION
    assert list(printed)[: len(json.loads(PRINTED_PARTITION))] == list(json.loads(PRINTED_PARTITION))


def test_receipt_without_the_newer_figures_is_read_with_their_defaults() -> None:
    newer = {"headers_missing", "headers_malformed", "malformed_offsets", "keys_elsewhere"}
    document = json.loads(RECEIPT_DOCUMENT)
    document["partitions"] = [{k: v for k, v in part.items() if k not in newer} for part in document["partitions"]]
    (part,) = documents.load_json(Receipt, json.dumps(document).encode()).partitions
    assert (part.headers_missing, part.headers_malformed, part.malformed_offsets, part.keys_elsewhere) == (0, 0, (), 0)
    assert part.records_in == 100


def test_figures_of_shares_and_partitions_add_up_and_offsets_are_sorted() -> None:
    other = RunFigures(1, 1, 0, 0, 0, 10, 5, malformed_offsets=(3, 99))
    total = sum_figures([FIGURES, other])
    assert (total.records_in, total.bytes_out, total.keys_elsewhere) == (101, 1029, 1)
    assert total.malformed_offsets == (3, 11, 12, 99)
    assert set(extract_figures(sum_figures([])).values()) == {0, ()}


def test_every_figure_that_is_recomputed_is_compared_and_the_rest_is_a_finding() -> None:
    assert set(COMPARED_COLUMNS) >= {
        "records_in", "records_kept", "records_keyless", "bytes_in", "bytes_out", "winners_fingerprint",
        "content_fingerprint", "headers_missing", "headers_malformed",
    }  # fmt: skip
    assert {each.name for each in fields(PartitionFacts)} >= set(COMPARED_COLUMNS)
    assert "unplanned_inputs" in FINDING_COLUMNS
    assert not {"keys_in", "keys_kept", "most_tombstones_expired"} & set(FINDING_COLUMNS)
