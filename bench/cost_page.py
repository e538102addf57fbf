"""Writes docs/cost.md: what was measured, times list prices.

    python -m bench.cost_page > docs/cost.md

Inputs are docs/performance.json, docs/object-requests.json and the table of prices below; the rest is arithmetic.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

from bench.docs_page import STORED_RESULTS
from bench.object_requests import STORED_REQUESTS
from bench.results import Results

TB: Final = 10**12
GB: Final = 10**9
DAYS_A_MONTH: Final = 30
GRACE_DAYS: Final = 1
"""Default of `winnow.retired.grace.ms`: replaced files are paid for so much longer."""
REPLICAS: Final = 3
APPLICATION_BYTES: Final = 64 * 1024**3
"""A Spark application takes up to so much input, and each run has the fixed part of the requests once."""
BYTES_READ_PER_BYTE: Final = 2
"""By Kafka's dirty ratio of 0.5: a run begins when as much has arrived as is clean, and reads both."""


@dataclass(frozen=True)
class Prices:
    """List prices of one cloud in USD, on demand, in one region."""

    cloud: str
    region: str
    storage: str
    gb_month: float
    million_writes: float
    million_reads: float
    """Per million requests to read; lists are billed as writes."""
    bytes_per_operation: int | None
    """A larger request is billed as several; None: whatever its size."""
    machine: str
    core_hour: float
    disk: str
    disk_gb_month: float


PRICES_OF: Final = "2025"
"""The year of the clouds' price lists below. Whoever changes a price changes this."""
MEASURED_VERSIONS: Final = 10
"""Versions of each key in what was measured."""
TABLED_VERSIONS: Final = (2, 3, 10, 100)
PRICES: Final = (
    Prices("AWS", "us-east-1", "S3 Standard", 0.023, 5.00, 0.40, None, "m6i.xlarge", 0.048, "EBS gp3", 0.08),
    Prices(
        "Google Cloud", "us-central1", "Standard", 0.020, 5.00, 0.40, None, "n2-standard-4", 0.0486,
        "balanced persistent disk", 0.10,
    ),
    Prices(
        "Azure", "East US", "Data Lake Storage, hot, LRS", 0.0208, 6.50, 0.52, 4 * 1024**2, "D4s v5", 0.048,
        "standard SSD, LRS", 0.075,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What one compaction of the workload `uniform` took, and what its requests were."""

    day: str
    cores: int
    input_bytes: float
    output_bytes: float
    work_seconds: float
    whole_work_seconds: float
    """Work with planning, validation and publishing."""
    window_seconds: float
    """Work of the window over keys in plain Spark, which reads the whole archive each time."""
    small: Mapping[str, Any]
    """The small measurement of requests; ``large``: the same with more records."""
    large: Mapping[str, Any]

    @property
    def kept(self) -> float:
        """The share of bytes that stays."""
        return self.output_bytes / self.input_bytes

    def assume_versions(self, versions: int) -> Measured:
        """Return this with the bytes that would stay if each key had so many versions, and the same work for a byte."""
        return replace(self, output_bytes=self.output_bytes * MEASURED_VERSIONS / versions)

    def compute_core_hours(self, seconds: float) -> float:
        """Core hours for a TB of input at the rate of ``seconds`` for the measured input."""
        return seconds * self.cores / 3600 * TB / self.input_bytes

    def count_per_run(self, step: str, *kinds: str) -> float:
        """Requests of these kinds that ``step`` needs however small the input is."""
        for_bytes = self._slope(step, kinds) * float(self.small["bytes_before"])
        return max(0.0, self._count(self.small, step, kinds) - for_bytes)

    def count_per_tb(self, step: str, *kinds: str) -> float:
        """Requests of these kinds in ``step``, for a TB before the compaction, in runs of the largest size."""
        return self._slope(step, kinds) * TB + self.count_per_run(step, *kinds) * TB / APPLICATION_BYTES

    def _slope(self, step: str, kinds: Sequence[str]) -> float:
        more = self._count(self.large, step, kinds) - self._count(self.small, step, kinds)
        return more / float(self.large["bytes_before"] - self.small["bytes_before"])

    @staticmethod
    def _count(measurement: Mapping[str, Any], step: str, kinds: Sequence[str]) -> float:
        return float(sum(measurement["requests"][step][kind] for kind in kinds))


def load_measured() -> Measured:
    """Read both files of measurements."""
    results = Results.load(STORED_RESULTS)
    small, large = json.loads(STORED_REQUESTS.read_text(encoding="utf-8"))
    runs = {
        name: [run for run in results.runs if (run.size, run.workload, run.competitor) == ("12m", "uniform", name)]
        for name in ("winnow", "spark-window")
    }
    ours = [run for run in runs["winnow"] if run.ended]
    rest = ("plan", "facts", "validate", "publish")
    return Measured(
        day=results.machine["day"],
        cores=results.machine["cores"],
        input_bytes=median(float(run.input_bytes or 0) for run in ours),
        output_bytes=median(float(run.output_bytes or 0) for run in ours),
        work_seconds=median(run.work_seconds or 0.0 for run in ours),
        whole_work_seconds=median((run.work_seconds or 0.0) + sum(run.phases[name] for name in rest) for run in ours),
        window_seconds=median(run.work_seconds or 0.0 for run in runs["spark-window"] if run.ended),
        small=small,
        large=large,
    )


def price_run(prices: Prices, measured: Measured) -> dict[str, float]:
    """What compacting one TB once costs, in USD by part.

    New segments need as many writes a byte as those of an ingest: a compaction's own were too small to show it.
    """
    reads = sum(measured.count_per_tb(step, "read") for step in ("compact", "sweep"))
    writes = sum(measured.count_per_tb(step, "write", "list") for step in ("compact", "sweep"))
    writes += measured.kept * measured.count_per_tb("ingest", "write")
    if prices.bytes_per_operation:
        reads += BYTES_READ_PER_BYTE * TB / prices.bytes_per_operation
        writes += measured.kept * TB / prices.bytes_per_operation
    return {
        "cores": measured.compute_core_hours(measured.whole_work_seconds) * prices.core_hour,
        "reads": reads / 1e6 * prices.million_reads,
        "writes": writes / 1e6 * prices.million_writes,
        "grace": prices.gb_month * TB / GB * GRACE_DAYS / DAYS_A_MONTH,
    }


def render_page(measured: Measured) -> str:
    """Render docs/cost.md."""
    large = measured.large
    return _TEXT.format(
        prices_of=PRICES_OF,
        day=measured.day,
        day_of_requests=large["day"],
        input_gb=measured.input_bytes / GB,
        kept=measured.kept,
        cores=measured.cores,
        rate=measured.input_bytes / 1e6 / measured.whole_work_seconds / measured.cores,
        core_hours=measured.compute_core_hours(measured.whole_work_seconds),
        window_core_hours=measured.compute_core_hours(measured.window_seconds),
        records=large["records"],
        mb_before=large["bytes_before"] / 1e6,
        mb_after=large["bytes_after"] / 1e6,
        segments_before=large["segments_before"],
        small_records=measured.small["records"],
        ingest_note=_describe_ingest(measured),
        prices=_render_prices(),
        requests=_render_requests(measured),
        storage=_render_rows(
            ("a TB a month", "as it arrived", "compacted", "saved", "at brokers, 3 replicas on disk"),
            [_price_storage(each, measured) for each in PRICES],
        ),
        runs=_render_rows(
            (
                "compacting a TB once",
                "cores",
                "reads",
                "writes and lists",
                "old files, one day",
                "together",
                "paid back after",
            ),
            [_price_run_row(each, measured) for each in PRICES],
        ),
        versions=_render_rows(
            (
                "versions of each key",
                "stays",
                "saved, a TB a month: AWS",
                "compacting a TB once: AWS",
                *(f"paid back after: {each.cloud}" for each in PRICES),
            ),
            [_price_versions(each, measured.assume_versions(each)) for each in TABLED_VERSIONS],
        ),
        months=_render_rows(
            ("a TB that arrives a month", "core hours", "cores", "requests", "cores of a window over 12 TB instead"),
            [_price_month(each, measured) for each in PRICES],
        ),
    )


def _price_storage(prices: Prices, measured: Measured) -> tuple[str, ...]:
    month = prices.gb_month * TB / GB
    brokers = prices.disk_gb_month * TB / GB * REPLICAS
    return prices.cloud, *map(_usd, (month, month * measured.kept, _price_saved_month(prices, measured), brokers))


def _price_run_row(prices: Prices, measured: Measured) -> tuple[str, ...]:
    parts = price_run(prices, measured)
    return prices.cloud, *map(_usd, (*parts.values(), sum(parts.values()))), _pay_back(prices, measured)


def _pay_back(prices: Prices, measured: Measured) -> str:
    return f"{compute_days_to_pay_back(prices, measured):.1f} days"


def compute_days_to_pay_back(prices: Prices, measured: Measured) -> float:
    """Compute after how many days the storage that is saved equals what compacting once cost."""
    saved_a_day = _price_saved_month(prices, measured) / DAYS_A_MONTH
    return sum(price_run(prices, measured).values()) / saved_a_day


def _price_saved_month(prices: Prices, measured: Measured) -> float:
    return prices.gb_month * TB / GB * (1 - measured.kept)


def _price_versions(versions: int, measured: Measured) -> tuple[str, ...]:
    first = PRICES[0]
    spent = (_price_saved_month(first, measured), sum(price_run(first, measured).values()))
    days = (_pay_back(each, measured) for each in PRICES)
    return str(versions), f"{measured.kept:.0%}", *map(_usd, spent), *days


def _price_month(prices: Prices, measured: Measured) -> tuple[str, ...]:
    parts = price_run(prices, measured)
    hours = measured.compute_core_hours(measured.whole_work_seconds) * BYTES_READ_PER_BYTE
    window = measured.compute_core_hours(measured.window_seconds) * 12 * prices.core_hour
    spent = (parts["cores"] * BYTES_READ_PER_BYTE, (parts["reads"] + parts["writes"]) * BYTES_READ_PER_BYTE)
    return prices.cloud, f"{hours:.1f}", *map(_usd, (*spent, window))


def _render_prices() -> str:
    head = (
        "cloud", "region", "object storage", "GB a month", "million writes, lists", "million reads", "machine",
        "core hour", "disk", "GB of it a month",
    )  # fmt: skip
    rows = [
        (
            each.cloud, each.region, each.storage, f"{each.gb_month:.4f}", f"{each.million_writes:.2f}",
            f"{each.million_reads:.2f}", each.machine, f"{each.core_hour:.4f}", each.disk, f"{each.disk_gb_month:.3f}",
        )
        for each in PRICES
    ]  # fmt: skip
    return _render_rows(head, rows)


def _render_requests(measured: Measured) -> str:
    kinds = ("read", "write", "list", "delete")
    counts = measured.large["requests"]
    rows = [
        (
            step,
            *(f"{counts[step][kind]:,}" for kind in kinds),
            f"{measured.count_per_run(step, *kinds):,.0f}",
            f"{measured.count_per_tb(step, *kinds):,.0f}",
        )
        for step in ("ingest", "compact", "sweep")
    ]
    return _render_rows(("step", "reads", "writes", "lists", "deletes", "of all, per run", "for a TB"), rows)


def _render_rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _usd(amount: float) -> str:
    return f"{amount:.2f}"


_TEXT: Final = """\
<!-- Generated by `make docs` from bench/cost_page.py; edit there. -->
# Cost, at ten versions of each key

USD for a TB (10^12 bytes of zstd Parquet) in which each key has **ten versions**, for three clouds. With fewer,
less is saved: [the same for 2, 3, 10 and 100](#with-fewer-or-more-versions). It follows from what was measured
({day}, [performance](performance.md); requests {day_of_requests}) and from list prices; nothing else goes in.
Your discounts, your share of live records and your machines change it, so take the arithmetic and put your
figures in: prices stand in one table of `bench/cost_page.py`, and `winnow metrics` has bytes and seconds of
every run.

## What goes in

**Prices**: list prices of {prices_of} in USD, on demand; they were not looked up again since, so compare them with
today's. A GB is taken as 10^9 bytes. Azure bills each 4 MiB of a request as one.

{prices}

**Work**: {input_gb:.2f} GB of segments, ten versions of each key, compacted on {cores} cores, with planning,
validation and publishing, without Spark's start: {rate:.0f} MB a second and core, so {core_hours:.1f} core hours a
TB. The segments were on a local disk; an object store may be slower. {kept:.0%} of the bytes stay.

**Requests**: {records:,} records in {segments_before} segments of {mb_before:.0f} MB together, ten versions of each
key, in an S3 warehouse; {mb_after:.0f} MB after the compaction. The server's log was counted, and that of
{small_records:,} records: the difference is what bytes need, the rest what each run needs. A TB is taken as runs of
64 GiB. New segments are taken to need as many writes a byte as those of the ingest.

{requests}

## Storage

{storage}

Replaced files stay for a day (`winnow.retired.grace.ms`) and are paid for as long.

## One compaction

{runs}

*Paid back* is when the storage that is saved equals what the run cost.

## With fewer or more versions

{versions}

Only ten versions were measured. The other rows assume that bytes stay in proportion, and that a byte takes as many
core hours and reads; what is written more or less is in them. Yours are in the receipt of a first compaction:
`winnow receipts TOPIC`.

## Every month

A partition is compacted when as much has arrived as is clean (`min.cleanable.dirty.ratio=0.5`), so each TB that
arrives is read about twice in its life, whatever the archive's size. The last column is the job that most people
write first, `row_number()` over a window per key: on an archive of 12 TB once a month it reads all of it each time
(measured: {window_core_hours:.0f} core hours a TB).

{months}

## What is not in it

- The scheduler, the catalog and the metadata store: one small machine and one small PostgreSQL, whatever the
  number of topics ([what Airflow takes](performance.md#in-airflow)).
- Spark's start, some five seconds an application, and cores that are paid for and idle.
- Traffic between regions. Inside of a region it costs nothing at these three.
- Ingest: {ingest_note}
- Surcharges of managed Spark (EMR, Dataproc, Databricks) on the core hours.
"""


def _describe_ingest(measured: Measured) -> str:
    return (
        f"{measured.count_per_tb('ingest', 'write', 'list', 'read'):,.0f} requests a TB, and core hours as in "
        "[performance](performance.md#12-million-records)."
    )


if __name__ == "__main__":
    sys.stdout.write(render_page(load_measured()))
