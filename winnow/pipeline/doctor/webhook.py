"""Whether somebody is told of alerts: the webhook's host answers, and on request it takes a message."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from winnow.clock import Clock
from winnow.config.settings import Settings
from winnow.errors import ServiceError
from winnow.pipeline.doctor.examination import Finding, failure, ok, warning
from winnow.report.alerts import Alert, Kind
from winnow.report.channels import Webhook

TIMEOUT_S = 10
VARIABLE = "WINNOW_ALERT__WEBHOOK"


def webhook(settings: Settings, now_ms: Clock, *, send: bool) -> list[Finding]:
    """``send``: post a message; else only see whether the host accepts connections, since a message disturbs people."""
    if settings.alert.webhook is None:
        if settings.alert.notifiers:
            return [ok("webhook", "None; Airflow's notifiers are told of alerts.")]
        return [
            warning(
                "webhook",
                "Nobody is told of alerts: they are in the logs and on Winnow's page only.",
                f"export {VARIABLE}=https://... && winnow doctor --alert",
            )
        ]
    url = settings.alert.webhook.get_secret_value()
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    fix = f"Mend {VARIABLE}, or the way from here to {host}:{port}; then: winnow doctor --alert"
    try:
        if send:
            Webhook(url).deliver(_message(now_ms()))
        else:
            socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except ServiceError as problem:
        return [failure("webhook", str(problem), fix, ServiceError.exit_code)]
    except OSError as problem:
        reason = problem.strerror or "no answer"
        return [failure("webhook", f"{host}:{port} does not answer: {reason}.", fix, ServiceError.exit_code)]
    said = "took a message" if send else "accepts connections; --alert sends it a message"
    return [ok("webhook", f"{host}:{port} {said}.")]


def _message(at_ms: int) -> Alert:
    """A document as every alert is one, of the kind that asks nothing of anybody."""
    message = "A test of this channel: somebody ran winnow doctor --alert."
    safe, to_do = "Nothing is wrong.", "Nothing is to be done."
    return Alert(
        kind=Kind.RECOVERED,
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
