"""Keeps many logs close to their Kafka topics: one call asks the brokers about all, and reads what is new.

A topic that has nothing new costs its share of a few questions to the brokers, the catalog and the metadata store: its
log had everything when it was looked at last, and neither the log's head nor the topic's offsets have changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.errors import WinnowError
from winnow.kafka.cluster import BrokerTopic, Cluster, TopicDescriptions
from winnow.kafka.open_transactions import date_open_transactions
from winnow.pipeline.ingest.kafka.ingest import KafkaOutcome, KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.lag import confirm_complete_lags
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.sources import (
    close_failures,
    end_gone,
    forget_unnamed,
    record_gone,
    record_unfollowed,
    select_followed_before,
    select_unfollowed,
)
from winnow.store.ingest_lag import CompleteTopic
from winnow.values import documents
from winnow.values.failures import TopicFailure


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What following topics did.

    ``unchanged``: topics with nothing new, told without opening their logs. ``held``: topics of which open transactions
    hold back records at the brokers. ``gone``: topics that were followed, and which the brokers say they do not have.
    ``unfollowed``: topics whose logs do not follow them.
    """

    unchanged: int
    reports: tuple[IngestReport, ...]
    failures: tuple[TopicFailure, ...]
    held: int = 0
    gone: tuple[str, ...] = ()
    unfollowed: int = 0

    @property
    def sentence(self) -> str:
        """The report as text for logs."""
        appended = [report for report in self.reports if report.snapshot_id is not None]
        records = sum(report.records_appended for report in appended)
        topics = self.unchanged + len(self.reports) + len(self.failures)
        parts = [
            f"Followed {topics:,} topics: {records:,} records appended to {len(appended):,} of them.",
            f"Open transactions hold back records of {self.held:,}." if self.held else "",
            f"{len(self.failures)} failed." if self.failures else "",
            f"{len(self.gone):,} are gone at Kafka." if self.gone else "",
            f"{self.unfollowed:,} are not followed (winnow topics unfollow)." if self.unfollowed else "",
        ]
        return " ".join(part for part in parts if part)


def follow_topics(
    installation: Installation,
    cluster: Cluster,
    names: Sequence[str],
    wanted: KafkaRequest,
    *,
    as_of_ms: int,
    missing: Sequence[str] | None = None,
) -> FollowReport:
    """Append to the topics in ``names`` what their namesakes at the brokers have and they do not have yet.

    One topic's failure stops no other. Records how far each is behind, and which are gone at the brokers: a state with
    an alert, which ends when they are there again, and no failure.

    Args:
        installation: the installation.
        cluster: the brokers.
        names: the topics; those that the brokers listed, or that a person named.
        wanted: the options; with ``follows``, logs that do not follow their topics are left.
        as_of_ms: recorded with the appends.
        missing: topics here that the settings name and the brokers did not list; with these, ``names`` are all others
            that the settings name. None: the call is about some topics only.

    Raises:
        ServiceError: brokers, catalog or metadata store cannot be reached; what was appended before stays.
    """
    heads = installation.log.find_metadata_locations([*names, *(missing or ())])
    look = _look_at_brokers(installation, cluster, names, missing, wanted, heads)
    unchanged = _find_unchanged(installation, heads, look.found)
    # An open transaction goes on writing while the last stable offset stays, so it is looked at here as well.
    confirmed = date_open_transactions(cluster.settings, {name: look.found[name] for name in unchanged})
    confirm_complete_lags(installation, confirmed)
    close_failures(installation, unchanged)
    changed = {name: name for name in look.names if name not in unchanged}
    outcome = _ingest(installation, cluster, changed, wanted, heads, look, as_of_ms=as_of_ms)
    return FollowReport(
        unchanged=len(unchanged),
        reports=outcome.reports,
        failures=outcome.failures,
        held=sum(topic.is_held for topic in confirmed.values())
        + sum(bool(each.uncommitted) for each in outcome.reports),
        gone=look.gone,
        unfollowed=look.unfollowed + len(outcome.unfollowed),
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """What brokers and logs say of the topics of a call. ``names``: those to ingest, unless nothing changed.

    ``found``: those of them that the brokers described. ``problems``: why they did not describe others. ``gone`` and
    ``unfollowed``: as in a report.
    """

    names: tuple[str, ...]
    found: Mapping[str, BrokerTopic]
    problems: Mapping[str, WinnowError]
    gone: tuple[str, ...]
    unfollowed: int


def _look_at_brokers(
    installation: Installation,
    cluster: Cluster,
    names: Sequence[str],
    missing: Sequence[str] | None,
    wanted: KafkaRequest,
    heads: Mapping[str, str],
) -> _Look:
    """Ask the brokers about the topics that are to be followed, and record which of them are gone."""
    states = installation.store.source_states.list_all() if wanted.follows else {}
    unfollowed = select_unfollowed(names, states, heads)
    lost = select_followed_before(installation, missing or (), states, heads)
    asked = [*(name for name in names if name not in unfollowed), *lost]
    answers = cluster.describe_topics(asked, configuration=wanted.configuration.takes)
    found = dict(answers.items())
    if not wanted.follows:
        return _Look(tuple(asked), found, answers.problems, (), 0)
    # No valid answer is not that there is no such topic.
    answered = found.keys() | answers.problems.keys()
    unknown = [name for name in asked if name not in answered]
    # One that was listed a moment ago is gone too; one that never was here has nothing to lose.
    unlisted = set(lost)
    gone = [name for name in unknown if name in unlisted]
    gone += select_followed_before(installation, [name for name in unknown if name not in unlisted], states, heads)
    record_gone(installation, gone, states, heads)
    end_gone(installation, found.keys(), states)
    if missing is not None:
        forget_unnamed(installation, {*names, *missing}, states)
    names = tuple(name for name in asked if name in answered)
    return _Look(names, found, answers.problems, tuple(sorted(gone)), len(unfollowed))


def _ingest(
    installation: Installation,
    cluster: Cluster,
    changed: Mapping[str, str],
    wanted: KafkaRequest,
    heads: Mapping[str, str],
    look: _Look,
    *,
    as_of_ms: int,
) -> KafkaOutcome:
    """Ingest the topics that changed, and record which logs have everything, and which do not follow their topics."""
    if not changed:
        return KafkaOutcome((), ())
    found = look.found
    described = TopicDescriptions(
        {name: found[name] for name in changed if name in found},
        {name: look.problems[name] for name in changed if name in look.problems},
    )
    outcome = ingest_kafka_topics(installation, cluster, changed, wanted, as_of_ms=as_of_ms, described=described)
    # Nothing was to be committed to these. If another head was looked at than the one named here, or newer offsets than
    # those, they are never current again.
    complete = [report.topic for report in outcome.reports if report.snapshot_id is None and report.topic in heads]
    installation.store.ingest_lags.record_complete(
        [CompleteTopic(name, heads[name], digest_topic(found[name])) for name in complete if name in found]
    )
    if outcome.unfollowed:
        record_unfollowed(installation, outcome.unfollowed)
    return outcome


def _find_unchanged(installation: Installation, heads: Mapping[str, str], found: Mapping[str, BrokerTopic]) -> set[str]:
    """Find the topics whose log had everything at the head that it has now, and to which nothing came since."""
    known = installation.store.ingest_lags.find_complete(list(found))
    return {
        name
        for name, complete in known.items()
        if complete.metadata_location == heads.get(name) and complete.brokers_digest == digest_topic(found[name])
    }


def digest_topic(found: BrokerTopic) -> str:
    """Compute a digest of a topic's id, partitions, offsets of committed records, and configuration if known."""
    offsets = sorted((number, each.start_offset, each.stable_offset) for number, each in found.partitions.items())
    configuration = sorted((name, each.value, each.origin.value) for name, each in found.settings.items())
    return documents.compute_digest((found.topic_id, offsets, configuration))
