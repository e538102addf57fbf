"""What Winnow registers with Airflow. The code behind it is the package ``winnow_airflow`` beside this file."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class WinnowPlugin(AirflowPlugin):
    """Names Winnow among Airflow's plugins; pages and listeners are registered here."""

    name = "winnow"
