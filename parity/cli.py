"""The command ``python -m parity``: runs the certificate and writes its page."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from broker.kafka_broker import DEFAULT_VERSION, run_broker
from parity.archive import open_archive
from parity.broker_topics import BrokerTopics
from parity.certificate import CertifiedRun, format_certificate
from parity.cluster import run_followed_cluster
from parity.comparison import Tally
from parity.edges import BROKER_PROPERTIES, EdgeRun
from parity.own_run import OwnRun
from parity.own_topics import make_own_topics
from parity.random_topics import PARTITIONS, make_topics
from parity.run import ParityRun, Report

HELP: Final = """\
What a real broker's log cleaner keeps, and what Winnow keeps, of the same random logs.

  python -m parity                       304 logs of 10,000 records on Kafka 4.3.1, 40 on 3.9.1, on 4.4.0, and on a
                                         cluster of three brokers; minutes
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
    """How much a run does. ``other_logs``: on each version after the first.

    ``own_topics``: random topics of which Winnow decides by itself, beside the special ones. ``cluster_logs``: on a
    cluster of three brokers, of at most ``CLUSTER_RECORDS`` records each.
    """

    logs: int
    records: int
    other_logs: int
    spark_topics: int
    own_topics: int
    cluster_logs: int
    versions: tuple[str, ...]


PROFILES: Final = MappingProxyType(
    {
        "full": Profile(304, 10_000, 40, 3, 10, 40, VERSIONS),
        "short": Profile(40, 2_000, 40, 0, 0, 0, VERSIONS[:1]),
    }
)
MAXIMUM_PRINTED: Final = 30
CLUSTER_RECORDS: Final = 2_000
THREE_BROKERS: Final = ", three brokers"


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
    own_topics: int = 0,
) -> CertifiedRun:
    """Run ``logs`` random logs on one version of Kafka, in ``folder``; of them those of the topics ``only``, if any.

    Without ``only``, then the topics of which Winnow decides by itself, ``own_topics`` random ones among them.
    """
    started = time.monotonic()
    setting = _name_segment_setting(version)
    topics = [t for t in make_topics(seed, logs, records, segment_setting=setting) if not only or t.name in only]
    report(f"Kafka {version}, seed {seed}: {len(topics) * PARTITIONS} logs of {records} records")
    own = [] if only else make_own_topics(seed, segment_setting=setting, more=own_topics)
    with run_broker(folder / "broker", version=version) as broker, open_archive(folder / "archive") as archive:
        tally = ParityRun(BrokerTopics(broker, topics), archive, topics, seed, report, spark_topics).run()
        if own:
            OwnRun(BrokerTopics(broker, [each.topic for each in own]), archive, own, seed, report, tally).run()
    return CertifiedRun(version, seed, (len(topics) + len(own)) * PARTITIONS, time.monotonic() - started, tally)


def certify_edges(version: str, *, folder: Path, report: Report) -> Tally:
    """Compare what chance misses (:mod:`parity.edges`), on a broker of its own in ``folder``."""
    with (
        run_broker(folder / "broker", version=version, properties=BROKER_PROPERTIES) as broker,
        open_archive(folder / "archive") as archive,
    ):
        return EdgeRun(broker, archive, _name_segment_setting(version), report).run()


def certify_cluster(
    version: str, seed: int, logs: int, records: int, *, folder: Path, report: Report, only: Collection[str] = ()
) -> CertifiedRun:
    """Run random logs on a cluster of three brokers, whose leaders change between writing and cleaning."""
    started = time.monotonic()
    setting = _name_segment_setting(version)
    topics = [t for t in make_topics(seed, logs, records, segment_setting=setting) if not only or t.name in only]
    report(f"Kafka {version}{THREE_BROKERS}, seed {seed}: {len(topics) * PARTITIONS} logs of {records} records")
    own = [] if only else make_own_topics(seed, segment_setting=setting)
    with (
        run_followed_cluster(folder / "cluster", version, topics) as followed,
        open_archive(folder / "ours") as archive,
    ):
        tally = ParityRun(followed.broker, archive, topics, seed, report, 0, followed.change_leaders).run()
        if own:
            OwnRun(followed.follow([each.topic for each in own]), archive, own, seed, report, tally).run()
    seconds = time.monotonic() - started
    return CertifiedRun(version + THREE_BROKERS, seed, (len(topics) + len(own)) * PARTITIONS, seconds, tally)


def _name_segment_setting(version: str) -> str:
    # Kafka 4 raised the minimum of segment.bytes, and gave tests a setting of their own.
    return "segment.bytes" if version.startswith("3.") else "internal.segment.bytes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; return the exit code."""
    options = _build_parser().parse_args(arguments)
    profile = PROFILES[options.profile]
    seed = options.seed or int(time.time())
    runs: list[CertifiedRun] = []
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
                own_topics=profile.own_topics if number == 0 else 0,
            )
            if not options.only:
                started = time.monotonic()
                run.tally.add(certify_edges(version, folder=Path(folder, "edges"), report=_print_line))
                run = replace(run, seconds=run.seconds + time.monotonic() - started)
        _finish_run(runs, run, options.page)
    if profile.cluster_logs and not options.only:
        with tempfile.TemporaryDirectory(prefix="winnow-parity-") as folder:
            run = certify_cluster(
                DEFAULT_VERSION,
                seed,
                profile.cluster_logs,
                min(options.records or profile.records, CLUSTER_RECORDS),
                folder=Path(folder),
                report=_print_line,
            )
        _finish_run(runs, run, options.page)
    return 0 if all(run.passed for run in runs) else 1


def _finish_run(runs: list[CertifiedRun], run: CertifiedRun, page: Path | None) -> None:
    _print_run(run)
    runs.append(run)
    if page is not None:
        page.write_text(format_certificate(runs, f"{datetime.now(UTC):%Y-%m-%d}"))


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
