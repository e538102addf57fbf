"""Steps of the DAG change_topics: create a topic, change or accept its configuration, delete records, undo.

Each is one commit and may run again: what is as wanted already is left alone, and said.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from winnow.errors import ConfigurationError, UsageError, join_first
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.monitor.watermark import Watermark
    from winnow.pipeline.topics.definition import TopicDescription
    from winnow.pipeline.topics.second_person import ChangeApproval, ShownChange
    from winnow.pipeline.undo.undo import UndoReport

log = logging.getLogger("airflow.task")

CREATE, ALTER, ADD_PARTITIONS, UNDO_INGEST = "create", "alter", "add_partitions", "undo_ingest"
ACCEPT_KAFKA_CONFIG, UNDO, DELETE_RECORDS = "accept_kafka_config", "undo", "delete_records"
ACTIONS = (ALTER, CREATE, ADD_PARTITIONS, UNDO_INGEST, ACCEPT_KAFKA_CONFIG, UNDO, DELETE_RECORDS)
MAXIMUM_PARTITIONS_NAMED = 5


class TopicChange(TypedDict):
    """The Params of ``change_topics``.

    ``config``: keys to set. ``reset``: keys to set back to their defaults. ``expected``: the values that somebody saw
    who decided on the change, None for a key that was not set; empty: whatever they are. ``change_id``: what is undone,
    in ``only_partitions`` (none: all of it), with what came after it if ``and_later``. ``before_offsets``: the new log
    start by partition.
    """

    action: str
    topic: str
    config: dict[str, str]
    reset: list[str]
    expected: dict[str, str | None]
    partitions: int | None
    ingest_id: str | None
    change_id: str | None
    only_partitions: list[int]
    and_later: bool
    before_offsets: dict[str, int]
    reason: str


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """What a change did, in sentences. ``undone``: readers have to learn that records came back, up to which mark."""

    text: str
    undone: tuple[UndoReport, Watermark] | None = None


def find_shown_change(installation: Installation, change: TopicChange) -> ShownChange | None:
    """Find what the second person has to be shown; None: the change takes nobody else, or was made already.

    Raises:
        UsageError, ConfigurationError: as :func:`change_topic`.
    """
    from winnow.pipeline.admin.delete_records import show_deletion
    from winnow.pipeline.ingest.kafka.configuration import show_held
    from winnow.pipeline.topics.definition import preview_config
    from winnow.pipeline.topics.second_person import takes_second_person

    topic, action = change["topic"], change["action"]
    if action == ALTER:
        config, reset, present = _read_alteration(installation, change)
        if _is_as_wanted(config, reset, present):
            return None
        _require_expected(topic, present, change["expected"])
        shown = preview_config(installation, topic, config, [key for key in reset if key in present]).shown
    elif action == ACCEPT_KAFKA_CONFIG and _waits(installation, topic):
        shown = show_held(installation, topic)
    elif action == DELETE_RECORDS:
        shown = show_deletion(installation, topic, _read_offsets(change))
    else:
        return None
    return shown if takes_second_person(installation, shown) else None


def change_topic(
    installation: Installation,
    change: TopicChange,
    *,
    is_first_try: bool = True,
    approval: ChangeApproval | None = None,
) -> TopicChanged:
    """Carry out ``change`` in one commit; return what was done, with what it will remove. Repeating it has no effect.

    ``approval``: by the second person, where the change takes one.

    A second try that finds its undo made tells readers of it, since Airflow sends no event from a task that was killed.

    Raises:
        UsageError: a Param is missing, there is no such action, or the configuration is not the expected one.
        ConfigurationError: a key or value is not valid. Nothing was changed.
        WinnowError: as the step's own function says; nothing was changed.
    """
    from winnow.config.units import convert_units

    change = {**change, "config": convert_units(change["config"])}
    steps = {CREATE: _create_topic, ADD_PARTITIONS: _add_partitions, UNDO_INGEST: _undo_ingest}
    grave = {ALTER: _alter_configuration, ACCEPT_KAFKA_CONFIG: _accept_kafka_config, DELETE_RECORDS: _delete_records}
    step = steps.get(change["action"])
    if change["action"] == UNDO:
        done = _undo_change(installation, change, is_first_try=is_first_try)
    elif change["action"] in grave:
        done = TopicChanged(grave[change["action"]](installation, change, approval))
    elif step is not None:
        done = TopicChanged(step(installation, change))
    else:
        raise UsageError(
            f"There is no action {change['action']}.",
            left="Nothing was changed.",
            next=f"Choose {', '.join(ACTIONS)}.",
        )
    log.info("%s", done.text)
    return done


def _create_topic(installation: Installation, change: TopicChange) -> str:
    from winnow.pipeline.topics.definition import create_topic

    topic, partitions = change["topic"], _require_partitions(change)
    if topic in installation.log.names():
        # A run that was stopped after its commit is started again.
        if (
            installation.log.open(topic).partitions() == partitions
            and _read_overrides(installation, topic) == change["config"]
        ):
            return (
                f"Nothing was changed: {topic} exists with {format_count(partitions, 'partition')} and this "
                "configuration."
            )
        raise ConfigurationError(
            f"Nothing was changed: {topic} exists, with other partitions or another configuration."
        )
    made = create_topic(installation, topic, partitions, change["config"])
    return _join(f"Created {topic} with {format_count(partitions, 'partition')}.", made.notices)


def _read_alteration(
    installation: Installation, change: TopicChange
) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """Read the keys to set, those to reset, and what the topic sets."""
    from winnow.config.units import convert_units

    topic, config, reset = change["topic"], convert_units(change["config"]), change["reset"]
    if not config and not reset:
        raise UsageError(f"Nothing of {topic} was changed: name keys to set in config, or to reset.")
    return config, reset, _read_overrides(installation, topic)


def _is_as_wanted(config: Mapping[str, str], reset: Sequence[str], present: Mapping[str, str]) -> bool:
    return all(present.get(key) == value for key, value in config.items()) and not set(reset) & set(present)


def _alter_configuration(installation: Installation, change: TopicChange, approval: ChangeApproval | None) -> str:
    from winnow.pipeline.topics.definition import alter_topic

    topic = change["topic"]
    config, reset, present = _read_alteration(installation, change)
    if _is_as_wanted(config, reset, present):
        return f"Nothing was changed: {topic} has this configuration already."
    _require_expected(topic, present, change["expected"])
    done = alter_topic(installation, topic, config, [key for key in reset if key in present], approval=approval)
    names = ", ".join(sorted({*config, *reset}))
    return _join(f"Changed {names} of {topic}.", done.notices)


def _require_expected(topic: str, present: Mapping[str, str], expected: Mapping[str, str | None]) -> None:
    others = sorted(key for key, value in expected.items() if present.get(key) != value)
    if others:
        raise UsageError(
            f"Nothing of {topic} was changed: {', '.join(others)} got another value since you looked.",
            next="Open the configuration again and decide anew.",
        )


def _add_partitions(installation: Installation, change: TopicChange) -> str:
    from winnow.pipeline.topics.definition import alter_topic

    topic, partitions = change["topic"], _require_partitions(change)
    if installation.log.open(topic).partitions() == partitions:
        return f"Nothing was changed: {topic} has {format_count(partitions, 'partition')} already."
    done: TopicDescription = alter_topic(installation, topic, {}, [], partitions=partitions)
    return _join(f"{topic} has {partitions:,} partitions now.", done.notices)


def _undo_ingest(installation: Installation, change: TopicChange) -> str:
    from winnow.pipeline.ingest.undo import undo_ingest

    topic, ingest_id = change["topic"], change["ingest_id"]
    if not ingest_id:
        raise UsageError(f"Nothing of {topic} was changed: name the ingest call in ingest_id.")
    report = undo_ingest(installation, topic, ingest_id)
    if report.was_undone:
        return f"Nothing was changed: the ingest call {ingest_id} of {topic} is undone already."
    return (
        f"Undone: the ingest call {ingest_id} of {topic}. {report.records_removed:,} records left the log, and the "
        "same files can be ingested again."
    )


def _undo_change(installation: Installation, change: TopicChange, *, is_first_try: bool) -> TopicChanged:
    from winnow.pipeline.monitor.watermark import compute_watermark, name_latest_table
    from winnow.pipeline.undo.undo import undo_change

    topic, change_id = change["topic"], change["change_id"]
    if not change_id:
        raise UsageError(f"Nothing of {topic} was changed: name the run or the deletion of records in change_id.")
    report = undo_change(
        installation, topic, change_id, change["only_partitions"] or None, takes_later=change["and_later"]
    )
    text = (
        f"Nothing was changed: {change_id} of {topic} is undone already." if report.was_undone else _tell_undo(report)
    )
    if report.was_undone and is_first_try:
        return TopicChanged(text)
    mark = compute_watermark(installation.log.open(topic), now_ms=installation.now_ms())
    return TopicChanged(text, (report, name_latest_table(installation, mark, report.snapshot_id or mark.snapshot_id)))


def _tell_undo(report: UndoReport) -> str:
    undone = dict.fromkeys(change_id for part in report.partitions for change_id in part.undone)
    records = sum(part.records_restored for part in report.partitions)
    files = sum(part.files_restored for part in report.partitions)
    # Deleted records that no run had taken yet never left their files: there the log start is what changed.
    starts = [f"{report.topic}-{part.partition} begins at {part.log_start_offset:,}" for part in report.partitions]
    named = join_first(starts, MAXIMUM_PARTITIONS_NAMED, ", ", last=" and ")
    return (
        f"Undone: {', '.join(undone)} in {format_count(len(report.partitions), 'partition')}. "
        f"{format_count(records, 'record')} in {format_count(files, 'file')} came back into the log: {named}. These "
        f"partitions are paused, so that the next run does not do the same again. To go on: {report.resume}"
    )


def _waits(installation: Installation, topic: str) -> bool:
    from winnow.log.recorded_configuration import read_kafka_record

    record = read_kafka_record(installation.log.open(topic).head().table.properties)
    return any(each.held for each in record.values())


def _accept_kafka_config(installation: Installation, change: TopicChange, approval: ChangeApproval | None) -> str:
    from winnow.pipeline.ingest.kafka.configuration import accept_held

    topic, expected = change["topic"], change["expected"]
    if not _waits(installation, topic):
        return f"Nothing was changed: no change of configuration at Kafka waits for {topic}."
    values = {key: value for key, value in expected.items() if value is not None}
    return _join(
        f"Accepted what waited for {topic}.", accept_held(installation, topic, values or None, approval=approval)
    )


def _read_offsets(change: TopicChange) -> dict[int, int]:
    offsets = {int(number): offset for number, offset in change["before_offsets"].items()}
    if not offsets:
        raise UsageError(f"Nothing of {change['topic']} was changed: give the new log starts in before_offsets.")
    return offsets


def _delete_records(installation: Installation, change: TopicChange, approval: ChangeApproval | None) -> str:
    from winnow.pipeline.admin.delete_records import delete_records, describe_caution

    topic = change["topic"]
    rows = delete_records(installation, topic, _read_offsets(change), approval=approval)
    change_id = next((row.change_id for row in rows if row.change_id is not None), None)
    if change_id is None:
        return f"Nothing was changed: the log of {topic} begins there already, or later."
    starts = [f"{topic}-{row.partition} begins at {row.log_start_offset:,}" for row in rows]
    named = join_first(starts, MAXIMUM_PARTITIONS_NAMED, ", ", last=" and ")
    records = format_count(sum(row.at_most_records for row in rows), "record")
    caution = describe_caution(installation.log.open(topic).config())
    done = f"Deleted at most {records}: {named}. To take it back, while the files are there: winnow undo {change_id}"
    return _join(done, [caution] if caution else [])


def _require_partitions(change: TopicChange) -> int:
    if change["partitions"] is None:
        raise UsageError(f"Nothing of {change['topic']} was changed: give the number of partitions.")
    return change["partitions"]


def _read_overrides(installation: Installation, topic: str) -> dict[str, str]:
    from winnow.log.recorded_configuration import read_overrides

    return dict(read_overrides(installation.log.open(topic).head().table.properties))


def _join(done: str, notices: Sequence[str]) -> str:
    return " ".join([done, *notices])
