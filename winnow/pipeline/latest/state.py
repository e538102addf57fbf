"""The latest state of a topic as a compaction of everything: its order and plan, and what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from winnow.engine.damage import explain_failure
from winnow.engine.latest_records import build_latest_plan
from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import ConfigurationError, DamagedSegmentError, RunAgainError
from winnow.log.topic_log import TopicLog
from winnow.planning.cleanable import PartitionLog, Rules, find_first_dirty_offset
from winnow.values.model import PartitionPlan, Segment
from winnow.values.strategies import Strategy


def get_present_order(rules: Rules) -> RecordOrder:
    """Return the total order of the topic's present strategy."""
    return RecordOrder(rules.strategy, rules.strategy_header if rules.strategy is Strategy.HEADER else None)


def build_partition_plan(log: PartitionLog) -> PartitionPlan:
    """Build the plan of a compaction of every readable record of one partition, in which no tombstone stays."""
    state = log.state
    return build_latest_plan(
        log.partition, state.log_start_offset, find_first_dirty_offset(state), state.log_end_offset, log.segments
    )


@contextmanager
def explain_scan_errors(topic_log: TopicLog, log: PartitionLog) -> Iterator[None]:
    """Turn the error of a scan of one partition into one that names the cause, without any of the records' bytes.

    Raises:
        RunAgainError: a segment was swept meanwhile.
        ConfigurationError: as it was raised.
        WinnowError: see :func:`winnow.engine.damage.explain_failure`.
    """
    try:
        yield
    except ConfigurationError:
        raise  # says itself what to change
    except Exception as problem:
        found = explain_failure(problem, log.topic, build_partition_plan(log))
        name = f"{log.topic}-{log.partition}"
        if isinstance(found, DamagedSegmentError | FileNotFoundError):
            live = topic_log.segments(topic_log.head()).get(log.partition, ())
            if not set(log.segments) <= set(live):
                raise RunAgainError(
                    f"A segment of {name} was swept while it was being read, so what was written is incomplete.",
                    next="Run it again: it reads the newest snapshot. If that repeats, raise winnow.retired.grace.ms.",
                ) from None
        raise type(found)(
            f"{name} could not be read: {str(found).rstrip('.')}. What was written so far is incomplete; nothing was "
            f"changed. What of the topic is damaged: winnow scrub {log.topic}"
        ) from None


@contextmanager
def explain_table_damage(topic: str, rows: Sequence[Segment]) -> Iterator[None]:
    """Say of an error about one of the table's files ``rows`` that the log is not concerned.

    Raises:
        DamagedSegmentError: with what to do.
    """
    try:
        yield
    except DamagedSegmentError as problem:
        damaged = next((segment.path for segment in rows if segment.path in str(problem)), None)
        if damaged is None:
            raise
        raise DamagedSegmentError(
            f"A file of the table of the latest state of topic {topic} is missing, or not what was written: {damaged}.",
            left="The log is not concerned.",
            next=(
                f"Drop the table and have it written anew: winnow latest-table drop {topic}, then winnow latest-table "
                f"update {topic}"
            ),
        ) from problem
