"""The names that writers give to their files, below a table's folder and in the staging area.

What is found by listing is deleted only under such a name. A draft that a killed process left has the name of its file,
after a dot, and 32 hex digits (:func:`winnow.files.storage.write_bytes`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_HEX: Final = "[0-9a-f]{32}"
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_SEGMENT: Final = r"\d{5,}-\d{20}-\d{5,}(?:-\d{3,})?\.parquet"
_SURVIVORS: Final = r"\d{5,}-survivors-\d{3,}-of-\d{3,}\.parquet"
_KEYLESS: Final = r"\d{5,}-\d{5,}\.parquet"
_MANIFEST: Final = rf"(?:(?:optimized-m-)?{_UUID}(?:-m\d+)?\.avro|snap-\d+-\d+-{_UUID}\.avro)"
_TABLE_METADATA: Final = rf"\d{{5,}}-{_UUID}(?:\.gz)?\.metadata\.json"


def _or_draft(name: str) -> str:
    return rf"(?:{name}|\.(?:{name})\.{_HEX})"


_STATE: Final = _or_draft(rf"{_HEX}\.json")
_DOCUMENTS: Final = (
    rf"_winnow/(?:(?:state|schemas)/{_STATE}"
    rf"|receipts/{_or_draft(rf'{_PART}-[0-9a-f]{{8}}[.]json')}"
    rf"|ingests/{_or_draft(rf'{_PART}[.]json')}"
    rf"|erasures/{_or_draft(rf'{_HEX}-[0-9a-f]{{8}}[.]json')}"
    rf"|chains/{_or_draft(rf'(?:receipts|ingests)-{_HEX}[.]json')})"
)

_ATTEMPT: Final = re.compile(rf"(?:{_PART}/)+(?:{_SEGMENT}|{_SURVIVORS})")
_KEYLESS_ATTEMPT: Final = re.compile(rf"(?:{_PART}/)+{_KEYLESS}")
_INGEST: Final = re.compile(
    rf"(?:{_PART}/{_PART}/)?{_SEGMENT}|{_or_draft(rf'plan-{_HEX}[.]json')}|{_PART}/{_or_draft(rf'result-{_HEX}[.]json')}"
)
_QUARANTINED: Final = re.compile(rf"{_HEX}\.parquet")
_PLAN_ID: Final = re.compile(_HEX)
_INGEST_FOLDER: Final = re.compile(rf"ingest-{_HEX}")
_FOLDER: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_TASK_FOLDER: Final = re.compile(rf"{_PART}(?:/t\d+)?")
_TABLE_FOLDER: Final = re.compile(
    rf"metadata|data(?:/(?:ingest-)?{_HEX}(?:/{_PART})*)?"
    r"|_winnow(?:/(?:state|receipts|ingests|erasures|chains|schemas))?"
)
_DATA: Final = re.compile(rf"data/(?:{_PART}/)*{_PART}\.parquet")
_METADATA: Final = re.compile(rf"metadata/(?:{_MANIFEST}|{_TABLE_METADATA})")
_RETIRED: Final = {
    "manifest": re.compile(rf"metadata/{_MANIFEST}"),
    "manifest_list": re.compile(rf"metadata/{_MANIFEST}"),
    "state": re.compile(rf"_winnow/state/{_HEX}\.json"),
}
_LATEST: Final = re.compile(rf"data/{_HEX}/{_HEX}\.parquet")
_STAGED: Final = re.compile(rf"(?P<attempt>{_PART})/{_or_draft('(?:manifest|facts)[.]json')}")
_STAGED_PLAN: Final = re.compile(_or_draft("plan[.]json"))
_READING: Final = re.compile(rf"[A-Za-z0-9._-]+@{_HEX}/(?:part-\d{{6,}}\.parquet|survivors-\d{{6,}})\.{_HEX}")
_JOB_NOTE: Final = re.compile(rf"[A-Za-z0-9._-]*@[a-z]+@{_HEX}(?:-\d+)?\.json")
_JOB_DOCUMENT: Final = re.compile(
    _or_draft(rf"{_HEX}(?:-\d+)?(?:[.]result)?[.]json") + rf"|{_HEX}[.]survivors-\d{{6,}}[.]{_HEX}"
)
_OF_TABLE: Final = re.compile(rf"{_METADATA.pattern}|{_DOCUMENTS}")


def is_plan_id(name: str) -> bool:
    """Check whether ``name`` can be a plan's id; a folder of an ingest call, for instance, is none."""
    return _PLAN_ID.fullmatch(name) is not None


def is_ingest_id(name: str) -> bool:
    """Check whether ``name`` can be the id of an ingest call."""
    return _PLAN_ID.fullmatch(name) is not None


def find_attempt(path: str, attempts: Collection[str]) -> str | None:
    """Return which of ``attempts`` wrote the file at ``path`` below its plan's folder; None: none of them.

    The tasks of an attempt write into the folder of that name, or into folders whose names begin with it and a hyphen.
    """
    top = path.partition("/")[0]
    cuts = [len(top), *(at for at, letter in enumerate(top) if letter == "-")]
    return next((top[:cut] for cut in sorted(cuts, reverse=True) if top[:cut] in attempts), None)


def is_attempt_folder(path: str, attempts: Collection[str]) -> bool:
    """Check whether tasks of one of ``attempts`` make a folder at ``path``, below that of their plan."""
    return _FOLDER.fullmatch(path) is not None and find_attempt(path, attempts) is not None


def is_task_folder(path: str) -> bool:
    """Check whether an application that ingests makes a folder at ``path``, below that of its ingest call."""
    return _TASK_FOLDER.fullmatch(path) is not None


def is_table_folder(path: str) -> bool:
    """Check whether Iceberg or Winnow makes a folder at ``path``, below a table's."""
    return _TABLE_FOLDER.fullmatch(path) is not None


def is_attempt_file(path: str, *, quarantined: bool) -> bool:
    """Check whether a task of a compaction names a file so, below the folder of its plan in log or quarantine."""
    return (_KEYLESS_ATTEMPT if quarantined else _ATTEMPT).fullmatch(path) is not None


def is_ingest_file(path: str, *, quarantined: bool) -> bool:
    """Check whether an ingest call names a file so, below its own folder in log or quarantine."""
    return (_QUARANTINED if quarantined else _INGEST).fullmatch(path) is not None


def is_data_file(path: str) -> bool:
    """Check whether ``path``, below a table's folder, can be a data file."""
    return _DATA.fullmatch(path) is not None


def is_written_file(path: str) -> bool:
    """Check whether a run, an ingest call or an erasure names a data file so, below the folder ``data`` of a log.

    Or an update of a side table of the latest state, below that of its own.
    """
    folder, _, rest = path.partition("/")
    if is_plan_id(folder):
        return is_attempt_file(rest, quarantined=False) or is_latest_file(f"data/{path}")
    is_call = _INGEST_FOLDER.fullmatch(folder) is not None
    return is_call and rest.endswith(".parquet") and is_ingest_file(rest, quarantined=False)


def is_retired_file(path: str, kind: str) -> bool:
    """Check whether ``path``, below a table's folder, can be a file that the ledger has as ``kind``."""
    pattern = _RETIRED.get(kind)
    return pattern is not None and pattern.fullmatch(path) is not None


def is_table_file(path: str) -> bool:
    """Check whether Iceberg or Winnow names a file so, below a table's folder, that is no data file."""
    return _OF_TABLE.fullmatch(path) is not None


def is_metadata_file(path: str) -> bool:
    """Check whether Iceberg names a file of a table so, below the table's folder."""
    return _METADATA.fullmatch(path) is not None


def is_latest_file(path: str) -> bool:
    """Check whether an update of a side table of the latest state names a data file so, below the table's folder."""
    return _LATEST.fullmatch(path) is not None


def is_staged_file(path: str, attempts: Collection[str]) -> bool:
    """Check whether the plan itself or one of ``attempts`` names a file so, below the plan's staging folder."""
    found = _STAGED.fullmatch(path)
    return _STAGED_PLAN.fullmatch(path) is not None or (found is not None and found["attempt"] in attempts)


def is_staged_reading(path: str) -> bool:
    """Check whether a reading in tasks names a file so, below the folder of readings in the staging area."""
    return _READING.fullmatch(path) is not None


def is_job_note(path: str) -> bool:
    """Check whether a job for one call notes so, below the folder of notes in the staging area, that it began."""
    return _JOB_NOTE.fullmatch(path) is not None


def is_job_document(path: str, plan_id: str) -> bool:
    """Check whether a job for one call names the plan ``plan_id``, its result or its tasks' lists so in its folder."""
    return _JOB_DOCUMENT.fullmatch(path) is not None and path.removeprefix(".").startswith(f"{plan_id}.")
