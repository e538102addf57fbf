"""``winnow assess`` and ``winnow explain``: decisions without side effects on any log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from winnow.cli.failures import each_topic, finish
from winnow.cli.options import AsOf, Json, Topic, Topics, resolve_as_of
from winnow.cli.output import count, human_bytes, tell, write_json
from winnow.cli.reasons import because
from winnow.cli.tables import MOST_ROWS, heading, short_time, show
from winnow.cli.world import named_or_all, world
from winnow.clock import format_ms
from winnow.model import Assessment, Reason


def assess(topics: Topics = None, as_of: AsOf = None, as_json: Json = False) -> None:
    """Say why each topic partition would be compacted or not.

    The reason is the first that holds. Reads the table's manifests, no data file; starts no Spark. Past fifty
    partitions the most urgent ones are shown below a summary; --json has them all.

    Example: winnow assess orders --as-of 2026-01-31T18:00:00Z
    """
    with world() as ctx:
        from winnow.pipeline.assess import assess as assess_topics

        as_of_ms = resolve_as_of(ctx, as_of)
        outcome = each_topic(named_or_all(ctx, topics), lambda topic: assess_topics(ctx, [topic], as_of_ms=as_of_ms))
    found = [assessment for per_topic in outcome.results for assessment in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json([asdict(assessment) for assessment in found])
    elif found:
        _show(found, as_of_ms)
    finish(outcome.exit_code)


def urgency(assessment: Assessment) -> tuple[bool, bool, int, float, str, int]:
    """Sorts the most urgent first: eligible ones, by deadline (none comes last), then by dirty ratio."""
    deadline_ms = assessment.deadline_ms
    return (
        not assessment.eligible,
        deadline_ms is None,
        deadline_ms or 0,
        -assessment.dirty_ratio,
        assessment.topic,
        assessment.partition,
    )


def _show(found: Sequence[Assessment], as_of_ms: int) -> None:
    tell(f"As of {format_ms(as_of_ms)}")
    shown = found
    if len(found) > MOST_ROWS:
        _show_summary(found)
        shown = sorted(found, key=urgency)[:MOST_ROWS]
        heading(f"The {MOST_ROWS} most urgent of {count(len(found), 'partition')}; --json lists all")
    rows = [
        [
            f"{a.topic}-{a.partition}",
            _decision(a.reason, eligible=a.eligible),
            f"{a.dirty_ratio:.2f}",
            human_bytes(a.cleanable_bytes),
            f"{a.first_dirty_offset:,}",
            f"{a.first_uncleanable_offset:,}",
            f"{a.log_end_offset:,}",
            short_time(a.deadline_ms),
        ]
        for a in shown
    ]
    header = ["partition", "decision", "ratio", "cleanable", "first dirty", "uncleanable", "log end", "deadline"]
    show(header, rows, right=(2, 3, 4, 5, 6))
    _legend(a.reason for a in shown)
    eligible = list(dict.fromkeys(a.topic for a in found if a.eligible))
    if eligible:
        tell(f"Next: winnow compact {eligible[0] if len(eligible) == 1 else ''}".rstrip())
    else:
        tell("Nothing is eligible: winnow compact would leave everything as it is.")


def _decision(reason: Reason, *, eligible: bool) -> str:
    return f"{'eligible' if eligible else 'idle'}: {reason.value}"


def _legend(reasons: Iterable[Reason]) -> None:
    """What the reasons of a table mean, in the order in which they are looked at."""
    used = set(reasons)
    tell("\n".join(f"{reason.value}: {because(reason)}" for reason in Reason if reason in used))


def _show_summary(found: Sequence[Assessment]) -> None:
    rows = []
    for topic in dict.fromkeys(a.topic for a in found):
        mine = [a for a in found if a.topic == topic]
        deadlines = [a.deadline_ms for a in mine if a.deadline_ms is not None]
        rows.append(
            [
                topic,
                f"{len(mine):,}",
                f"{sum(a.eligible for a in mine):,}",
                f"{sum(a.max_compaction_delay_ms > 0 for a in mine):,}",
                human_bytes(sum(a.cleanable_bytes for a in mine if a.eligible)),
                human_bytes(sum(a.clean_bytes + a.cleanable_bytes for a in mine)),
                short_time(min(deadlines, default=None)),
            ]
        )
    header = [
        "topic",
        "partitions",
        "eligible",
        "overdue",
        "eligible and cleanable",
        "cleanable and clean",
        "first deadline",
    ]
    show(header, rows, right=(1, 2, 3, 4, 5))


def explain(topic: Topic, as_of: AsOf = None, as_json: Json = False) -> None:
    """Print what a compaction would read, write and remove.

    It is the real plan, from the manifests alone. Runs nothing and writes nothing.

    Example: winnow explain orders
    """
    with world() as ctx:
        from winnow.pipeline.explain import explain as explain_topic

        found = explain_topic(ctx, topic, as_of_ms=resolve_as_of(ctx, as_of))
    if as_json:
        write_json(asdict(found))
        return
    tell(f"{found.topic} as of {format_ms(found.as_of_ms)}, compaction.strategy={found.strategy}")
    parts = sorted(found.partitions, key=lambda p: (not p.eligible, p.partition))
    rows = [
        [
            f"{found.topic}-{p.partition}",
            _decision(p.reason, eligible=p.eligible),
            f"{p.segments:,}",
            f"{p.records:,}",
            human_bytes(p.bytes_to_read),
            f"{p.tombstones_in_expired_ranges:,}",
            f"{p.next_first_dirty_offset:,}" if p.eligible else "",
            "" if p.deadline_slack_ms is None else f"{p.deadline_slack_ms / 3_600_000:,.1f} h",
        ]
        for p in parts[:MOST_ROWS]
    ]
    header = ["partition", "decision", "segments", "records", "to read", "tombstones due", "clean up to", "slack"]
    show(header, rows, right=(2, 3, 4, 5, 6, 7))
    _legend(p.reason for p in parts[:MOST_ROWS])
    if len(parts) > len(rows):
        tell(f"{count(len(parts) - len(rows), 'more partition')}; --json lists all")
    if found.plan_id is None:
        tell(f"Nothing of {found.topic} is eligible; a compaction would do nothing.")
        return
    read = sum(p.bytes_to_read for p in parts)
    written = sum(p.at_most_bytes_to_write for p in parts)
    tell(
        f"Plan {found.plan_id} would read {human_bytes(read)} and write at most {human_bytes(written)}. "
        f"How many records are superseded shows only when keys are read.\nNext: winnow compact {found.topic}"
    )
