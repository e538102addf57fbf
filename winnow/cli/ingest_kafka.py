"""``winnow ingest kafka``: the records of Kafka topics, from where the log ends to where the brokers end."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import exit_with, report_problem
from winnow.cli.ingest import show_partitions, withdraw_created, withdraw_if_refused
from winnow.cli.options import AsOf, Json, open_for_command, resolve_as_of
from winnow.cli.output import print_lines, print_message, write_json
from winnow.cli.progress import ProgressBar
from winnow.errors import UsageError, find_worst_exit_code
from winnow.sources.choices import check_choice
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.kafka.offset_syncs import MirrorOrigin
    from winnow.pipeline.ingest.kafka.ingest import KafkaOutcome
    from winnow.pipeline.ingest.kafka.taking import Taking
    from winnow.pipeline.ingest.log_cut import RemovedRecords
    from winnow.pipeline.ingest.request import IngestReport
    from winnow.planning.kafka_configuration import TakingRules

BootstrapServers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="Brokers to ask first.", show_default=False),
]

ClientProperties = Annotated[
    str | None,
    typer.Option(
        "--client-properties",
        metavar="FILE",
        help="Properties of Kafka clients, such as SASL and SSL, in Java's names or librdkafka's.",
        show_default=False,
    ),
]


def kafka(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="The topic, here and at the brokers.", show_default=False)
    ] = None,
    *,
    bootstrap_servers: BootstrapServers = None,
    client_properties: ClientProperties = None,
    source_topic: Annotated[
        str | None,
        typer.Option("--source-topic", metavar="NAME", help="The topic's name at the brokers.", show_default=False),
    ] = None,
    topics_regex: Annotated[
        str | None,
        typer.Option(
            "--topics-regex", metavar="REGEX", help="All topics of the brokers whose names match.", show_default=False
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create topics that are not there, with the brokers' partitions.")
    ] = False,
    sync_config: Annotated[
        bool,
        typer.Option("--sync-config", help="Take over what the topic sets at the brokers, and what it set back there."),
    ] = False,
    accept_kafka_config: Annotated[
        bool,
        typer.Option(
            "--accept-kafka-config",
            help="With --sync-config: also take changes that were held because they remove records; with --create, all "
            "that is in force at Kafka.",
        ),
    ] = False,
    accept_key: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-key",
            metavar="KEY",
            help="With --accept-kafka-config: take this key as it is in force at Kafka, its default included; may be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on although the brokers deleted records before they were read.")
    ] = False,
    new_epoch: Annotated[
        bool, typer.Option("--new-epoch", help="The topic was created again, or is a mirror: go on at the log's end.")
    ] = False,
    accept_overlap: Annotated[
        bool,
        typer.Option("--accept-overlap", help="With --new-epoch: Kafka has records that are here already, or older."),
    ] = False,
    mirror_of: Annotated[
        str | None,
        typer.Option(
            "--mirror-of",
            metavar="NAME",
            help="With --new-epoch: Kafka's topic mirrors NAME, which was followed before; what is here is skipped.",
            show_default=False,
        ),
    ] = None,
    offset_syncs_topic: Annotated[
        str | None,
        typer.Option(
            "--offset-syncs-topic",
            metavar="NAME",
            help="With --mirror-of: MirrorMaker's topic of offset syncs. Default: all that are named like one.",
            show_default=False,
        ),
    ] = None,
    offset_syncs_at: Annotated[
        str | None,
        typer.Option(
            "--offset-syncs-at",
            metavar="HOST:PORT",
            help="With --mirror-of: the brokers that have that topic. Default: those of the mirror.",
            show_default=False,
        ),
    ] = None,
    offset_syncs_properties: Annotated[
        str | None,
        typer.Option(
            "--offset-syncs-properties",
            metavar="FILE",
            help="With --offset-syncs-at: properties of clients of those brokers.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Do not ask before --new-epoch and --diverged take; a script needs it.", show_default=False
        ),
    ] = False,
    diverged: Annotated[
        str | None,
        typer.Option(
            "--diverged",
            metavar="keep|take",
            help="The brokers lost records that were read: keep ours, and append theirs after them as a new epoch; or "
            "take theirs in the place of ours, which asks first.",
            show_default=False,
        ),
    ] = None,
    trust_offsets: Annotated[
        bool, typer.Option("--trust-offsets", help="The records that came from files are of this topic.")
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|spark",
            help="Read in this process or on Spark. Default: by what is new (ingest.spark_from_records).",
            show_default=False,
        ),
    ] = None,
    as_of: AsOf = None,
    as_json: Json = False,
) -> None:
    """Append what brokers have and the log has not: committed records, with headers, up to the last stable offset.

    The log's own end is the position, and it is committed with the records: a call that dies or runs twice appends
    every record exactly once. Gaps of aborted transactions and of compaction are normal. Refused, and said: a topic
    that was created again, offsets that were set back, records that the brokers deleted before they were read.
    --new-epoch and --diverged take compare first, say what they would do to readers, and ask. With --mirror-of, the new
    epoch begins with the first record of a mirror that is not here.

    A topic that --create makes has the cleanup.policy in force at Kafka. What Kafka's retention does by default removes
    nothing here, and a change of configuration that would remove records waits for --accept-kafka-config.

    Example: winnow ingest kafka orders --bootstrap-servers localhost:9092 --create
    """
    from winnow.kafka.client_settings import read_client_settings
    from winnow.kafka.cluster import Cluster
    from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, choose_topics, ingest_kafka_topics
    from winnow.pipeline.ingest.kafka.new_epoch import describe_new_epoch, preview_epoch
    from winnow.pipeline.ingest.kafka.reading import DIVERGED_CHOICES, TAKE, ReadingRules
    from winnow.pipeline.ingest.kafka.taking import preview_taking

    check_choice("--engine", engine, ("local", "spark"))
    if (topic is None) == (topics_regex is None):
        raise UsageError("Name one topic, or say --topics-regex: winnow ingest kafka TOPIC")
    if topics_regex is not None and (source_topic is not None or new_epoch):
        raise UsageError("--source-topic and --new-epoch are about one topic: name it instead of --topics-regex.")
    check_choice("--diverged", diverged, DIVERGED_CHOICES)
    if topic is None and diverged == TAKE:
        raise UsageError("--diverged take is about one topic: name it instead of --topics-regex.")
    if diverged == TAKE and (new_epoch or accept_overlap):
        raise UsageError(
            "--diverged take and --new-epoch exclude each other: one is of the same topic.",
            next="Leave one out.",
        )
    if accept_overlap and not new_epoch:
        raise UsageError("--accept-overlap is about the beginning of an epoch: say --new-epoch, too.")
    origin = _read_mirror_origin(
        mirror_of, offset_syncs_topic, offset_syncs_at, offset_syncs_properties, begins_epoch=new_epoch
    )
    rules = ReadingRules(
        accepts_gap=accept_gap,
        begins_epoch=new_epoch,
        accepts_overlap=accept_overlap,
        trusts_offsets=trust_offsets,
        diverged=diverged,
        mirror_of=origin,
    )
    configuration = _read_taking_rules(
        takes=sync_config, accepts=accept_kafka_config, keys=accept_key or [], is_one_topic=topic is not None
    )
    wanted = KafkaRequest(rules, creates=create, configuration=configuration)
    with open_for_command() as installation:
        source = installation.settings.source
        servers = bootstrap_servers or source.bootstrap_servers
        properties = client_properties or (None if source.properties_file is None else str(source.properties_file))
        cluster = Cluster(read_client_settings(servers, properties))
        as_of_ms = resolve_as_of(installation, as_of)
        if topic is None:
            topics = {name: name for name in choose_topics(cluster, topics_regex or "")}
        else:
            topics = {topic: source_topic or topic}
            asks = (new_epoch or diverged == TAKE) and not yes
            found = cluster.describe_topics(topics.values()).get(topics[topic]) if asks else None
            if found is not None and topic in installation.log.names():
                if new_epoch:
                    previewed = preview_epoch(installation, topic, cluster, found, rules)
                    _confirm_epoch(topic, describe_new_epoch(previewed))
                    wanted = replace(wanted, previewed=previewed)
                else:
                    taking = preview_taking(installation, topic, cluster, found, rules)
                    wanted = replace(wanted, rules=replace(rules, agreed=_confirm_taking(taking)))
        with (
            withdraw_if_refused(installation, wanted.created),
            ProgressBar(f"Reading {topic or f'{len(topics)} topics'}", counts_records=True) as bar,
        ):
            outcome = ingest_kafka_topics(
                installation, cluster, topics, wanted, as_of_ms=as_of_ms, on=engine, progress=bar.follow_reading
            )
        withdraw_created(installation, wanted.created, (each.topic for each in outcome.failures))
    _show_outcome(outcome, topic, as_json=as_json)
    exit_with(find_worst_exit_code([report_problem(each.error) for each in outcome.failures]))


def _read_mirror_origin(
    topic: str | None, syncs_topic: str | None, syncs_at: str | None, properties: str | None, *, begins_epoch: bool
) -> MirrorOrigin | None:
    """Check the options about a mirror.

    Raises:
        UsageError: they do not go together.
        ConfigurationError: the properties cannot be read or used.
    """
    from winnow.kafka.client_settings import read_client_settings
    from winnow.kafka.offset_syncs import MirrorOrigin

    if topic is None:
        if syncs_topic is not None or syncs_at is not None or properties is not None:
            raise UsageError(
                "--offset-syncs-* go with --mirror-of.",
                left="Nothing was ingested.",
            )
        return None
    if not begins_epoch:
        raise UsageError(
            "--mirror-of is about the beginning of an epoch: say --new-epoch, too.",
            left="Nothing was ingested.",
        )
    settings = None
    if syncs_at is not None or properties is not None:
        settings = read_client_settings(syncs_at, properties)
    return MirrorOrigin(topic, syncs_topic, settings)


def _confirm_epoch(topic: str, effect: str) -> None:
    """Ask before an epoch begins.

    Raises:
        UsageError: the answer is no, or there is nobody to ask.
    """
    print_message(effect)
    if not sys.stdin.isatty():
        raise UsageError(
            f"No epoch of {topic} was begun.",
            left="Nothing was ingested.",
            next="Add --yes to --new-epoch if that is what you want.",
        )
    if not typer.confirm(f"Begin this epoch of {topic}?", err=True):
        raise UsageError(
            f"No epoch of {topic} was begun.",
            left="Nothing was ingested.",
        )


def _confirm_taking(taking: Taking | None) -> tuple[RemovedRecords, ...]:
    """Ask before records leave the log, and return which of them may; none where the brokers lost nothing.

    Raises:
        UsageError: the answer is no, or there is nobody to ask.
    """
    from winnow.pipeline.ingest.kafka.taking import describe_taking

    if taking is None:
        return ()
    print_message(describe_taking(taking))
    if not sys.stdin.isatty():
        raise UsageError(
            f"No record left the log of {taking.topic}.",
            left="Nothing was ingested.",
            next="Add --yes to --diverged take if that is what you want.",
        )
    if not typer.confirm(f"Take Kafka's records into {taking.topic} in the place of these?", err=True):
        raise UsageError(
            f"No record left the log of {taking.topic}.",
            left="Nothing was ingested.",
        )
    return taking.cut.removed


def _read_taking_rules(*, takes: bool, accepts: bool, keys: list[str], is_one_topic: bool) -> TakingRules:
    """Check the options about configuration.

    Raises:
        UsageError: they do not go together.
        ConfigurationError: there is no such key.
    """
    from winnow.config.topic import is_topic_key, make_unknown_key_error
    from winnow.planning.kafka_configuration import TakingRules

    if accepts and not takes:
        raise UsageError(
            "--accept-kafka-config goes with --sync-config.",
            left="Nothing was ingested.",
        )
    if keys and not accepts:
        raise UsageError(
            "--accept-key goes with --sync-config --accept-kafka-config.",
            left="Nothing was ingested.",
        )
    if accepts and not is_one_topic:
        raise UsageError("--accept-kafka-config is about one topic: name it instead of --topics-regex.")
    for key in keys:
        if not is_topic_key(key):
            raise make_unknown_key_error(key)
    return TakingRules(takes=takes, accepts=accepts, accepted_keys=frozenset(keys))


def _show_outcome(outcome: KafkaOutcome, topic: str | None, *, as_json: bool) -> None:
    """Show what a call did; ``topic`` None: it was about several."""
    for report in outcome.reports:
        for notice in report.notices:
            print_message(f"notice: {f'{report.topic}: ' if topic is None else ''}{notice}")
    if as_json:
        documents = [asdict(report) for report in outcome.reports]
        if topic is None or documents:
            write_json(documents if topic is None else documents[0])
        return
    for report in outcome.reports:
        print_lines(format_kafka_summary(report))
        if topic is not None:
            _show_next(report)


def format_kafka_summary(report: IngestReport) -> str:
    """What one call did to a topic, in one sentence."""
    text = f"{report.topic}: {format_count(report.records_appended, 'record')} appended from Kafka"
    text += f", {report.records_quarantined:,} quarantined" if report.records_quarantined else ""
    held = sum(part.records for part in report.uncommitted)
    text += f", {held:,} held by an open transaction" if held else ""
    return text + (
        f". Snapshot {report.snapshot_id}." if report.snapshot_id is not None else ". Nothing was committed."
    )


def _show_next(report: IngestReport) -> None:
    show_partitions(report)
    if report.ingest_id is not None:
        print_lines(f"To take it back: winnow ingest undo {report.topic} {report.ingest_id}")
    print_lines(f"Next: winnow assess {report.topic}")
