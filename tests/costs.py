"""The marks of the expensive tests: what they need, and whether they are slow.

A test takes less than ten seconds on an idle core and needs no Spark, no server and no browser unless it is named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

TESTS: Final = Path(__file__).parent
COSTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "airflow": ("airflow", "spark", "slow"),
        "browser": ("airflow", "browser"),
        "cluster": ("cluster", "spark", "slow"),
        "kafka": ("kafka_broker",),
        "kafka/test_parity.py": ("slow",),
        "kafka/test_three_brokers.py": ("slow",),
        "spark": ("spark",),
        "bench/test_bench_small.py": ("spark", "slow"),
        "bench/test_keyed_tables.py": ("spark", "slow"),
        "dags/test_docs.py": ("slow",),
        "dags/test_following_dag.py": ("kafka_broker",),
        "dags/test_compact_dag.py": ("spark", "slow"),
        "dags/test_two_installations.py": ("spark", "slow"),
        "dags/test_alerts_in_airflow.py": ("slow",),
        "docs/test_operations.py": ("slow",),
        "docs/test_other_programs.py": ("slow",),
        "docs/test_site.py": ("browser", "slow"),
        "docs/test_tried_pages.py": ("spark", "slow"),
        "faults/test_concurrent_processes.py": ("slow",),
        "faults/test_distributed_ingest_killed.py": ("spark", "slow"),
        "faults/test_power_cut.py": ("spark", "slow"),
        "faults/test_spark_killed.py": ("spark", "slow"),
        "kafka/test_database_to_rows.py": ("slow",),
        "integration/test_demo_strategies.py": ("slow",),
        "integration/test_demo_survivors.py": ("spark", "slow"),
        "integration/test_doctor.py": ("spark",),
        "integration/test_erase_versions.py": ("slow",),
        "integration/test_facts_in_spark.py": ("spark",),
        "integration/test_latest_table.py": ("slow",),
        "integration/test_schema_registry.py": ("slow",),
        "integration/test_state_machine.py": ("slow",),
        "simulation/test_histories.py": ("slow",),
        "spark/test_application.py": ("spark",),
        "spark/test_cli_compact.py": ("spark",),
        "spark/test_executor_needs.py": ("spark", "slow"),
        "spark/test_doctor_on_executors.py": ("spark",),
        "spark/test_driver_classes.py": ("spark", "slow"),
        "spark/test_ingest_on_spark.py": ("spark",),
        "spark/test_job_batch.py": ("spark",),
        "spark/test_job_limits.py": ("spark",),
        "spark/test_readers.py": ("spark", "slow"),
    }
)


def marks_of(path: Path) -> Iterator[str]:
    """The marks of the tests in one file."""
    inside = path.relative_to(TESTS)
    names = {inside.as_posix(), inside.parts[0]}
    yield from dict.fromkeys(mark for name in COSTS if name in names for mark in COSTS[name])
