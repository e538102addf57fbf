"""Restores a topic's published log into a Kafka topic: begin or resume, write, read back, configure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from winnow.errors import BadInputError, UsageError
from winnow.files.private_files import translate_disk_errors
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.group_offsets import GroupOffsets
from winnow.kafka.range_reader import RangeReader
from winnow.kafka.target_topic import TargetDescription, TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.log.head import Head
from winnow.log.pinned_snapshots import pin_snapshot, unpin_snapshots
from winnow.log.topic_log import TopicLog
from winnow.model import OffsetRange
from winnow.pipeline.context import Context
from winnow.pipeline.restore.offset_translation import GroupFile, OffsetTranslator, TranslationFile
from winnow.pipeline.restore.restore_state import Identity, Phase, Progress, RestoreState, parse_state
from winnow.pipeline.restore.source_log import RestoreBound, SourceLog
from winnow.pipeline.restore.target_configuration import (
    RESTORING,
    is_restoring,
    make_final_configuration,
    require_restorable,
)
from winnow.pipeline.restore.verify_records import PartitionFigures, verify_records
from winnow.pipeline.restore.write_records import write_records

RESTORE_NAME = "winnow-restore-{target}"
"""The transactional id and the consumer group of restores into a topic."""
Watcher = Callable[[str, int, int], None]
"""Is told what is being done (``writing``, ``verifying``), and how many bytes of the log are done and in all."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What to restore, and how. ``snapshot_id`` None: the newest, or the one that a resumed restore began with."""

    topic: str
    target_topic: str
    offsets_file: Path
    bound: RestoreBound = RestoreBound()
    snapshot_id: int | None = None
    groups: GroupFile | None = None
    bytes_per_second: float | None = None
    replication_factor: int | None = None
    drops_timestamps: bool = False


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """One partition of a finished restore. Ends are exclusive; ``records_written``: by this call."""

    partition: int
    end_offset: int
    target_start: int
    target_end: int
    records: int
    records_written: int
    tombstones: int


@dataclass(frozen=True, slots=True)
class TranslatedGroup:
    """Offsets that were committed for a consumer group in the target, by partition."""

    group: str
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did. ``was_complete``: it had been finished before, and nothing was done now."""

    topic: str
    target_topic: str
    snapshot_id: int | None
    bound: str
    was_complete: bool
    partitions: tuple[RestoredPartition, ...] = ()
    groups: tuple[TranslatedGroup, ...] = ()
    offsets_file: str | None = None
    notices: tuple[str, ...] = ()
    duration_ms: int = 0

    @property
    def records(self) -> int:
        """Records in the target."""
        return sum(each.records for each in self.partitions)


def restore_topic(
    ctx: Context, request: RestoreRequest, settings: ClientSettings, watch: Watcher = lambda what, done, total: None
) -> RestoreReport:
    """Restore, or go on with an interrupted restore; each record is written exactly once.

    Raises:
        UsageError: the request cannot be fulfilled, or differs from that of the restore to go on with.
        BadInputError: the target is not empty, was created anew, or would not keep the records.
        ValidationFailedError: the log is damaged, or the target does not hold what was written.
        TopicBusyError: another process restores into the target.
        ServiceError: a cluster, catalog or store cannot be reached.
    """
    began_ms = ctx.now_ms()
    log = ctx.log.open(request.topic)
    log.head()  # an unknown or deleted topic is said before a broker is asked
    with translate_disk_errors(request.offsets_file.absolute().parent, "--offsets"):
        _require_folder(request.offsets_file)
    target = TargetTopic(settings, request.target_topic)
    group_offsets = GroupOffsets(settings, request.target_topic)
    _require_idle_groups(group_offsets, request)
    name = RESTORE_NAME.format(target=request.target_topic)
    with TransactionalWriter(settings, request.target_topic, name) as writer:
        writer.open()
        run = _Run(ctx, request, log, target, writer, watch)
        state, source = run.resume() or run.begin()
        notices: list[str] = []
        report = RestoreReport(
            request.topic,
            request.target_topic,
            state.identity.snapshot_id,
            state.identity.bound,
            was_complete=state.phase is Phase.COMPLETE,
        )
        if state.phase is Phase.WRITING:
            assert source is not None
            before = state
            state = run.write(source, state)
            figures, groups = run.verify(source, state, settings, group_offsets)
            notices += _describe_figures(figures, request)
            report = replace(
                report,
                partitions=_list_partitions(before, state, figures),
                groups=groups,
                offsets_file=str(request.offsets_file),
            )
            state = run.commit_phase(state, Phase.VERIFIED)
        if state.phase is Phase.VERIFIED:
            notices += run.configure(state)
            state = run.commit_phase(state, Phase.COMPLETE)
        run.unpin(lambda tag: tag == run.name_pin(state.identity.restore_id))
    return replace(report, notices=tuple(notices), duration_ms=ctx.now_ms() - began_ms)


def _require_folder(file: Path) -> None:
    if file.is_dir():
        raise UsageError(f"--offsets {file} is a folder. Name a file in it. Nothing was restored.")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"--offsets {file}: the folder {file.parent} does not exist. Nothing was restored.")


def _require_idle_groups(group_offsets: GroupOffsets, request: RestoreRequest) -> None:
    if request.groups is None:
        return
    active = group_offsets.list_active(request.groups.groups)
    if active:
        raise BadInputError(
            f"Consumer group {active[0]} has members in the target's cluster, so its offsets cannot be set. Stop its "
            "consumers, or take its lines out of the file. Nothing was restored."
        )


class _Run:
    """One call of a restore."""

    def __init__(
        self,
        ctx: Context,
        request: RestoreRequest,
        log: TopicLog,
        target: TargetTopic,
        writer: TransactionalWriter,
        watch: Watcher,
    ) -> None:
        self._ctx, self._request, self._log = ctx, request, log
        self._target, self._writer, self._watch = target, writer, watch
        self._pins = f"winnow-restore.{target.read_cluster_id()}.{target.name}."

    def name_pin(self, restore_id: str) -> str:
        """Return the tag that pins the snapshot of a restore."""
        return f"{self._pins}{restore_id}"

    def unpin(self, chosen: Callable[[str], bool]) -> None:
        """Release the snapshots of restores into this target that ``chosen`` accepts by their tag."""
        unpin_snapshots(self._log, lambda tag: tag.startswith(self._pins) and chosen(tag))

    # ------------------------------------------------------------------ going on

    def resume(self) -> tuple[RestoreState, SourceLog | None] | None:
        """Return the state to go on from, and the log unless everything is written; None: there is none.

        Raises:
            BadInputError: what was committed is of another restore, or of a former topic of this name.
            UsageError: the request differs from that of the restore to go on with.
        """
        found = self._target.describe()
        if found is None:
            return None
        positions = self._writer.read_positions(found.topic.partitions)
        if not positions:
            return None
        state = parse_state(self._request.topic, self._target.name, positions)
        self._require_same(state, found)
        if state.phase is not Phase.WRITING:
            return state, None
        return state, SourceLog(self._log, self._load_pinned(state.identity))

    def _require_same(self, state: RestoreState, found: TargetDescription) -> None:
        own, name = state.identity, self._target.name
        if own.target_id != found.topic.topic_id or set(state.partitions) != set(found.topic.partitions):
            raise BadInputError(
                f"Topic {name} was deleted and created again since the restore into it began. What stands in it now is "
                "not this restore. Nothing was written. Delete it and run this again once the brokers have forgotten "
                f"the consumer group {RESTORE_NAME.format(target=name)}, or name another --target-topic."
            )
        if own.table_uuid != self._log.head().table_uuid:
            raise BadInputError(
                f"Topic {name} holds a restore of a former topic {own.topic}, which was deleted and created again. "
                "Nothing was written. Choose another --target-topic."
            )
        wish, dropping = self._request, "--timestamps-before-1970 drop"
        differences = [
            text
            for differs, text in (
                (own.bound != str(wish.bound), f"it restores {own.bound}, and this call says {wish.bound}"),
                (
                    wish.snapshot_id is not None and wish.snapshot_id != own.snapshot_id,
                    f"it restores snapshot {own.snapshot_id}",
                ),
                (
                    own.drops_timestamps != wish.drops_timestamps,
                    f"it began {'with' if own.drops_timestamps else 'without'} {dropping}",
                ),
            )
            if differs
        ]
        if differences:
            raise UsageError(
                f"Topic {name} holds another restore of {own.topic}: {'; '.join(differences)}. Nothing was written. "
                "Run it as it began, or choose another --target-topic."
            )

    def _load_pinned(self, identity: Identity) -> Head:
        if identity.snapshot_id is None:
            return self._log.head()
        try:
            return self._log.snapshot(identity.snapshot_id)
        except UsageError:
            raise BadInputError(
                f"The restore into topic {self._target.name} began with snapshot {identity.snapshot_id} of topic "
                f"{identity.topic}, which is gone: its tag was removed. It cannot go on. Delete the target topic and "
                "run it again: it restores the newest snapshot."
            ) from None

    # ------------------------------------------------------------------ beginning

    def begin(self) -> tuple[RestoreState, SourceLog]:
        """Choose and pin the snapshot, create or check the target, and commit where the restore begins.

        Raises:
            BadInputError: the target may not be restored into, or the log has timestamps that cannot be.
            ConfigurationError: the brokers refuse to create the target.
        """
        wish, log = self._request, self._log
        self.unpin(lambda tag: True)  # of calls that died before they committed anything; they are fenced
        head = log.head() if wish.snapshot_id is None else log.snapshot(wish.snapshot_id)
        log.config()  # a configuration that cannot be given to the target is said now, not at the end
        restore_id = uuid.uuid4().hex
        pin_snapshot(log, self.name_pin(restore_id), head)
        try:
            source = SourceLog(log, head)
            ranges = source.find_ranges(wish.bound)
            times_ms = self._check_timestamps(source, ranges)
            found = self._provide_target(len(ranges), times_ms)
            identity = Identity(
                restore_id=restore_id,
                topic=wish.topic,
                table_uuid=head.table_uuid,
                snapshot_id=head.snapshot_id,
                bound=str(wish.bound),
                target_id=found.topic.topic_id,
                sets_configuration=is_restoring(found),
                drops_timestamps=wish.drops_timestamps,
            )
            state = RestoreState(
                identity,
                Phase.WRITING,
                {
                    number: Progress(each.start, each.end, 0, found.topic.partitions[number].stable_offset)
                    for number, each in ranges.items()
                },
            )
            self._commit(state)
        except Exception:
            self.unpin(lambda tag: tag == self.name_pin(restore_id))
            raise
        return state, source

    def _check_timestamps(self, source: SourceLog, ranges: Mapping[int, OffsetRange]) -> tuple[int | None, int | None]:
        lowest = {number: source.find_lowest_timestamp_ms(number, each) for number, each in ranges.items()}
        early = sorted(number for number, time_ms in lowest.items() if time_ms is not None and time_ms <= 0)
        if early and not self._request.drops_timestamps:
            raise BadInputError(
                f"{source.topic}-{early[0]} has records with a timestamp of 0 or before 1970, which Kafka's client "
                "library cannot write: for 0 it takes the present. Nothing was written. With --timestamps-before-1970 "
                "drop they are restored without a timestamp."
            )
        highest = [source.find_highest_timestamp_ms(number, each) for number, each in ranges.items()]
        return (
            min((each for each in lowest.values() if each is not None), default=None),
            max((each for each in highest if each is not None), default=None),
        )

    def _provide_target(self, partitions: int, times_ms: tuple[int | None, int | None]) -> TargetDescription:
        found = self._target.describe()
        if found is None:
            self._target.create(partitions, self._request.replication_factor, RESTORING)
            found = self._target.describe()
            if found is None:
                raise BadInputError(f"Topic {self._target.name} was deleted as soon as it was created. Run it again.")
        require_restorable(found, partitions, times_ms)
        return found

    # ------------------------------------------------------------------ the work

    def write(self, source: SourceLog, state: RestoreState) -> RestoreState:
        """Write what is missing."""
        left = {n: OffsetRange(each.next_offset, each.end_offset) for n, each in state.partitions.items()}
        return write_records(
            source,
            self._target,
            self._writer,
            state,
            bytes_per_second=self._request.bytes_per_second,
            on_progress=self._count_bytes("writing", source, left),
        )

    def verify(
        self, source: SourceLog, state: RestoreState, settings: ClientSettings, group_offsets: GroupOffsets
    ) -> tuple[dict[int, PartitionFigures], tuple[TranslatedGroup, ...]]:
        """Read the target back, write the offset translation, and commit the groups' offsets.

        Raises:
            ValidationFailedError: the target does not hold what was written.
            BadInputError: the target was created anew, or a group has members.
        """
        wish, groups = self._request, self._request.groups
        found = self._target.wait_for_stable_end()
        if found.topic_id != state.identity.target_id:
            raise BadInputError(f"Topic {found.name} was deleted and created again while it was being restored.")
        ends = {number: each.stable_offset for number, each in found.partitions.items()}
        wanted: dict[int, list[int]] = {}
        for each in groups.offsets if groups is not None else ():
            wanted.setdefault(each.partition, []).append(each.offset)
        translator = OffsetTranslator(wanted)
        all_of_it = {number: OffsetRange(0, each.end_offset) for number, each in state.partitions.items()}
        with (
            translate_disk_errors(wish.offsets_file.absolute().parent, "--offsets"),
            TranslationFile(wish.offsets_file) as translation,
            RangeReader(settings) as reader,
        ):
            figures = verify_records(
                source,
                reader,
                found.name,
                state,
                ends,
                translation,
                translator,
                self._count_bytes("verifying", source, all_of_it),
            )
        return figures, self._translate_groups(state, translator, group_offsets)

    def _translate_groups(
        self, state: RestoreState, translator: OffsetTranslator, group_offsets: GroupOffsets
    ) -> tuple[TranslatedGroup, ...]:
        translated: dict[str, dict[int, int]] = {}
        for each in self._request.groups.offsets if self._request.groups is not None else ():
            start = state.partitions[each.partition].target_start
            offset = translator.translate(each.partition, each.offset, start)
            translated.setdefault(each.group, {})[each.partition] = offset
        for group, offsets in translated.items():
            present = group_offsets.read(group)
            if any(present.get(number, offset) != offset for number, offset in offsets.items()):
                raise BadInputError(
                    f"Consumer group {group} has other offsets in topic {self._target.name} already, which were not "
                    "replaced. All records are restored. Delete them (kafka-consumer-groups.sh --delete-offsets "
                    f"--group {group} --topic {self._target.name}) and run it again."
                )
            group_offsets.write(group, offsets)
        return tuple(TranslatedGroup(group, offsets) for group, offsets in translated.items())

    def commit_phase(self, state: RestoreState, phase: Phase) -> RestoreState:
        """Commit that the restore is in ``phase``."""
        state = state.advance({}, phase)
        self._commit(state)
        return state

    def _commit(self, state: RestoreState) -> None:
        self._writer.begin()
        self._writer.commit(state.to_positions())

    def configure(self, state: RestoreState) -> Sequence[str]:
        """Give the target the topic's configuration, if the restore created it; return what to say."""
        final = make_final_configuration(self._log.config())
        if not state.identity.sets_configuration:
            return (
                f"Topic {self._target.name} was there before: its configuration stays as it is. The log's is: "
                f"{', '.join(f'{name}={value}' for name, value in final.values.items() if value is not None)}.",
                *final.notices,
            )
        self._target.alter_configuration(final.values)
        return final.notices

    def _count_bytes(self, what: str, source: SourceLog, ranges: Mapping[int, OffsetRange]) -> Callable[[int], None]:
        total = sum(source.compute_size_bytes(number, each) for number, each in ranges.items() if each.start < each.end)
        done = 0

        def count(size_bytes: int) -> None:
            nonlocal done
            done += size_bytes
            self._watch(what, min(done, total), total)

        self._watch(what, 0, total)
        return count


def _describe_figures(figures: Mapping[int, PartitionFigures], request: RestoreRequest) -> list[str]:
    notices = []
    stamped = sum(each.log_append_times for each in figures.values())
    if stamped:
        notices.append(
            f"{stamped:,} record(s) had the broker's time (LogAppendTime); they have the same time as the producer's "
            "(CreateTime) now."
        )
    dropped = sum(each.timestamps_dropped for each in figures.values())
    if dropped:
        notices.append(f"{dropped:,} record(s) with a timestamp of 0 or before 1970 were restored without one.")
    if request.groups is not None and request.groups.left_out:
        notices.append(f"{request.groups.left_out:,} line(s) of --groups name other topics and were left out.")
    return notices


def _list_partitions(
    before: RestoreState, after: RestoreState, figures: Mapping[int, PartitionFigures]
) -> tuple[RestoredPartition, ...]:
    return tuple(
        RestoredPartition(
            partition=number,
            end_offset=each.end_offset,
            target_start=each.target_start,
            target_end=figures[number].target_end,
            records=each.records,
            records_written=each.records - before.partitions[number].records,
            tombstones=figures[number].tombstones,
        )
        for number, each in sorted(after.partitions.items())
    )
