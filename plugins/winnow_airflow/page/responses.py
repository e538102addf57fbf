"""Response models of the page's API: times in ms since the epoch, sizes in bytes, offsets and snapshot ids as text.

Text, because JavaScript numbers cannot hold 64-bit integers exactly.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A response, or a part of one."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Rights(Document):
    """DAGs that the user may trigger: ``compact_topics``, ``change_partitions``."""

    compact: bool
    change: bool


class Me(Document):
    """The user and their rights."""

    user: str
    now_ms: int
    can: Rights


class States(Document):
    """Number of items per state."""

    healthy: int
    due: int
    overdue: int
    uncleanable: int
    paused: int


class LastRun(Document):
    """The latest run of a topic."""

    plan_id: str
    status: str
    updated_at_ms: int


class TopicRow(Document):
    """A topic in a list. ``reclaimable_bytes`` None: no earlier run to estimate from."""

    topic: str
    state: str
    partitions: int
    partition_states: States
    dirty_ratio: float
    threshold: float
    compacts: bool
    policy: str
    strategy: str
    deadline_ms: int | None
    size_bytes: int
    reclaimable_bytes: int | None
    retired_bytes: int
    assessed_at_ms: int
    as_of_ms: int
    last_run: LastRun | None
    last_published_ms: int | None


class TopicPage(Document):
    """A page of topics. ``counts``: all topics that match the search, regardless of the state filter."""

    now_ms: int
    total: int
    page: int
    size: int
    counts: States
    topics: list[TopicRow]


class Table(Document):
    """The topic's Iceberg table."""

    name: str
    location: str


class ConfigurationRow(Document):
    """One topic key: its value, its source, and its effect."""

    name: str
    value: str
    source: str
    is_default: bool
    sentence: str


class Scrubbed(Document):
    """Newest and oldest check of a topic's files; a check reads a file in full. ``findings``: open ones."""

    files: int
    last_checked_ms: int
    oldest_checked_ms: int
    findings: int


class TopicDetail(TopicRow):
    """A topic with everything except its partitions. ``scrub`` None: no file of it was ever checked."""

    table: Table
    configuration: list[ConfigurationRow]
    failing_expectations_7d: int
    scrub: Scrubbed | None


class Pause(Document):
    """Start and names of a pause."""

    since_ms: int
    by: list[str]


class Mark(Document):
    """Reason and time of an uncleanable mark."""

    reason: str
    since_ms: int
    attempts: int
    next_attempt_ms: int | None
    plan_id: str | None


class PartitionRow(Document):
    """A partition. Its log in order: log start, first dirty, first uncleanable and active offset, log end."""

    partition: int
    state: str
    eligible: bool
    reason: str
    reason_text: str
    log_start_offset: str
    first_dirty_offset: str
    first_uncleanable_offset: str
    active_offset: str | None
    log_end_offset: str
    dirty_ratio: float
    threshold: float
    clean_bytes: int
    cleanable_bytes: int
    size_bytes: int
    reclaimable_bytes: int | None
    deadline_ms: int | None
    max_compaction_delay_ms: int
    paused: Pause | None
    uncleanable: Mark | None


class PartitionPage(Document):
    """A page of a topic's partitions."""

    now_ms: int
    total: int
    page: int
    size: int
    partitions: list[PartitionRow]


class DagRun(Document):
    """The DAG run that planned a run."""

    dag_id: str
    run_id: str


class Totals(Document):
    """A receipt, summed over its partitions."""

    records_in: int
    records_kept: int
    records_superseded: int
    tombstones_expired: int
    records_keyless: int
    records_retired: int
    bytes_in: int
    bytes_out: int
    bytes_retired: int
    seconds: float


class RunRow(Document):
    """A run in a list. ``totals`` None: it published nothing."""

    plan_id: str
    topic: str
    status: str
    attempt: str
    as_of_ms: int
    opened_at_ms: int
    updated_at_ms: int
    message: str
    dag_run: DagRun | None
    holder: str | None
    snapshot_id: str | None
    totals: Totals | None


class RunPage(Document):
    """A page of runs."""

    total: int
    page: int
    size: int
    runs: list[RunRow]


class ReceiptPartition(Document):
    """What a run did to one partition. ``balanced``: in = kept + superseded + expired + keyless.

    ``expected_*`` None: the plan has no estimate. ``seconds`` None: the receipt is older than this measurement. Figures
    without a field here are added by name (:class:`winnow.results.RunFigures`), for example ``headers_missing``.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, int]

    partition: int
    reason: str | None
    first_dirty_offset: str
    next_first_dirty_offset: str
    records_in: int
    records_kept: int
    records_superseded: int
    tombstones_expired: int
    records_keyless: int
    records_retired: int
    balanced: bool
    bytes_in: int
    bytes_out: int
    bytes_retired: int
    expected_records_kept: int | None
    expected_bytes_out: int | None
    seconds: float | None


class FailureRow(Document):
    """A failed expectation. ``partition`` None: the topic as a whole."""

    expectation: str
    severity: str
    partition: int | None
    detail: str


class VerdictRow(Document):
    """The validation result of one attempt. ``data_docs``: a path below ``data-docs/``."""

    plan_id: str
    attempt: str
    topic: str
    passed: bool
    broken: bool
    checked_at_ms: int
    expectations: int
    data_docs: str | None
    failures: list[FailureRow]


class RunDetail(RunRow):
    """A run with its receipt and its verdicts."""

    data_docs: str | None
    finished_at_ms: int | None
    table: Table | None
    receipt_partitions: list[ReceiptPartition]
    verdicts: list[VerdictRow]


class VerdictPage(Document):
    """A page of verdicts."""

    total: int
    page: int
    size: int
    verdicts: list[VerdictRow]


class Day(Document):
    """Verdicts of one day in UTC."""

    day_ms: int
    verdicts: int
    failed: int
    broken: int


class FailingExpectation(Document):
    """How often an expectation failed; ``by_day`` has one entry per day of the series."""

    expectation: str
    failures: int
    topics: int
    last_ms: int
    by_day: list[int]


class Quality(Document):
    """Verdicts and failing expectations of the last days."""

    now_ms: int
    days: int
    series: list[Day]
    expectations: list[FailingExpectation]


class UncleanableRow(Mark):
    """An uncleanable partition."""

    topic: str
    partition: int


class UncleanablePage(Document):
    """A page of uncleanable partitions."""

    total: int
    page: int
    size: int
    partitions: list[UncleanableRow]


class AlertRow(Document):
    """An alert that has not recovered."""

    kind: str
    topic: str
    partition: int | None
    since_ms: int
    message: str | None


class AlertPage(Document):
    """A page of open alerts."""

    total: int
    page: int
    size: int
    alerts: list[AlertRow]
