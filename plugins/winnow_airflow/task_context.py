"""Opens Winnow's pipeline for one task, with Airflow's notifiers as alert channels.

Each notifier is created for one alert and rendered by Airflow: its templates may use ``{{ alert.text }}`` and every
other field of the alert, beside the task's template variables. Addresses and secrets stay in Airflow's connections.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from winnow.errors import ConfigurationError
from winnow_airflow.older_airflow import fail_without_retries, get_airflow_conf
from winnow_airflow.xcom_values import build_holder_name

if TYPE_CHECKING:
    from winnow.config.setting_fields import NotifierSettings
    from winnow.config.settings import Settings
    from winnow.pipeline.installation import Installation
    from winnow.report.alerts import Alert


AIRFLOW_ACTOR = "airflow"
"""Who acts in a DAG run that no user triggered: the scheduler."""


class NotifierChannel:
    """Alert channel that uses one of Airflow's notifiers, within one task."""

    def __init__(self, name: str, notifier: NotifierSettings, context: Mapping[str, Any]) -> None:
        self.name = name
        self._notifier = notifier
        self._context = context

    def deliver(self, alert: Alert) -> None:
        """Create the notifier, let Airflow render it, and call it.

        Raises:
            ConfigurationError: there is no such notifier, or it does not take these arguments.
            Exception: the notifier's own error when the message is not accepted.
        """
        arguments = copy.deepcopy(self._notifier.arguments)
        try:
            made = _load_notifier_class(self._notifier.path)(**arguments)
        except TypeError:
            named = ", ".join(arguments) or "none"
            raise ConfigurationError(
                f"{self._notifier.path} does not take these arguments: {named}.",
                next="Fix alert.notifiers.",
            ) from None
        context: Any = {**self._context, "alert": asdict(alert)}
        # Same as calling the notifier, but without logging a foreign error message, which may contain a secret address.
        # Only the notifier renders: text quoted by an alert is never treated as a template.
        made._update_context(context)
        made.render_template_fields(context)
        made.notify(context)


def _load_notifier_class(path: str) -> type[BaseNotifier]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise ConfigurationError(
            f"There is no class {path}.",
            next="Fix alert.notifiers, or install its provider.",
        ) from None
    if not isinstance(found, type) or not issubclass(found, BaseNotifier):
        raise ConfigurationError(
            f"{path} is not an Airflow notifier.",
            next="Fix alert.notifiers.",
        )
    return found


def build_channels(settings: Settings, context: Mapping[str, Any]) -> list[NotifierChannel]:
    """Build the notifiers of the settings, for the task that ``context`` belongs to."""
    from winnow.report.alert_manager import make_notifier_name

    return [
        NotifierChannel(make_notifier_name(number, each.path), each, context)
        for number, each in enumerate(settings.alert.notifiers)
    ]


def get_airflow_url() -> str | None:
    """Return the address of Airflow's UI from ``[api] base_url``."""
    return get_airflow_conf().get("api", "base_url", fallback=None) or None


@contextmanager
def open_run_installation(context: Mapping[str, Any]) -> Iterator[Installation]:
    """Open settings, store, catalog and channels for one task; its DAG run holds the leases.

    Raises:
        AirflowFailException: before Airflow 3.3, for errors that no retry can mend.
    """
    from winnow.config.settings import load_settings
    from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow
    from winnow.pipeline.installation import open_installation

    keep_pandas_out_of_pyarrow()
    settings = load_settings()
    channels = build_channels(settings, context)
    with (
        fail_without_retries(),
        open_installation(
            settings,
            holder=build_holder_name(context),
            channels=channels,
            page_url=get_airflow_url(),
            actor=getattr(context["dag_run"], "triggering_user_name", None) or AIRFLOW_ACTOR,
            reason=str(context.get("params", {}).get("reason") or ""),
            began=str(getattr(context["dag_run"], "start_date", None) or ""),
        ) as installation,
    ):
        yield installation
