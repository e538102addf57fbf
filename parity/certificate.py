"""Writes the certificate: what was compared, with which versions and seeds, and the differences that were met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parity.comparison import Tally
from parity.differences import DIFFERENCES
from winnow import __version__

_INTRODUCTION = """\
Random logs are written to a real broker, in many small segments: tombstones; odd, empty and non-UTF-8 keys; repeated,
empty and null headers; timestamps out of order, young, old and missing, the producer's and the broker's; transactions,
committed and aborted; every compression; `compact` and `compact,delete`; minimum and maximum lag, delete retention,
retention, dirty ratios to the last bit; deleted records. The broker cleans them one to three times, with more records
between. Winnow ingests the same segments (through a consumer, or from a copy of the broker's log directory), compacts
at the cleaner's own time, and everything is compared. Decisions are Winnow's on the broker's own segments, sizes and
times, and the active segment is not handed over. At the end `winnow ingest kafka` reads some of the cleaned logs anew.

Beside them, topics named `own-…`: `winnow ingest kafka` brings everything, the broker's active segment too, and Winnow
decides as `winnow eligibility` and its planner do: on its own files, with its own active segment, its own bytes and
ratio, at the broker's time. Segments are the same on both sides as both close them as segment.bytes and segment.ms say
(`parity/own_topics.py`); bytes are not, which is a listed difference where it decides.

What chance misses has topics named `edge-…` (`parity/edges.py`). Ladders of records, segments and horizons, one for
each millisecond, pass min.compaction.lag.ms, max.compaction.lag.ms, retention.ms and delete.retention.ms while the
cleaner looks: one is exactly at the boundary, one a millisecond before, one behind. A record that was deleted before
it was read, one that the broker lost, a partition that ends before the range, and timestamps of 0 are met in every run.

In the column *three brokers* each log has three replicas; the node that leads all of them is stopped after they were
written and comes back before they are cleaned, and the log is compared as its new leader has it.

Kafka's own tests of its cleaner, case by case: [kafka-parity.md](kafka-parity.md).
""".splitlines()

_NOT_COMPARED = """\
The broker alone: open transactions at the time of a cleaning, a map that is full before the end of the range, records
without keys (no producer can write them to a compacted topic), and markers and empty batches, which no reader sees.
Winnow alone: the strategies `timestamp` and `header`. Transactions are not in the topics of which Winnow decides on its
own files: a marker has the time at which it was written, so it would close segments by segment.ms at the broker alone.
""".splitlines()


@dataclass(frozen=True, slots=True)
class CertifiedRun:
    """One finished run on one version of Kafka."""

    kafka_version: str
    seed: int
    logs: int
    seconds: float
    tally: Tally

    @property
    def passed(self) -> bool:
        """Whether every difference is a listed one."""
        return not self.tally.unexplained


def format_certificate(runs: Sequence[CertifiedRun], date: str) -> str:
    """Format the page ``docs/parity-certificate.md``."""
    passed = all(run.passed for run in runs)
    written = sum(run.tally.compared["records written"] for run in runs)
    lines = [
        "# Parity certificate",
        "",
        f"{date}: Winnow {__version__} beside the log cleaner of "
        + ", ".join(f"Kafka {run.kafka_version}" for run in runs)
        + f". **{'No unexplained difference' if passed else 'UNEXPLAINED DIFFERENCES'}.**",
        "",
        *_INTRODUCTION,
        "",
        "Written by `make parity`; the same logs again: `make parity SEED=N`.",
        "",
        "## Compared",
        "",
        f"In all {sum(run.logs for run in runs):,} logs and {written:,} records written.",
        "",
        "| |" + "".join(f" Kafka {run.kafka_version} |" for run in runs),
        "|---|" + "---:|" * len(runs),
        "| seed |" + "".join(f" {run.seed} |" for run in runs),
        "| seconds |" + "".join(f" {run.seconds:.0f} |" for run in runs),
    ]
    kinds = sorted({kind for run in runs for kind in run.tally.compared})
    lines += [f"| {kind} |" + "".join(f" {run.tally.compared[kind]:,} |" for run in runs) for kind in kinds]
    lines += [
        "| unexplained differences |" + "".join(f" {len(run.tally.unexplained)} |" for run in runs),
        "",
        "## Listed differences",
        "",
        "Each is recognised by exactly what the second column says (`parity/differences.py`), and shown in every run.",
        "Anything else fails the run.",
        "",
        "| Difference | Recognised by |" + "".join(f" {run.kafka_version} |" for run in runs),
        "|---|---|" + "---:|" * len(runs),
    ]
    for each in DIFFERENCES:
        counts = "".join(f" {run.tally.differences[each.id]:,} |" for run in runs)
        lines.append(f"| `{each.id}`: {each.sentence} | {each.recognised} |{counts}")
    if not passed:
        lines += ["", "## Unexplained", ""]
        lines += [f"- Kafka {run.kafka_version}: {finding}" for run in runs for finding in run.tally.unexplained]
    lines += [
        "",
        "## Not compared here",
        "",
        *_NOT_COMPARED,
        "",
    ]
    return "\n".join(lines)
