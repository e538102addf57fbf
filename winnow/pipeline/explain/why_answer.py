"""The answer of winnow why, with its JSON fields, and the sentences made from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.clock import format_ms
from winnow.errors import join_first
from winnow.pipeline.explain.removals import Absence, AbsenceVerdict, IngestedAnswer, RemovalRun
from winnow.values.counts import format_count


class LogSection(StrEnum):
    """The section of the log of a record: covered by a run, to be covered by the next one, or not yet cleanable."""

    CLEAN = "clean"
    DIRTY = "dirty"
    NOT_YET_CLEANABLE = "not_yet_cleanable"


class FoundVerdict(StrEnum):
    """The verdict on an existing record or key."""

    SURVIVED = "survived"
    TOMBSTONE = "tombstone"
    """It survived and marks the key as deleted."""
    WINS_NEXT = "wins_next"
    SUPERSEDED_NEXT = "superseded_next"
    NOT_YET_CLEANABLE = "not_yet_cleanable"
    NOT_COMPACTED = "not_compacted"
    """The topic's policy does not include compact."""
    KEYLESS = "keyless_present"
    UNDECIDED = "undecided"
    """By key: no run has covered any of its records."""
    ABSENT = "absent"
    """By key: it has no record."""


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A visible record, without its bytes. ``version`` None: no strategy header, or it counts as missing."""

    partition: int
    offset: int
    timestamp_ms: int | None
    version: int | None
    tombstone: bool
    section: LogSection


@dataclass(frozen=True, slots=True)
class TombstoneLife:
    """How long a tombstone stays. ``earliest_removal_ms``: no run before it removes the tombstone.

    ``covered``: a run has started its delete horizon. ``waiting_for_late_arrivals``: delete.retention.ms has passed,
    and it still suppresses late records of a lower version.
    """

    offset: int
    covered: bool
    delete_horizon_ms: int | None
    earliest_removal_ms: int
    waiting_for_late_arrivals: bool
    goes_at_next_run: bool


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The offsets of the partition that decide what a run may change."""

    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class SegmentBounds:
    """The segment file that contains an offset."""

    path: str
    first_offset: int
    last_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class MisplacedKey:
    """Records of the key in another partition than the one explained."""

    partition: int
    records: int
    winner_offset: int | None


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """What is known. ``winner``: the winner of the newest run; ``next_winner``: that of a run now.

    ``rule`` names the order by which ``winner`` won, ``next_rule`` that of ``next_winner``. ``runs``: those that
    covered the record or the winner, oldest first; for a removed record, those that may have removed it. ``epoch``,
    ``source_offset``: of the offset asked for, else of the winner, if the log has several epochs. ``erasures``: of keys
    of the topic, which may have taken a record that is not there.
    """

    topic: str
    partition: int | None
    offset: int | None
    present: bool
    verdict: str
    sentence: str
    rule: str
    strategy: str
    winner: SeenRecord | None = None
    next_winner: SeenRecord | None = None
    next_rule: str | None = None
    record: SeenRecord | None = None
    records: tuple[SeenRecord, ...] = ()
    records_total: int = 0
    tombstone: TombstoneLife | None = None
    won_in: RemovalRun | None = None
    runs: tuple[RemovalRun, ...] = ()
    causes: tuple[str, ...] = ()
    ingested: str | None = None
    next_offset: int | None = None
    bounds: LogBounds | None = None
    segment: SegmentBounds | None = None
    default_partition: int | None = None
    partitions_searched: int = 1
    elsewhere: tuple[MisplacedKey, ...] = ()
    epoch: int | None = None
    source_offset: int | None = None
    erasures: tuple[str, ...] = ()


MAXIMUM_SHOWN_RUNS = 3

_RULE_SENTENCES = {
    AbsenceVerdict.SUPERSEDED: "superseded by another record of its key",
    AbsenceVerdict.TOMBSTONE_EXPIRED: "a tombstone whose delete horizon had passed",
    AbsenceVerdict.KEYLESS: "a record without a key, which a compacted log cannot keep",
    AbsenceVerdict.ERASED: "of a key that was erased",
}


def describe_found_key(answer: WhyAnswer, partitions: int) -> str:
    """Describe the records of a key."""
    sentences = [_describe_winner(answer), *_describe_next_run(answer), _describe_tombstone(answer)]
    if answer.elsewhere:
        numbers = ", ".join(f"{answer.topic}-{other.partition} ({other.records:,})" for other in answer.elsewhere)
        sentences.append(f"Records of this key are also in {numbers}; keys meet within one partition only.")
    elif answer.partition != answer.default_partition:
        sentences.append(
            f"Kafka's default partitioner would put this key into {answer.topic}-{answer.default_partition}."
        )
    if answer.partitions_searched < partitions:
        sentences.append(f"{_format_other_count(partitions - answer.partitions_searched)} not searched.")
    return " ".join(filter(None, sentences))


def describe_missing_key(answer: WhyAnswer, likeliest: int) -> str:
    """Explain why a key has no record."""
    where = f"{answer.topic}-{answer.partition}" if answer.partition is not None else f"any partition of {answer.topic}"
    never = f"No record of this key is in {where}: it was never there, or its last record was a tombstone that a run"
    sentences = [f"{never} removed, or retention removed it. Without its last record nothing is known of a key."]
    expired = [run for run in answer.runs if run.tombstones_expired]
    retired = [run for run in answer.runs if run.records_retired]
    name = f"{answer.topic}-{likeliest}"
    if expired:
        total = sum(run.tombstones_expired for run in expired)
        sentences.append(
            f"{format_count(total, 'tombstone')} of {name} expired so far, last in {_format_run(expired[-1])}."
        )
    if retired:
        total = sum(run.records_retired for run in retired)
        sentences.append(
            f"Retention removed {format_count(total, 'record')} of {name} so far, last in {_format_run(retired[-1])}."
        )
    if answer.erasures:
        sentences.append(
            f"Keys of this topic were erased ({format_count(len(answer.erasures), 'time')}); whether this one was: "
            f"winnow erase certificate --for {answer.topic} --key with the same key."
        )
    if not answer.runs:
        sentences.append(f"No run has removed a tombstone of {name} so far, and retention has removed no record.")
    return " ".join(sentences)


def describe_found_offset(answer: WhyAnswer) -> str:
    """Describe the record at an offset."""
    record, bounds = answer.record, answer.bounds
    assert record is not None
    assert bounds is not None
    here = f"{_format_place(answer, record)} is there"
    if answer.verdict == FoundVerdict.KEYLESS:
        return f"{here}. It has no key, so it leaves the log for the quarantine in the first compaction that covers it."
    if answer.verdict == FoundVerdict.NOT_YET_CLEANABLE:
        above = f"It lies at or above the first uncleanable offset {bounds.first_uncleanable_offset}"
        sentences = [f"{here}. {above}, so no run may remove it yet, and readers see it."]
    elif answer.verdict == FoundVerdict.NOT_COMPACTED:
        return f"{here}. The topic's cleanup.policy does not include compact, so no run judges it by its key."
    elif answer.verdict == FoundVerdict.SUPERSEDED_NEXT:
        assert answer.next_winner is not None
        follower = f"{_format_coordinates(answer.next_winner)} of its key wins by {answer.next_rule}"
        sentences = [f"{here}. The next run that compacts this partition removes it: {follower}."]
    elif answer.verdict == FoundVerdict.WINS_NEXT:
        sentences = [f"{here}. In the next run that compacts this partition it wins its key by {answer.next_rule}."]
    else:
        sentences = [f"{here}, because it won its key by {answer.rule}{_describe_winning_run(answer)}."]
    if answer.records_total > 1:
        sentences.append(f"Readers see {answer.records_total:,} records of its key in this partition.")
    return " ".join(filter(None, [*sentences, _describe_tombstone(answer)]))


def describe_missing_offset(answer: WhyAnswer, why: Absence) -> str:
    """Explain why an offset has no record."""
    bounds = answer.bounds
    assert bounds is not None
    place = f"{answer.topic}-{answer.partition}, offset {answer.offset}"
    if why.verdict is AbsenceVerdict.NOT_WRITTEN:
        return f"{place} is not written yet: the log ends at {bounds.log_end_offset}."
    if why.verdict is AbsenceVerdict.BELOW_LOG_START:
        text = f"{place} lies below the log start {bounds.log_start_offset}: removed by retention or by delete-records."
        if why.runs:
            text += f" Retention removed records in {_format_runs(why.runs)}."
        else:
            text += " No run of this partition has retired records, so it was delete-records."
    elif why.verdict is AbsenceVerdict.QUARANTINED:
        text = f"{place} is in the quarantine, because its record has no key (winnow read --quarantined shows it)."
    elif why.verdict is AbsenceVerdict.NEVER_INGESTED:
        text = f"{place} was never in this log: no ingest brought it, so it is a gap in the source."
    else:
        text = _describe_removal(answer, why, place)
    return f"{text} {_describe_replacement(answer)}"


def _describe_removal(answer: WhyAnswer, why: Absence, place: str) -> str:
    covered = ""
    if why.covered_by is not None and why.runs != (why.covered_by,):
        covered = f" It was first covered by {_format_run(why.covered_by)}."
    rules = [_RULE_SENTENCES[cause] for cause in why.causes]
    by = _format_runs(why.runs)
    if why.erasures:
        erased = f"erasure {', '.join(each[:12] for each in why.erasures[-MAXIMUM_SHOWN_RUNS:])}"
        by = f"{by} or {erased}" if why.runs else erased
    if why.ingested is IngestedAnswer.PERHAPS and why.slice is not None:
        entry = why.slice
        text = (
            f"{place} is not there: either it was never written, since the ingest that spans it brought "
            f"{entry.records:,} records for offsets {entry.first_offset} to {entry.last_offset}, or "
            f"{by} removed it: {' or '.join(rules)}."
        )
    elif len(rules) == 1 and len(why.runs) + len(why.erasures) == 1:
        text = f"{place} was removed by {by}: {rules[0]}."
    elif len(rules) == 1:
        text = f"{place} was removed: {rules[0]}. It went in one of {by}."
    else:
        text = (
            f"{place} was removed in one of {by}. Their counts do not tell whether it was "
            f"{', '.join(rules[:-1])} or {rules[-1]}."
        )
    return text + covered


def _describe_replacement(answer: WhyAnswer) -> str:
    if answer.next_offset is None:
        return "A reader that starts here gets what is appended next."
    return f"A reader that starts here gets offset {answer.next_offset} next."


def _describe_winner(answer: WhyAnswer) -> str:
    if answer.winner is not None:
        return f"{_format_place(answer, answer.winner)} won this key by {answer.rule}{_describe_winning_run(answer)}."
    return f"No run has judged this key in {answer.topic}-{answer.partition} yet: readers see all its records."


def _describe_next_run(answer: WhyAnswer) -> list[str]:
    winner, follower, bounds = answer.winner, answer.next_winner, answer.bounds
    assert bounds is not None
    if winner is not None and answer.records_total == 1:
        return ["It is the only record of the key that readers see."]
    sentences = [f"Readers see {format_count(answer.records_total, 'record')} of it."]
    if follower is None:
        sentences.append(f"All lie at or above the first uncleanable offset {bounds.first_uncleanable_offset}.")
    elif winner is not None and follower.offset == winner.offset:
        sentences.append(f"In the next run it wins again, by {answer.next_rule}.")
    else:
        sentences.append(f"In the next run {_format_coordinates(follower)} wins by {answer.next_rule}.")
    return sentences


def _describe_tombstone(answer: WhyAnswer) -> str:
    life = answer.tombstone
    if life is None:
        return ""
    if not life.covered:
        return (
            "It is a tombstone that no run has covered at a known time: the first one that does starts its delete "
            f"horizon, so it is removed after {format_ms(life.earliest_removal_ms)} at the earliest."
        )
    text = f"It is a tombstone with delete horizon {format_ms(life.earliest_removal_ms)}"
    if life.goes_at_next_run:
        return f"{text}, which has passed: the next run drops it unless it is superseded."
    if life.waiting_for_late_arrivals:
        return (
            f"{text}. delete.retention.ms has passed, but it waits for late arrivals (winnow.late.arrival.ms): it is "
            "removed in a run after the horizon that covers every record appended before it."
        )
    return f"{text}: no run before that drops it."


def _describe_winning_run(answer: WhyAnswer) -> str:
    if not answer.runs:
        return ", before the oldest run that is known"
    first, last = answer.runs[0], answer.runs[-1]
    if first is last:
        return f" in {_format_run(last)}"
    return f", last in {_format_run(last)}; {_format_run(first)} covered it first"


def _format_place(answer: WhyAnswer, record: SeenRecord) -> str:
    return f"{answer.topic}-{record.partition}, {_format_coordinates(record)}"


def _format_coordinates(record: SeenRecord) -> str:
    details = [] if record.timestamp_ms is None else [f"timestamp {format_ms(record.timestamp_ms)}"]
    details += [] if record.version is None else [f"version {record.version}"]
    details += ["tombstone"] if record.tombstone else []
    return f"offset {record.offset}" + (f" ({', '.join(details)})" if details else "")


def _format_run(run: RemovalRun) -> str:
    return (
        f"run {(run.plan_id or '')[:12]} of {format_ms(run.finished_at_ms)} (as of {format_ms(run.as_of_ms)}, "
        f"snapshot {run.snapshot_id})"
    )


def _format_runs(runs: tuple[RemovalRun, ...]) -> str:
    return join_first([_format_run(run) for run in runs], MAXIMUM_SHOWN_RUNS)


def _format_other_count(number: int) -> str:
    return f"{number:,} other partition{'' if number == 1 else 's'} of the topic {'was' if number == 1 else 'were'}"
