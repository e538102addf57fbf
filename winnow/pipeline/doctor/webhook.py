"""Whether somebody is told of alerts: the webhook's host answers, and on request it takes a message."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from winnow.clock import Clock
from winnow.config.settings import Settings
from winnow.errors import ServiceError
from winnow.pipeline.doctor.examination import CheckResult, build_failure, build_ok, build_warning
from winnow.report.alerts import Alert, AlertKind
from winnow.report.channels import Webhook

DEFAULT_WEBHOOK_TIMEOUT_S = 10
WEBHOOK_VARIABLE = "WINNOW_ALERT__WEBHOOK"


def check_webhook(settings: Settings, now_ms: Clock, *, send: bool) -> list[CheckResult]:
    """``send``: post a message; else only see whether the host accepts connections, since a message disturbs people."""
    if settings.alert.webhook is None:
        if settings.alert.notifiers:
            return [build_ok("webhook", "None; Airflow's notifiers are told of alerts.")]
        return [
            build_warning(
                "webhook",
                "Nobody is told of alerts: they are in the logs and on Winnow's page only.",
                f"export {WEBHOOK_VARIABLE}=https://... && winnow doctor --alert",
            )
        ]
    url = settings.alert.webhook.get_secret_value()
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    fix = f"Mend {WEBHOOK_VARIABLE}, or the way from here to {host}:{port}; then: winnow doctor --alert"
    try:
        if send:
            Webhook(url).deliver(_build_test_alert(now_ms()))
        else:
            socket.create_connection((host, port), timeout=DEFAULT_WEBHOOK_TIMEOUT_S).close()
    except ServiceError as problem:
        return [build_failure("webhook", str(problem), fix, ServiceError.exit_code)]
    except OSError as problem:
        reason = problem.strerror or "no answer"
        return [build_failure("webhook", f"{host}:{port} does not answer: {reason}.", fix, ServiceError.exit_code)]
    said = "took a message" if send else "accepts connections; --alert sends it a message"
    return [build_ok("webhook", f"{host}:{port} {said}.")]


def _build_test_alert(at_ms: int) -> Alert:
    """A document as every alert is one, of the kind that asks nothing of anybody."""
    message = "A test of this channel: somebody ran winnow doctor --alert."
    safe, to_do = "Nothing is wrong.", "Nothing is to be done."
    return Alert(
        kind=AlertKind.RECOVERED,
        topic="winnow-doctor",
        partitions=None,
        message=message,
        at_ms=at_ms,
        since_ms=at_ms,
        safe=safe,
        next=to_do,
        link=None,
        plan_id=None,
        severity="info",
        text=f"{message}\n{safe} {to_do}",
    )
