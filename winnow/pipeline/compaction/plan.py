"""Builds the plan of eligible partitions, writes it to the staging area, and packs plans into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow import __version__
from winnow.config.topic import TopicConfig
from winnow.engine import staging
from winnow.files import storage
from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.overview import build_overview, record_assessed_topics, suppress_overview_errors
from winnow.pipeline.topics.topic_view import EarlierRuns, TopicView, build_rules, load_topic_view
from winnow.planning import plans as planning
from winnow.planning.estimates import estimate_plan
from winnow.planning.plans import Batch, PlanReference, TopicFacts, make_plan, plan_partition
from winnow.report.events import log_event
from winnow.store.assessments import AssessedTopic
from winnow.values import documents
from winnow.values.model import Assessment, Plan

MAXIMUM_BATCH_BYTES = 64 << 30
"""Topics share a Spark application up to this many bytes; a larger topic has its own."""


def build_plan(
    installation: Installation,
    view: TopicView,
    assessments: Sequence[Assessment],
    *,
    as_of_ms: int,
    earlier: EarlierRuns | None = None,
) -> Plan | None:
    """Build the plan for the eligible partitions of ``view``; None if there are none. Writes nothing.

    ``earlier``: earlier runs, if they were read already.
    """
    eligible = [assessment for assessment in assessments if assessment.eligible]
    if not eligible:
        return None
    by_partition = {partition.partition: partition for partition in view.partitions}
    earlier = earlier or EarlierRuns(installation, view.log.topic)
    partitions = []
    for found in eligible:
        log = by_partition[found.partition]
        planned = plan_partition(log, view.rules, found, as_of_ms=as_of_ms, now_ms=view.now_ms)
        expected = estimate_plan(planned, log.state.history, earlier.shares)
        partitions.append(
            replace(
                planned,
                expected_records_kept=expected.expected_records_kept,
                expected_bytes_out=expected.expected_bytes_out,
            )
        )
    facts = TopicFacts(
        topic=view.log.topic,
        table_uuid=view.head.table_uuid,
        data_location=storage.join(view.head.location, "data"),
        delete_retention_ms=view.config.delete_retention_ms,
        winnow_version=__version__,
        partition_count=len(view.partitions) if view.head.state.partitions_added else None,
        quarantine_location=installation.log.quarantine(view.log.topic, view.head).location,
        configuration=compute_configuration_digest(view.config),
        undone_ms=max((each.at_ms for each in view.head.state.undone), default=None),
    )
    return make_plan(facts, view.rules, partitions, as_of_ms=as_of_ms)


def compute_configuration_digest(config: TopicConfig) -> str:
    """Compute a digest of everything in ``config`` that decides what a plan removes, and how long tombstones stay."""
    return documents.compute_digest((build_rules(config), config.delete_retention_ms))


def plan_topic(
    installation: Installation, topic: str, *, as_of_ms: int, attempt: str = "", closes_active: bool = False
) -> PlanReference | None:
    """Assess ``topic`` at its head, write the plan of its eligible partitions, and record its run.

    The run's row exists before Spark starts. Planning the same decision again gives the same id and changes nothing.
    ``closes_active``: the active segments count as closed.
    """
    started_ms = installation.now_ms()
    view = load_topic_view(installation, topic, installation.log.open(topic).newest_head())
    decided = view.close_active() if closes_active else view
    assessments = assess_view(installation, decided, as_of_ms=as_of_ms)
    earlier = EarlierRuns(installation, topic)
    look = AssessedTopic(assessments, table_uuid=view.head.table_uuid)
    with suppress_overview_errors(topic):
        look = replace(build_overview(installation, view, earlier), assessments=assessments)
    record_assessed_topics(installation, [look], as_of_ms=as_of_ms)
    view = decided
    plan = build_plan(installation, view, assessments, as_of_ms=as_of_ms, earlier=earlier)
    if plan is None:
        return None
    if installation.settings.vended_credentials and any(s.keyless for part in plan.partitions for s in part.segments):
        # Tasks write there before the table's first commit.
        installation.log.quarantine(topic, view.head).prepare()
    before = installation.store.runs.find(plan.plan_id)
    known_sha256 = None if before is None else before.plan_sha256
    uri, sha256 = staging.write_plan(installation.settings.staging, plan, known_sha256=known_sha256)
    installation.store.runs.open(
        plan.plan_id,
        topic,
        attempt=attempt,
        as_of_ms=as_of_ms,
        plan_uri=uri,
        plan_sha256=sha256,
        now_ms=installation.now_ms(),
        holder=installation.holder,
        fence=view.head.fence,
        planning_since_ms=started_ms,
        table_uuid=view.head.table_uuid,
    )
    planned = build_reference(plan, uri, sha256)
    log_event(
        "planned",
        topic,
        plan_id=plan.plan_id,
        attempt=attempt,
        partitions=planned.partitions,
        bytes=planned.size_bytes,
        deadline_ms=planned.deadline_ms,
        as_of_ms=as_of_ms,
        duration_ms=installation.now_ms() - started_ms,
    )
    return planned


def build_reference(plan: Plan, uri: str, sha256: str) -> PlanReference:
    """Build the reference that tasks exchange instead of ``plan``, whose bytes at ``uri`` have digest ``sha256``."""
    deadlines = [p.deadline_ms for p in plan.partitions if p.deadline_ms is not None]
    return PlanReference(
        topic=plan.topic,
        plan_id=plan.plan_id,
        uri=uri,
        partitions=len(plan.partitions),
        size_bytes=sum(p.size_bytes for p in plan.partitions),
        deadline_ms=min(deadlines, default=None),
        sha256=sha256,
    )


def pack_batches(plans: Sequence[PlanReference], *, batch_bytes: int = MAXIMUM_BATCH_BYTES) -> list[Batch]:
    """Pack plans into Spark applications, most urgent first."""
    return planning.pack_batches(plans, batch_bytes=batch_bytes)
