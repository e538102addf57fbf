"""Fills a metadata store with a thousand generated topics and thirty days of history.

python -m tests.support.generated_store STORE_URL [--topics N]

Everything follows from the seed and from the present that is given, so two stores of one seed and present are equal.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.support import generated_trends
from winnow.clock import read_wall_clock_ms
from winnow.config.topic import TopicConfig, list_entries
from winnow.store import bulk_statements, tables
from winnow.store.assessments import make_sort_key
from winnow.store.database import Database
from winnow.store.migration import migrate
from winnow.store.samples import SampleTable
from winnow.store.tables import Base
from winnow.values.counts import format_count
from winnow.values.documents import dump_json
from winnow.values.model import Reason, Severity, Status
from winnow.values.results import Failure, PartitionReceipt, Receipt, Verdict

SEED = 7
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
HISTORY_DAYS = 30
MB, GB = 1 << 20, 1 << 30

STATES = ("healthy", "due", "overdue", "uncleanable", "paused")
_WEIGHTS = (62, 22, 7, 5, 4)
_DOMAINS = (
    *("orders", "payments", "customers", "inventory", "shipping", "billing", "search", "clickstream", "identity"),
    *("fraud", "pricing", "catalog", "iot", "telemetry", "ledger", "notifications", "loyalty", "returns", "support"),
)
_THINGS = (
    *("created", "updated", "state", "profile", "address", "balance", "snapshot", "status", "settings", "consent"),
    *("positions", "readings", "sessions", "events", "prices", "stock", "invoices", "refunds", "devices", "tokens"),
)
_ENDINGS = ("", ".v2", "-eu", "-us", "_archive", ".v1", "-apac", "_cdc")
_EXPECTATIONS = (
    *("records_are_conserved", "keys_are_unique", "offsets_increase", "winners_agree", "tombstones_may_go"),
    *("content.amount_is_not_negative", "content.currency_is_known"),
)
_DIRTY = (Reason.DIRTY_RATIO, Reason.DIRTY_RATIO, Reason.DIRTY_RATIO, Reason.TOMBSTONES_EXPIRED)
_IDLE = (Reason.CLEAN, Reason.NOT_DIRTY_ENOUGH, Reason.NOT_DIRTY_ENOUGH, Reason.NO_CLOSED_SEGMENT)
_OWNERS = ("", "payments", "logistics", "growth", "platform", "data science")
_TAGS = ("gold", "pii", "cdc", "gdpr", "internal", "tier:1", "tier:2")
_SUMMED = ("records", "files", "clean_bytes", "cleanable_bytes")
_PEOPLE = ("airflow", "maria", "jonas", "priya", "on-call")
_FAILURES = (
    "Segment 00000000000004128734 is damaged: its footer cannot be read.",
    "keys_are_unique failed: 3 keys occur twice below the end offset.",
    "The rewrite was killed three times for its memory.",
)


@dataclass
class Rows:
    """What goes into the store, by table."""

    of: dict[type[Base], list[dict[str, object]]] = field(default_factory=dict)

    def add(self, model: type[Base], **row: object) -> None:
        """One more row."""
        self.of.setdefault(model, []).append(row)


@dataclass(frozen=True)
class Topic:
    """One topic as it is generated."""

    name: str
    state: str
    config: TopicConfig
    partitions: int
    now_ms: int
    rng: random.Random

    @property
    def partition_bytes(self) -> int:
        """A size typical for its partitions."""
        return int(self.rng.lognormvariate(5.5, 1.6) * MB)


def fill(
    url: str, *, now_ms: int, topics: int = 1_000, partitions: int = 10, runs: int = 6, seed: int = SEED
) -> list[str]:
    """Fill an empty store with ``topics``; their names, sorted.

    Args:
        url: the store's; it is created or upgraded.
        now_ms: the present, in which the history ends.
        topics: how many.
        partitions: of each topic.
        runs: of most topics, at most; every twentieth has one a day.
        seed: another one gives other topics.
    """
    rng = random.Random(seed)
    rows = Rows()
    names = _names(rng, topics)
    for number, name in enumerate(names):
        state = STATES[number] if number < len(STATES) else rng.choices(STATES, _WEIGHTS)[0]
        config = TopicConfig.parse(_overrides(rng, state))
        topic = Topic(name, state, config, partitions, now_ms, rng)
        _picture(rows, topic)
        overview = rows.of[tables.TopicOverviewTable][-1]
        _trends(rows, topic, overview, hourly=number % 20 == 0)
        _history(rows, topic, HISTORY_DAYS if number % 20 == 0 else rng.randint(1, runs))
    generated_trends.add_totals(rows.add, rows.of.get(SampleTable, []), now_ms)
    database = Database(url)
    try:
        migrate(database)
        with database.writing() as session:
            # A mark hangs on its checkpoint, so that must be there first.
            for model in sorted(rows.of, key=lambda each: each is not tables.Checkpoint):
                bulk_statements.insert(session, model, rows.of[model])
    finally:
        database.close()
    return sorted(names)


def _trends(rows: Rows, topic: Topic, overview: dict[str, object], *, hourly: bool) -> None:
    generated_trends.add_samples(rows.add, overview, topic.now_ms, hourly=hourly)
    generated_trends.add_health(rows.add, overview, topic.config.segment_bytes, topic.now_ms)
    lag_ms = topic.config.max_compaction_lag_ms
    if lag_ms <= HISTORY_DAYS * DAY_MS:
        is_late = topic.state == "overdue"
        generated_trends.add_deadlines(rows.add, topic.name, topic.partitions, lag_ms, topic.now_ms, overdue=is_late)


def _names(rng: random.Random, count: int) -> list[str]:
    every = [f"{domain}.{thing}{ending}" for ending in _ENDINGS for domain in _DOMAINS for thing in _THINGS]
    rng.shuffle(every)
    if count > len(every):
        every += [f"tenant-{number:05d}.{rng.choice(_THINGS)}" for number in range(count - len(every))]
    return every[:count]


def _overrides(rng: random.Random, state: str) -> dict[str, str]:
    """The configuration: what is overdue has a maximum lag, most others have none."""
    found: dict[str, str] = {}
    if state == "overdue" or rng.random() < 0.4:
        found["max.compaction.lag.ms"] = str(rng.choice((1, 3, 7, 14)) * DAY_MS)
    if rng.random() < 0.5:
        found["min.cleanable.dirty.ratio"] = rng.choice(("0.1", "0.2", "0.3", "0.7"))
    if rng.random() < 0.2:
        found["compaction.strategy"] = "timestamp"
    elif rng.random() < 0.05:
        found |= {"compaction.strategy": "header", "compaction.strategy.header": "version"}
    if state == "healthy" and rng.random() < 0.06:
        found |= {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)}
        found.pop("max.compaction.lag.ms", None)
    elif rng.random() < 0.1:
        found |= {"cleanup.policy": "compact,delete", "retention.ms": str(365 * DAY_MS)}
    if rng.random() < 0.1:
        found["segment.bytes"] = str(256 * MB)
    return found


def _state_of(topic: Topic, number: int) -> str:
    """The state of a partition: one at least has the topic's, the others are like the next ones or healthy."""
    rng = topic.rng
    if number == 0:
        return topic.state
    if topic.state == "healthy":
        return "healthy"
    if topic.state == "due":
        return rng.choice(("due", "due", "healthy"))
    if topic.state == "paused":
        return rng.choice(("paused", "healthy"))
    return rng.choice((topic.state, "due", "healthy", "healthy")) if rng.random() < 0.7 else "healthy"


def _picture(rows: Rows, topic: Topic) -> None:
    parts = [_partition(rows, topic, number) for number in range(topic.partitions)]
    largest = max(parts, key=lambda part: float(str(part["dirty_ratio"])))
    deadlines = [int(str(part["deadline_ms"])) for part in parts if part["deadline_ms"] is not None]
    reclaimable = [part["reclaimable_bytes"] for part in parts]
    rows.add(
        tables.TopicOverviewTable,
        topic=topic.name,
        as_of_ms=topic.now_ms - 4 * MINUTE_MS,
        recorded_at_ms=topic.now_ms - 4 * MINUTE_MS + topic.rng.randint(0, MINUTE_MS),
        partitions=topic.partitions,
        eligible=sum(bool(part["eligible"]) for part in parts),
        dirty_ratio=largest["dirty_ratio"],
        threshold=topic.config.min_cleanable_dirty_ratio,
        compacts=topic.config.compacts,
        policy=",".join(sorted(topic.config.cleanup_policy)),
        strategy=topic.config.compaction_strategy.value,
        deadline_ms=min(deadlines, default=None),
        size_bytes=sum(int(str(part["size_bytes"])) for part in parts),
        reclaimable_bytes=None if None in reclaimable else sum(int(str(each)) for each in reclaimable),
        retired_bytes=topic.rng.choice((0, 0, topic.partition_bytes)),
        configuration=json.dumps([_entry(topic.config, asdict(each)) for each in list_entries(topic.config)]),
        table_name=f"winnow.{topic.name}",
        location=f"s3://lake/warehouse/winnow/{topic.name}",
        sort_key=make_sort_key(topic.name),
        owner=topic.rng.choice(_OWNERS),
        tags=",".join(sorted(topic.rng.sample(_TAGS, topic.rng.randint(0, 3)))),
        **{name: sum(int(str(part[name])) for part in parts) for name in _SUMMED},
        end_offsets=sum(int(str(part["log_end_offset"])) for part in parts),
    )


def _entry(config: TopicConfig, entry: dict[str, Any]) -> dict[str, object]:
    return {**entry, "is_default": entry["name"] not in config.overrides}


def _partition(rows: Rows, topic: Topic, number: int) -> dict[str, object]:
    rng, now_ms, config = topic.rng, topic.now_ms, topic.config
    state = _state_of(topic, number)
    size_bytes = topic.partition_bytes
    start = rng.choice((0, 0, 0, rng.randint(1, 10**9)))
    clean, dirty, lag, active = (rng.randint(10**4, 10**7) for _ in range(4))
    ratio = rng.uniform(0.0, config.min_cleanable_dirty_ratio)
    reason = rng.choice(_IDLE)
    deadline_ms = None
    if config.max_compaction_lag_ms < 2**63 - 1:
        deadline_ms = now_ms + rng.randint(HOUR_MS, config.max_compaction_lag_ms)
    if state == "due" or (state == "overdue" and rng.random() < 0.9):
        ratio, reason = rng.uniform(config.min_cleanable_dirty_ratio, 1.0), rng.choice(_DIRTY)
    delay_ms = 0
    if state == "overdue":
        delay_ms = rng.randint(10 * MINUTE_MS, 3 * DAY_MS)
        deadline_ms, reason = now_ms - delay_ms, Reason.MAX_COMPACTION_LAG
    if state in {"uncleanable", "paused"}:
        reason = Reason(state)
    if not config.compacts:
        ratio, reason, deadline_ms = 0.0, Reason.POLICY_DELETE_ONLY, None
    elif reason is Reason.CLEAN:
        ratio = 0.0
    cleanable_bytes = int(size_bytes * 0.9 * ratio)
    lag = 0 if rng.random() < 0.7 else lag
    first_dirty = start + clean
    first_uncleanable = first_dirty + (dirty if cleanable_bytes else 0)
    active_offset = first_uncleanable + lag
    _checkpoint(rows, topic, number, (start, first_dirty, active_offset + active), state)
    part: dict[str, object] = {
        "topic": topic.name,
        "partition": number,
        "eligible": state in {"due", "overdue"},
        "reason": reason.value,
        "log_start_offset": start,
        "first_dirty_offset": first_dirty,
        "first_uncleanable_offset": first_uncleanable,
        "active_offset": active_offset,
        "log_end_offset": active_offset + active,
        "dirty_ratio": ratio,
        "clean_bytes": int(size_bytes * 0.9) - cleanable_bytes,
        "cleanable_bytes": cleanable_bytes,
        "size_bytes": size_bytes,
        "max_compaction_delay_ms": delay_ms,
        "deadline_ms": deadline_ms,
        "reclaimable_bytes": int(cleanable_bytes * rng.uniform(0.3, 0.95)) if rng.random() < 0.995 else None,
        "records": size_bytes // 140,
        "files": 1 + size_bytes // config.segment_bytes,
    }
    rows.add(tables.PartitionOverviewTable, **part)
    return part


def _checkpoint(rows: Rows, topic: Topic, number: int, log: tuple[int, int, int], state: str) -> None:
    rng, now_ms = topic.rng, topic.now_ms
    of = {"topic": topic.name, "partition": number}
    start, first_dirty, end = log
    rows.add(
        tables.Checkpoint,
        **of,
        first_dirty_offset=first_dirty,
        log_start_offset=start,
        log_end_offset=end,
        strategy=topic.config.compaction_strategy.value,
        updated_at_ms=now_ms - rng.randint(HOUR_MS, 5 * DAY_MS),
    )
    since_ms = now_ms - rng.randint(HOUR_MS, 9 * DAY_MS)
    if state == "uncleanable":
        attempts = rng.randint(1, 9)
        reason = rng.choice(_FAILURES)
        rows.add(
            tables.UncleanableTable,
            **of,
            reason=reason,
            since_ms=since_ms,
            plan_id=f"{rng.getrandbits(128):032x}",
            attempts=attempts,
            next_attempt_ms=now_ms + rng.randint(MINUTE_MS, DAY_MS),
        )
        rows.add(
            tables.AlertTable,
            key=f"uncleanable_partition:{topic.name}-{number}",
            sent_at_ms=since_ms,
            kind="uncleanable_partition",
            topic=topic.name,
            partition=number,
            message=f"Topic {topic.name} was not compacted: {topic.name}-{number}: {reason} Nothing was published.",
        )
    elif state == "paused":
        rows.add(tables.Paused, **of, since_ms=since_ms)
        for place, name in enumerate(rng.sample(_PEOPLE, rng.randint(1, 2))):
            rows.add(tables.PausedBy, **of, number=place, name=name)
    elif state == "overdue" and number == 0:
        rows.add(
            tables.AlertTable,
            key=f"deadline_missed:{topic.name}",
            sent_at_ms=now_ms - rng.randint(MINUTE_MS, DAY_MS),
            kind="deadline_missed",
            topic=topic.name,
            partition=None,
            message=f"Topic {topic.name} missed its compaction deadline.",
        )


def _history(rows: Rows, topic: Topic, count: int) -> None:
    rng = topic.rng
    offsets = sorted(rng.randint(HOUR_MS, HISTORY_DAYS * DAY_MS) for _ in range(count))
    first = 0
    for number, ago_ms in enumerate(reversed(offsets)):
        status = rng.choices(("published", "invalid", "broken", "refused", "void"), (92, 4, 1, 2, 1))[0]
        if number == count - 1 and topic.state == "uncleanable":
            status = "invalid"
        first = _run(rows, topic, status, topic.now_ms - ago_ms, first)


def _run(rows: Rows, topic: Topic, status: str, at_ms: int, first: int) -> int:
    rng = topic.rng
    plan_id, attempt = f"{rng.getrandbits(128):032x}", f"a-{rng.getrandbits(48):012x}-1"
    snapshot_id = rng.getrandbits(62) if status == "published" else None
    scheduled = rng.random() < 0.9
    run_id = f"scheduled__{at_ms // HOUR_MS * HOUR_MS}" if scheduled else f"manual__{at_ms}"
    finished_ms = at_ms + rng.randint(20_000, 30 * MINUTE_MS)
    parts = tuple(_receipt_of(rng, number, first) for number in range(topic.partitions))
    receipt = Receipt(
        topic=topic.name,
        plan_id=plan_id,
        status=Status.PUBLISHED,
        snapshot_id=snapshot_id,
        partitions=parts,
        message=_message(topic.name, status, parts),
        as_of_ms=at_ms,
        finished_at_ms=finished_ms,
        attempt=attempt,
        data_docs=f"file:///srv/winnow/data_docs/site/validations/winnow_structural/{plan_id}/page.html",
    )
    rows.add(
        tables.RunTable,
        plan_id=plan_id,
        topic=topic.name,
        attempt=attempt,
        status=status,
        as_of_ms=at_ms,
        plan_uri=f"s3://lake/staging/{plan_id}/plan.json",
        opened_at_ms=at_ms,
        updated_at_ms=finished_ms,
        message=receipt.message,
        snapshot_id=snapshot_id,
        holder=f"airflow:compact_topics:{run_id}" if rng.random() < 0.97 else "worker-3:4711:0badcafe",
    )
    if status == "published":
        rows.add(
            tables.ReceiptTable,
            plan_id=plan_id,
            topic=topic.name,
            status=status,
            snapshot_id=snapshot_id,
            finished_at_ms=finished_ms,
            document=dump_json(receipt).decode(),
        )
        generated_trends.add_figures(rows.add, receipt)
        first += parts[0].next_first_dirty_offset - first
    if status in {"published", "invalid", "broken"}:
        _verdict(rows, receipt, status, rng)
    return first


def _message(topic: str, status: str, parts: tuple[PartitionReceipt, ...]) -> str:
    if status == "published":
        kept, read = sum(part.records_kept for part in parts), sum(part.records_in for part in parts)
        return f"Compacted {format_count(len(parts), 'partition')} of {topic}: kept {kept} of {read} records."
    return {
        "invalid": f"{topic} was not published: validation failed. Readers see the log as before.",
        "broken": f"{topic} was not published: a check could not be carried out.",
        "refused": f"The log of {topic}-0 is no longer what the plan was made for; nothing was published.",
        "void": "The run ended before it published anything; its plan is void and readers saw no change.",
    }[status]


def _receipt_of(rng: random.Random, number: int, first: int) -> PartitionReceipt:
    records = rng.randint(10_000, 4_000_000)
    kept = int(records * rng.uniform(0.05, 0.6))
    expired = rng.choice((0, 0, rng.randint(1, max(1, kept // 20))))
    keyless = rng.choice((0,) * 9 + (rng.randint(1, 50),))
    bytes_in = records * rng.randint(90, 260)
    bytes_out = bytes_in * kept // records
    return PartitionReceipt(
        partition=number,
        first_dirty_offset=first,
        next_first_dirty_offset=first + records,
        records_in=records,
        records_kept=kept,
        records_superseded=records - kept - expired - keyless,
        tombstones_expired=expired,
        records_keyless=keyless,
        records_retired=0,
        bytes_in=bytes_in,
        bytes_out=bytes_out,
        log_start_offset=0,
        reason=Reason.DIRTY_RATIO,
        expected_records_kept=int(kept * rng.uniform(0.8, 1.25)) if first else None,
        expected_bytes_out=int(bytes_out * rng.uniform(0.8, 1.25)) if first else None,
        seconds=round(records / rng.uniform(200_000, 900_000), 3),
    )


def _verdict(rows: Rows, receipt: Receipt, status: str, rng: random.Random) -> None:
    assert receipt.plan_id is not None
    assert receipt.attempt is not None
    failures = tuple(_failures(rng, status))
    verdict = Verdict(
        plan_id=receipt.plan_id,
        topic=receipt.topic,
        attempt=receipt.attempt,
        passed=status == "published",
        broken=status == "broken",
        failures=failures,
        checked_at_ms=receipt.finished_at_ms - 5_000,
        data_docs=receipt.data_docs,
        expectations=len(_EXPECTATIONS),
    )
    rows.add(
        tables.VerdictTable,
        plan_id=verdict.plan_id,
        attempt=verdict.attempt,
        topic=verdict.topic,
        passed=verdict.passed,
        broken=verdict.broken,
        checked_at_ms=verdict.checked_at_ms,
        document=dump_json(verdict).decode(),
    )


def _failures(rng: random.Random, status: str) -> Iterator[Failure]:
    if status == "invalid":
        found = Failure(rng.randrange(10), rng.choice(_EXPECTATIONS), Severity.FAIL, f"{rng.randint(1, 99)} records")
        yield found
        if rng.random() < 0.3:
            yield replace(found, expectation=rng.choice(_EXPECTATIONS))
    elif status == "published" and rng.random() < 0.03:
        yield Failure(None, rng.choice(_EXPECTATIONS[-2:]), Severity.WARN, f"{rng.randint(1, 9)} records")


def main() -> None:
    """Fill the store that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store_url")
    parser.add_argument("--topics", type=int, default=1_000)
    given = parser.parse_args()
    names = fill(given.store_url, now_ms=read_wall_clock_ms(), topics=given.topics)
    print(f"{len(names)} topics, {names[0]} to {names[-1]}.")


if __name__ == "__main__":
    main()
