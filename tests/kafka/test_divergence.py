"""A broker that lost the end of a partition and wrote another one: noticed, located, and never mixed up unsaid."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import BASE_MS, LiveTopic, create_live_topic, make_rows
from tests.kafka.test_ingest_kafka import ingest
from tests.support.cli_runner import winnow
from tests.support.earlier_documents import write_states_of_format_six
from tests.support.in_process_ingest import carry_out_plans_in_process
from tests.support.waiting import wait_until
from tests.support.world import World, compute_survivors, open_world, write_jsonl
from winnow.errors import BadInputError, CommitConflictError, PlanVoidError
from winnow.kafka import range_reader
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader, TruncatedRangeError
from winnow.log.reference_chains import read_ledgers
from winnow.log.topic_configuration import set_config
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.commit import IngestCommit
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.kafka import ingest as kafka_ingest
from winnow.pipeline.ingest.kafka import run as kafka_run
from winnow.pipeline.ingest.kafka.divergence import Divergence
from winnow.pipeline.ingest.kafka.reading import ReadingRules
from winnow.pipeline.ingest.kafka.run import ReadPart, join_leader_epochs
from winnow.pipeline.ingest.kafka.taking import plan_taking
from winnow.pipeline.ingest.log_cut import RemovedRecords
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.epochs import LeaderEpoch
from winnow.values.model import Record

KEPT, LOST, BESIDE = 40, 30, 15
"""Records of partition 0 that its broker still has; those that it lost once they were read; records of partition 1."""
SCENARIOS = (
    "local",
    "spark",
    "set-back",
    "only-aborted",
    "without-epochs",
    "format-6",
    "in-parts",
    "equal",
    "known",
    "undone",
    "taken",
    "taken-on-spark",
    "taken-set-back",
    "taken-while-changed",
    "taken-after-crash",
    "taken-planned",
    "taken-asked",
    "compacted",
    "compacted-not-there",
    "kept-before",
)
POLICIES = {"compacted": "compact", "compacted-not-there": "compact,delete", "taken-planned": "compact"}
"""Of other topics, records are deleted."""
COMPACTED = ("compacted", "compacted-not-there")
IN_TWO_CALLS = ("undone", "taken-while-changed", "taken-planned", "compacted")
"""Of these a segment begins at the divergence; of the others, read in one call, one has records on both sides of it."""


@contextlib.contextmanager
def tasks_in_process() -> Iterator[None]:
    """Let Spark's tasks run in this process within the block, in ranges of twenty offsets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_run, "submit_ingest_plans", carry_out_plans_in_process)
        patch.setattr(kafka_run, "MINIMUM_RANGE_OFFSETS", 20)
        yield


@dataclass
class Loss:
    """A topic whose partition 0 lost its end once it was ingested. ``before``: the records that were."""

    world: World
    topic: LiveTopic
    scenario: str
    before: list[Record]
    last_ingest: IngestReport

    def ingest(self, **rules: Any) -> IngestReport:
        with tasks_in_process():
            return ingest(self.world, self.topic, "spark" if "spark" in self.scenario else "local", **rules)

    def read(self) -> list[Record]:
        return self.world.read(topic=self.topic.name)

    @property
    def known(self) -> dict[int, int]:
        """Where the log is remembered to diverge, by partition."""
        return self.world.installation.store.divergences.find(self.topic.name)

    def list_ranges_of_refused_ingest(self) -> list[tuple[int, int]]:
        """Ingest, which is refused because of the divergence; list the offsets that were read again for it."""
        ranges: list[tuple[int, int]] = []
        read = RangeReader.read

        def note(reader: RangeReader, wanted: BrokerRange) -> Iterator[Any]:
            if wanted.start < KEPT + LOST:  # the first record that the log lacks is read, too: its time
                ranges.append((wanted.start, wanted.end))
            return read(reader, wanted)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RangeReader, "read", note)
            with pytest.raises(BadInputError, match=f"{self.topic.name}-0 from offset {KEPT} on"):
                self.ingest()
        return ranges

    def read_partition(self, partition: int) -> list[Record]:
        return [record for record in self.read() if record.partition == partition]

    def write(self, count: int, *, commits: bool = True) -> list[Record]:
        """Write ``count`` records to partition 0, and return them."""
        self.topic.records = []
        rows = make_rows(random.Random(count), count, partitions=1, start_ms=BASE_MS + 90_000)
        if commits:
            self.topic.write(rows)
        else:
            self.topic.write_transaction(rows, commits=False)
        return self.topic.records


@pytest.fixture(scope="module")
def losses(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Loss]]:
    """Topics whose partition 0 goes back to what it was before it was read for the last time: its disk was lost."""
    copies = tmp_path_factory.mktemp("copies")
    with open_world(tmp_path_factory.mktemp("world")) as world:
        losses = {}
        for number, scenario in enumerate(SCENARIOS):
            policy = POLICIES.get(scenario, "delete")
            topic = create_live_topic(broker, cleanup_policy=policy)
            topic.write([(1, *row[1:]) for row in make_rows(random.Random(number), BESIDE)])
            topic.write([(0, *row[1:]) for row in make_rows(random.Random(number + 100), KEPT)])
            folder = broker.data_folder / f"{topic.name}-0"
            # Without its indexes, which the broker makes again.
            shutil.copytree(folder, copies / folder.name, ignore=shutil.ignore_patterns("*index", "*.snapshot"))
            loss = Loss(world, topic, scenario, [], None)  # type: ignore[arg-type]
            with contextlib.ExitStack() as stack:
                if scenario == "without-epochs":
                    patch = stack.enter_context(pytest.MonkeyPatch.context())
                    patch.setattr(range_reader, "_get_leader_epoch", lambda _: -1)
                elif scenario == "format-6":
                    stack.enter_context(write_states_of_format_six())
                if scenario in IN_TWO_CALLS:
                    loss.ingest()
                topic.write(_make_lost_rows(number))
                loss.last_ingest = loss.ingest()
            loss.before = topic.records
            if scenario in COMPACTED:
                compact(loss)
            losses[scenario] = loss
        broker.stop()
        for copy in copies.iterdir():
            shutil.rmtree(broker.data_folder / copy.name)
            shutil.copytree(copy, broker.data_folder / copy.name)
        broker.start()
        # For a moment the broker knows of an older leader than it tells clients of.
        cluster = Cluster(read_client_settings(broker.bootstrap_servers))
        wait_until(lambda: not cluster.describe_topics([loss.topic.name for loss in losses.values()]).problems)
        yield losses


CLOSED = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}
"""Has a compaction take the newest records, too."""


def compact(loss: Loss) -> None:
    """Compact the whole of a log, its newest records too."""
    name = loss.topic.name
    set_config(loss.world.installation.log.open(name), CLOSED, [])
    assert loss.world.compact(topic=name) is not None
    assert loss.world.state(0, name).first_dirty_offset == KEPT + LOST
    assert len(loss.read_partition(0)) < KEPT


def _make_lost_rows(number: int) -> list[Any]:
    return [(0, *row[1:]) for row in make_rows(random.Random(number + 200), LOST)]


@pytest.mark.parametrize("on", ["local", "spark"])
def test_log_that_grew_again_is_refused_and_its_lost_records_stay_where_that_is_wished(
    losses: dict[str, Loss], on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's come after them, from the divergence on; a partition that lost nothing goes on as ever."""
    loss = losses[on]
    others = loss.write(LOST + 20)
    loss.topic.write([(1, b"beside", b"1", BASE_MS, ())])
    for _ in range(2):
        with pytest.raises(BadInputError, match=f"{loss.topic.name}-0 from offset {KEPT} on .*--diverged keep"):
            loss.ingest()
        assert loss.read() == loss.before
    report = loss.ingest(diverged="keep")
    assert loss.known == {}
    end = KEPT + LOST
    kept = [record for record in loss.before if record.partition == 0]
    moved = [replace(record, offset=record.offset - KEPT + end) for record in others]
    assert loss.read_partition(0) == [*kept, *moved]
    assert [record.offset for record in loss.read_partition(1)] == [*range(BESIDE + 1)]
    assert any(f"lost what was read from offset {KEPT} to {end - 1}" in notice for notice in report.notices)
    *_, ledger = read_ledgers(loss.world.head(loss.topic.name).state)
    assert ledger.choices["kept-after-divergence.0"] == f"{KEPT}-{end - 1}"
    assert loss.ingest().snapshot_id is None
    more = loss.write(5)
    loss.ingest()
    assert loss.read_partition(0)[-5:] == [replace(record, offset=record.offset - KEPT + end) for record in more]
    with pytest.raises(BadInputError, match=f"epoch 2 .* begins at offset {KEPT} .* the record is of epoch 1"):
        ingest_files(
            loss.world.installation,
            loss.topic.name,
            [write_jsonl(loss.world.path(), [kept[KEPT - 1]])],
            as_of_ms=loss.world.clock(),
            epoch="2",
        )
    monkeypatch.setenv("WINNOW_HOME", str(loss.world.installation.settings.home))
    lines = [json.loads(line) for line in winnow("read", loss.topic.name, "--partition", "0").stdout.splitlines()]
    assert [(line["epoch"], line["sourceOffset"]) for line in lines] == [
        *((1, offset) for offset in range(end)),
        *((2, offset) for offset in range(KEPT, end + 25)),
    ]


def test_call_after_one_that_was_refused_compares_records_around_that_place_alone(losses: dict[str, Loss]) -> None:
    """Where the memory is of another state, the place is searched, and what is said is never what was remembered."""
    loss = losses["known"]
    loss.write(LOST + 20)
    searched = loss.list_ranges_of_refused_ingest()
    assert loss.known == {0: KEPT}
    newest, *around = loss.list_ranges_of_refused_ingest()
    assert around == [(KEPT - 1, KEPT), (KEPT, KEPT + LOST)]
    assert len(searched) > len([newest, *around])
    loss.write(20)
    assert loss.list_ranges_of_refused_ingest() == [newest, *around]
    for wrong in (-1, 0, KEPT - 1, KEPT + 1, KEPT + LOST, KEPT + 2 * LOST):
        loss.world.installation.store.divergences.record(loss.topic.name, {0: wrong, 1: 3})
        assert len(loss.list_ranges_of_refused_ingest()) > len([newest, *around])
        assert loss.known == {0: KEPT}
    assert loss.read() == loss.before


def test_log_that_was_set_back_is_refused_and_left_behind_where_that_is_wished(
    losses: dict[str, Loss], monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = losses["set-back"]
    with pytest.raises(BadInputError, match=rf"{loss.topic.name}-0 from offset {KEPT} on .* ends at {KEPT} now"):
        loss.ingest(begins_epoch=True)
    monkeypatch.setenv("WINNOW_HOME", str(loss.world.installation.settings.home))
    call = ("ingest", "kafka", loss.topic.name, "--bootstrap-servers", loss.topic.broker.bootstrap_servers)
    refusal = winnow(*call, code=3).stderr
    assert "--diverged keep" in refusal
    assert "--new-epoch" not in refusal
    winnow(*call, "--diverged", "keep")
    assert loss.read() == loss.before
    more = loss.write(5)
    loss.ingest()
    later = [replace(record, offset=record.offset + LOST) for record in more]
    assert loss.read_partition(0)[KEPT + LOST :] == later


def test_lost_end_is_noticed_where_no_record_is_left_to_compare(losses: dict[str, Loss]) -> None:
    """Nothing committed is at the offsets of the newest records that were read: only the leader epoch tells."""
    loss = losses["only-aborted"]
    loss.write(300, commits=False)
    loss.write(10)
    with pytest.raises(BadInputError, match=f"{loss.topic.name}-0 from offset {KEPT} on"):
        loss.ingest()
    assert loss.read() == loss.before


@pytest.mark.parametrize("scenario", ["without-epochs", "format-6"])
def test_lost_end_is_noticed_without_leader_epochs(losses: dict[str, Loss], scenario: str) -> None:
    """Those of brokers that tell none, and of what an earlier Winnow read."""
    loss = losses[scenario]
    if scenario == "without-epochs":
        rows = _make_lost_rows(SCENARIOS.index(scenario))
        loss.topic.write([(partition, key, b"another", *rest) for partition, key, _, *rest in rows])
    loss.write(LOST + 20)
    with pytest.raises(BadInputError, match=f"{loss.topic.name}-0 from offset {KEPT} on"):
        loss.ingest()
    assert loss.read() == loss.before


def test_parts_that_were_read_before_and_after_the_loss_are_never_joined(losses: dict[str, Loss]) -> None:
    loss = losses["in-parts"]
    loss.write(LOST + 20)
    settings = read_client_settings(loss.topic.broker.bootstrap_servers)
    with RangeReader(settings) as reader:
        whole = BrokerRange(loss.topic.name, 0, 0, KEPT + LOST + 20)
        list(reader.read(whole))
        old, new = reader.leader_epochs
    assert (old.end, new.start) == (KEPT, KEPT)

    def join(*parts: LeaderEpoch) -> tuple[LeaderEpoch, ...]:
        read = [ReadPart(replace(whole, start=part.start, end=part.end), (part,)) for part in parts]
        return join_leader_epochs([whole], read, settings)[0]

    assert join(old, new) == (old, new)
    lost = replace(old, start=KEPT, end=KEPT + 10)
    rest = replace(new, start=KEPT + 10)
    assert join(lost, replace(lost, start=lost.end, end=lost.end + 1)) == (replace(lost, end=lost.end + 1),)
    for parts in ((lost, rest), (replace(new, end=KEPT + 10), replace(lost, start=KEPT + 10, end=KEPT + LOST))):
        with pytest.raises(TruncatedRangeError, match="Run it again"):
            join(*parts)


def test_end_that_grew_again_with_the_same_records_is_no_loss(losses: dict[str, Loss]) -> None:
    loss = losses["equal"]
    assert loss.list_ranges_of_refused_ingest()
    assert loss.known == {0: KEPT}
    loss.topic.records = []
    loss.topic.write(_make_lost_rows(SCENARIOS.index("equal")))
    more = loss.write(3)
    loss.ingest()
    assert loss.read_partition(0) == [*(record for record in loss.before if record.partition == 0), *more]
    assert loss.known == {}


def test_undone_call_leaves_the_leader_epochs_of_those_before(losses: dict[str, Loss]) -> None:
    """Then the log ends where the broker's does, and its other records come in its lost ones' place."""
    loss = losses["undone"]
    others = loss.write(LOST + 20)
    assert loss.last_ingest.ingest_id is not None
    undo_ingest(loss.world.installation, loss.topic.name, loss.last_ingest.ingest_id)
    (known,) = loss.world.head(loss.topic.name).state.epochs[-1].leader_epochs[0]
    assert known == LeaderEpoch(0, 0, KEPT)
    loss.ingest()
    assert loss.read_partition(0) == [*loss.before[:KEPT], *others]
    first, second = loss.world.head(loss.topic.name).state.epochs[-1].leader_epochs[0]
    assert (first.end, second.start, second.end) == (KEPT, KEPT, KEPT + LOST + 20)
    assert second.number > first.number


@pytest.mark.parametrize("scenario", ["taken", "taken-on-spark"])
def test_records_that_kafka_lost_leave_the_log_in_the_commit_that_takes_those_in_their_place(
    losses: dict[str, Loss], scenario: str
) -> None:
    """Undone, that call leaves what both sides have, and Kafka's come again."""
    loss = losses[scenario]
    name = loss.topic.name
    others = loss.write(LOST + 20)
    loss.topic.write([(1, b"beside", b"1", BASE_MS, ())])
    kept = [record for record in loss.before if record.partition == 0][:KEPT]
    before = loss.world.head(name)
    report = loss.ingest(diverged="take")
    after = loss.world.head(name)
    assert after.snapshot is not None
    assert after.snapshot.parent_snapshot_id == before.snapshot_id
    assert loss.read_partition(0) == [*kept, *others]
    assert [record.offset for record in loss.read_partition(1)] == [*range(BESIDE + 1)]
    assert report.removed == (RemovedRecords(0, KEPT, KEPT + LOST, LOST),)
    assert report.records_appended == LOST + 20 + 1
    assert any(f"{LOST} records of {name}-0 go: offsets {KEPT} to {KEPT + LOST - 1}" in each for each in report.notices)
    *_, ledger = read_ledgers(after.state)
    assert ledger.choices["taken-after-divergence.0"].startswith(f"{KEPT}-{KEPT + LOST - 1}, {LOST} records")
    entries = loss.world.installation.store.audit.list_entries(Window(), topic=name, action=AuditAction.TAKE_DIVERGED)
    assert entries.total == 1
    assert len(after.state.epochs) == 1
    first, second = after.state.epochs[0].leader_epochs[0]
    assert (first.end, second.start, second.end) == (KEPT, KEPT, KEPT + LOST + 20)
    assert loss.ingest().snapshot_id is None
    assert {each.path for each in after.state.retired} == {
        each.path for each in loss.world.installation.store.retired_files.list_retired(name)
    }
    assert report.ingest_id is not None
    undo_ingest(loss.world.installation, name, report.ingest_id)
    assert loss.read_partition(0) == kept
    loss.ingest()
    assert loss.read_partition(0) == [*kept, *others]


def test_log_that_was_set_back_ends_where_kafka_s_does_once_that_is_taken(losses: dict[str, Loss]) -> None:
    """Nothing is there yet in the place of what was lost."""
    loss = losses["taken-set-back"]
    kept = [record for record in loss.before if record.partition == 0][:KEPT]
    report = loss.ingest(diverged="take")
    assert report.snapshot_id is not None
    assert loss.read_partition(0) == kept
    more = loss.write(5)
    loss.ingest()
    assert loss.read_partition(0) == [*kept, *more]


def test_nothing_leaves_a_log_that_changed_since_it_was_counted(
    losses: dict[str, Loss], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record comes between the count and the commit; and what a person agreed to is not what would leave."""
    loss = losses["taken-while-changed"]
    loss.write(LOST + 20)
    with pytest.raises(CommitConflictError, match="not what was agreed to"):
        loss.ingest(diverged="take", agreed=(RemovedRecords(0, KEPT, KEPT + LOST, LOST - 1),))
    assert loss.read() == loss.before
    write_kept = IngestCommit._write_kept
    came = Record(KEPT + LOST + 3, b"came", b"meanwhile", BASE_MS, headers=())

    def append_first(call: IngestCommit) -> None:
        write_kept(call)
        monkeypatch.undo()
        path = write_jsonl(loss.world.path(), [came])
        ingest_files(loss.world.installation, loss.topic.name, [path], as_of_ms=loss.world.clock())

    monkeypatch.setattr(IngestCommit, "_write_kept", append_first)
    with pytest.raises(CommitConflictError, match="changed meanwhile"):
        loss.ingest(diverged="take")
    assert [record.key for record in loss.read_partition(0)] == [
        *(record.key for record in loss.before if record.partition == 0),
        came.key,
    ]


def test_call_that_takes_kafka_s_records_and_dies_did_nothing_or_all_of_it(
    losses: dict[str, Loss], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call completes what the store knows of it."""
    loss = losses["taken-after-crash"]
    others = loss.write(LOST + 20)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    for place, name in ((IngestCommit, "_build_change"), (kafka_ingest, "record_taking")):
        assert loss.read() == loss.before
        with monkeypatch.context() as patch:
            patch.setattr(place, name, die)
            with pytest.raises(KeyboardInterrupt):
                loss.ingest(diverged="take")
    assert loss.read_partition(0) == [*loss.before[:KEPT], *others]
    store, head = loss.world.installation.store, loss.world.head(loss.topic.name)
    assert store.retired_files.list_retired(loss.topic.name) == []
    assert loss.ingest().snapshot_id is None
    waiting = {file.path for file in head.state.waiting_files}
    assert waiting == {row.path for row in store.retired_files.list_retired(loss.topic.name)}
    assert waiting
    ends = {number: state.log_end_offset for number, state in store.projection.list_states(loss.topic.name).items()}
    assert ends == {number: state.log_end_offset for number, state in head.state.partitions.items()}


def test_plan_that_reads_records_which_left_the_log_is_void(losses: dict[str, Loss]) -> None:
    loss = losses["taken-planned"]
    name, world = loss.topic.name, loss.world
    others = loss.write(LOST + 20)
    set_config(world.installation.log.open(name), CLOSED, [])
    plan = world.plan(world.clock(), "a1", name)
    assert plan is not None
    world.stage(plan, "a1")
    world.accept(plan, "a1")
    loss.ingest(diverged="take")
    with pytest.raises(PlanVoidError, match="Kafka's records were taken in the place of"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert loss.read_partition(0) == [*loss.before[:KEPT], *others]


def test_command_that_takes_kafka_s_records_counts_what_leaves_and_asks(
    losses: dict[str, Loss], monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = losses["taken-asked"]
    others = loss.write(LOST + 20)
    monkeypatch.setenv("WINNOW_HOME", str(loss.world.installation.settings.home))
    servers = loss.topic.broker.bootstrap_servers
    call = ("ingest", "kafka", loss.topic.name, "--bootstrap-servers", servers, "--diverged", "take")
    asked = winnow(*call, code=2).stderr
    assert f"{LOST} records would leave the log of {loss.topic.name}" in asked
    assert f"offsets {KEPT} to {KEPT + LOST - 1}" in asked
    assert "--yes" in asked
    assert loss.read() == loss.before
    document = winnow(*call, "--yes", "--json").document
    assert document["removed"] == [{"partition": 0, "first_offset": KEPT, "end_offset": KEPT + LOST, "records": LOST}]
    assert loss.read_partition(0) == [*loss.before[:KEPT], *others]


def test_log_that_was_compacted_beyond_the_divergence_is_read_again_as_a_whole(losses: dict[str, Loss]) -> None:
    """Records below it were removed for the sake of some that Kafka lost: their keys would have none any more."""
    loss = losses["compacted"]
    others = loss.write(LOST + 20)
    assert loss.read_partition(0) != loss.before
    report = loss.ingest(diverged="take")
    assert loss.read_partition(0) == [*loss.before[:KEPT], *others]
    assert any("A compaction had gone beyond that" in notice for notice in report.notices)
    state = loss.world.state(0, loss.topic.name)
    assert (state.first_dirty_offset, state.history, state.strategy) == (None, (), None)
    assert loss.world.state(1, loss.topic.name).first_dirty_offset == BESIDE
    survivors = loss.world.compact(topic=loss.topic.name, attempt="a2")
    assert survivors is not None
    assert loss.read_partition(0) == compute_survivors([*loss.before[:KEPT], *others])


def test_log_that_was_compacted_beyond_the_divergence_stays_where_kafka_has_less_than_it_had(
    losses: dict[str, Loss],
) -> None:
    loss = losses["compacted-not-there"]
    before = loss.read()
    loss.write(LOST + 20)
    loss.topic.delete_records(0, 10)
    with pytest.raises(BadInputError, match=rf"went up to offset {KEPT + LOST}, .* from offset 10 on only.*keep"):
        loss.ingest(diverged="take")
    assert loss.read() == before
    loss.ingest(diverged="keep")
    assert [record for record in loss.read_partition(0) if record.offset < KEPT + LOST] == [
        record for record in before if record.partition == 0
    ]


def test_nothing_leaves_a_log_where_it_is_not_known_what_the_brokers_lost(losses: dict[str, Loss]) -> None:
    """Of what was kept at an earlier loss, and where they have nothing left that the log has."""
    loss = losses["kept-before"]
    loss.write(LOST + 20)
    name, servers = loss.topic.name, loss.topic.broker.bootstrap_servers
    topic = Cluster(read_client_settings(servers)).describe_topics([name])[name]
    log, head = loss.world.installation.log.open(name), loss.world.head(name)
    rules = ReadingRules(diverged="take")
    late = replace(topic.partitions[0], start_offset=KEPT)
    shortened = replace(topic, partitions={**topic.partitions, 0: late})
    with pytest.raises(BadInputError, match=f"begins at offset {KEPT} and has nothing in common"):
        plan_taking(log, head, shortened, [Divergence(0, KEPT, KEPT + LOST, KEPT + LOST + 20, LOST)], rules)
    loss.ingest(diverged="keep")
    head = loss.world.head(name)
    with pytest.raises(BadInputError, match="were kept on purpose"):
        plan_taking(log, head, topic, [Divergence(0, KEPT - 5, KEPT + LOST, KEPT + LOST + 20, LOST)], rules)
    taking = plan_taking(log, head, topic, [Divergence(0, KEPT + 5, KEPT + LOST, KEPT + LOST + 20, LOST)], rules)
    assert taking is not None
    assert taking.cut.removed == (RemovedRecords(0, KEPT + LOST + 5, KEPT + 2 * LOST + 20, LOST + 15),)
