"""Which plan a plan is: its id, computed from everything else in it. Needs no storage and no planning.

Whoever reads a plan computes the id again: a plan whose content was changed no longer has the id that it bears.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from winnow import documents
from winnow.model import Plan

_FIELDS_OUTSIDE_ID = {"log_end_offset": 0, "expected_records_kept": None, "expected_bytes_out": None}


def compute_plan_id(plan: Plan) -> str:
    """The id of ``plan``: 32 hex digits of the sha256 over all that was decided.

    Left out are the id itself, the log end offset (an append between two identical decisions changes nothing planned)
    and the estimates, which decide nothing.
    """
    return _compute_id(documents.convert_to_json_types(plan))


def compute_document_id(data: bytes) -> str:
    """The id of the plan in the JSON document ``data``, which must hold one.

    Of the document as it is: a Winnow with fewer or more fields made the id of those that it wrote.
    """
    return _compute_id(json.loads(data))


def _compute_id(plan: dict[str, Any]) -> str:
    partitions = [
        part | {name: value for name, value in _FIELDS_OUTSIDE_ID.items() if name in part}
        for part in plan["partitions"]
    ]
    document = json.dumps(plan | {"plan_id": "", "partitions": partitions}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()[:32]
