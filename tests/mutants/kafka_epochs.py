"""Breakages of the rules about truncation at the brokers, noticed by leader epochs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KAFKA_EPOCHS: tuple[Mutant, ...] = ()
