"""Restores a topic's published log into a Kafka topic: begin or resume, write, read back, configure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from winnow.config.topic import TopicConfig
from winnow.errors import BadInputError, UsageError, ValidationFailedError, WinnowError
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.group_offsets import GroupOffsets
from winnow.kafka.range_reader import TruncatedRangeError
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.installation import Installation
from winnow.pipeline.restore.open_restore import RestoreOpening
from winnow.pipeline.restore.read_back import PartitionOffset, TargetContent, read_back
from winnow.pipeline.restore.restore_outcome import RestoreOutcome
from winnow.pipeline.restore.restore_progress import Watcher, count_bytes
from winnow.pipeline.restore.restore_request import (
    RestoredPartition,
    RestoreReport,
    RestoreRequest,
    TranslatedGroup,
)
from winnow.pipeline.restore.restore_state import Phase, RestoreState
from winnow.pipeline.restore.share_names import fence_shares, name_restore
from winnow.pipeline.restore.share_processes import ShareProcesses
from winnow.pipeline.restore.source_log import SourceLog
from winnow.pipeline.restore.target_configuration import (
    apply_configuration,
    choose_batch_bytes,
    make_final_configuration,
)
from winnow.pipeline.restore.verify_records import PartitionFigures
from winnow.pipeline.restore.write_records import write_records
from winnow.pipeline.topics.audit import record_action
from winnow.report.events import log_event
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count
from winnow.values.epochs import locate_offset
from winnow.values.model import OffsetRange


def restore_topic(
    installation: Installation,
    request: RestoreRequest,
    settings: ClientSettings,
    watch: Watcher = lambda what, done, total: None,
) -> RestoreReport:
    """Restore, or go on with an interrupted restore; each record is written exactly once.

    Raises:
        UsageError: the request cannot be fulfilled, or differs from that of the restore to go on with.
        BadInputError: the target is not empty, was created anew, or would not keep the records.
        ValidationFailedError: the log is damaged, or the target does not hold what was written.
        TopicBusyError: another process restores into the target.
        ServiceError: a cluster, catalog or store cannot be reached.
    """
    outcome = RestoreOutcome(request, settings)
    try:
        return _restore_topic(installation, request, settings, watch, outcome)
    except WinnowError as problem:
        if outcome.state is not None:
            _record(installation, request.topic, request.target_topic, f"stopped. {outcome.describe()}")
        problem.args = tuple(outcome.explain(problem))
        raise


def _restore_topic(
    installation: Installation,
    request: RestoreRequest,
    settings: ClientSettings,
    watch: Watcher,
    outcome: RestoreOutcome,
) -> RestoreReport:
    began_ms = installation.now_ms()
    log = installation.log.open(request.topic)
    log.newest_head()  # an unknown or deleted topic is said before a broker is asked
    _require_folder(request)
    config = log.config()  # one that cannot be given to the target is said now, not at the end
    target = TargetTopic(settings, request.target_topic)
    name, batch_bytes = name_restore(request.target_topic), choose_batch_bytes(target, config)
    with TransactionalWriter(settings, request.target_topic, name, batch_bytes) as writer:
        run = _Run(request, settings, config, target, writer, watch, outcome)
        writer.open()
        opening = RestoreOpening(request, settings, log, target, writer, watch)
        resumed = opening.resume()
        if resumed is None or resumed[0].phase is Phase.WRITING:
            run.require_idle_groups()
        state, source = resumed or opening.begin()
        outcome.begin(state)
        if state.phase is not Phase.COMPLETE:
            began = "begun" if resumed is None else "went on"
            _record(installation, request.topic, request.target_topic, began)
        report = RestoreReport(
            request.topic,
            request.target_topic,
            state.identity.snapshot_id,
            state.identity.bound,
            was_complete=state.phase is Phase.COMPLETE,
        )
        if source is not None:
            before = state
            state, verified = run.copy(source, state, batch_bytes)
            state = run.commit(state, Phase.VERIFIED, verified.groups)
            report = replace(
                report,
                partitions=_list_partitions(before, state, verified.figures),
                groups=tuple(TranslatedGroup(name, offsets) for name, offsets in verified.groups.items()),
                offsets_file=str(request.offsets_file),
                notices=_describe_figures(verified.figures, request),
            )
        if state.phase is Phase.VERIFIED:
            report = replace(report, notices=(*report.notices, *run.configure(state)))
            state = run.commit(state, Phase.COMPLETE)
        opening.unpin(state.identity.restore_id)
    report = replace(report, duration_ms=installation.now_ms() - began_ms)
    if not report.was_complete:
        _record(installation, request.topic, request.target_topic, f"complete, {state.records:,} records")
    if report.partitions:
        log_event(
            "restored",
            request.topic,
            target_topic=request.target_topic,
            records=report.records,
            records_written=sum(each.records_written for each in report.partitions),
            snapshot_id=report.snapshot_id,
            duration_ms=report.duration_ms,
        )
    return report


def abandon_restore(installation: Installation, topic: str, target_topic: str, settings: ClientSettings) -> None:
    """Give up a restore: stop its process if one runs, forget its positions, release its snapshot.

    The target keeps the records that it has. No restore goes on from them; one that begins refuses the topic.

    Raises:
        ServiceError: a cluster, catalog or store cannot be reached.
    """
    log = installation.log.open(topic)
    log.head()
    target = TargetTopic(settings, target_topic)
    with TransactionalWriter(settings, target_topic, name_restore(target_topic)) as writer:
        writer.open()
        fence_shares(settings, target_topic)
        GroupOffsets(settings, target_topic).delete(name_restore(target_topic))
        request = RestoreRequest(topic, target_topic)
        RestoreOpening(request, settings, log, target, writer).unpin()
    _record(installation, topic, target_topic, "given up")


def _record(installation: Installation, topic: str, target_topic: str, what: str) -> None:
    record_action(installation, AuditAction.RESTORE_RECORDS, topic, detail=f"into Kafka's topic {target_topic}: {what}")


def _require_folder(request: RestoreRequest) -> None:
    file = request.offsets_file
    if file.is_dir():
        raise UsageError(
            f"--offsets {file} is a folder.",
            left="Nothing was restored.",
            next="Name a file in it.",
        )
    if not file.absolute().parent.is_dir():
        raise UsageError(
            f"--offsets {file}: the folder {file.parent} does not exist.",
            left="Nothing was restored.",
        )


@dataclass(frozen=True, slots=True)
class _Verified:
    """What was read back. ``groups``: the offsets to commit for each consumer group."""

    figures: Mapping[int, PartitionFigures]
    groups: Mapping[str, Mapping[int, int]]


class _Run:
    """One call of a restore."""

    def __init__(
        self,
        request: RestoreRequest,
        settings: ClientSettings,
        config: TopicConfig,
        target: TargetTopic,
        writer: TransactionalWriter,
        watch: Watcher,
        outcome: RestoreOutcome,
    ) -> None:
        self._request, self._settings, self._config = request, settings, config
        self._target, self._writer, self._watch, self._outcome = target, writer, watch, outcome
        self._group_offsets = GroupOffsets(settings, target.name)

    def require_idle_groups(self, done: str = "") -> None:
        """Check that no group whose offsets are to be set has members; ``done``: what to say of the records.

        Raises:
            BadInputError: one has.
        """
        groups = self._request.groups
        active = self._group_offsets.list_active(groups.groups if groups is not None else ())
        if active:
            raise BadInputError(
                f"Consumer group {active[0]} has members in the target's cluster, which would not notice that its "
                f"offsets are set. {done}Its offsets were not set.",
                next="Stop its consumers, or take its lines out of the file, and run it again.",
            )

    def copy(self, source: SourceLog, state: RestoreState, batch_bytes: int) -> tuple[RestoreState, _Verified]:
        """Write what is missing, then read everything back; ``batch_bytes``: as of writers. Returns the state reached.

        Raises:
            ValidationFailedError: the target does not hold what was written.
            BadInputError: the target was created anew or lost records, or a group has other offsets or members.
        """
        wish = self._request
        with ExitStack() as opened:
            shares: ShareProcesses | None = None
            if state.identity.shares > 1:
                shares = opened.enter_context(
                    ShareProcesses(
                        source,
                        state,
                        self._target.name,
                        self._settings,
                        self._writer,
                        batch_bytes=batch_bytes,
                        bytes_per_second=wish.bytes_per_second,
                    )
                )
            state = self._write(source, state, shares)
            try:
                return state, self._verify(source, state, shares)
            except (ValidationFailedError, TruncatedRangeError) as problem:
                # A target that another process has completed is its applications': it may differ by now.
                self._writer.require_held()
                if isinstance(problem, TruncatedRangeError):
                    # What the target has lost does not come back by running it again.
                    advice = "Delete it and run this again: it begins anew."
                    raise BadInputError(problem.what, problem.left, advice) from None
                raise

    def _write(self, source: SourceLog, state: RestoreState, shares: ShareProcesses | None) -> RestoreState:
        left = {n: OffsetRange(each.next_offset, each.end_offset) for n, each in state.partitions.items()}
        on_progress = count_bytes(self._watch, "Writing", source, left)
        if shares is not None:
            return shares.write(state, on_progress, self._outcome.move)
        return write_records(
            source,
            self._target,
            self._writer,
            state,
            bytes_per_second=self._request.bytes_per_second,
            on_progress=on_progress,
            on_commit=self._outcome.move,
        )

    def _verify(self, source: SourceLog, state: RestoreState, shares: ShareProcesses | None) -> _Verified:
        """Read the target back, write the offset translation, and translate the groups' offsets."""
        wish = self._request
        found = self._target.wait_for_stable_end()
        if found.topic_id != state.identity.target_id:
            raise BadInputError(
                f"Topic {found.name} was deleted and created again while it was being restored.",
                next="Delete it and run this again: it begins anew.",
            )
        listed = wish.groups.offsets if wish.groups is not None else ()
        # Brokers know offsets of the newest epoch.
        known = ((each.partition, locate_offset(source.epochs, each.partition, each.offset)) for each in listed)
        content = TargetContent(
            found.name,
            {number: each.stable_offset for number, each in found.partitions.items()},
            tuple(PartitionOffset(*each) for each in known),
            str(wish.offsets_file),
        )
        all_of_it = {number: OffsetRange(0, each.end_offset) for number, each in state.partitions.items()}
        on_progress = count_bytes(self._watch, "Verifying", source, all_of_it)
        if shares is not None:
            done = shares.read_back(content, on_progress)
        else:
            done = read_back(source, self._settings, content, state, on_progress)
        groups: dict[str, dict[int, int]] = {}
        for each, offset in zip(listed, done.translated, strict=True):
            groups.setdefault(each.group, {})[each.partition] = offset
        self._require_unset_groups(groups)
        return _Verified(done.figures, groups)

    def _require_unset_groups(self, translated: Mapping[str, Mapping[int, int]]) -> None:
        for group, offsets in translated.items():
            present = self._group_offsets.read(group)
            if any(present.get(number, offset) != offset for number, offset in offsets.items()):
                raise BadInputError(
                    f"Consumer group {group} has other offsets in topic {self._target.name} already, which were not "
                    "replaced. All records are restored.",
                    next=(
                        f"Delete them (kafka-consumer-groups.sh --delete-offsets --group {group} --topic "
                        f"{self._target.name}) and run it again."
                    ),
                )
        self.require_idle_groups("All records are restored. ")

    def commit(
        self, state: RestoreState, phase: Phase, groups: Mapping[str, Mapping[int, int]] | None = None
    ) -> RestoreState:
        """Commit that the restore is in ``phase``, and with it offsets of consumer groups."""
        state = state.advance({}, phase)
        self._writer.begin()
        self._writer.commit(state.to_positions(), groups or {})
        self._outcome.move(state)
        return state

    def configure(self, state: RestoreState) -> Sequence[str]:
        """Give the target the topic's configuration, if the restore created it; return what to say."""
        final = make_final_configuration(self._config)
        if not state.identity.sets_configuration:
            wanted = ", ".join(f"{name}={value}" for name, value in final.values.items() if value is not None)
            stays = (
                f"Topic {self._target.name} was there before: its configuration stays as it is. The log's: {wanted}."
            )
            return (stays, *final.notices)
        return (*final.notices, *apply_configuration(self._target, self._config, final))


def _describe_figures(figures: Mapping[int, PartitionFigures], request: RestoreRequest) -> tuple[str, ...]:
    notices = []
    stamped = sum(each.log_append_times for each in figures.values())
    if stamped:
        notices.append(
            f"{format_count(stamped, 'record')} had the broker's time (LogAppendTime); they have the same time as the "
            "producer's (CreateTime) now."
        )
    dropped = sum(each.timestamps_dropped for each in figures.values())
    if dropped:
        notices.append(f"Restored without their timestamp of 0 or before 1970: {format_count(dropped, 'record')}.")
    if request.groups is not None and request.groups.left_out:
        notices.append(
            f"Left out, since about other topics: {format_count(request.groups.left_out, 'line')} of --groups."
        )
    return tuple(notices)


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
