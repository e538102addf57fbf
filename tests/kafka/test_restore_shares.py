"""A restore in shares: each record once, whatever becomes of one of its processes; nobody fenced writes any more."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel

from tests.kafka.restored_topics import (
    KEEPING,
    Target,
    assert_restored,
    break_off_restore,
    list_rows,
    make_log,
    open_present_world,
    read_configuration,
    wait_until,
)
from tests.support.world import TOPIC, World
from winnow.errors import DamagedSegmentError, ServiceError, TopicBusyError, UsageError
from winnow.kafka.group_offsets import GroupOffsets
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore import open_restore, share_names, share_processes
from winnow.pipeline.restore.offset_translation import read_group_file
from winnow.pipeline.restore.restore import abandon_restore
from winnow.pipeline.restore.share_process import Share
from winnow.values.model import Record

PARTITIONS = 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_present_world(tmp_path_factory.mktemp("shared")) as opened:
        yield opened


@pytest.fixture(scope="module")
def records(world: World) -> list[Record]:
    return make_log(world, PARTITIONS, rounds=16)


@pytest.fixture
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares write many transactions, as those of a large log do."""
    monkeypatch.setattr(share_processes, "MODULE", "tests.kafka.small_share")


def stop_share(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Let the first share stop or kill itself, as ``place`` says to :mod:`tests.kafka.small_share`."""
    monkeypatch.setenv("SHARE_PLACE", place)


@pytest.fixture(autouse=True)
def _marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this test are known by their environment: others on the machine may run the same."""
    monkeypatch.setenv("SHARES_OF", uuid.uuid4().hex)


def list_shares() -> list[psutil.Process]:
    return [each for each in psutil.process_iter() if _is_share(each)]


def _is_share(process: psutil.Process) -> bool:
    try:
        is_ours = process.environ().get("SHARES_OF") == os.environ["SHARES_OF"]
        return is_ours and "tests.kafka.small_share" in process.cmdline()
    except psutil.Error:
        return False


def test_each_record_comes_back_once_with_the_same_report_as_from_one_process(
    world: World, records: list[Record], broker: Any, small_shares: None
) -> None:
    alone, shared = Target(broker.bootstrap_servers), Target(broker.bootstrap_servers)
    seen: list[dict[str, tuple[int, int]]] = [{}, {}]
    expected = alone.restore(world, watch=lambda what, *done: seen[0].update({what: done}))
    report = shared.restore(world, shares=2, watch=lambda what, *done: seen[1].update({what: done}))
    assert_restored(shared, records)
    assert [(each.partition, each.records, each.records_written, each.tombstones) for each in report.partitions] == [
        (each.partition, each.records, each.records_written, each.tombstones) for each in expected.partitions
    ]
    assert read_configuration(shared) == read_configuration(alone)
    assert list_shares() == []
    assert seen[0] == seen[1]  # the progress, at its end
    assert shared.restore(world).was_complete


def test_the_translation_of_all_shares_leads_to_each_record_partition_after_partition(
    world: World, records: list[Record], target: Target, small_shares: None
) -> None:
    report = target.restore(world, shares=2)
    assert report.offsets_file is not None
    runs = pq.read_table(report.offsets_file).to_pylist()
    assert [run["partition"] for run in runs] == sorted(run["partition"] for run in runs)
    written = {(number, offset): row for number, offset, row in target.read()}
    assert {
        (run["partition"], run["source_offset"] + at): written[run["partition"], run["target_offset"] + at]
        for run in runs
        for at in range(run["records"])
    } == {(each.partition, each.offset): row for each, (_, row) in zip(records, list_rows(records), strict=True)}
    assert [
        path for path in Path(report.offsets_file).parent.iterdir() if path.name.startswith(f".{target.name}")
    ] == []


def test_groups_continue_where_they_do_after_a_restore_in_one_process(
    world: World, records: list[Record], broker: Any, tmp_path: Path, small_shares: None
) -> None:
    lines = [f"billing-{turn},{TOPIC},{number},{turn * 97}" for turn in range(4) for number in range(PARTITIONS)]
    file = tmp_path / "groups.csv"
    file.write_text("\n".join(lines))
    groups = read_group_file(file, [TOPIC], PARTITIONS)
    alone, shared = Target(broker.bootstrap_servers), Target(broker.bootstrap_servers)
    # Markers take offsets, so what follows is compared by the record, not by its offset.
    found = []
    for target, shares in ((alone, 1), (shared, 3)):
        report = target.restore(world, groups=groups, shares=shares)
        rows = target.read()
        found.append(
            {
                (each.group, number): [row for at, place, row in rows if at == number and place >= offset]
                for each in report.groups
                for number, offset in each.offsets.items()
            }
        )
    assert found[0] == found[1]
    assert len(found[0]) == len(lines)


@pytest.mark.parametrize("place", ["opened:kill", "written:kill", "committed:kill", "read:kill"])
def test_a_share_that_dies_ends_the_call_and_the_next_one_goes_on_in_as_many_shares(
    world: World,
    records: list[Record],
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    small_shares: None,
    place: str,
) -> None:
    with monkeypatch.context() as dying:
        stop_share(dying, place)
        with pytest.raises(ServiceError, match=r"share [12], with partitions .*SIGKILL.* Run the same command"):
            target.restore(world, shares=2)
    assert list_shares() == []
    # Its transaction is aborted, so readers of committed records are not held back.
    wait_until(
        lambda: target.list_ends(IsolationLevel.READ_COMMITTED) == target.list_ends(IsolationLevel.READ_UNCOMMITTED), 10
    )
    target.restore(world)
    assert_restored(target, records)


def test_a_second_restore_takes_over_from_all_shares_of_the_first(
    world: World, records: list[Record], target: Target, small_shares: None
) -> None:
    taken: list[int] = []

    def watch(what: str, done: int, total: int) -> None:
        if not taken and what == "Writing" and done * 3 > total:
            taken.append(target.restore(world).records)

    with pytest.raises(TopicBusyError, match="has taken over"):
        target.restore(world, watch=watch, shares=2)
    assert taken == [len(records)]
    assert_restored(target, records)
    assert list_shares() == []


@dataclass
class Stopped:
    """A restore of two shares that stands still, with a transaction of its first share open."""

    restore: subprocess.Popen[str]
    share: psutil.Process

    def go_on(self) -> str:
        """Let first the share go on, then the restore; returns how that ended."""
        self.share.send_signal(signal.SIGCONT)
        time.sleep(2)
        self.restore.send_signal(signal.SIGCONT)
        _, said = self.restore.communicate(timeout=60)
        assert self.restore.returncode == 1
        return said


@contextmanager
def start_restore(world: World, target: Target, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.kafka.killed_restore", world.folder, target.servers, target.name, 0, 2]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment}
    with subprocess.Popen(
        [str(each) for each in command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as restore:
        try:
            yield restore
        finally:
            restore.kill()


def wait_for_stopped_share() -> psutil.Process:
    wait_until(lambda: any(each.status() == psutil.STATUS_STOPPED for each in list_shares()), 60)
    return next(each for each in list_shares() if each.status() == psutil.STATUS_STOPPED)


@pytest.fixture
def stopped(world: World, records: list[Record], target: Target) -> Iterator[Stopped]:
    with start_restore(world, target, SHARE_PLACE="written:stop") as restore:
        share = wait_for_stopped_share()
        restore.send_signal(signal.SIGSTOP)
        yield Stopped(restore, share)
        with contextlib.suppress(psutil.NoSuchProcess):
            share.kill()


def test_a_share_that_stood_still_while_another_call_restored_everything_writes_nothing_more(
    world: World, records: list[Record], target: Target, stopped: Stopped
) -> None:
    target.restore(world)
    before = target.read("read_uncommitted")
    assert "has taken over" in stopped.go_on()
    assert_restored(target, records)
    assert target.read("read_uncommitted") == before


def read_positions(target: Target) -> dict[int, int]:
    """The committed positions, also while transactions are open that will move them."""
    asked = target.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(f"winnow-restore-{target.name}")], require_stable=False
    )
    (answer,) = asked.values()
    return {each.partition: each.offset for each in answer.result().topic_partitions}


def test_what_a_share_commits_until_it_is_fenced_is_not_written_again(
    world: World, records: list[Record], target: Target, stopped: Stopped, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = share_names.fence_shares

    def go_on_first(*arguments: Any, **named: Any) -> None:
        before = read_positions(target)
        stopped.share.send_signal(signal.SIGCONT)
        wait_until(lambda: read_positions(target) != before)
        genuine(*arguments, **named)

    monkeypatch.setattr(open_restore, "fence_shares", go_on_first)
    target.restore(world)
    assert_restored(target, records)


def test_a_share_that_goes_on_once_positions_were_read_commits_nothing(
    world: World, records: list[Record], target: Target, stopped: Stopped, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = share_processes.ShareProcesses.__enter__

    def enter(self: share_processes.ShareProcesses) -> share_processes.ShareProcesses:
        stopped.share.send_signal(signal.SIGCONT)
        time.sleep(1)
        return genuine(self)

    monkeypatch.setattr(share_processes.ShareProcesses, "__enter__", enter)
    target.restore(world)
    assert_restored(target, records)


def test_a_share_of_a_deleted_target_writes_nothing_into_a_new_one_that_is_restored_in_one_process(
    world: World, records: list[Record], target: Target, stopped: Stopped
) -> None:
    target.delete()
    wait_until(lambda: not GroupOffsets(target.settings, target.name).read(f"winnow-restore-{target.name}"))
    target.restore(world)
    assert "has taken over" in stopped.go_on()
    assert_restored(target, records)


def test_a_share_of_a_restore_that_was_given_up_commits_nothing(world: World, target: Target, stopped: Stopped) -> None:
    before = target.read()
    abandon_restore(world.installation, TOPIC, target.name, target.settings)
    assert "has taken over" in stopped.go_on()
    assert target.read() == before
    assert GroupOffsets(target.settings, target.name).read(f"winnow-restore-{target.name}") == {}


def test_a_call_that_is_taken_over_before_its_shares_write_lets_none_of_them_write(
    world: World, records: list[Record], target: Target, monkeypatch: pytest.MonkeyPatch, small_shares: None
) -> None:
    """Its shares fence those of the newer call, but may not act: the older call is asked whether it still holds."""
    genuine = share_processes.ShareProcesses.write

    def write(self: share_processes.ShareProcesses, *arguments: Any) -> Any:
        with TransactionalWriter(target.settings, target.name, f"winnow-restore-{target.name}") as newer:
            newer.open()  # the newer one's first step; it has written nothing yet
        return genuine(self, *arguments)

    with monkeypatch.context() as late:
        late.setattr(share_processes.ShareProcesses, "write", write)
        with pytest.raises(TopicBusyError, match="has taken over"):
            target.restore(world, shares=2)
    assert target.read() == []
    target.restore(world)
    assert_restored(target, records)


def test_shares_do_not_write_where_the_brokers_do_not_tell_who_holds_the_restore(
    world: World, records: list[Record], target: Target, monkeypatch: pytest.MonkeyPatch, small_shares: None
) -> None:
    genuine = share_processes.ShareProcesses.write

    def write(self: share_processes.ShareProcesses, *arguments: Any) -> Any:
        monkeypatch.setattr(TransactionalWriter, "_is_taken_over", lambda writer: None)
        return genuine(self, *arguments)

    with monkeypatch.context() as away:
        away.setattr(share_processes.ShareProcesses, "write", write)
        with pytest.raises(ServiceError, match=r"asking who writes.*Run the same command again"):
            target.restore(world, shares=2)
    monkeypatch.undo()
    assert target.read() == []
    monkeypatch.setattr(share_processes, "MODULE", "tests.kafka.small_share")
    target.restore(world)
    assert_restored(target, records)


def test_the_number_of_shares_stays_as_the_restore_began(
    world: World, records: list[Record], target: Target, monkeypatch: pytest.MonkeyPatch, small_shares: None
) -> None:
    with monkeypatch.context() as dying:
        stop_share(dying, "committed:kill")
        with pytest.raises(ServiceError):
            target.restore(world, shares=8)
    with pytest.raises(UsageError, match=r"written in 3 shares.*Run it as it began"):
        target.restore(world, shares=2)
    target.restore(world, shares=8)  # as before: not more than there are partitions
    assert_restored(target, records)


def test_a_restore_that_began_in_one_process_goes_on_in_one(
    world: World, records: list[Record], target: Target, monkeypatch: pytest.MonkeyPatch, small_transactions: None
) -> None:
    break_off_restore(monkeypatch, target, world, commits=3)
    with pytest.raises(UsageError, match=r"written in 1 share"):
        target.restore(world, shares=2)
    target.restore(world)
    assert_restored(target, records)


def test_positions_of_a_share_that_has_written_everything_are_kept_while_others_write(
    world: World, records: list[Record], target: Target
) -> None:
    """Brokers forget positions offsets.retention.minutes after they were committed."""
    with start_restore(world, target, SHARE_PLACE="written:stop", SHARE_REFRESH_SECONDS="0.5"):
        share = wait_for_stopped_share()
        time.sleep(2)  # the other share has written everything by now
        seen = [sum_offset_records(target)]
        for _ in range(2):
            wait_until(lambda: sum_offset_records(target) > seen[-1], 10)
            seen.append(sum_offset_records(target))
        share.kill()


def sum_offset_records(target: Target) -> int:
    """How many records the brokers have of committed offsets, in all."""
    return sum(Target(target.servers, "__consumer_offsets").list_ends(IsolationLevel.READ_UNCOMMITTED).values())


def test_a_segment_that_is_missing_is_told_by_its_share(
    tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch, small_shares: None
) -> None:
    with open_present_world(tmp_path) as damaged:
        make_log(damaged, 3, rounds=8)
        head = damaged.head()
        segment = damaged.installation.log.open(TOPIC).segments(head)[1][0]
        genuine = share_processes.ShareProcesses.write

        def remove_first(self: share_processes.ShareProcesses, *arguments: Any) -> Any:
            Path(segment.path.removeprefix("file://")).unlink()
            return genuine(self, *arguments)

        monkeypatch.setattr(share_processes.ShareProcesses, "write", remove_first)
        with pytest.raises(DamagedSegmentError, match=rf"A segment of {TOPIC}-1 is missing.*winnow scrub"):
            target.restore(damaged, shares=3)


def test_the_limit_of_bytes_per_second_is_of_all_shares_together(
    world: World, records: list[Record], target: Target, monkeypatch: pytest.MonkeyPatch, small_shares: None
) -> None:
    limits: list[float] = []
    genuine = share_processes._ShareProcess.tell

    def tell(self: share_processes._ShareProcess, message: object) -> None:
        if isinstance(message, Share):
            assert message.bytes_per_second is not None
            limits.append(message.bytes_per_second)
        genuine(self, message)

    monkeypatch.setattr(share_processes._ShareProcess, "tell", tell)
    target.restore(world, shares=2, bytes_per_second=900_000.0)
    assert limits == [450_000.0] * 2
    assert_restored(target, records)


def test_a_topic_that_was_there_before_takes_shares_too(
    world: World, records: list[Record], target: Target, small_shares: None
) -> None:
    target.create(PARTITIONS, **KEEPING, message_timestamp_after_max_ms=str(2**63 - 1))
    target.restore(world, shares=2)
    assert_restored(target, records)
