"""Builds OpenLineage datasets and facets of a topic's Iceberg table, without keys or values.

Names follow OpenLineage's rules for tables that are folders of files, so that events of Spark and other engines name
the same dataset: the namespace is the store (``s3://bucket``, ``file``), the name the table's path in it. The table's
name in the catalog is a symlink.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    OutputDatasetFacet,
    catalog_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    storage_dataset,
    symlinks_dataset,
)

from winnow.values.model import Severity
from winnow.values.results import Receipt, Verdict
from winnow_airflow.xcom_values import BatchRow, PlanRow, list_staged_attempts

_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
_KEYED = ("s3", "gs", "abfs", "abfss", "wasb", "wasbs")
"""Schemes of stores that address objects by key; a key has no leading slash."""


@attr.define
class WinnowReceiptOutputDatasetFacet(OutputDatasetFacet):
    """Receipt of a published plan: *in = kept + superseded + expired + keyless*; retention is counted separately."""

    planId: str = attr.field(default="")  # noqa: N815 - OpenLineage's spelling
    attempt: str | None = attr.field(default=None)
    partitions: int = attr.field(default=0)
    recordsIn: int = attr.field(default=0)  # noqa: N815
    recordsKept: int = attr.field(default=0)  # noqa: N815
    recordsSuperseded: int = attr.field(default=0)  # noqa: N815
    tombstonesExpired: int = attr.field(default=0)  # noqa: N815
    recordsKeyless: int = attr.field(default=0)  # noqa: N815
    recordsRetired: int = attr.field(default=0)  # noqa: N815
    bytesIn: int = attr.field(default=0)  # noqa: N815
    bytesOut: int = attr.field(default=0)  # noqa: N815
    bytesRetired: int = attr.field(default=0)  # noqa: N815

    _additional_skip_redact: ClassVar[list[str]] = ["planId", "attempt"]


def compacted(installation: Any, batch: BatchRow) -> OperatorLineage[Any, Any]:
    """Return what Spark read of each table; no output, because the staged files are not visible to readers yet."""
    from winnow.engine import staging

    inputs = []
    for row, facets, name in _iterate_tables(installation, batch):
        attempt = next(list_staged_attempts(row["uri"], batch["attempt"]), None)
        manifest = None if attempt is None else staging.read_manifest(row["uri"], attempt)
        facts = [part.facts for part in manifest.partitions] if manifest is not None else []
        read = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=sum(each.records_in for each in facts), size=sum(each.bytes_in for each in facts)
        )
        inputs.append(InputDataset(*name, facets=facets, inputFacets={"inputStatistics": read} if facts else {}))
    return OperatorLineage(inputs=inputs)


def judged(installation: Any, batch: BatchRow) -> OperatorLineage[Any, Any]:
    """Return the verdict on each table's new files, as assertions."""
    inputs = []
    for row, facets, name in _iterate_tables(installation, batch):
        verdict = next(
            (
                found
                for attempt in list_staged_attempts(row["uri"], batch["attempt"])
                if (found := installation.store.verdicts.find(row["plan_id"], attempt)) is not None
            ),
            None,
        )
        said: dict[str, InputDatasetFacet] = {} if verdict is None else {"dataQualityAssertions": _assertions(verdict)}
        inputs.append(InputDataset(*name, facets=facets, inputFacets=said))
    return OperatorLineage(inputs=inputs)


def published(installation: Any, batch: BatchRow) -> OperatorLineage[Any, Any]:
    """Return each table that a plan of ``batch`` was published to, as input before and output after the publish."""
    lineage: OperatorLineage[Any, Any] = OperatorLineage()
    for row, facets, name in _iterate_tables(installation, batch):
        receipt = installation.store.projection.find_receipt(row["plan_id"])
        if receipt is None:
            continue
        version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(receipt.snapshot_id))
        lineage.inputs.append(InputDataset(*name, facets=facets))
        lineage.outputs.append(
            OutputDataset(*name, facets={**facets, "version": version}, outputFacets=_make_output_facets(receipt))
        )
    return lineage


def build_dataset_name(location: str) -> tuple[str, str]:
    """Build namespace and name of the table at ``location``, a URI or a local path."""
    parts = urlsplit(location)
    if parts.scheme in {"", "file"}:
        return "file", unquote(parts.path) if parts.scheme else location
    scheme = _OBJECT_STORES.get(parts.scheme, parts.scheme)
    path = unquote(parts.path)
    return f"{scheme}://{parts.netloc}", path.lstrip("/") if scheme in _KEYED else path


def remove_credentials(uri: str) -> str:
    """Return ``uri`` without user, password and parameters."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _iterate_tables(
    installation: Any, batch: BatchRow
) -> Iterator[tuple[PlanRow, dict[str, DatasetFacet], tuple[str, str]]]:
    for row in batch["plans"]:
        head = installation.log.open(row["topic"]).head()
        yield row, _make_identity_facets(installation, row["topic"]), build_dataset_name(head.location)


def _make_identity_facets(installation: Any, topic: str) -> dict[str, DatasetFacet]:
    from winnow.log.namespaces import CATALOG_NAME
    from winnow.log.table import LOG_SCHEMA

    catalog, warehouse = installation.settings.catalog, installation.settings.warehouse
    uri = remove_credentials(catalog["uri"]) if "uri" in catalog else None
    kind = catalog.get("type") or ("rest" if (uri or "").startswith("http") else "sql")
    table = symlinks_dataset.Identifier(
        # Same rule as Spark's integration: the address of a REST catalog, otherwise the catalog's warehouse.
        namespace=uri if kind == "rest" and uri is not None else warehouse,
        name=f"{installation.log.namespaces.topics}.{topic}",
        type="TABLE",
    )
    return {
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[table]),
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="iceberg", fileFormat="parquet"),
        "catalog": catalog_dataset.CatalogDatasetFacet(
            framework="iceberg", type=kind, name=CATALOG_NAME, metadataUri=uri, warehouseUri=warehouse, source="winnow"
        ),
        "schema": schema_dataset.SchemaDatasetFacet(
            fields=[
                schema_dataset.SchemaDatasetFacetFields(name=field.name, type=str(field.field_type))
                for field in LOG_SCHEMA.fields
            ]
        ),
    }


def _make_output_facets(receipt: Receipt) -> dict[str, OutputDatasetFacet]:
    parts = receipt.partitions
    facet = WinnowReceiptOutputDatasetFacet(
        planId=receipt.plan_id or "",
        attempt=receipt.attempt,
        partitions=len(parts),
        recordsIn=sum(part.records_in for part in parts),
        recordsKept=sum(part.records_kept for part in parts),
        recordsSuperseded=sum(part.records_superseded for part in parts),
        tombstonesExpired=sum(part.tombstones_expired for part in parts),
        recordsKeyless=sum(part.records_keyless for part in parts),
        recordsRetired=sum(part.records_retired for part in parts),
        bytesIn=sum(part.bytes_in for part in parts),
        bytesOut=sum(part.bytes_out for part in parts),
        bytesRetired=sum(part.bytes_retired for part in parts),
    )
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=facet.recordsKept, size=facet.bytesOut
    )
    return {"outputStatistics": statistics, "winnow_receipt": facet}


def _assertions(verdict: Verdict) -> data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet:
    one = data_quality_assertions_dataset.Assertion
    held = verdict.expectations - len({each.expectation for each in verdict.failures})
    whole = one(
        assertion="winnow_verdict",
        success=verdict.passed,
        severity="error",
        description="Whether the attempt may be published",
        expected=f"{verdict.expectations} expectations hold",
        actual="a check raised instead of judging" if verdict.broken else f"{held} held",
        params={"planId": verdict.plan_id, "attempt": verdict.attempt},
    )
    failures = [
        one(
            assertion=failure.expectation,
            success=False,
            severity="error" if failure.severity is Severity.FAIL else "warn",
            description=failure.detail,
            params={} if failure.partition is None else {"partition": failure.partition},
        )
        for failure in verdict.failures
    ]
    return data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=[whole, *failures])
