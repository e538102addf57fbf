"""The steps of Winnow that run as simulated processes, each as a command or a task runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final, Protocol

from simulation.choices import HOUR_MS
from simulation.source import PARTITIONS, Source, SourceRecord, list_keys, write_archive
from winnow.engine import compaction_job, staging
from winnow.errors import UnknownTopicError
from winnow.log.namespaces import DEFAULT_NAMESPACE
from winnow.log.pinned_snapshots import pin_snapshot, unpin_snapshots
from winnow.pipeline.admin.checkpoints import import_checkpoints
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.scrub import open_scrub
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.backup.verify import verify_backup
from winnow.pipeline.compaction.open_runs import settle_open_runs, settle_topic
from winnow.pipeline.compaction.plan import plan_topic
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.erase.lift import lift_erasure
from winnow.pipeline.erase.older_states import adopt_without_erased, recover_without_erased, restore_without_erased
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.pipeline.undo.listing import list_undoable
from winnow.pipeline.undo.undo import undo_change
from winnow.sources.checkpoint_file import CheckpointEntry
from winnow.store import RunState
from winnow.values import documents
from winnow.values.results import Verdict

TOPIC: Final = "orders"
MAXIMUM_APPENDED: Final = 5
TASKS_SHARE: Final = 0.4
"""Share of the erasures whose files tasks search, write and check."""
VALIDATED_SHARE: Final = 0.15
"""Share of the histories in which Great Expectations judges."""

LATEST_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "winnow.latest.partition_by": ("", "bucket(2, key)", "truncate(3, value)"),
    "winnow.latest.sort_by": ("", "value desc", "value asc nulls last"),
    "winnow.latest.update": ("publish", "ingest"),
}
"""How the rows of a typed table are distributed to files and sorted there, and when it is brought up to date."""


class Witness(Protocol):
    """Who is told what a process is about to do, before it does it."""

    def expect_records(self, process: str, records: list[SourceRecord]) -> None:
        """``process`` appends these records, or some of them that nobody has appended yet."""

    def expect_undo(self, process: str) -> None:
        """``process`` takes an ingest back."""

    def expect_taking_back(self, process: str) -> None:
        """``process`` takes a run, or a deletion of records, back."""

    def expect_erasure(self, process: str, keys: frozenset[bytes], *, with_tombstone: bool = False) -> None:
        """``process`` erases ``keys``, or allows them again."""

    def expect_log_start(self, partition: int, offset: int) -> None:
        """Records below ``offset`` may go."""

    def expect_configuration(self, overrides: Mapping[str, str]) -> None:
        """The topic may get this configuration."""

    def expect_removal(self, process: str) -> None:
        """``process`` removes the topic, without a grace."""

    def expect_release(self, process: str) -> None:
        """``process`` may remove tags that pin snapshots."""

    @property
    def is_removed(self) -> bool:
        """Whether the topic is gone for good."""

    @property
    def lost_backup(self) -> tuple[str, str] | None:
        """The backup that is left where everything else is lost: its folder and its id."""

    @property
    def restores(self) -> int:
        """How often everything was restored."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step works with. ``name``: the process. ``seed``: the source's.

    ``arguments``: where the step's own come from; the same for a process of this name in every history of this seed.
    """

    name: str
    seed: int
    installation: Installation
    folder: Path
    arguments: Random
    witness: Witness
    config: Mapping[str, str]
    ahead_ms: int = 0

    @property
    def source(self) -> Source:
        """The topic whose archives are ingested."""
        has_keyless = self.config.get("winnow.keyless") == "quarantine"
        return Source(self.seed, self.ahead_ms, has_keyless, self.config.get("compaction.strategy") == "header")

    @property
    def changes_policy(self) -> bool:
        """Whether the topic is compacted at some times and not at others: then a run moves keyless records."""
        return "winnow.keyless" in self.config and "delete" in self.config["cleanup.policy"]

    @property
    def validates(self) -> bool:
        """Whether Great Expectations judges what is compacted; else all of it counts as accepted, which is faster."""
        return Random(f"validation {self.seed}").random() < VALIDATED_SHARE


def run_creation(context: StepContext) -> None:
    """Create the topic, and give it a log: some ingests, perhaps a compaction."""
    create_topic(context.installation, TOPIC, PARTITIONS, dict(context.config))
    for step in (_append, _append, _compact, _append)[: context.arguments.randrange(5)]:
        step(context)


def _ingest(context: StepContext) -> None:
    """Ingest a file that continues the log, and may begin before its end."""
    # Where a record was compacted away, only a file that was ingested before may begin before the end.
    _append(context, overlaps=(0, 0, 0, 0, 0, 0, 1, 2))


def _append(context: StepContext, overlaps: Sequence[int] = (0,)) -> None:
    state = context.installation.log.open(TOPIC).head().state
    records = []
    for partition in context.arguments.sample(range(PARTITIONS), context.arguments.randint(1, PARTITIONS)):
        end = state.partitions[partition].log_end_offset
        first = max(0, end - context.arguments.choice(overlaps))
        last = end + context.arguments.randrange(1, MAXIMUM_APPENDED + 1)
        records += [context.source.get_record(partition, offset) for offset in range(first, last)]
    archive = context.folder / f"{context.name}.jsonl"
    write_archive(archive, records)
    context.witness.expect_records(context.name, records)
    ingest_files(context.installation, TOPIC, [str(archive)], as_of_ms=context.installation.now_ms())


def _undo_ingest(context: StepContext) -> None:
    """Take the newest ingest back, if that is possible."""
    calls = [call for call in list_ingests(context.installation, TOPIC).calls if call.undoable]
    if calls:
        context.witness.expect_undo(context.name)
        undo_ingest(context.installation, TOPIC, calls[0].ingest_id)


def _take_back(context: StepContext) -> None:
    """Take one of the newest changes back, in one partition or all, with what was made over its result."""
    changes = [each for each in list_undoable(context.installation, TOPIC, limit=5).changes if each.undoable]
    if changes:
        change = context.arguments.choice(changes)
        left = sorted({*change.partitions} - {*change.undone_partitions})
        partitions = left if context.arguments.random() < 0.7 else [context.arguments.choice(left)]
        context.witness.expect_taking_back(context.name)
        undo_change(context.installation, TOPIC, change.change_id, partitions, takes_later=bool(change.needs_later))


def _erase(context: StepContext) -> None:
    """Erase one or two keys; sometimes tasks read and write the files."""
    keys, with_tombstone = _choose_keys(context), context.arguments.random() < 0.3
    engine = "spark" if context.arguments.random() < TASKS_SHARE else "local"
    context.witness.expect_erasure(context.name, keys, with_tombstone=with_tombstone)
    # The reason tells the judge whose erasure it is.
    wanted = EraseRequest(TOPIC, sorted(keys), context.name, with_tombstone=with_tombstone, engine=engine)
    erase_keys(context.installation, wanted)


def _allow(context: StepContext) -> None:
    """Lift the erasure of one or two keys."""
    keys = _choose_keys(context)
    context.witness.expect_erasure(context.name, keys)
    lift_erasure(context.installation, TOPIC, sorted(keys), context.name)


def _choose_keys(context: StepContext) -> frozenset[bytes]:
    return frozenset(context.arguments.choices(list_keys(), k=2))


def _compact(context: StepContext) -> None:
    """Compact what is eligible: settle, plan, rewrite, accept, publish."""
    installation = context.installation
    with hold_lease(installation, TOPIC):
        settle_open_runs(installation, TOPIC)
        attempt = f"a-{context.arguments.randrange(10**9)}"
        plan = plan_topic(installation, TOPIC, as_of_ms=installation.now_ms(), attempt=attempt)
        if plan is not None:
            _carry_out(context, plan.plan_id, plan.uri, plan.sha256, attempt)


def _carry_out(context: StepContext, plan_id: str, uri: str, sha256: str | None, attempt: str) -> None:
    installation = context.installation
    installation.store.runs.begin_attempt(plan_id, attempt, installation.now_ms())
    document = staging.read_plan(uri, sha256)
    results = list(
        compaction_job._run_task(
            [compaction_job.build_units(uri, document)], attempt, installation.budget, lambda _: None
        )
    )
    if compaction_job.write_plan_manifest(uri, document, attempt, results).manifest_uri is None:
        return  # the job failed; whoever settles the run closes it
    manifest = staging.read_manifest(uri, attempt)
    if manifest is None:
        return
    installation.store.runs.set_state(plan_id, RunState.STAGED, installation.now_ms(), attempt=attempt)
    if context.validates:
        validate_attempt(installation, plan_id, attempt, index=False)
        publish_attempt(installation, plan_id, attempt)
        return
    verdict = Verdict(
        plan_id,
        document.topic,
        attempt,
        True,
        False,
        (),
        installation.now_ms(),
        manifest_digest=documents.compute_digest(manifest),
        plan_sha256=sha256,
    )
    installation.store.verdicts.record(verdict)
    installation.store.runs.set_state(plan_id, RunState.VALIDATED, installation.now_ms(), attempt=attempt)
    publish_attempt(installation, plan_id, attempt)


def _retry(context: StepContext) -> None:
    """Carry out the plan of a run once more, as a task does that is started twice, or cleared in Airflow."""
    installation = context.installation
    runs = [run for run in installation.store.runs.list_runs(TOPIC, 3) if not run.status.is_closed]
    if not runs:
        return
    run = context.arguments.choice(runs)
    if run.attempt and run.status in {RunState.VALIDATED, RunState.PUBLISHING, RunState.UNKNOWN}:
        publish_attempt(installation, run.plan_id, run.attempt)
        return
    attempt = f"r-{context.arguments.randrange(10**9)}"
    _carry_out(context, run.plan_id, run.plan_uri, run.plan_sha256, attempt)


def _settle(context: StepContext) -> None:
    """Settle what runs left open."""
    settle_topic(context.installation, TOPIC)


def _sweep(context: StepContext) -> None:
    """Delete what nothing needs any more."""
    sweep_topics(context.installation, [TOPIC])


def _scrub(context: StepContext) -> None:
    """Read every file of the log."""
    open_scrub(context.installation, [TOPIC])


def _delete_records(context: StepContext) -> None:
    """Delete the oldest records of one partition, where the policy allows it."""
    head = context.installation.log.open(TOPIC).head()
    partition = context.arguments.randrange(PARTITIONS)
    end = head.state.partitions[partition].log_end_offset
    if "delete" in context.config["cleanup.policy"] and end:
        offset = context.arguments.randint(0, end)
        context.witness.expect_log_start(partition, offset)
        delete_records(context.installation, TOPIC, {partition: offset})


def _update_latest_table(context: StepContext) -> None:
    """Update the table of the latest value of each key."""
    if context.config.get("winnow.latest.table") == "true":
        update_latest_table(context.installation, TOPIC)


def _alter(context: StepContext) -> None:
    """Change the topic's configuration."""
    name, values = context.arguments.choice(
        [
            *(LATEST_CHOICES.items() if "winnow.value.format" in context.config else ()),
            ("delete.retention.ms", ("0", str(HOUR_MS), str(48 * HOUR_MS))),
            ("winnow.retired.grace.ms", ("0", str(HOUR_MS), str(48 * HOUR_MS))),
            ("min.cleanable.dirty.ratio", ("0", "0.5")),
            ("min.compaction.lag.ms", ("0", str(HOUR_MS))),
        ]
    )
    overrides = {name: context.arguments.choice(values)}
    context.witness.expect_configuration(overrides)
    alter_topic(context.installation, TOPIC, overrides, [])


def _switch_policy(context: StepContext) -> None:
    """Begin to compact the topic, or end it."""
    if context.changes_policy:
        policy = context.arguments.choice(["delete", "compact", "compact,delete", "compact,delete"])
        alter_topic(context.installation, TOPIC, {"cleanup.policy": policy}, [])


def _pause(context: StepContext) -> None:
    """Pause a partition."""
    pause_partitions(context.installation, TOPIC, [context.arguments.randrange(PARTITIONS)], by="ann")


def _resume(context: StepContext) -> None:
    """Resume all partitions."""
    resume_partitions(context.installation, TOPIC, by="ann", everybody=True)


def _pin(context: StepContext) -> None:
    """Pin the newest snapshot, as a restore into Kafka does."""
    log = context.installation.log.open(TOPIC)
    pin_snapshot(log, f"winnow-restore-{context.name}", log.head())


def _unpin(context: StepContext) -> None:
    """Release all pins."""
    context.witness.expect_release(context.name)
    unpin_snapshots(context.installation.log.open(TOPIC), lambda _: True)


def _delete_topic(context: StepContext) -> None:
    """Delete the topic, and bring it back."""
    context.witness.expect_release(context.name)
    delete_topic(context.installation, TOPIC)
    restore_without_erased(context.installation, TOPIC)


def _remove_topic(context: StepContext) -> None:
    """Delete the topic for good."""
    context.witness.expect_removal(context.name)
    delete_topic(context.installation, TOPIC, now=True)


def _create_topic(context: StepContext) -> None:
    """Create another topic of the name of one that is gone for good."""
    if context.witness.is_removed:
        run_creation(context)


def _restore_topic(context: StepContext) -> None:
    """Bring the topic back if it is deleted."""
    context.witness.expect_release(context.name)
    restore_without_erased(context.installation, TOPIC)


def recover(context: StepContext) -> None:
    """Take the newest complete metadata, as after an accident; enter them where the catalog has lost them."""
    context.witness.expect_release(context.name)
    try:
        recover_without_erased(context.installation, TOPIC, run=True)
    except UnknownTopicError:
        if context.witness.is_removed:
            return
        folders = context.folder.glob(f"home/warehouse/{DEFAULT_NAMESPACE}/{TOPIC}-*")
        # Of a topic that was removed before, folders with files of others may be left.
        for folder in sorted(each for each in folders if any(each.glob("metadata/*.metadata.json"))):
            adopt_without_erased(context.installation, TOPIC, folder.as_uri(), run=True)


def _rebuild_store(context: StepContext) -> None:
    """Write the store's rows of the topic anew."""
    rebuild_store(context.installation, [TOPIC])


def _import_checkpoint(context: StepContext) -> None:
    """Take the checkpoint of a cleaner of Kafka's over, for one partition."""
    entry = CheckpointEntry(TOPIC, context.arguments.randrange(PARTITIONS), context.arguments.randrange(8))
    import_checkpoints(context.installation, TOPIC, [entry])


def _back_up(context: StepContext) -> None:
    """Back everything up, or what has changed since the last time, and read all of it."""
    # What was restored is another installation.
    destination = str(context.folder / f"backup-{context.witness.restores}")
    create_backup(context.installation, destination)
    findings = verify_backup(destination).findings
    assert not findings, f"The backup that was just made is damaged: {findings[0]}"


def restore_lost(context: StepContext) -> None:
    """Restore the newest backup where everything else is lost."""
    if context.witness.lost_backup is not None:
        restore_backup(context.installation, *context.witness.lost_backup)


def _read(context: StepContext) -> None:
    """Read the log to its end."""
    for _ in read_batches(context.installation, TOPIC):
        continue


@dataclass(frozen=True, slots=True)
class Step:
    """What a process can do. ``weight``: how often it does."""

    run: Callable[[StepContext], None]
    weight: int


STEPS: Final[Mapping[str, Step]] = MappingProxyType(
    {
        "ingest": Step(_ingest, 8),
        "undo": Step(_undo_ingest, 2),
        "take-back": Step(_take_back, 3),
        "erase": Step(_erase, 3),
        "allow": Step(_allow, 2),
        "compact": Step(_compact, 7),
        "retry": Step(_retry, 3),
        "settle": Step(_settle, 1),
        "sweep": Step(_sweep, 4),
        "scrub": Step(_scrub, 1),
        "delete-records": Step(_delete_records, 2),
        "latest-table": Step(_update_latest_table, 2),
        "alter": Step(_alter, 1),
        "switch-policy": Step(_switch_policy, 3),
        "pause": Step(_pause, 1),
        "resume": Step(_resume, 1),
        "pin": Step(_pin, 2),
        "unpin": Step(_unpin, 1),
        "delete-topic": Step(_delete_topic, 1),
        "restore-topic": Step(_restore_topic, 1),
        "remove-topic": Step(_remove_topic, 2),
        "create-topic": Step(_create_topic, 3),
        "recover": Step(recover, 1),
        "rebuild-store": Step(_rebuild_store, 1),
        "import-checkpoint": Step(_import_checkpoint, 1),
        "back-up": Step(_back_up, 2),
        "restore-backup": Step(restore_lost, 1),
        "read": Step(_read, 2),
    }
)
