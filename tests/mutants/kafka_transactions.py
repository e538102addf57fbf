"""Breakages of the rules about open transactions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_TRANSACTIONS: tuple[Mutant, ...] = ()
