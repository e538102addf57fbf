"""A sensor for other people's DAGs: it waits until a topic is compacted up to given offsets.

It reads the cleaner's checkpoints in the metadata store, in Airflow's triggerer, and holds no slot meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.triggers.base import BaseTrigger, TriggerEvent

from winnow.errors import ServiceError, UsageError, WinnowError
from winnow_airflow.assets import topic_asset
from winnow_airflow.xcom_values import TOPIC_PATTERN

log = logging.getLogger("airflow.task")

POLL_S = 30.0
"""Default time (s) between two looks at the store."""

Offsets = dict[int, int]
"""Per partition the offset below which every record has to be compacted."""


def has_reached(topic: str, offsets: Offsets) -> bool:
    """Check whether the first dirty offset of each named partition of ``topic`` is at its offset, or beyond.

    A topic, or a partition, that does not exist yet has not reached anything.

    Raises:
        ServiceError: the metadata store cannot be reached.
    """
    from winnow.config.settings import load_settings
    from winnow.store import Store

    with Store.open(load_settings().store_url) as store:
        checkpoints = {row.partition: row.first_dirty_offset for row in store.projection.list_checkpoints([topic])}
    return all((checkpoints.get(partition) or 0) >= offset for partition, offset in offsets.items())


def parse_offsets(offsets: Mapping[Any, Any]) -> Offsets:
    """Parse offsets by partition; as JSON their partitions are text.

    Raises:
        UsageError: there are none, or one is no whole number from 0 on.
    """
    try:
        parsed = {int(partition): int(offset) for partition, offset in offsets.items()}
    except (AttributeError, TypeError, ValueError):
        parsed = {}
    if not parsed or min(*parsed, *parsed.values()) < 0:
        raise UsageError(
            "WinnowCheckpointSensor takes whole numbers from 0 on: an offset for each partition.",
            next="Give it for instance offsets={0: 1200}.",
        )
    return parsed


class CheckpointTrigger(BaseTrigger):
    """Fires when :func:`has_reached`, or with the error that no waiting mends."""

    def __init__(self, topic: str, offsets: Mapping[Any, Any], poke_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.topic = topic
        self.offsets = parse_offsets(offsets)
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Serialize the trigger, as Airflow keeps it. JSON has no numbers as keys."""
        offsets = {str(partition): offset for partition, offset in self.offsets.items()}
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {"topic": self.topic, "offsets": offsets, "poke_interval": self.poke_interval}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at the store until the offsets are reached. A store that does not answer is asked again."""
        while True:
            try:
                # In a thread: the triggerer's loop has other triggers to serve.
                if await asyncio.to_thread(has_reached, self.topic, self.offsets):
                    yield TriggerEvent({"error": None})  # type: ignore[no-untyped-call]
                    return
            except ServiceError as problem:
                log.warning("%s", problem)
            except WinnowError as problem:
                yield TriggerEvent({"error": str(problem)})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(self.poke_interval)


class WinnowCheckpointSensor(BaseSensorOperator):
    """Waits until ``topic`` is compacted below the given offset of each partition, ``offsets={0: 1200}``.

    ``timeout`` and ``poke_interval`` (s) are those of every sensor. ``deferrable``: wait in the triggerer. Its inlet is
    the asset of the topic, unless it is given others or the topic is a template.
    """

    template_fields: Sequence[str] = ("topic", "offsets")

    def __init__(
        self,
        *,
        topic: str,
        offsets: Any,
        deferrable: bool = True,
        poke_interval: float = POLL_S,
        **arguments: Any,
    ) -> None:
        if re.fullmatch(TOPIC_PATTERN, str(topic)):
            arguments.setdefault("inlets", [topic_asset(topic)])
        super().__init__(poke_interval=poke_interval, **arguments)
        self.topic = topic
        self.offsets = offsets
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:
        """Look once.

        Raises:
            UsageError: ``offsets`` are none.
            ServiceError: the metadata store cannot be reached.
        """
        return has_reached(self.topic, parse_offsets(self.offsets))

    def execute(self, context: Context) -> Any:
        """Look once, then wait."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self.defer(
                trigger=CheckpointTrigger(self.topic, parse_offsets(self.offsets), float(self.poke_interval)),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return None

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> None:
        """End the wait.

        Raises:
            UsageError: what the trigger met; no waiting mends it.
        """
        if event["error"]:
            raise UsageError(str(event["error"]), left="Nothing was changed.")
