"""The command ``python -m parity``: runs the certificate and writes its page."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from parity.archive import open_archive
from parity.broker_topics import BrokerTopics
from parity.certificate import CertifiedRun, format_certificate
from parity.random_topics import PARTITIONS, make_topics
from parity.run import ParityRun, Report
from winnow.embedded.kafka_broker import DEFAULT_VERSION, run_broker

HELP: Final = """\
What a real broker's log cleaner keeps, and what Winnow keeps, of the same random logs.

  python -m parity                       304 logs of 10,000 records on Kafka 4.3.1, 40 on 3.9.1 and 4.4.0; minutes
  python -m parity --profile short       40 small logs; about a minute
  python -m parity --seed 7              the logs of seed 7 again; a new seed when left out
  python -m parity --seed 7 --only log-014    one topic of them; --logs and --records as they were
  python -m parity --versions 4.4.0      other versions of Kafka
  python -m parity --page FILE           write the certificate there (make parity: docs/parity-certificate.md)

Exit code 1: a difference that is not in the list (parity/differences.py). It is printed with its seed, topic partition
and offsets; no byte of a record is.
"""
VERSIONS: Final = (DEFAULT_VERSION, "3.9.1", "4.4.0")


@dataclass(frozen=True, slots=True)
class Profile:
    """How much a run does. ``other_logs``: on each version after the first."""

    logs: int
    records: int
    other_logs: int
    spark_topics: int
    versions: tuple[str, ...]


PROFILES: Final = MappingProxyType(
    {
        "full": Profile(304, 10_000, 40, 3, VERSIONS),
        "short": Profile(40, 2_000, 40, 0, VERSIONS[:1]),
    }
)
MAXIMUM_PRINTED: Final = 30


def certify(
    version: str,
    seed: int,
    logs: int,
    records: int,
    *,
    spark_topics: int,
    folder: Path,
    report: Report,
    only: Collection[str] = (),
) -> CertifiedRun:
    """Run ``logs`` random logs on one version of Kafka, in ``folder``; of them those of the topics ``only``, if any."""
    started = time.monotonic()
    # Kafka 4 raised the minimum of segment.bytes, and gave tests a setting of their own.
    setting = "segment.bytes" if version.startswith("3.") else "internal.segment.bytes"
    topics = [t for t in make_topics(seed, logs, records, segment_setting=setting) if not only or t.name in only]
    report(f"Kafka {version}, seed {seed}: {len(topics) * PARTITIONS} logs of {records} records")
    with run_broker(folder / "broker", version=version) as broker, open_archive(folder / "archive") as archive:
        tally = ParityRun(BrokerTopics(broker, topics), archive, topics, seed, report, spark_topics).run()
    return CertifiedRun(version, seed, len(topics) * PARTITIONS, time.monotonic() - started, tally)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; return the exit code."""
    options = _build_parser().parse_args(arguments)
    profile = PROFILES[options.profile]
    seed = options.seed or int(time.time())
    runs = []
    for number, version in enumerate(options.versions.split(",") if options.versions else profile.versions):
        logs = options.logs or (profile.logs if number == 0 else profile.other_logs)
        with tempfile.TemporaryDirectory(prefix="winnow-parity-") as folder:
            run = certify(
                version,
                seed,
                logs,
                options.records or profile.records,
                spark_topics=profile.spark_topics,
                folder=Path(folder),
                report=_print_line,
                only=options.only.split(",") if options.only else (),
            )
        _print_run(run)
        runs.append(run)
        if options.page is not None:
            options.page.write_text(format_certificate(runs, f"{datetime.now(UTC):%Y-%m-%d}"))
    return 0 if all(run.passed for run in runs) else 1


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m parity", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", choices=sorted(PROFILES), default="full")
    parser.add_argument("--seed", type=int, help="a whole number above 0; from the clock when left out")
    parser.add_argument("--versions", help="versions of Kafka, with commas between; the first one gets most logs")
    parser.add_argument("--logs", type=int, help="logs on every version, instead of the profile's")
    parser.add_argument("--records", type=int, help="records of each log, instead of the profile's")
    parser.add_argument("--only", help="topics, with commas between: only these of the seed's")
    parser.add_argument("--page", type=Path, help="where the certificate is written")
    return parser


def _print_run(run: CertifiedRun) -> None:
    for kind, count in sorted(run.tally.compared.items()):
        _print_line(f"  {count:>12,}  {kind}")
    for name, count in sorted(run.tally.differences.items()):
        _print_line(f"  {count:>12,}  listed difference {name}")
    for finding in run.tally.unexplained[:MAXIMUM_PRINTED]:
        _print_line(f"  UNEXPLAINED  {finding}")
    more = len(run.tally.unexplained) - MAXIMUM_PRINTED
    if more > 0:
        _print_line(f"  and {more} more")
    verdict = "no unexplained difference" if run.passed else f"{len(run.tally.unexplained)} UNEXPLAINED DIFFERENCES"
    _print_line(f"Kafka {run.kafka_version}, seed {run.seed}: {verdict} in {run.seconds:.0f} s")


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
