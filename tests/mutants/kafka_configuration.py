"""Breakages of the rules about what configuration a log takes from its topic at Kafka."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_CONFIGURATION: tuple[Mutant, ...] = ()
