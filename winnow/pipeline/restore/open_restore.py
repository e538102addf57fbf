"""Opens a restore: goes on with the one that the target holds, or pins a snapshot and begins."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from winnow.errors import BadInputError, ServiceError, UsageError
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.target_topic import TargetDescription, TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.log.head import Head
from winnow.log.pinned_snapshots import pin_snapshot, unpin_snapshots
from winnow.log.topic_log import TopicLog
from winnow.pipeline.restore.record_sizes import LargestRecord, find_largest_record
from winnow.pipeline.restore.restore_progress import Watcher, count_bytes
from winnow.pipeline.restore.restore_request import RestoreRequest
from winnow.pipeline.restore.restore_state import Identity, Phase, Progress, RestoreState, parse_state
from winnow.pipeline.restore.share_names import fence_shares
from winnow.pipeline.restore.source_log import SourceLog
from winnow.pipeline.restore.target_configuration import (
    MESSAGE_BYTES,
    RESTORING,
    RESTORING_BEFORE_3_6,
    is_restoring,
    require_large_enough,
    require_restorable,
)
from winnow.values.counts import format_count
from winnow.values.model import OffsetRange


def open_source(log: TopicLog, head: Head) -> SourceLog:
    """Open the log of a topic as ``head`` has it."""
    return SourceLog(
        topic=log.topic,
        snapshot_id=head.snapshot_id,
        partitions={
            number: OffsetRange(state.log_start_offset, state.log_end_offset)
            for number, state in head.state.partitions.items()
        },
        segments=log.segments(head),
        is_live=lambda segment: segment in log.segments(log.head()).get(segment.partition, ()),
        epochs=head.state.epochs,
    )


class RestoreOpening:
    """Finds a restore to go on with, or begins one; the writer is open, so earlier calls are fenced."""

    def __init__(
        self,
        request: RestoreRequest,
        settings: ClientSettings,
        log: TopicLog,
        target: TargetTopic,
        writer: TransactionalWriter,
        watch: Watcher = lambda phase, done, total: None,
    ) -> None:
        self._request, self._settings, self._log = request, settings, log
        self._target, self._writer, self._watch = target, writer, watch
        self._pins = f"winnow-restore.{target.read_cluster_id()}.{target.name}."

    def unpin(self, restore_id: str = "") -> None:
        """Release the snapshot of one restore into this target, or those of all."""
        length = len(self._pins) + len(uuid.UUID(int=0).hex)  # a name may be the beginning of another with a dot
        unpin_snapshots(self._log, lambda tag: len(tag) == length and tag.startswith(f"{self._pins}{restore_id}"))

    # ------------------------------------------------------------------ going on

    def resume(self) -> tuple[RestoreState, SourceLog | None] | None:
        """Return the state to go on from, and the log unless everything is written; None: there is none.

        Raises:
            BadInputError: what was committed is of another restore, or of a former topic of this name.
            UsageError: the request differs from that of the restore to go on with.
        """
        self._stop_shares()
        found, state = self._read_state()
        if found is None or state is None:
            return None
        self._require_same(state, found)
        if state.phase is not Phase.WRITING:
            return state, None
        return state, open_source(self._log, self._load_pinned(state.identity))

    def _stop_shares(self) -> None:
        """Fence what earlier calls let write; only after that nobody commits positions any more."""
        wished = self._request.shares or 1
        needed = wished if wished > 1 else 0
        try:
            _, state = self._read_state()
        except ServiceError:
            # A share that died within a transaction withholds its positions until that times out, or it is fenced.
            fence_shares(self._settings, self._target.name, needed=needed)
            _, state = self._read_state()
        if state is None:
            # The target may have been deleted while shares of a former restore stood still.
            fence_shares(self._settings, self._target.name, needed=needed)
        elif state.phase is Phase.WRITING and state.identity.shares > 1:
            count = state.identity.shares
            fence_shares(self._settings, self._target.name, count=count, needed=count)

    def _read_state(self) -> tuple[TargetDescription | None, RestoreState | None]:
        found = self._target.describe()
        positions = {} if found is None else self._writer.read_positions(found.topic.partitions)
        return found, parse_state(self._request.topic, self._target.name, positions) if positions else None

    def _require_same(self, state: RestoreState, found: TargetDescription) -> None:
        own, name = state.identity, self._target.name
        if own.target_id != found.topic.topic_id:
            raise BadInputError(
                f"Topic {name} was deleted and created again since the restore into it began. What stands in it now "
                "is not this restore.",
                left="Nothing was written.",
                next=(
                    "Name another --target-topic, or give this restore up (--abandon), delete the topic and begin anew."
                ),
            )
        if set(state.partitions) != set(found.topic.partitions):
            raise BadInputError(
                f"The brokers know the restore's positions in {len(state.partitions)} of the "
                f"{len(found.topic.partitions)} partitions of topic {name}: partitions were added, or positions were "
                "forgotten (offsets.retention.minutes).",
                left="Nothing was written.",
                next="Give this restore up (--abandon), delete the topic and begin anew.",
            )
        if own.table_uuid != self._log.head().table_uuid:
            raise BadInputError(
                f"Topic {name} holds a restore of a former topic {own.topic}, which was deleted and created again.",
                left="Nothing was written.",
                next="Choose another --target-topic.",
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
                    wish.shares is not None and min(wish.shares, len(state.partitions)) != own.shares,
                    f"it is written in {format_count(own.shares, 'share')}",
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
                f"Topic {name} holds another restore of {own.topic}: {'; '.join(differences)}.",
                left="Nothing was written.",
                next="Run it as it began, or choose another --target-topic.",
            )

    def _load_pinned(self, identity: Identity) -> Head:
        if identity.snapshot_id is None:
            return self._log.head()
        try:
            return self._log.snapshot(identity.snapshot_id)
        except UsageError:
            raise BadInputError(
                f"The restore into topic {self._target.name} began with snapshot {identity.snapshot_id} of topic "
                f"{identity.topic}, which is gone: its tag was removed. It cannot go on.",
                next="Delete the target topic and run it again: it restores the newest snapshot.",
            ) from None

    # ------------------------------------------------------------------ beginning

    def begin(self) -> tuple[RestoreState, SourceLog]:
        """Choose and pin the snapshot, create or check the target, and commit where the restore begins.

        Raises:
            BadInputError: the target may not be restored into, or the log has timestamps that cannot be.
            ConfigurationError: the brokers refuse to create the target.
        """
        wish, log = self._request, self._log
        self.unpin()  # of calls that died before they committed anything; they are fenced
        head = log.head() if wish.snapshot_id is None else log.snapshot(wish.snapshot_id)
        config = log.config()
        restore_id = uuid.uuid4().hex
        pin_snapshot(log, f"{self._pins}{restore_id}", head)
        try:
            source = open_source(log, head)
            ranges = source.find_ranges(wish.bound)
            times_ms = self._check_timestamps(source, ranges)
            present = self._target.describe()
            if present is not None:
                require_restorable(present, len(ranges), times_ms)
            largest = find_largest_record(source, ranges, count_bytes(self._watch, "Measuring", source, ranges))
            size_bytes = 0 if largest is None else largest.size_bytes
            if present is None:
                self._create_target(len(ranges), max(size_bytes, config.max_message_bytes))
            found = self._check_target(len(ranges), times_ms, largest)
            identity = Identity(
                restore_id=restore_id,
                topic=wish.topic,
                table_uuid=head.table_uuid,
                snapshot_id=head.snapshot_id,
                bound=str(wish.bound),
                target_id=found.topic.topic_id,
                sets_configuration=is_restoring(found),
                drops_timestamps=wish.drops_timestamps,
                shares=min(wish.shares or 1, len(ranges)),
            )
            state = RestoreState(
                identity,
                Phase.WRITING,
                {
                    number: Progress(each.start, each.end, 0, found.topic.partitions[number].stable_offset)
                    for number, each in ranges.items()
                },
            )
            self._writer.begin()
            self._writer.commit(state.to_positions())
        except Exception:
            self.unpin(restore_id)
            raise
        return state, source

    def _check_timestamps(self, source: SourceLog, ranges: Mapping[int, OffsetRange]) -> tuple[int | None, int | None]:
        lowest = {number: source.find_lowest_timestamp_ms(number, each) for number, each in ranges.items()}
        early = sorted(number for number, time_ms in lowest.items() if time_ms is not None and time_ms <= 0)
        if early and not self._request.drops_timestamps:
            raise BadInputError(
                f"{source.topic}-{early[0]} has records with a timestamp of 0 or before 1970, which Kafka's client "
                "library cannot write: for 0 it takes the present.",
                left="Nothing was written.",
                next="With --timestamps-before-1970 drop they are restored without a timestamp.",
            )
        highest = [source.find_highest_timestamp_ms(number, each) for number, each in ranges.items()]
        return (
            min((each for each in lowest.values() if each is not None), default=None),
            max((each for each in highest if each is not None), default=None),
        )

    def _create_target(self, partitions: int, message_bytes: int) -> None:
        configurations = [{**values, MESSAGE_BYTES: str(message_bytes)} for values in (RESTORING, RESTORING_BEFORE_3_6)]
        self._target.create(partitions, self._request.replication_factor, *configurations)

    def _check_target(
        self, partitions: int, times_ms: tuple[int | None, int | None], largest: LargestRecord | None
    ) -> TargetDescription:
        found = self._target.describe()
        if found is None:
            raise BadInputError(
                f"Topic {self._target.name} was deleted as soon as it was created.",
                next="Run it again.",
            )
        # Measuring takes its time. What another process did meanwhile is its restore, and no fault of the target.
        self._writer.require_held()
        require_restorable(found, partitions, times_ms)
        require_large_enough(found, self._request.topic, largest)
        return found
