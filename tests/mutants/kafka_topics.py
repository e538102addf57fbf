"""Breakages of the rules about one topic stopping others, and topics that are gone at Kafka."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_TOPICS: tuple[Mutant, ...] = ()
