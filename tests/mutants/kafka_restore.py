"""Breakages of the rules about restoring into Kafka."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_RESTORE: tuple[Mutant, ...] = ()
