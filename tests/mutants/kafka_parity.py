"""Breakages of the rules about reading Kafka and the certificate."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_PARITY: tuple[Mutant, ...] = ()
