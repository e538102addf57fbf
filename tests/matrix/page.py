"""docs/versions.md, as `make matrix` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from tests.matrix.combinations import SHOWN, Combination

PAGE = "docs/versions.md"

INTRODUCTION = """\
# Versions

Written by `make matrix`, which ran on {day}, every column with the wheel of one commit.
It builds each environment below from the registry with Winnow's wheel, ingests 1,200
records with overwritten keys and tombstones, compacts them by spark-submit, compares what is read with the oracle
before and after, and parses the DAGs. Then it starts that Airflow, runs `winnow doctor --spark` beside it, and compares
once more after the first run of `compact_topics` that the scheduler starts.
The project's own tests run with `requirements.lock` alone.

What each extra is for, and its megabytes: [Deploying Winnow](deploy/index.md#what-to-install).

Airflow's Spark provider brings `pyspark-client`, which must have PySpark's version, and not every PySpark has one. So
name both, `'winnow-log[airflow-base]' 'pyspark==4.0.2' 'pyspark-client==4.0.2'`, or for Spark 3.5, which has none,
`'winnow-log[airflow-base]' 'pyspark==3.5.*' 'apache-airflow-providers-apache-spark<5.4'`. Winnow refuses a mixed Spark.

The oldest Airflow is 3.1.8. In 3.1.0 and 3.1.2 a run of `compact_topics` that publishes ends red at its asset event,
after its work.

Driver and executors have one version of Python and of Spark. Spark 3.5 needs Java 17, Spark 4 Java 17 or newer. Airflow
3.1 and 3.2 have no retry policies: errors that no retry can mend fail there all the same at once, and a lost race for a
commit waits half a minute.
NumPy 1 works: where Python has one (3.11 and 3.12), PyArrow stays below 26, which does not import with it.
Where an older Airflow was tried, releases after the given day were left out, as Airflow's own constraints do.

"""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one combination; ``versions`` by package name."""

    combination: Combination
    versions: Mapping[str, str]
    outcome: str
    seconds: int
    day: date


def format_page(trials: Sequence[Trial]) -> str:
    """Format the page, with the day of the oldest trial."""
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
    introduction = INTRODUCTION.format(day=min(trial.day for trial in trials).isoformat())
    return introduction + "\n".join(table) + "\n"
