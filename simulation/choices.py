"""Decides who begins, who goes on and what fails: by chance, writing it down, or as a script says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, Protocol

from simulation.script import ENDED, Fault, FaultKind, Place, Script, Start, Switch
from simulation.turns import Adapter, Call
from winnow.errors import DeletedTopicError, OlderHeadError, UnknownTopicError

HOUR_MS: Final = 3_600_000

CONCURRENT_PROCESSES: Final = 3
START_PROBABILITY: Final = 0.02
"""Probability, at each call, that another process begins beside those that run."""
SWITCH_PROBABILITY: Final = 0.25
FAULT_PROBABILITIES: Final = {
    FaultKind.KILL: 0.003,
    FaultKind.STAND_STILL: 0.003,
    FaultKind.REFUSE: 0.003,
    FaultKind.LOSE_ANSWER: 0.004,
    FaultKind.CUT_OFF: 0.002,
    FaultKind.POWER_CUT: 0.0006,
    FaultKind.OLDER_CATALOG: 0.0005,
    FaultKind.LOST_CATALOG: 0.0003,
    FaultKind.OLDER_STORE: 0.0005,
    FaultKind.LOST_LAKE: 0.001,
    FaultKind.DAMAGE: 0.001,
    FaultKind.FOREIGN_COMMIT: 0.002,
    FaultKind.OLD_LISTING: 0.1,
}
"""Probability of each fault at each call where it can happen."""
PROOFS: Final = {
    FaultKind.OLDER_CATALOG,
    FaultKind.LOST_CATALOG,
    FaultKind.OLDER_STORE,
    FaultKind.LOST_LAKE,
    FaultKind.DAMAGE,
}
"""What puts back, loses or damages what a head is proven by: catalog, store, files."""
ACCIDENTS: Final = {*PROOFS, FaultKind.FOREIGN_COMMIT}
"""What happens to the lake, not to a process."""
COMMIT_FACTOR: Final = 20
"""How much more probable a fault is just before and after the catalog's row is swapped: there much is prepared, and
what was looked at may have changed."""
DURATIONS_HOURS: Final[Mapping[FaultKind, Sequence[float]]] = {
    FaultKind.STAND_STILL: (0.1, 1, 30, 200),
    FaultKind.CUT_OFF: (0.002, 0.01, 0.1),
    FaultKind.OLD_LISTING: (0.01, 0.2, 1),
}
ADVANCES_MS: Final = (1_000, 60_000, HOUR_MS, 26 * HOUR_MS)
STEP_SHARES: Final = (0.8, 0.3)
"""Probability that a history has a step, for each of two sorts of histories."""
ALWAYS: Final = ("ingest", "compact")
"""Steps without which nothing happens."""
AFTER_A_LOSS: Final[Mapping[str, int]] = {"back-up": 4, "erase": 2, "restore-backup": 4}
"""How much more often steps begin where a lake can be lost: nothing is lost without a backup of it, and what was erased
since must stay away."""
REMEDIES: Final[Mapping[type[BaseException], tuple[str, ...]]] = {
    DeletedTopicError: ("restore-topic",),
    UnknownTopicError: ("create-topic", "recover", "restore-backup"),
    OlderHeadError: ("recover",),
}
"""The steps of which an error tells one to run next."""
SKEWS_MS: Final = (0, 0, -50_000, 50_000)


class Choices(Protocol):
    """Who decides."""

    def choose_start(self, at: Place, running: int) -> Start | None:
        """Choose a process that begins now; None: none does."""

    def choose_fault(self, at: Place, call: Call) -> Fault | None:
        """Choose what happens at a call; None: it goes well."""

    def choose_turn(self, at: Place, awake: Sequence[str]) -> str:
        """Choose whose turn it is, of the processes that can go on."""

    def note_error(self, error: BaseException) -> None:
        """Note that a process ended with an error that people see."""


def can_happen(kind: FaultKind, call: Call) -> bool:
    """Whether a fault can happen at a call."""
    match kind:
        case FaultKind.REFUSE:
            return not call.is_done and call.adapter is not Adapter.CLOCK
        case FaultKind.LOSE_ANSWER:
            # A disk answers or the machine is gone; what lies behind a network can have done it and not say so.
            return call.is_done and call.writes and call.adapter in {Adapter.CATALOG, Adapter.STORE}
        case FaultKind.CUT_OFF:
            return can_happen(FaultKind.LOSE_ANSWER, call) or needs_service(call)
        case FaultKind.OLD_LISTING:
            return not call.is_done and call.name == "list_named_files"
        case _:
            return True


def needs_service(call: Call) -> bool:
    """Whether a call begins that another machine has to answer, or a disk with room."""
    is_written = call.adapter in {Adapter.STORAGE, Adapter.DISK} and call.writes and call.name != "delete"
    return not call.is_done and (is_written or call.adapter in {Adapter.CATALOG, Adapter.STORE})


def _choose_faults(random: Random) -> list[FaultKind]:
    """Choose a random half of the faults, of accidents a quarter.

    Only one of :data:`PROOFS` happens. Else what is newest may be gone, and nothing could tell, or recovery has to give
    it up.
    """
    chosen = [kind for kind in FaultKind if random.random() < (0.25 if kind in ACCIDENTS else 0.5)]
    proofs = [kind for kind in chosen if kind in PROOFS]
    random.shuffle(proofs)
    return [kind for kind in chosen if kind not in proofs[1:]]


class RandomChoices:
    """Decides by chance and writes a script of it. Each seed switches a random half of the faults off.

    Args:
        seed: of everything.
        config: the topic's.
        steps: names of steps with their weights.
        length: number of processes.
        ahead_ms: of the source; for the script.
    """

    def __init__(
        self, seed: int, config: dict[str, str], steps: dict[str, int], length: int, ahead_ms: int = 0
    ) -> None:
        self._ahead_ms = ahead_ms
        self._random = Random(f"choices {seed}")
        self._seed = seed
        self._config = config
        # With few kinds of steps, processes meet more often that have to do with each other.
        share = self._random.choice(STEP_SHARES)
        self._steps = {name: weight for name, weight in steps.items() if weight and self._random.random() < share}
        self._steps |= {name: steps[name] for name in ALWAYS}
        self._length = length
        self._faults = _choose_faults(self._random)
        if FaultKind.LOST_LAKE in self._faults:
            self._steps |= {name: weight for name in AFTER_A_LOSS if (weight := AFTER_A_LOSS[name] * steps[name])}
        self._is_skewed = self._random.random() < 0.5
        self._pace_ms = self._random.choice((ADVANCES_MS[:2], ADVANCES_MS[:3], ADVANCES_MS))
        self._remedies: list[str] = []
        self.starts: list[Start] = []
        self.faults: list[Fault] = []
        self.switches: list[Switch] = []

    @property
    def script(self) -> Script:
        """What was decided so far."""
        decided = tuple(self.starts), tuple(self.faults), tuple(self.switches)
        return Script(self._seed, self._config, *decided, self._ahead_ms)

    def choose_start(self, at: Place, running: int) -> Start | None:
        """Choose a process that begins now; None: none does."""
        if len(self.starts) >= self._length or running >= CONCURRENT_PROCESSES:
            return None
        if running and self._random.random() >= START_PROBABILITY:
            return None
        if self._remedies:
            step = self._remedies.pop()
        else:
            step = self._random.choices(list(self._steps), list(self._steps.values()))[0]
        start = Start(
            f"{step}-{len(self.starts) + 1}",
            step,
            at if running else None,
            self._random.choice(self._pace_ms),
            self._random.choice(SKEWS_MS) if self._is_skewed else 0,
        )
        self.starts.append(start)
        return start

    def choose_fault(self, at: Place, call: Call) -> Fault | None:
        """Choose what happens at a call; None: it goes well."""
        factor = COMMIT_FACTOR if call.name == "swap_metadata" else 1
        for kind in self._faults:
            if can_happen(kind, call) and self._random.random() < FAULT_PROBABILITIES[kind] * factor:
                fault = Fault(kind, at, self._random.choice(DURATIONS_HOURS.get(kind, (0,))))
                self.faults.append(fault)
                return fault
        return None

    def choose_turn(self, at: Place, awake: Sequence[str]) -> str:
        """Choose whose turn it is, of the processes that can go on."""
        if at.process in awake and self._random.random() >= SWITCH_PROBABILITY:
            return at.process
        chosen = self._random.choice(list(awake))
        if chosen != choose_by_default(at, awake):
            self.switches.append(Switch(at, chosen))
        return chosen

    def note_error(self, error: BaseException) -> None:
        """Note that a process ended with an error that people see; half of the time they do what it says."""
        if self._random.random() < 0.5:
            steps = next((steps for kind, steps in REMEDIES.items() if isinstance(error, kind)), ())
            self._remedies = list(steps)


class ScriptedChoices:
    """Decides as a script says; what the script does not say is decided the same way each time."""

    def __init__(self, script: Script) -> None:
        self._starts = list(script.starts)
        self._faults = {fault.at: fault for fault in script.faults}
        self._switches = {switch.at: switch.to for switch in script.switches}

    def choose_start(self, at: Place, running: int) -> Start | None:
        """Choose a process that begins now; None: none does."""
        for number, start in enumerate(self._starts):
            if (running and start.at == at) or (not running and number == 0):
                return self._starts.pop(number)
        return None

    def choose_fault(self, at: Place, call: Call) -> Fault | None:
        """Choose what happens at a call; None: it goes well, or the fault cannot happen there any more."""
        fault = self._faults.get(at)
        return fault if fault is not None and can_happen(fault.kind, call) else None

    def choose_turn(self, at: Place, awake: Sequence[str]) -> str:
        """Choose whose turn it is, of the processes that can go on."""
        chosen = self._switches.get(at)
        return chosen if chosen is not None and chosen in awake else choose_by_default(at, awake)

    def note_error(self, error: BaseException) -> None:
        """The script has what people did then."""


def choose_by_default(at: Place, awake: Sequence[str]) -> str:
    """Choose the process that had its turn, else the one that began first."""
    return at.process if at.process in awake and at.call != ENDED else awake[0]
