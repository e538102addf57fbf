"""Breakages of the rules about what counts as an answer of brokers, and when an epoch begins."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_ANSWERS: tuple[Mutant, ...] = ()
