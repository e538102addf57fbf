"""Registers Winnow's page, timetable, priority rule and pool checks with Airflow."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from winnow_airflow import pool_checks
from winnow_airflow.priority import RunKindFirst
from winnow_airflow.timetables import BackfillTimetable

ICONS = {"icon": "winnow/static/icon.svg", "icon_dark_mode": "winnow/static/icon-dark.svg"}
"""Relative, like every address here, because Airflow may be served below a path."""


class WinnowPlugin(AirflowPlugin):
    """Names Winnow among Airflow's plugins; pages and listeners are registered here."""

    name = "winnow"
    timetables = [BackfillTimetable]  # noqa: RUF012 - Airflow's interface
    priority_weight_strategies = [RunKindFirst]  # noqa: RUF012 - Airflow's interface
    listeners = [pool_checks]  # noqa: RUF012 - Airflow's interface
    external_views = [  # noqa: RUF012 - Airflow's interface
        {
            "name": "Winnow",
            "href": "winnow/page",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "winnow",
            **ICONS,
        },
        # Airflow shows the tab on every DAG; for DAGs that compact nothing the page says so.
        {
            "name": "Winnow",
            "href": "winnow/page#/dags/{DAG_ID}",
            "destination": "dag",
            "url_route": "winnow_dag",
            **ICONS,
        },
        {
            "name": "Winnow",
            "href": "winnow/page#/dag-runs/{DAG_ID}/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "winnow_dag_run",
            **ICONS,
        },
    ]

    @cached_property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """Return the page's app. Every Airflow process loads plugins, and only the api-server asks for this."""
        from winnow_airflow.page.app import PREFIX, app

        return [{"app": app, "url_prefix": PREFIX, "name": "Winnow"}]
