"""Values that tasks pass to each other by XCom: names, ids and addresses, never records or plans."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from winnow.errors import UsageError
from winnow.values.model import AIRFLOW_HOLDER

if TYPE_CHECKING:
    from winnow.planning.plans import PlanReference

MAXIMUM_MAPPED_TASKS = 200
"""Maximum mapped tasks of one kind in one run; Airflow's limit is 1,024, but its scheduler slows down far below it."""


MAXIMUM_FAILED_TASKS = 20
"""Maximum of these tasks that only report why topics could not be planned; further topics share them."""

INGEST_TASKS = 8
"""Mapped tasks of one run of ``ingest_topics``; entries share them. Starting one costs as much as ten small entries."""

MAXIMUM_INGEST_ENTRIES = 25
"""Maximum entries that share a task, so that a retry passes over few of them; more entries get more tasks."""

TOPIC_PATTERN = r"^[a-zA-Z0-9._-]{1,249}$"
"""Kafka's rule for topic names."""

MAXIMUM_REASON_CHARACTERS = 100
"""Maximum characters of a pause's name, or of the reason for a release."""

T = TypeVar("T")


class PlanRow(TypedDict):
    """Reference to a plan: topic, id, address, digest, and how much it reads."""

    topic: str
    plan_id: str
    uri: str
    partitions: int
    size_bytes: int
    deadline_ms: int | None
    sha256: NotRequired[str | None]


def build_plan_row(plan: PlanReference) -> PlanRow:
    """Build the row that passes ``plan`` between tasks."""
    return PlanRow(
        topic=plan.topic,
        plan_id=plan.plan_id,
        uri=plan.uri,
        partitions=plan.partitions,
        size_bytes=plan.size_bytes,
        deadline_ms=plan.deadline_ms,
        sha256=plan.sha256,
    )


def read_plan_row(row: PlanRow) -> PlanReference:
    """Return the reference that ``row`` passes between tasks."""
    from winnow.planning.plans import PlanReference

    return PlanReference(**row)


class BatchRow(TypedDict):
    """Work of one Spark application. ``error``: why a topic could not be planned, for its task to report."""

    label: str
    attempt: str
    plans: list[PlanRow]
    error: NotRequired[str | None]


class TopicCheck(TypedDict):
    """Result of a topic's check: whether it is eligible, and the number of partitions per reason.

    ``would``: in a dry run, what compacting it would read, write and remove.
    """

    topic: str
    eligible: bool
    reasons: dict[str, int]
    would: str | None


class IngestRow(TypedDict):
    """Files for one topic, in offset order; one commit.

    ``source_topic``: for files with several topics, the one whose records are ingested.
    """

    topic: str
    paths: list[str]
    source_topic: NotRequired[str]


class ChangeRow(TypedDict):
    """A change by ``change_partitions``: action, partitions (none: all), and its name or reason."""

    action: str
    topic: str
    partitions: list[int]
    reason: str


def build_ingest_rows(params: Mapping[str, Any]) -> list[IngestRow]:
    """Build the ingest entries from the Params of ``ingest_topics``: ``topic`` with ``paths``, and ``files``.

    Raises:
        UsageError: a topic without paths, paths without a topic, or neither; a source topic without both.
    """
    rows = [_build_ingest_row(entry) for entry in params["files"]]
    if params["topic"] or params["paths"]:
        rows.insert(0, _build_ingest_row(params))
    if not rows or any(not row["topic"] or not row["paths"] for row in rows):
        raise UsageError(
            "Nothing was ingested: an entry needs a topic and at least one path.",
            next="Give the Params topic and paths, or files with both in every entry.",
        )
    if params.get("source_topic") and not params["topic"]:
        raise UsageError(
            "Nothing was ingested: the Param source_topic is about topic and paths, which are empty. In files, give it "
            "in the entries that it is about."
        )
    return rows


def _build_ingest_row(entry: Mapping[str, Any]) -> IngestRow:
    row = IngestRow(topic=entry["topic"] or "", paths=list(entry["paths"]))
    if entry.get("source_topic"):
        row["source_topic"] = entry["source_topic"]
    return row


def share_ingest_rows(rows: Sequence[IngestRow]) -> list[list[IngestRow]]:
    """Share entries evenly among few mapped tasks. All entries of one topic go to one task, in the order given."""
    by_topic: dict[str, list[IngestRow]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).append(row)
    most = min(MAXIMUM_MAPPED_TASKS, max(INGEST_TASKS, -(-len(rows) // MAXIMUM_INGEST_ENTRIES)))
    return [[row for topic in share for row in by_topic[topic]] for share in split_evenly(list(by_topic), most)]


def build_holder_name(context: Mapping[str, Any]) -> str:
    """Build the name under which a DAG run holds its topics; all its tasks and their retries share it."""
    return f"{AIRFLOW_HOLDER}{context['dag_run'].dag_id}:{context['dag_run'].run_id}"


def create_attempt_name() -> str:
    """Create a name for the attempts at a batch; each try of its Spark task appends its number."""
    return f"a-{uuid.uuid4().hex[:12]}"


def build_label(topics: Sequence[str]) -> str:
    """Build the label of a mapped task: its topic, or the first, the last and the number of its topics."""
    if len(topics) <= 1:
        return "".join(topics)
    return f"{topics[0]} … {topics[-1]} ({len(topics)} topics)"


def split_evenly(topics: Sequence[T], most: int = MAXIMUM_MAPPED_TASKS) -> list[list[T]]:
    """Split ``topics`` over at most ``most`` mapped tasks, evenly and in order; one topic each if possible."""
    count = min(len(topics), most)
    cuts = [number * len(topics) // count for number in range(count + 1)] if count else []
    return [list(topics[start:end]) for start, end in pairwise(cuts)]


def list_staged_attempts(plan_uri: str, base: str) -> Iterator[str]:
    """Yield the attempts of ``base`` at a plan that left a staging manifest, the newest first."""
    from winnow.files import storage

    folder = plan_uri.rsplit("/", 1)[0]
    ending = re.compile(rf"/{re.escape(base)}-([0-9]+)/manifest\.json$")
    found = [int(match[1]) for entry in storage.list_files(folder) if (match := ending.search(entry.uri))]
    for number in sorted(found, reverse=True):
        yield f"{base}-{number}"
