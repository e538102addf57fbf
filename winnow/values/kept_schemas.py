"""Schemas that are kept beside a topic's log, so that its records can be read without the registry they came from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KeptReference:
    """What a schema refers to by ``name``: the text at ``index`` of the same document, before its own."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class KeptText:
    """The text of a schema. ``kind``: as registries spell it."""

    kind: str
    text: str
    references: tuple[KeptReference, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptSchemas:
    """Schemas that one call kept. Immutable.

    ``schemas``: by id, the index of its text in ``texts``, where each stands behind what it refers to; ``guids``: the
    same by GUID. ``source``: the registry that gave them.
    """

    topic: str
    table_uuid: str
    at_ms: int
    source: str
    schemas: dict[int, int]
    texts: tuple[KeptText, ...]
    guids: dict[str, int] = field(default_factory=dict)
    format_version: int = 1

    @property
    def count(self) -> int:
        """How many schemas are named, by id or GUID."""
        return len(self.schemas) + len(self.guids)
