"""Questions about ingest: the calls of a topic, newest first, what each brought, and whether it can be undone."""

from __future__ import annotations

from typing import Final

from winnow.log_reader.documents import Document, describe
from winnow.log_reader.question import Answer, Parameters
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.installation import Installation

MAXIMUM_CALLS: Final = 500
"""Each costs one small file."""
MAXIMUM_PARTITIONS_PER_CALL: Final = 50


def list_calls(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """List the newest ``limit`` ingest calls."""
    limit = max(1, min(parameters.number("limit"), MAXIMUM_CALLS))
    found = list_ingests(installation, topic, limit=limit)
    calls: list[Document] = []
    for call in found.calls:
        document = describe(call)
        document["partitions_total"] = len(call.partitions)
        document["partitions"] = document["partitions"][:MAXIMUM_PARTITIONS_PER_CALL]
        calls.append(document)
    return Answer({"topic": topic, "total": found.total, "calls": calls})
