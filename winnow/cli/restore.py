"""``winnow restore``: a topic's published log into a Kafka topic, exactly once and verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from winnow.cli.command_errors import exit_with
from winnow.cli.ingest_kafka import BootstrapServers, ClientProperties
from winnow.cli.options import Json, complete_topic, open_for_command
from winnow.cli.output import format_bytes, print_lines, print_message, print_table, write_json
from winnow.cli.progress import JobBar
from winnow.clock import parse_as_of
from winnow.errors import UsageError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.cli.restore_topics import RestoreOutcomes
    from winnow.kafka.client_settings import ClientSettings
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.restore.restore_request import RestoreReport
    from winnow.pipeline.restore.source_log import RestoreBound


class EarlyTimestamps(StrEnum):
    """What ``--timestamps-before-1970`` takes."""

    REFUSE = "refuse"
    DROP = "drop"


def restore(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="A topic.", show_default=False, autocompletion=complete_topic),
    ] = None,
    *,
    bootstrap_servers: BootstrapServers = None,
    client_properties: ClientProperties = None,
    target_topic: Annotated[
        str | None,
        typer.Option(
            "--target-topic",
            metavar="NAME",
            help="The Kafka topic; default: the topic's name. With --topics-regex: what each name becomes.",
            show_default=False,
        ),
    ] = None,
    topics_regex: Annotated[
        str | None,
        typer.Option(
            "--topics-regex", metavar="REGEX", help="All topics here whose names match, one by one.", show_default=False
        ),
    ] = None,
    target_prefix: Annotated[
        str | None,
        typer.Option(
            "--target-prefix",
            metavar="PREFIX",
            help="With --topics-regex: what goes before each name in Kafka.",
            show_default=False,
        ),
    ] = None,
    until_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--until-offset",
            metavar="[P:]O",
            help="End before this offset, in every partition or, with P:, in one; may be repeated then.",
            show_default=False,
        ),
    ] = None,
    until_time: Annotated[
        str | None,
        typer.Option(
            "--until-time",
            metavar="T",
            help="End each partition before its first record of this time or later: ISO 8601 with offset, or ms.",
            show_default=False,
        ),
    ] = None,
    snapshot: Annotated[
        int | None,
        typer.Option("--snapshot", metavar="ID", help="This snapshot instead of the newest.", show_default=False),
    ] = None,
    offsets: Annotated[
        Path | None,
        typer.Option(
            "--offsets",
            metavar="FILE",
            help="The offset translation, as Parquet; default: TARGET.offsets.parquet here.",
            show_default=False,
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            "--groups",
            metavar="FILE",
            help="Consumer groups to continue in the target: lines of group,topic,partition,offset.",
            show_default=False,
        ),
    ] = None,
    throttle: Annotated[
        str | None,
        typer.Option(
            "--throttle", metavar="BYTES", help="At most so many bytes per second, like 20MB.", show_default=False
        ),
    ] = None,
    shares: Annotated[
        int | None,
        typer.Option(
            "--shares",
            metavar="N",
            min=1,
            max=8,
            help="Write and read back in N processes, each with partitions of its own; stays as the restore began.",
            show_default=False,
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            metavar="N",
            min=1,
            help="Of a topic that is created; default: the brokers'.",
            show_default=False,
        ),
    ] = None,
    timestamps_before_1970: Annotated[
        EarlyTimestamps,
        typer.Option("--timestamps-before-1970", help="Timestamps of 0 and before, which clients cannot write."),
    ] = EarlyTimestamps.REFUSE,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give up an unfinished restore: release what it holds. Restores nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a topic's published records into a Kafka topic, and read them back.

    Keys, values, headers and timestamps as they were, in the same partitions and order. The topic is created, or must
    be empty. A restore that was killed goes on when it is run again, and no record is written twice. Readers need
    isolation.level=read_committed until it is done. What Kafka cannot get back is listed in docs/restore.md.

    Example: winnow restore orders --bootstrap-servers localhost:9092 --target-topic orders-restored
    """
    from winnow.config.names import validate_topic_name

    rate = None if throttle is None else _parse_rate(throttle)
    if topics_regex is not None or topic is None:
        named: dict[str, object] = {"TOPIC": topic, "--until-offset": until_offset, "--snapshot": snapshot}
        named |= {"--offsets": offsets, "--groups": groups}
        names = TopicNames(_require_regex(topics_regex, named), target_topic, target_prefix)
        bound = _parse_bound(None, until_time)
        drops = timestamps_before_1970 is EarlyTimestamps.DROP
        choices = {"bound": bound, "bytes_per_second": rate, "replication_factor": replication_factor}
        choices |= {"drops_timestamps": drops, "shares": shares}
        with open_for_command() as installation:
            settings = _read_settings(installation, bootstrap_servers, client_properties)
            outcomes = _restore_topics(installation, settings, names, choices, abandon=abandon)
        for given_up in outcomes.given_up:
            _show_abandoned(*given_up)
        if as_json and not abandon:
            write_json(outcomes.documents)
        else:
            for restored in outcomes.reports:
                _show(restored)
        exit_with(outcomes.exit_code)
        return
    if target_prefix is not None:
        raise UsageError("--target-prefix goes with --topics-regex.", next="For one topic: --target-topic NAME")
    target = target_topic or topic
    validate_topic_name(target)
    with open_for_command() as installation:
        from winnow.pipeline.restore.restore import abandon_restore, restore_topic
        from winnow.pipeline.restore.restore_request import RestoreRequest

        settings = _read_settings(installation, bootstrap_servers, client_properties)
        report = None
        request = RestoreRequest(
            topic,
            target,
            offsets or Path(f"{target}.offsets.parquet"),
            _parse_bound(until_offset, until_time),
            snapshot,
            None if groups is None else _read_groups(installation, topic, groups),
            rate,
            replication_factor,
            drops_timestamps=timestamps_before_1970 is EarlyTimestamps.DROP,
            shares=shares,
        )
        if abandon:
            abandon_restore(installation, topic, target, settings)
        else:
            with _Progress() as progress:
                report = restore_topic(installation, request, settings, progress)
    if report is None:
        _show_abandoned(topic, target)
    elif as_json:
        write_json(make_document(report))
    else:
        _show(report)


class TopicNames(NamedTuple):
    """Which topics are restored, and what their names become."""

    pattern: str
    template: str | None
    prefix: str | None


def _require_regex(pattern: str | None, named: Mapping[str, object]) -> str:
    """Check that ``pattern`` is there and nothing that is about one topic; ``named``: that, by its option."""
    if pattern is None:
        raise UsageError(
            "Name one topic, or say --topics-regex: winnow restore TOPIC.",
            left="Nothing was restored.",
        )
    alone = next((option for option, value in named.items() if value not in (None, [])), None)
    if alone is not None:
        raise UsageError(
            f"{alone} is about one topic and --topics-regex about several.",
            left="Nothing was restored.",
        )
    return pattern


def _restore_topics(
    installation: Installation,
    settings: ClientSettings,
    names: TopicNames,
    choices: Mapping[str, Any],
    *,
    abandon: bool,
) -> RestoreOutcomes:
    """Restore the topics one by one, or give their restores up; failures are printed."""
    from winnow.cli.restore_topics import RestoreOutcomes, TopicsProgress, restore_each
    from winnow.pipeline.restore.restore import abandon_restore, restore_topic
    from winnow.pipeline.restore.restore_request import RestoreRequest
    from winnow.pipeline.restore.topic_mapping import map_topics, measure_logs

    if names.prefix is not None and names.template is not None:
        raise UsageError(
            "--target-topic and --target-prefix exclude each other.",
            left="Nothing was restored.",
        )
    targets = map_topics(installation.log.names(), names.pattern, prefix=names.prefix, template=names.template)
    if abandon:
        given_up = RestoreOutcomes()
        for topic, target in targets.items():
            with given_up.collect(topic, target):
                abandon_restore(installation, topic, target, settings)
                given_up.given_up.append((topic, target))
        return given_up

    def restore_one(topic: str, target: str, progress: TopicsProgress) -> RestoreReport:
        request = RestoreRequest(topic, target, Path(f"{target}.offsets.parquet"), **choices)
        return restore_topic(installation, request, settings, progress)

    return restore_each(targets, measure_logs(installation, targets), restore_one, make_document)


def _show_abandoned(topic: str, target: str) -> None:
    print_lines(
        f"The restore of {topic} into {target} is given up: its snapshot is released. The records that topic "
        f"{target} has stay there; delete it before another restore into it."
    )


def _read_settings(installation: Installation, servers: str | None, properties: str | None) -> ClientSettings:
    from winnow.kafka.client_settings import read_client_settings

    source = installation.settings.source
    if servers is not None or source.properties_file is None:
        # The source's user and password are not shown to another cluster.
        return read_client_settings(servers or source.bootstrap_servers, properties)
    return read_client_settings(source.bootstrap_servers, properties or str(source.properties_file))


def _read_groups(installation: Installation, topic: str, path: Path) -> Any:
    from winnow.pipeline.restore.offset_translation import read_group_file

    head = installation.log.open(topic).head()
    names = {topic, *(epoch.topic for epoch in head.state.epochs if epoch.topic is not None)}
    return read_group_file(path, names, len(head.state.partitions))


def _parse_bound(offsets: list[str] | None, time: str | None) -> RestoreBound:
    from winnow.pipeline.restore.source_log import RestoreBound

    if time is not None:
        if offsets:
            raise UsageError(
                "--until-offset and --until-time exclude each other.",
                left="Nothing was restored.",
            )
        return RestoreBound(time_ms=parse_as_of(time))
    if not offsets:
        return RestoreBound()
    if len(offsets) == 1 and offsets[0].isascii() and offsets[0].isdecimal():
        return RestoreBound(offset=int(offsets[0]))
    found: dict[int, int] = {}
    for text in offsets:
        partition, colon, offset = text.partition(":")
        if not colon or not all(each.isascii() and each.isdecimal() for each in (partition, offset)):
            raise UsageError(f"--until-offset takes one O, or P:O for each partition, not {text!r}.")
        if found.setdefault(int(partition), int(offset)) != int(offset):
            raise UsageError(
                f"--until-offset names partition {partition} twice.",
                left="Nothing was restored.",
            )
    return RestoreBound(offsets=found)


def _parse_rate(text: str) -> float:
    from winnow.config.setting_types import parse_size_bytes

    try:
        return parse_size_bytes(text)
    except ValueError as problem:
        raise UsageError(
            f"--throttle {text}: {problem}.",
            left="Nothing was restored.",
        ) from None


def make_document(report: RestoreReport) -> dict[str, Any]:
    """A finished restore as ``--json`` shows it."""
    return asdict(report) | {"records": report.records}


def _show(report: RestoreReport) -> None:
    for notice in report.notices:
        print_message(f"notice: {notice}")
    if report.was_complete:
        print_lines(
            f"Topic {report.target_topic} holds the restore of {report.topic} (snapshot {report.snapshot_id}) already, "
            "verified. Nothing was done."
        )
        return
    if not report.partitions:
        print_lines(f"Topic {report.target_topic} was verified before; its configuration is set now.")
        return
    print_lines(
        f"Restored {format_count(report.records, 'record')} of {report.topic} (snapshot {report.snapshot_id}) into "
        f"topic {report.target_topic} and read them back: all are as they were."
    )
    resumed = report.records - sum(each.records_written for each in report.partitions)
    if resumed:
        print_lines(f"{format_count(resumed, 'record')} of them had been written by an earlier call.")
    rows = [
        [
            f"{each.partition}",
            f"{each.end_offset:,}",
            f"{each.records:,}",
            f"{each.tombstones:,}",
            f"{each.target_end:,}",
        ]
        for each in report.partitions
    ]
    header = ["partition", "log up to", "records", "tombstones", "target up to"]
    print_table(header, rows, right=range(len(header)))
    for group in report.groups:
        print_lines(f"Consumer group {group.group} continues in {format_count(len(group.offsets), 'partition')}.")
    print_lines(f"Offsets of both sides: {report.offsets_file}")


class _Progress(JobBar):
    """A bar over the log's bytes on a terminal; elsewhere a line as each phase begins."""

    def __init__(self) -> None:
        super().__init__("Opening")
        self._phase = ""

    def __call__(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        """Take in how far it is."""
        if phase != self._phase:
            self._phase = phase
            if not self._bar.is_shown:
                print_message(f"{phase} {format_bytes(total_bytes)} of segments")
        self._bar.move(done_bytes, total_bytes, phase)
