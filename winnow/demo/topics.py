"""The topics of the demo and their configuration, in Kafka's words."""

from __future__ import annotations

from winnow.demo.records import AIRCRAFT, ARRIVALS, DEPARTURES

TOPICS = tuple(ARRIVALS)
DELETE_RETENTION_MS = 86_400_000
RETIRED_GRACE_MS = 1_000

_COMMON = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    # A day: what happened in 2013 is closed at any present.
    "segment.ms": "86400000",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    # So that the demo can show the sweep at once. The default, a day, is for lakes with readers.
    "winnow.retired.grace.ms": str(RETIRED_GRACE_MS),
}

CONFIGURATION = {
    AIRCRAFT: {**_COMMON, "winnow.keyless": "quarantine"},
    DEPARTURES: _COMMON,
}
"""What each topic sets; everything else is Winnow's default."""
