"""Record routes: browse a partition, one record in full, the versions of a key and which of them wins.

Reading records takes a permission of its own, and each look is written to the audit log before its answer goes out.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Request
from pydantic import AfterValidator, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry
from winnow_airflow.page.access import RECORDS_VIEW, may_read_records, may_view, own_request
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation
from winnow_airflow.page.reader_process import readers
from winnow_airflow.page.request_body import RequestBody

MAXIMUM_KEY_CHARACTERS: Final = 100_000
MAXIMUM_SEARCH_CHARACTERS: Final = 1_000
MAXIMUM_SUITE_CHARACTERS: Final = 200
MAXIMUM_SEARCHED_PARTITIONS: Final = 10_000

router = APIRouter(prefix="/api/topics/{topic}/records", dependencies=[may_view, own_request])

MAXIMUM_PARTITION: Final = 2**31 - 1
MAXIMUM_OFFSET: Final = 2**63 - 1
MAXIMUM_TIMESTAMP_MS: Final = MAXIMUM_OFFSET // 1000
"""The log keeps times in microseconds."""


def _require_offset(text: str) -> str:
    if int(text) > MAXIMUM_OFFSET:
        raise ValueError(f"an offset is at most {MAXIMUM_OFFSET}")
    return text


Partition = Annotated[int, Field(ge=0, le=MAXIMUM_PARTITION)]
TimestampMs = Annotated[int, Field(ge=0, le=MAXIMUM_TIMESTAMP_MS)]
SearchText = Annotated[str, Field(max_length=MAXIMUM_SEARCH_CHARACTERS)]
PartitionText = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]
"""As a name of a JSON object's member."""
Offset = Annotated[str, Field(pattern=r"^[0-9]{1,19}$"), AfterValidator(_require_offset)]
"""As text, because JavaScript numbers cannot hold 64-bit integers exactly."""


class ShownBody(RequestBody):
    """How records are shown; ``decoded``: as JSON, by the topic's formats and with what its rules show."""

    decoded: bool = False


class BrowseBody(ShownBody):
    """Which records of a partition are wanted; without ``offset``, ``timestamp_ms`` and ``before``: the newest.

    ``partition`` None: the newest of all partitions, below ``before_offsets``, by partition.
    """

    partition: Partition | None = None
    before_offsets: dict[PartitionText, Offset] = Field(default_factory=dict, max_length=64)
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    offset: Offset | None = None
    timestamp_ms: TimestampMs | None = None
    before: Offset | None = None

    @model_validator(mode="after")
    def require_partition(self) -> BrowseBody:
        """Refuse a place to begin at without the partition that it is of."""
        if self.partition is None and any(each is not None for each in (self.offset, self.timestamp_ms, self.before)):
            raise ValueError("an offset or a time needs its partition")
        return self


class RecordBody(ShownBody):
    """One record."""

    partition: Partition
    offset: Offset


class KeyBody(ShownBody):
    """A key; ``partition`` None: where it is likeliest, then the others."""

    key: Annotated[str, Field(max_length=MAXIMUM_KEY_CHARACTERS)]
    encoding: Annotated[str, Field(pattern=r"^(text|json|base64|hex)$")] = "text"
    partition: Partition | None = None
    everywhere: bool = False


class SuiteBody(RequestBody):
    """A content suite by name; empty: the one that the topic names."""

    suite: Annotated[str, Field(max_length=MAXIMUM_SUITE_CHARACTERS)] = ""


class SearchPlaceBody(RequestBody):
    """Where a search goes on."""

    partition: Partition
    offset: Offset


class SearchBody(ShownBody):
    """What records must have, all of it; ``partition`` None: in any. ``place``: where the last answer ended.

    With ``newest_first`` that is ``before_offsets``.
    """

    partition: Partition | None = None
    key_prefix: SearchText = ""
    encoding: Annotated[str, Field(pattern=r"^(text|base64|hex)$")] = "text"
    value_text: SearchText = ""
    field: SearchText = ""
    field_value: SearchText = ""
    header: SearchText = ""
    header_value: SearchText = ""
    from_ms: TimestampMs | None = None
    until_ms: TimestampMs | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    place: SearchPlaceBody | None = None
    newest_first: bool = False
    before_offsets: dict[PartitionText, Offset] = Field(default_factory=dict, max_length=MAXIMUM_SEARCHED_PARTITIONS)


def require_record_reader(user: GetUserDep, installation: InstallationDep) -> str:
    """Return the name of the user, who may read records."""
    name = user.get_name()
    if not may_read_records(user, installation.settings):
        raise HTTPException(
            403,
            f"{name} may not read records. Nobody may by default: name the user in page.record_readers "
            f"(WINNOW_PAGE__RECORD_READERS) and let Airflow's auth manager allow the view {RECORDS_VIEW!r}.",
        )
    return name


ReaderDep = Annotated[str, Depends(require_record_reader)]


@router.post("")
async def browse(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: BrowseBody
) -> Response:
    """Return some records of a partition, in offset order, or the newest of all, by timestamp."""
    parameters = body.model_dump(exclude_none=True)
    parameters |= {name: int(parameters[name]) for name in ("offset", "before") if name in parameters}
    before_offsets = {number: int(offset) for number, offset in body.before_offsets.items()}
    if body.partition is None:
        wanted = {"limit": body.limit, "decoded": body.decoded, "before_offsets": before_offsets}
        return await answer_with_audit(request, installation, now_ms, reader, topic, "newest", wanted)
    return await answer_with_audit(request, installation, now_ms, reader, topic, "browse", parameters)


@router.post("/search")
async def search(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: SearchBody
) -> Response:
    """Search a bounded part of the records, and return where to go on."""
    parameters = body.model_dump(exclude_none=True)
    parameters["before_offsets"] = {number: int(offset) for number, offset in body.before_offsets.items()}
    if body.place is not None:
        parameters["place"] = {"partition": body.place.partition, "offset": int(body.place.offset)}
    return await answer_with_audit(request, installation, now_ms, reader, topic, "search", parameters)


@router.post("/record")
async def get_record(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: RecordBody
) -> Response:
    """Return one record in full."""
    return await answer_with_audit(request, installation, now_ms, reader, topic, "record", _describe_place(body))


@router.post("/why")
async def explain_record(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: RecordBody
) -> Response:
    """Return why there is a record at an offset, or none, with the versions of its key."""
    return await answer_with_audit(request, installation, now_ms, reader, topic, "why", _describe_place(body))


@router.post("/key")
async def find_key(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: KeyBody
) -> Response:
    """Return the versions of a key that are in the log, and which of them wins."""
    return await answer_with_audit(
        request, installation, now_ms, reader, topic, "key", body.model_dump(exclude_none=True)
    )


@router.post("/suite")
async def try_suite(
    request: Request, installation: InstallationDep, now_ms: NowDep, reader: ReaderDep, topic: str, body: SuiteBody
) -> Response:
    """Judge the newest records by a content suite, and return counts and offsets of what violates it."""
    return await answer_with_audit(request, installation, now_ms, reader, topic, "suite", body.model_dump())


def _describe_place(body: RecordBody) -> dict[str, Any]:
    return {"partition": body.partition, "offset": int(body.offset), "decoded": body.decoded}


async def answer_with_audit(
    request: Request,
    installation: ShownInstallation,
    now_ms: int,
    reader: str,
    topic: str,
    question: str,
    parameters: dict[str, Any],
) -> Response:
    """Read, write the audit entry, then answer; without the entry there is no answer."""
    # The reader process asks the topic's own configuration for its owner: what the store has of it may be older.
    asked = {**parameters, "topic": topic, "user": reader}
    found = await readers.ask(request, installation.settings, reader, question, asked)
    entry = AuditEntry(now_ms, reader, AuditAction.RECORDS_READ.value, topic=topic, origin="page", detail=found.seen)
    await run_in_threadpool(installation.store.audit.record, entry)
    return found.respond()
