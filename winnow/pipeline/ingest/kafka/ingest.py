"""Ingests Kafka topics: from the log's own end to the brokers' last stable offset, each topic in one commit.

The end of the log is the position, and it is committed with the records. So a call that dies, runs twice or runs beside
another one appends every record exactly once.
"""

from __future__ import annotations

import itertools
import logging
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from winnow.arrivals.broker_range import KafkaInput
from winnow.arrivals.spool import Progress
from winnow.errors import BadInputError, CommitConflictError, ServiceError
from winnow.kafka.cluster import BrokerTopic, Cluster, TopicDescriptions
from winnow.kafka.open_transactions import date_open_transactions
from winnow.kafka.range_reader import RangeReader
from winnow.log.head import Head
from winnow.log.topic_configuration import add_partitions
from winnow.log.topic_log import TopicLog
from winnow.pipeline.erased_keys import list_remaining_tombstones, open_erased_records
from winnow.pipeline.ingest.ingest import finish_ingest
from winnow.pipeline.ingest.kafka.configuration import create_from_kafka, follow_configuration
from winnow.pipeline.ingest.kafka.continuity import check_continuity
from winnow.pipeline.ingest.kafka.descriptions import describe_reading, describe_source, list_uncommitted
from winnow.pipeline.ingest.kafka.divergence import Comparison, compare_as_known
from winnow.pipeline.ingest.kafka.lag import record_complete_lag, record_failed_lags
from winnow.pipeline.ingest.kafka.new_epoch import NewEpoch, compare_epoch, describe_epoch_notices
from winnow.pipeline.ingest.kafka.reading import (
    KafkaReading,
    ReadingRules,
    advance_epochs,
    include_partitions,
    plan_reading,
    skip_known,
)
from winnow.pipeline.ingest.kafka.recreation import (
    EmptyTopicError,
    begins_further_epoch,
    choose_rules,
    describe_new_life,
    record_new_epoch,
)
from winnow.pipeline.ingest.kafka.run import append_here, append_on_one_application
from winnow.pipeline.ingest.kafka.taking import Taking, describe_taken, plan_taking, record_taking
from winnow.pipeline.ingest.log_cut import complete_cuts
from winnow.pipeline.ingest.open import CreatedTopics, open_log
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, InputDescription, SourcePosition
from winnow.pipeline.ingest.run_spark import LOCAL, SPARK
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import map_parallel
from winnow.pipeline.spark.submit import is_driver_here
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.sources import UnfollowedError, close_failures, require_followed
from winnow.planning.kafka_configuration import TakingRules
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.store.audit import AuditAction
from winnow.values.epochs import KAFKA_LAYOUT
from winnow.values.failures import TopicFailure, TopicFailures
from winnow.values.model import OffsetRange
from winnow.values.topic_state import TopicState

_log = logging.getLogger("winnow")


@dataclass(frozen=True, slots=True)
class KafkaRequest:
    """The options of one call. ``creates``: create topics that are not there, with the partitions at the brokers.

    ``configuration``: what is taken of the topic configuration that the brokers have. ``created``: the topics that the
    call created are noted here. ``follows``: the settings name the topics, not a person: logs that do not follow theirs
    are left. ``begins_epochs``: topics that were created again begin an epoch by themselves. ``previewed``: an epoch
    that somebody saw; it is not compared again if nothing changed since.
    """

    rules: ReadingRules = field(default_factory=ReadingRules)
    creates: bool = False
    configuration: TakingRules = field(default_factory=TakingRules)
    created: CreatedTopics = field(default_factory=dict)
    follows: bool = False
    begins_epochs: bool = False
    previewed: NewEpoch | None = None


@dataclass(frozen=True, slots=True)
class PreparedTopic:
    """A topic that exists on both sides, and what is to be read of it. ``started_ms``: when the call began.

    ``taking``: what leaves the log for it, in the same commit; ``head`` is without that.
    """

    log: TopicLog
    head: Head
    reading: KafkaReading
    notices: tuple[str, ...]
    started_ms: int
    taking: Taking | None = None


@dataclass(frozen=True, slots=True)
class KafkaOutcome:
    """What one call did to several topics. ``failures``: of the others, each with its reason.

    ``unfollowed``: topics that were left because their logs do not follow them, with the heads of those.
    """

    reports: tuple[IngestReport, ...]
    failures: tuple[TopicFailure, ...]
    unfollowed: Mapping[str, str] = field(default_factory=dict)


def ingest_kafka_topics(
    installation: Installation,
    cluster: Cluster,
    topics: Mapping[str, str],
    wanted: KafkaRequest,
    *,
    as_of_ms: int,
    on: str | None = None,
    progress: Progress | None = None,
    described: TopicDescriptions | None = None,
) -> KafkaOutcome:
    """Append to each of ``topics`` what is new at the brokers; one topic's failure stops no other.

    Args:
        installation: the installation.
        cluster: the brokers.
        topics: the topics here, with the name of each at the brokers.
        wanted: the options.
        as_of_ms: recorded with the appends; replaces missing timestamps of records.
        on: ``local`` or ``spark``, where records are read; None: by how many offsets are new in all.
        progress: called with offsets read, offsets to read, and records so far.
        described: what the brokers just said of the topics; None: they are asked.

    Raises:
        ServiceError: the cluster cannot be reached; nothing landed.
        ConfigurationError: the client may not ask it, or Spark is not installed as it should be.
    """
    if described is None:
        described = cluster.describe_topics(topics.values(), configuration=True)
    else:
        described = cluster.add_configurations(described)
    found = TopicDescriptions(date_open_transactions(cluster.settings, described), described.problems)
    results = TopicFailures(lambda _: None)
    unfollowed: dict[str, str] = {}

    def prepare(item: tuple[str, str]) -> PreparedTopic | None:
        topic, name = item
        with results.collect(topic):
            if name not in found:
                raise make_unknown_topic_error(cluster, name)
            try:
                return prepare_topic(installation, topic, cluster, found[name], wanted)
            except UnfollowedError as left:
                unfollowed[topic] = left.location
            except EmptyTopicError as empty:
                _log.info("Topic %s was created again in Kafka, and has no records yet; its epoch waits.", empty)
        return None

    prepared = [each for each in map_parallel(prepare, topics.items()) if each is not None]
    offsets = sum(each.reading.offsets for each in prepared)
    if on is None:
        on = SPARK if offsets >= installation.settings.ingest.spark_from_records else LOCAL
    leaving = [on == SPARK and not _is_local(each) and _may_leave(installation, each) for each in prepared]
    local = list(itertools.compress(prepared, map(operator.not_, leaving)))
    distributed = list(itertools.compress(prepared, leaving))
    reports = _append_locally(installation, cluster, local, results, as_of_ms, progress)
    if distributed:
        requests = [(build_request(installation, each, cluster, as_of_ms=as_of_ms), each.head) for each in distributed]
        done = append_on_one_application(
            installation, requests, results, properties_file=cluster.settings.properties_file, progress=progress
        )
        by_topic = {each.log.topic: each for each in distributed}
        reports += [_finish(installation, each, by_topic[each.topic], as_of_ms) for each in done]
    # Of a topic without a valid answer nothing is known.
    failures = [each for each in results.failures if topics[each.topic] not in found.problems]
    failed = {each.topic: found[topics[each.topic]] for each in failures if topics[each.topic] in found}
    # A service that did not answer would be waited for again, topic by topic.
    if not any(isinstance(each.error, ServiceError) for each in failures):
        record_failed_lags(installation, cluster, failed)
    close_failures(installation, [report.topic for report in reports])
    return KafkaOutcome(
        tuple(sorted(reports, key=lambda each: each.topic)), tuple(results.failures), dict(sorted(unfollowed.items()))
    )


def _is_local(prepared: PreparedTopic) -> bool:
    """Check whether a topic is read in this process whatever its size: nothing is new, or not all of it may land."""
    config, state = prepared.log.config(prepared.head), prepared.head.state
    quarantines = state.quarantine_ingests or (config.compacts and config.keyless == "quarantine")
    return bool(quarantines) or not prepared.reading.ranges


def _may_leave(installation: Installation, prepared: PreparedTopic) -> bool:
    """Check whether an application may read a topic: one whose driver is elsewhere gets no secret of erased keys."""
    return not prepared.head.state.erasures or is_driver_here(installation.settings)


def _append_locally(
    installation: Installation,
    cluster: Cluster,
    prepared: Sequence[PreparedTopic],
    results: TopicFailures,
    as_of_ms: int,
    progress: Progress | None,
) -> list[IngestReport]:
    total = sum(each.reading.offsets for each in prepared)
    reports: list[IngestReport] = []
    done = read_records = 0

    def follow(offsets: int, _: int, records: int) -> None:
        if progress is not None:
            # Within a range only its records are known; offsets without one are between them.
            progress(done + max(offsets, records), total, read_records + records)

    for each in prepared:
        with results.collect(each.log.topic):
            request = build_request(installation, each, cluster, as_of_ms=as_of_ms)
            report = append_here(request, each.head, follow, divides=not _is_local(each))
            read_records += report.records_appended
            reports.append(_finish(installation, report, each, as_of_ms))
        done += each.reading.offsets
    return reports


def _finish(installation: Installation, done: IngestReport, prepared: PreparedTopic, as_of_ms: int) -> IngestReport:
    config = prepared.log.config(prepared.head)
    record_complete_lag(installation, prepared.log.topic, prepared.reading.topic, config)
    uncommitted = list_uncommitted(prepared.reading.topic)
    notices = [*prepared.notices, *describe_reading(prepared.reading)]
    if begins_further_epoch(prepared.head.state, prepared.reading):
        record_new_epoch(installation, prepared.head.state, prepared.reading, done)
    if prepared.taking is not None and done.ingest_id is not None:
        record_taking(installation, prepared.log, prepared.taking, done.ingest_id)
        notices += describe_taken(prepared.taking)
        done = replace(done, removed=prepared.taking.cut.removed)
    return finish_ingest(
        installation, replace(done, uncommitted=uncommitted), notices, as_of_ms=as_of_ms, started_ms=prepared.started_ms
    )


def make_unknown_topic_error(cluster: Cluster, name: str) -> BadInputError:
    """Make the error about a topic that the brokers do not have."""
    return BadInputError(
        f"Kafka at {cluster.settings.bootstrap_servers} has no topic {name}.",
        left=NOTHING_INGESTED,
        next="Check the name; --source-topic NAME reads a topic of another name.",
    )


def prepare_topic(
    installation: Installation, topic: str, cluster: Cluster, found: BrokerTopic, wanted: KafkaRequest
) -> PreparedTopic:
    """Create the topic or its new partitions if need be, and decide what is read; raises as the ingest."""
    started_ms = installation.now_ms()
    notices: list[str] = []
    is_new = wanted.creates and topic not in installation.log.names()
    if is_new:
        notices += create_from_kafka(installation, topic, found, wanted.configuration, wanted.created)
    log, head = open_log(installation, topic, advice="--create creates it.")
    if wanted.follows:
        require_followed(log, head)
    complete_cuts(installation, log, head)
    count = len(head.state.partitions)
    rules = choose_rules(head.state, found, wanted.rules, goes_on=wanted.begins_epochs)
    # Whether the topic is the same is decided before anything is changed.
    state, compared, taking = _find_divergences(installation, log, head, found, cluster, rules)
    planned = plan_reading(include_partitions(state, found), found, rules, compared)
    known: Mapping[int, int] = {}
    if planned.begins_next_epoch:
        epoch = wanted.previewed
        if epoch is None or not epoch.is_valid(head, found, rules):
            erased = open_erased_records(installation, head, left=NOTHING_INGESTED)
            epoch = compare_epoch(log, head, planned, cluster, rules, erased)
        known = epoch.positions
        notices += describe_epoch_notices(epoch)
    if len(found.partitions) > count:
        notices.append(_add_partitions(installation, log, found, count))
    if not is_new:
        notices += follow_configuration(installation, log, found, wanted.configuration)
    head = log.newest_head()
    if taking is not None:
        head = taking.cut.apply(log, head)
    reading = skip_known(plan_reading(head.state, found, rules, compared), known)
    if reading.unproven:
        with RangeReader(cluster.settings) as reader:
            tombstones = list_remaining_tombstones(head.state)
            notices += check_continuity(topic, reading, log.segments(head), reader, tombstones)
    if begins_further_epoch(head.state, reading):
        notices += describe_new_life(head.state, reading, log.segments(head), by_policy=rules != wanted.rules)
    return PreparedTopic(log, head, reading, tuple(notices), started_ms, taking)


def _find_divergences(
    installation: Installation, log: TopicLog, head: Head, found: BrokerTopic, cluster: Cluster, rules: ReadingRules
) -> tuple[TopicState, Comparison, Taking | None]:
    """Compare a log with its topic: its state without what the call takes from it, what else was found, and that."""
    compared = compare_as_known(installation, log, head, found, cluster, anew=rules.diverged is not None)
    taking = plan_taking(log, head, found, compared.divergences, rules)
    if taking is None:
        return head.state, compared, None
    return taking.cut.apply(log, head).state, replace(compared, divergences=()), taking


def _add_partitions(installation: Installation, log: TopicLog, found: BrokerTopic, count: int) -> str:
    """Give a log of ``count`` partitions as many as the topic has at the brokers, and say so."""
    grown = add_partitions(log, len(found.partitions), now_ms=installation.now_ms())
    installation.store.projection.record_states(
        log.topic, grown.state.partitions, installation.now_ms(), table_uuid=grown.head.table_uuid
    )
    record_action(installation, AuditAction.ADD_PARTITIONS, log.topic, detail=f"{len(found.partitions):,} partitions")
    return (
        f"Topic {found.name} has {len(found.partitions)} partitions now: {log.topic}, which had {count}, was given as "
        "many. Keys that moved are in two partitions since."
    )


def build_request(
    installation: Installation, prepared: PreparedTopic, cluster: Cluster, *, as_of_ms: int
) -> IngestRequest:
    """Build the request that appends what ``prepared`` reads."""
    reading = prepared.reading

    def check_source() -> None:
        now = cluster.describe_topics([reading.topic.name]).get(reading.topic.name)
        if now is None or now.topic_id != reading.topic.topic_id:
            raise BadInputError(
                f"Topic {reading.topic.name} was deleted, or created again, while it was read.",
                left=NOTHING_INGESTED,
                next="Run it again: it says what the brokers have now.",
            )

    source = KafkaInput(cluster.settings, prepared.log.topic, reading.ranges, check_source)
    cut = None if prepared.taking is None else prepared.taking.cut
    position = _KafkaPosition(prepared, source)
    return IngestRequest(installation, prepared.log, source, position, prepared.head, as_of_ms, cut=cut)


class _KafkaPosition(SourcePosition):
    """The end of the log, and the epochs, which move with what a call reads of a topic."""

    def __init__(self, prepared: PreparedTopic, source: KafkaInput) -> None:
        self._prepared, self._source = prepared, source

    @property
    def continues(self) -> bool | None:
        """True if there is anything to commit."""
        return True if self._prepared.reading.is_due or self._prepared.taking is not None else None

    @property
    def offsets_read(self) -> Mapping[int, OffsetRange]:
        """The offsets up to the brokers' last stable ones."""
        reading = self._prepared.reading
        return {
            partition: OffsetRange(max(state.log_end_offset, _find_start(reading, partition)), end)
            for partition, state in self._prepared.head.state.partitions.items()
            if (end := reading.epoch.ends.get(partition, 0)) > state.log_end_offset
        }

    def describe(self) -> InputDescription:
        """Describe where the records came from, what was lost, and what was removed."""
        reading, taking = self._prepared.reading, self._prepared.taking
        source_topic = None if reading.topic.name == self._source.topic else reading.topic.name
        return InputDescription(KAFKA_LAYOUT, describe_source(reading, self._source.settings, taking), source_topic)

    def check(self, state: TopicState) -> None:
        """Raise if another call has read the topic meanwhile.

        Raises:
            CommitConflictError: it has; nothing landed.
        """
        if state.epochs != self._prepared.head.state.epochs:
            raise CommitConflictError(
                f"Another call ingested topic {state.topic} from Kafka meanwhile.",
                left=NOTHING_INGESTED,
                next="Run it again: it goes on where that one ended.",
            )

    def advance(self, state: TopicState, ingest_id: str) -> TopicState:
        """Return ``state`` with the epochs as they are once the reading is committed."""
        return advance_epochs(state, self._prepared.reading, ingest_id, self._source.list_leader_epochs())


def _find_start(reading: KafkaReading, partition: int) -> int:
    start = reading.topic.partitions[partition].start_offset
    if partition in reading.skipped:
        start = max(start, reading.skipped[partition].end)
    return start + reading.epoch.get_base(partition)


def choose_topics(cluster: Cluster, pattern: str) -> list[str]:
    """Return the names of the cluster's topics that match ``pattern`` as a whole.

    Raises:
        BadInputError: the pattern is not valid, or matches none.
    """
    try:
        matching = re.compile(pattern)
    except re.error as problem:
        raise BadInputError(
            f"--topics-regex is not a regular expression: {problem}.",
            left=NOTHING_INGESTED,
        ) from None
    found: Sequence[str] = [name for name in cluster.list_topics() if matching.fullmatch(name)]
    if not found:
        raise BadInputError(
            f"No topic of Kafka at {cluster.settings.bootstrap_servers} matches --topics-regex.",
            left=NOTHING_INGESTED,
        )
    return list(found)
