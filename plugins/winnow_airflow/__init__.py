"""What Winnow's DAGs and its page are made of: tasks, operator, timetables, notifier, checks."""

from __future__ import annotations

import airflow.settings

# Spark's provider 5.3.4, the last for Spark 3.5, imports this name. Airflow 3.3 has a stand-in for it, which the DAG
# processor and tasks do not see. Here, because a package is initialised before its modules import the provider.
vars(airflow.settings).setdefault("WEB_COLORS", {"LIGHTBLUE": "#4d9de0", "LIGHTORANGE": "#FF9933"})
