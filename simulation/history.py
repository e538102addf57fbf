"""Runs one history: processes that do what Winnow does in a home of their own, until all of them have come to rest."""

from __future__ import annotations

import errno
import gc
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NoReturn

from sqlalchemy.exc import OperationalError

from simulation.accidents import BACKUP_EVERY, Accidents
from simulation.adapters import MODULE_STATE, Adapters
from simulation.choices import ACCIDENTS, HOUR_MS, Choices, needs_service
from simulation.disk import SyncedDisk
from simulation.judge import BrokenPromiseError, Judge
from simulation.script import ENDED, Fault, FaultKind, Place, Start
from simulation.source import BASE_MS
from simulation.steps import STEPS, TOPIC, StepContext, recover, restore_lost, run_creation
from simulation.table_reader import find_path
from simulation.turns import Adapter, Call, Process, ProcessKilled, Turns, get_process, sleep_until, unobserved
from winnow.config.settings import load_settings
from winnow.errors import ForeignTableError, ServiceError, WinnowError
from winnow.log.namespaces import Namespaces
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.erase.older_states import restore_without_erased
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.partitions import resume_partitions
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.values.model import AIRFLOW_HOLDER

QUIET_STEPS: Final = ("settle", "compact", "sweep", "sweep", "sweep")
"""What runs when all faults have stopped, two days apart."""
MAXIMUM_CALLS: Final = 60_000
"""Calls after which a history counts as one that does not end."""
HOSTS: Final = ("host-a", "host-b")
IN_AIRFLOW: Final = 0.5
"""Share of the histories in which tasks of few DAG runs compact."""
AIRFLOW_STEPS: Final = ("compact", "retry", "settle")
REFUSAL_MS: Final = 5_000
"""How long a call takes that nobody answers."""


@dataclass
class Outcome:
    """What came of a history. ``broken``: the promise that was broken, None: none was. ``story``: what happened.

    ``operations``: what was committed to the log while faults were on.
    """

    broken: str | None = None
    story: list[str] = field(default_factory=list)
    calls: int = 0
    commits: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)


class History:
    """One history.

    Args:
        seed: of the source's records, the steps' arguments and the processes' own randomness.
        config: the topic's.
        choices: who decides.
        folder: a folder of its own, which is emptied before and removed after.
        ahead_ms: how far the clock of the source's producers is ahead.
    """

    def __init__(self, seed: int, config: dict[str, str], choices: Choices, folder: Path, ahead_ms: int = 0) -> None:
        self._seed = seed
        self._ahead_ms = ahead_ms
        self._config = config
        self._choices = choices
        self._folder = folder
        self._turns = Turns(self._meet, self._switch)
        self._processes: list[Process] = []
        self._now_ms = BASE_MS
        self._cut_off_until_ms: dict[tuple[str, Adapter], int] = {}
        self._faults_are_on = False
        self._is_in_airflow = Random(f"airflow {seed}").random() < IN_AIRFLOW
        self._broken: str | None = None
        self._last_committer: Process | None = None
        self._states: dict[int | None, Judge] = {}
        self._restored: Judge | None = None
        self._accidents = Accidents(folder / "home", folder / "copies")
        find_quarantine = partial(self._accidents.find_metadata, TOPIC, Namespaces().quarantine)
        self._judge = Judge(self._read_true_ms, config, self._accidents.originals, find_quarantine)
        self._disk = SyncedDisk(folder / "home", folder / "deleted", self._read_true_ms)
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Run it to its end, or to the first promise that is broken."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        gc.disable()
        gc.collect()
        gc.freeze()  # most objects were imported, and need not be looked at after each killed process
        try:
            with Adapters(self._read_clock_ms, self._read_true_ms, self._disk, self._note_swap, self._is_dead):
                try:
                    self._run_all()
                except BrokenPromiseError as problem:
                    self._broken = self._broken or str(problem)
                finally:
                    self._end_all()
        finally:
            gc.unfreeze()
            gc.enable()
            shutil.rmtree(self._folder, ignore_errors=True)
        self.outcome.broken = self._broken
        self.outcome.calls = self._turns.calls
        self.outcome.commits = self._judge.commits
        return self.outcome

    # ------------------------------------------------------------------------------------------- time and turns

    def _read_true_ms(self) -> int:
        return self._now_ms

    def _read_clock_ms(self) -> int:
        process = get_process()
        return self._now_ms + (0 if process is None else process.skew_ms)

    def _switch(self, before: Process | None, after: Process) -> None:
        for module, name, make in MODULE_STATE:
            if before is not None:
                before.module_state[module, name] = getattr(module, name)
            kept = after.module_state.get((module, name))
            setattr(module, name, make() if kept is None else kept)

    def _run_all(self) -> None:
        self._finish(self._start("creation", run_creation))
        self._faults_are_on = True
        place = Place("creation", ENDED)
        while True:
            running = [process for process in self._processes if process.is_running]
            start = self._choices.choose_start(place, len(running))
            if start is not None:
                self._start_step(start)
                continue
            if not running:
                break
            self._now_ms = max(self._now_ms, min(process.asleep_until_ms for process in running))
            awake = [process for process in running if process.asleep_until_ms <= self._now_ms]
            chosen = self._choices.choose_turn(place, [process.name for process in awake])
            place = self._give_turn(next(process for process in awake if process.name == chosen))
        self._faults_are_on = False
        if not self._judge.is_removed:
            self._come_to_rest()

    def _give_turn(self, process: Process) -> Place:
        self._turns.give(process)
        if self._turns.calls > MAXIMUM_CALLS:
            raise BrokenPromiseError("The processes do not come to an end.")
        if self._broken is not None:
            raise BrokenPromiseError(self._broken)
        if not process.is_running:
            if process.is_killed or process.error is not None:
                gc.collect()  # what it had open is closed now, as the operating system does it, and not at any time
            self._note_end(process)
        return process.place

    def _start_step(self, start: Start) -> None:
        self._now_ms += start.advance_ms
        self.outcome.steps[start.step] += 1
        self._tell(f"{start.process} begins" + (f", its clock {start.skew_ms // 1000:+} s" if start.skew_ms else ""))
        self._start(start.process, STEPS[start.step].run, start.step, start.skew_ms)

    def _start(self, name: str, run: Callable[[StepContext], None], step: str = "", skew_ms: int = 0) -> Process:
        process = Process(name, step, Random(f"chance {self._seed} {name}"), skew_ms)
        self._turns.start(process, partial(self._run_step, name, run))
        self._processes.append(process)
        return process

    def _run_step(self, name: str, run: Callable[[StepContext], None]) -> None:
        with self._open_installation() as installation:
            arguments = Random(f"arguments {self._seed} {name}")
            folder, witness = self._folder, self._judge
            run(StepContext(name, self._seed, installation, folder, arguments, witness, self._config, self._ahead_ms))

    @contextmanager
    def _open_installation(self) -> Iterator[Installation]:
        environment = {"WINNOW_HOME": str(self._folder / "home"), "WINNOW_ENGINE__THREADS": "1"}
        settings = load_settings(cwd=self._folder, env=environment)
        process = get_process()
        holder = None if process is None else self._name_holder(process)
        with (
            open_installation(settings, now_ms=self._read_clock_ms, holder=holder, actor="ann") as installation,
            installation.store.keep_open(),
        ):
            yield installation

    def _name_holder(self, process: Process) -> str:
        """Name whom leases of ``process`` belong to: it, on one of two machines; in Airflow its DAG run.

        Tasks of a run share its leases, also one that is started again while the first time is not over.
        """
        random = Random(f"holder {self._seed} {process.name}")
        if self._is_in_airflow and process.step in AIRFLOW_STEPS:
            return f"{AIRFLOW_HOLDER}compact_topics:run-{random.randrange(2)}"
        return f"{random.choice(HOSTS)}:{process.name}"

    def _is_dead(self, holder: str) -> bool:
        """Whether a holder is a process of the machine of the one that asks, and is not running: all that it can tell.

        Those of a DAG run are none.
        """
        host, _, name = holder.partition(":")
        asks = get_process()
        if asks is None or host not in HOSTS or not self._name_holder(asks).startswith(f"{host}:"):
            return False
        return not any(each.name == name and each.is_running and not each.is_killed for each in self._processes)

    # ------------------------------------------------------------------------------------------- what happens

    def _meet(self, process: Process, call: Call) -> None:
        if not self._faults_are_on:
            return
        if needs_service(call) and self._now_ms < self._cut_off_until_ms.get(_name_way(process, call), 0):
            self._now_ms += REFUSAL_MS
            _refuse(process, call)
        fault = self._choices.choose_fault(process.place, call)
        if fault is not None:
            self.outcome.faults[fault.kind] += 1
            self.outcome.pairs[process.step, fault.kind] += 1
            self._inflict(fault, process, call)

    def _inflict(self, fault: Fault, process: Process, call: Call) -> None:
        match fault.kind:
            case FaultKind.KILL:
                self._tell(f"{process.name} is killed {call}")
                process.is_killed = True
                raise ProcessKilled
            case FaultKind.STAND_STILL:
                self._tell(f"{process.name} stands still for {fault.hours:g} h {call}")
                sleep_until(self._read_true_ms, fault.hours * HOUR_MS / 1000)
            case FaultKind.POWER_CUT:
                changes = self._disk.cut_power(Random(f"power {self._seed} {process.name} {process.calls}"))
                self._tell(f"the power goes; {process.name} was {call}; {', '.join(changes) or 'nothing was lost'}")
                self._kill_all()
            case kind if kind in ACCIDENTS:
                with unobserved(process):
                    self._have_accident(fault.kind, Random(f"accident {self._seed} {process.name} {process.calls}"))
            case FaultKind.OLD_LISTING:
                self._tell(f"{process.name} gets a listing that is {fault.hours:g} h old")
                process.listing_age_ms = round(fault.hours * HOUR_MS)
            case FaultKind.REFUSE:
                self._tell(f"{process.name} gets an error {call}")
                _refuse(process, call)
            case FaultKind.LOSE_ANSWER:
                self._tell(f"{process.name} gets an error {call}, which has had its effect")
                _refuse(process, call)
            case FaultKind.CUT_OFF:
                owner, adapter = way = _name_way(process, call)
                what = f"{owner} cannot reach the {adapter}" if owner else "the disk is full"
                self._tell(f"{what} for {fault.hours:g} h, from {call} of {process.name} on")
                self._cut_off_until_ms[way] = self._now_ms + round(fault.hours * HOUR_MS)
                _refuse(process, call)

    def _kill_all(self) -> NoReturn:
        for process in self._processes:
            process.is_killed = True
        raise ProcessKilled

    def _have_accident(self, kind: FaultKind, random: Random) -> None:
        match kind:
            case FaultKind.LOST_CATALOG if self._is_newest_commit_recorded():
                self._accidents.lose_catalog()
                self._judge.note_older_catalog(None)
                self._tell("all processes are stopped, and the catalog is lost")
                self._kill_all()
            case FaultKind.OLDER_CATALOG if (
                self._accidents.has_copy("catalog.db") and self._is_newest_commit_recorded()
            ):
                self._accidents.put_back("catalog.db")
                self._judge.note_older_catalog(self._accidents.find_metadata(TOPIC))
                self._tell("all processes are stopped, and the catalog is put back as it was some commits ago")
                # Nothing can stop one whose commit is on its way to just this head: the fork is seen later.
                self._kill_all()
            case FaultKind.OLDER_STORE if self._accidents.has_copy("store.db"):
                self._accidents.put_back("store.db")
                self._judge.note_older_store()
                self._tell("the metadata store is put back as it was some commits ago")
            case FaultKind.DAMAGE:
                name = self._accidents.damage(random, TOPIC, self._disk.is_durable)
                self._tell(f"a byte of {name or 'nothing'} changes")
            case FaultKind.LOST_LAKE if self._judge.lost_backup is None:
                self._lose_lake()
            # Another engine ends with an error of its own where a file of the table is damaged.
            case FaultKind.FOREIGN_COMMIT if self._is_present_head_named() and not self._accidents.originals:
                with self._disk.sync_new_files():
                    what, location = self._accidents.commit_as_another_engine(TOPIC, random)
                self._judge.note_foreign_commit(location)
                self._tell(f"another engine {what}")

    def _lose_lake(self) -> None:
        destination = self._folder / f"backup-{self._judge.restores}"
        found = self._accidents.find_backup(destination, TOPIC)
        if found is None or found[1] not in self._states:
            return
        self._accidents.lose_lake()
        self._disk.forget()
        self._judge.note_lost_lake(str(destination), found[0])
        self._restored = self._states[found[1]].make_restored(self._judge)
        self._tell(f"all processes are stopped, and everything is lost but the backup {found[0]}")
        self._kill_all()

    def _is_newest_commit_recorded(self) -> bool:
        """Whether its process came to its end with the store at hand: else a person has to choose whether it counts."""
        last = self._last_committer
        if self._judge.is_removed or last is None or last.is_running or last.is_killed:
            return False
        return last.error is None and not last.was_refused

    def _is_present_head_named(self) -> bool:
        """Whether the catalog names the newest head: over an older one another engine would begin a second history."""
        is_older = self._judge.is_catalog_older or self._judge.is_removed or self._judge.lost_backup is not None
        return not is_older and self._accidents.find_metadata(TOPIC) is not None

    def _note_swap(self, identifier: str, metadata_location: str) -> None:
        process = get_process()
        assert process is not None
        self._last_committer = process
        if "quarantine" in identifier or TOPIC not in identifier:
            return
        try:
            if self._judge.is_of_another_topic(metadata_location) and "latest" not in identifier:
                running = [each.name for each in self._processes if each.is_running and each is not process]
                self._judge = self._judge.make_successor(running)
                self._accidents.forget_catalog()
            if "latest" in identifier:
                self._tell(f"{process.name} commits {self._judge.judge_latest_commit(metadata_location)}")
                return
            if self._restored is not None:
                self._judge, self._restored = self._restored, None
            what = self._judge.judge_commit(process.name, metadata_location)
            self._states[self._judge.snapshot_id] = self._judge.make_copy()
            self._tell(f"{process.name} commits {what}")
            if self._faults_are_on:
                self.outcome.operations[what.partition(":")[0]] += 1
            if self._judge.commits % BACKUP_EVERY == 0:
                with unobserved(process):
                    self._accidents.back_up()
        except BrokenPromiseError as problem:
            self._tell(f"{process.name} commits")
            self._broken = str(problem)
        except Exception as problem:
            self._broken = f"The judge ended with {type(problem).__name__}: {problem}"

    def _note_end(self, process: Process) -> None:
        error = process.error
        if process.is_killed:
            return
        if error is None:
            if process.step == "ingest":
                self._judge.judge_ended_ingest(process.name)
            if process.step == "erase":
                self._judge.judge_ended_erasure(process.name)
            self._tell(f"{process.name} ends")
        elif isinstance(error, WinnowError) or (isinstance(error, OSError) and process.was_refused):
            self.outcome.errors[type(error).__name__] += 1
            self._tell(f"{process.name} ends with {type(error).__name__}: {str(error)[:160]}")
            self._choices.note_error(error)
            if isinstance(error, ForeignTableError):
                self._roll_back(process)
        else:
            raise BrokenPromiseError(f"{process.name} ended with {type(error).__name__}: {error}") from error
        if not self._judge.is_removed and self._judge.lost_backup is None:
            self._judge.judge_files()

    def _roll_back(self, process: Process) -> None:
        """Do what the error of ``process`` says, half of the time."""
        can = self._is_present_head_named() and not self._accidents.originals
        if can and Random(f"roll back {self._seed} {process.name}").random() < 0.5:
            with self._disk.sync_new_files():
                location = self._accidents.roll_back(TOPIC)
            if location is not None:
                self._judge.note_foreign_commit(location)
                self._tell("somebody rolls back to Winnow's newest snapshot")

    # ------------------------------------------------------------------------------------------- the end

    def _come_to_rest(self) -> None:
        self._tell("all faults stop")
        self._accidents.mend()
        self._now_ms += 200 * HOUR_MS
        self._finish(self._start("rest-prepare", self._prepare_rest))
        for number, step in enumerate(QUIET_STEPS):
            self._now_ms += 200 * HOUR_MS
            self._finish(self._start(f"rest-{step}-{number}", STEPS[step].run))
        self._finish(self._start("rest-check", self._check_rest))

    def _prepare_rest(self, context: StepContext) -> None:
        process = get_process()
        assert process is not None
        with unobserved(process):
            with self._disk.sync_new_files():
                location = self._accidents.roll_back(TOPIC)
            if location is not None:
                self._judge.note_foreign_commit(location)
        if self._judge.is_catalog_older:
            recover(context)
        restore_lost(context)
        restore_without_erased(context.installation, TOPIC)
        rebuild_store(context.installation, [TOPIC])
        resume_partitions(context.installation, TOPIC, by="ann", everybody=True)
        alter_topic(context.installation, TOPIC, {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0"}, [])

    def _check_rest(self, context: StepContext) -> None:
        installation = context.installation
        rows = [row for batch in read_batches(installation, TOPIC) for row in batch.to_pylist()]
        self._judge.judge_reading(rows)
        due = [
            (assessment.partition, assessment.reason)
            for assessment in assess_topics(installation, [TOPIC], as_of_ms=installation.now_ms())
            if getattr(assessment, "reason", None) is not None and getattr(assessment, "is_eligible", False)
        ]
        if due:
            raise BrokenPromiseError(f"Partition {due[0][0]} is still due ({due[0][1]}).")
        left_open = installation.store.runs.list_open(TOPIC)
        if left_open:
            raise BrokenPromiseError(f"The run of plan {left_open[0].plan_id} is still {left_open[0].status}.")
        head = installation.log.open(TOPIC).head()
        quarantined = installation.log.quarantine(TOPIC, head).read(head.state.quarantine_ingests)
        self._judge.judge_quarantine([row for batch in quarantined for row in batch.to_pylist()])
        logged = {number: replace(state, appends=()) for number, state in head.state.partitions.items()}
        if installation.store.projection.list_states(TOPIC) != logged:
            raise BrokenPromiseError("The metadata store has other checkpoints than the log.")
        location = installation.log.open(TOPIC).load_table().location()
        self._judge.judge_orphans(find_path(location), self._accidents.foreign_files)
        if self._config["winnow.latest.table"] == "true":
            update_latest_table(installation, TOPIC)
            table = installation.log.latest_table(TOPIC).table()
            assert table is not None
            self._judge.judge_latest_table(table.metadata_location)
        self._judge.judge_erased_files(self._folder / "home")
        self._judge.judge_job_documents(find_path(installation.settings.staging))

    def _finish(self, process: Process) -> None:
        while process.is_running:
            self._now_ms = max(self._now_ms, process.asleep_until_ms)
            self._turns.give(process)
            if self._broken is not None:
                raise BrokenPromiseError(self._broken)
        if process.error is not None:
            raise BrokenPromiseError(
                f"With all faults off, {process.name} ended with {type(process.error).__name__}: {process.error}"
            ) from process.error
        self._judge.judge_files()

    def _end_all(self) -> None:
        for process in self._processes:
            process.is_killed = True
        for process in self._processes:
            while process.is_running:
                self._turns.give(process)

    def _tell(self, text: str) -> None:
        self.outcome.story.append(text)


def _refuse(process: Process, call: Call) -> NoReturn:
    process.was_refused = True
    raise make_error(call)


def _name_way(process: Process, call: Call) -> tuple[str, Adapter]:
    """Name what fails for some time: the network of one process, or the disk of all."""
    is_local = call.adapter in {Adapter.STORAGE, Adapter.DISK}
    return ("", Adapter.DISK) if is_local else (process.name, call.adapter)


def make_error(call: Call) -> Exception:
    """Make the error that a call ends with when it is refused, or its answer is lost."""
    match call.adapter:
        case Adapter.STORE:
            return ServiceError(
                "The metadata store sqlite does not answer: simulated.",
                left="Whether the last change arrived is not certain, and repeating it does no harm.",
                next="Run it again.",
            )
        case Adapter.CATALOG:
            return OperationalError("simulated", {}, ConnectionError("server closed the connection"))
        case _:
            return OSError(errno.ENOSPC if call.writes else errno.EIO, "simulated")
