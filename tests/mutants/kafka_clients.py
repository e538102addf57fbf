"""Breakages of the rules about client properties."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_CLIENTS: tuple[Mutant, ...] = ()
