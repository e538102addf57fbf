"""The steps that look at a topic's head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tests.support.world import TOPIC, World, build_versions
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.explain.explain import explain_compaction

STEPS: Final[Mapping[str, Callable[[World], object]]] = MappingProxyType(
    {
        "ingest": lambda world: world.ingest(build_versions(9, 1)),
        "compact": lambda world: world.compact(),
        "read": lambda world: world.read(),
        "assess": lambda world: assess_topics(world.installation, [TOPIC], as_of_ms=world.clock()),
        "explain": lambda world: explain_compaction(world.installation, TOPIC, as_of_ms=world.clock()),
        "sweep": lambda world: sweep_topics(world.installation, [TOPIC]),
    }
)
"""Each on :data:`tests.support.world.TOPIC`, whose log ends at offset 9."""
