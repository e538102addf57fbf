"""``winnow topics``: create, list, describe, alter; delete records."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.command_errors import exit_with
from winnow.cli.options import (
    Config,
    Json,
    Reason,
    Topic,
    choose_topics,
    complete_topic,
    open_for_command,
    parse_config,
)
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    format_names,
    format_short_time,
    print_heading,
    print_lines,
    print_message,
    print_table,
    write_json,
)
from winnow.cli.topic_sources import format_source
from winnow.cli.topic_undo import undo_configuration
from winnow.errors import ServiceError, UsageError, WinnowError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.topics.definition import TopicDescription


def create(
    topic: Topic,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", help="The number of partitions.")],
    config: Config = None,
    reason: Reason = None,
) -> None:
    """Create a topic, which is an Iceberg table.

    Configuration has Kafka's names and checks; two defaults differ, because an archive may be the only copy, and
    `winnow topics describe` marks them.

    Example: winnow topics create orders --partitions 3 --config delete.retention.ms=3600000
    """
    overrides = parse_config(config)
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.topics.definition import create_topic

        found = create_topic(installation, topic, partitions, overrides)
    _print_notices(found)
    print_lines(
        f"Created topic {topic} with {format_count(partitions, 'partition')} at {found.location}\n"
        f"Next: winnow ingest files {topic} PATH..."
    )


def list_all(
    names: Annotated[bool, typer.Option("--names", help="Print the names alone, one a line, for scripts.")] = False,
    as_json: Json = False,
    is_long: Annotated[bool, typer.Option("--long", help="With --json: the table's figures, by topic.")] = False,
) -> None:
    """List all topics with partitions, size and state.

    Sorted by name; deleted topics are left out. Records, size and state are those of the last ingest or check; the
    state is that of the worst partition. --json prints the names, with --long an object: of each topic partitions,
    records, size_bytes, state and as_of_ms, null where none is recorded. Without the metadata store the names are
    listed alone, with exit code 6.

    Example: winnow topics list
    """
    exit_code = 0
    with open_for_command(to_read=True) as installation:
        found = choose_topics(installation, None)
        deleted = installation.log.list_deleted()
        documents = _make_topic_documents(installation, found) if as_json and is_long else None
        try:
            rows = [] if as_json or names else _make_topic_rows(installation, found)
        except ServiceError as problem:
            print_message(f"Only names can be shown: {problem}")
            rows, exit_code = [[topic, "", "", "", "", ""] for topic in found], problem.exit_code
    if deleted:
        print_message(f"Deleted, and not removed yet: {format_names(deleted)}. See: winnow topics restore --help")
    if as_json:
        write_json(found if documents is None else documents)
    elif names and found:
        print_lines("\n".join(found))
    elif found:
        print_table(["topic", "partitions", "records", "size", "state", "last checked"], rows, right=(1, 2, 3))
        if any(row[4] in {"overdue", "due"} for row in rows):
            print_lines("Next: winnow assess   (why, per partition)")
    exit_with(exit_code)


def _make_topic_documents(installation: Installation, topics: list[str]) -> dict[str, dict[str, object]]:
    """Make the document of each topic.

    Raises:
        ServiceError: the metadata store cannot be reached.
    """
    recorded = installation.store.overview.list_recorded(installation.now_ms())
    documents: dict[str, dict[str, object]] = {}
    for topic in topics:
        found, state = recorded.get(topic, (None, None))
        documents[topic] = {
            "partitions": None if found is None else found.partitions,
            "records": None if found is None else found.records,
            "size_bytes": None if found is None else found.size_bytes,
            "state": None if state is None else state.value,
            "as_of_ms": None if found is None else found.as_of_ms,
        }
    return documents


def _make_topic_rows(installation: Installation, topics: list[str]) -> list[list[str]]:
    """Make the row of each topic.

    Raises:
        ServiceError: the metadata store cannot be reached.
    """
    recorded = installation.store.overview.list_recorded(installation.now_ms())
    rows = []
    for topic in topics:
        if topic in recorded:
            found, state = recorded[topic]
            figures = [f"{found.partitions:,}", f"{found.records:,}", format_bytes(found.size_bytes), state.value]
            rows.append([topic, *figures, format_short_time(found.as_of_ms)])
        else:
            rows.append([topic, _count_partitions(installation, topic), "", "", "not checked yet", ""])
    return rows


def _count_partitions(installation: Installation, topic: str) -> str:
    try:
        return f"{installation.log.open(topic).partitions():,}"
    except WinnowError:
        return ""  # whoever works on the topic is told what is wrong with it


def describe(topic: Topic, as_json: Json = False) -> None:
    """Describe a topic's configuration and log.

    Shows every value with its source, and for each topic partition how far its log reaches and how far it is clean.

    Example: winnow topics describe orders
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.topics.definition import describe_topic

        found = describe_topic(installation, topic)
    if as_json:
        write_json(_build_document(found))
        return
    _print_notices(found)
    print_lines(f"{found.name}: {format_count(found.partitions, 'partition')} at {found.location}")
    print_heading("Configuration")
    print_table(
        ["key", "value", "from", "what it does"],
        [
            [
                entry.name,
                entry.value,
                f"{entry.source}; {entry.kafka}" if entry.kafka else entry.source,
                entry.sentence,
            ]
            for entry in found.config
        ],
        sentences=(3,),
    )
    print_heading("Log")
    _show_log(found)
    print_lines(_check_changes(found))
    source = format_source(found.source)
    if source is not None:
        print_lines(source)
    print_lines(f"Next: winnow assess {topic}")


def alter(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="A topic; with --undo it may be left out: every topic that the entry changed.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    *,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", metavar="KEY", help="A key to reset to its default; may be repeated.", show_default=False
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", help="The new number of partitions; it can only grow.", show_default=False
        ),
    ] = None,
    accept_config: Annotated[
        bool,
        typer.Option(
            "--accept-config",
            help="Accept the configuration that another tool wrote into the table's properties.",
            show_default=False,
        ),
    ] = False,
    accept_kafka_config: Annotated[
        bool,
        typer.Option(
            "--accept-kafka-config",
            help="Take the changes at Kafka that wait because they would remove records. Asks no broker.",
            show_default=False,
        ),
    ] = False,
    accept_older_head: Annotated[
        bool,
        typer.Option(
            "--accept-older-head",
            help="Go on from the head that an older catalog names, and give up what was committed after it; needs "
            "--reason.",
            show_default=False,
        ),
    ] = False,
    undo: Annotated[
        str | None,
        typer.Option(
            "--undo",
            metavar="ENTRY",
            help="Set every key that this entry of the audit log changed back to what it was; the entry's id, or its "
            "beginning, as winnow audit list shows it.",
            show_default=False,
        ),
    ] = None,
    reason: Reason = None,
) -> None:
    """Change a topic's configuration, or add partitions.

    The result is checked as a whole before anything is written, and the answer says what the change will remove for
    good. A changed configuration releases uncleanable partitions. If another tool changed the table's properties,
    Winnow does not work on the topic until --accept-config accepts or corrects them. What its topic at Kafka was
    configured to and would remove records here waits for --accept-kafka-config. If the catalog is older than what
    was committed, --accept-older-head goes on from it, after it has written down what is given up. --undo is refused
    where a key was changed again since; an undo is an entry too, and can be undone.

    Example: winnow topics alter orders --config max.compaction.lag.ms=86400000 --delete-config segment.ms

    Example: winnow topics alter orders --undo 7a21c09be0c4 --reason "the wrong topic"
    """
    changes = parse_config(config)
    if undo is not None:
        if (
            changes
            or delete_config
            or partitions is not None
            or accept_config
            or accept_kafka_config
            or accept_older_head
        ):
            raise UsageError("--undo takes no other change with it.", left="Nothing was changed.")
        undo_configuration(undo, topic, reason)
        return
    if topic is None:
        raise UsageError("Name the topic that is to be changed.", left="Nothing was changed.")
    alters = bool(changes or delete_config or partitions is not None or accept_config)
    if not alters and not accept_older_head and not accept_kafka_config:
        raise UsageError(
            f"Nothing to change in topic {topic}.",
            next=(
                "Give --config KEY=VALUE, --delete-config KEY, --partitions N, --accept-config, --accept-kafka-config, "
                "--accept-older-head or --undo ENTRY."
            ),
        )
    if accept_older_head:
        _accept_older_head(topic, reason or "")
    if accept_kafka_config:
        _accept_kafka_config(topic, reason)
    if not alters:
        print_lines(f"Next: winnow assess {topic}")
        return
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.topics.definition import alter_topic

        found = alter_topic(
            installation, topic, changes, delete_config or [], partitions=partitions, accept_present=accept_config
        )
    _print_notices(found)
    changed = {*changes, *(delete_config or [])}
    print_lines(f"Altered topic {topic}: {format_count(found.partitions, 'partition')}. In force now:")
    if changed or accept_config:
        shown = [e for e in found.config if e.name in changed or (accept_config and e.source == "topic")]
        print_table(["key", "value", "from"], [[e.name, e.value, e.source] for e in shown])
    print_lines(f"Next: winnow assess {topic}")


def _accept_kafka_config(topic: str, reason: str | None) -> None:
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.ingest.kafka.configuration import accept_held

        notices = accept_held(installation, topic)
    print_lines("\n".join(notices))


def _accept_older_head(topic: str, reason: str) -> None:
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.admin.older_head import describe_accepted
        from winnow.pipeline.erase.older_states import accept_without_erased

        accepted = accept_without_erased(installation, topic, reason=reason)
    print_lines(describe_accepted(accepted))


def delete_records(
    topic: Topic,
    before_offset: Annotated[
        list[str],
        typer.Option(
            "--before-offset",
            metavar="[PARTITION:]OFFSET",
            help="The new log start; -1: the log end. Without PARTITION: for the partitions named by --partition, "
            "else for all. May be repeated.",
            show_default=False,
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="P", help="A partition; may be repeated.", show_default=False),
    ] = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Delete the records before an offset: raise the log start, as Kafka's DeleteRecords does.

    Readers stop seeing them at once; winnow undo brings them back while they are there. Segments wholly below leave the
    log at the next run, and the disk after sweep's grace period. Refused, as by Kafka, if cleanup.policy is compact
    only.

    Example: winnow topics delete-records clicks --before-offset 0:1500 --before-offset 1:2000
    """
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.admin.delete_records import delete_records as delete
        from winnow.pipeline.admin.delete_records import describe_caution

        log = installation.log.open(topic)
        before = _parse_before(before_offset, partition, log.partitions())
        found = delete(installation, topic, before)
        notice = describe_caution(log.config())
    if notice:
        print_message(f"notice: {notice}")
    if as_json:
        write_json([{"topic": topic, **asdict(row)} for row in found])
        return
    print_table(
        ["partition", "log start", "before", "records, at most"],
        [
            [
                f"{topic}-{row.partition}",
                f"{row.log_start_offset:,}",
                f"{row.previous_log_start_offset:,}",
                f"{row.at_most_records:,}",
            ]
            for row in found
        ],
        right=(1, 2, 3),
    )
    print_lines(f"Next: winnow compact {topic}   (removes the segments that lie wholly below)")
    change_id = next((row.change_id for row in found if row.change_id is not None), None)
    if change_id is not None:
        print_lines(f"To take it back, until then and for the grace after it: winnow undo {change_id}")


def _parse_before(texts: list[str], named: list[int] | None, partitions: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in texts:
        left, colon, right = text.rpartition(":")
        try:
            offset = int(right)
            numbers = [int(left)] if colon else (named or list(range(partitions)))
        except ValueError as problem:
            raise UsageError(
                f"--before-offset takes OFFSET or PARTITION:OFFSET, not {text!r}.",
                left="Nothing was changed.",
            ) from problem
        for number in numbers:
            if number in found:
                raise UsageError(
                    f"--before-offset is given twice for partition {number}.",
                    left="Nothing was changed.",
                )
            found[number] = offset
    return found


def _print_notices(found: TopicDescription) -> None:
    for notice in found.notices:
        print_message(f"notice: {notice}")


def _show_log(found: TopicDescription) -> None:
    rows = []
    for number, state in sorted(found.states.items())[:MAXIMUM_ROWS]:
        dirty = "" if state.first_dirty_offset is None else f"{state.first_dirty_offset:,}"
        marks = ["uncleanable"] if state.uncleanable is not None else []
        marks += ["paused"] if state.paused_since_ms is not None else []
        rows.append(
            [
                f"{found.name}-{number}",
                f"{state.log_start_offset:,}",
                dirty,
                f"{state.log_end_offset:,}",
                f"{found.records.get(number, 0):,}",
                format_bytes(found.bytes.get(number, 0)),
                ", ".join(marks),
            ]
        )
    header = ["partition", "log start", "first dirty", "log end", "records", "bytes", "marks"]
    print_table(header, rows, right=(1, 2, 3, 4, 5))
    left_out = len(found.states) - len(rows)
    if left_out:
        print_lines(f"{format_count(left_out, 'more partition')}: winnow topics describe {found.name} --json")


def _check_changes(found: TopicDescription) -> str:
    if found.last_checked_ms is None:
        return f"Last checked: never. To read every segment in full and check it: winnow scrub {found.name}"
    rest = f"{format_count(found.segments_unchecked, 'segment')} never" if found.segments_unchecked else "all of them"
    damaged = f"; {found.scrub_findings:,} damaged: winnow scrub {found.name}" if found.scrub_findings else ""
    since = format_short_time(found.oldest_checked_ms)
    return f"Last checked: {format_short_time(found.last_checked_ms)}, segments since {since}, {rest}{damaged}"


def _build_document(found: TopicDescription) -> dict[str, Any]:
    return {
        "topic": found.name,
        "partitions": found.partitions,
        "location": found.location,
        "config": [asdict(entry) for entry in found.config],
        "notices": list(found.notices),
        "last_checked_ms": found.last_checked_ms,
        "oldest_checked_ms": found.oldest_checked_ms,
        "segments_unchecked": found.segments_unchecked,
        "scrub_findings": found.scrub_findings,
        "source": None if found.source is None else {"state": found.source.kind, "since_ms": found.source.since_ms},
        "log": [
            {
                "partition": number,
                "log_start_offset": state.log_start_offset,
                "first_dirty_offset": state.first_dirty_offset,
                "log_end_offset": state.log_end_offset,
                "strategy": state.strategy,
                "records": found.records.get(number, 0),
                "bytes": found.bytes.get(number, 0),
                "uncleanable": None if state.uncleanable is None else asdict(state.uncleanable),
                "paused_since_ms": state.paused_since_ms,
            }
            for number, state in sorted(found.states.items())
        ],
    }
