"""Parses docker-compose.yml: services, commands, environments, health checks and order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

_REFERENCE = re.compile(r"\$(?:\$|\{(?P<name>\w+):-(?P<default>[^}]*)\})")


@dataclass(frozen=True)
class Service:
    """One service. ``check``: the command of its health check; ``waits_for``: the condition on each service before it.

    ``ports`` are those it listens on, inside; ``document`` is what the file says, interpolated.
    """

    name: str
    image: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    check: tuple[str, ...] | None
    waits_for: Mapping[str, str]
    ports: tuple[int, ...]
    document: Mapping[str, Any]

    @property
    def runs_once(self) -> bool:
        """Whether it ends when its work is done."""
        return bool(self.document["restart"] == "no")

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that it belongs to; none: it always runs."""
        return tuple(self.document.get("profiles", ()))


def load(path: Path, env: Mapping[str, str] | None = None) -> dict[str, Service]:
    """The services of a compose file; ``env`` gives the variables that it names."""
    document = _interpolated(yaml.safe_load(path.read_text(encoding="utf-8")), env or {})
    return {name: _service(name, each) for name, each in document["services"].items()}


def ordered(services: Mapping[str, Service]) -> Iterator[Service]:
    """The services, each after those it waits for."""
    left = dict(services)
    while left:
        ready = [each for each in left.values() if not left.keys() & each.waits_for.keys()]
        if not ready:
            raise ValueError(f"these services wait for one another: {', '.join(left)}")
        for each in ready:
            del left[each.name]
            yield each


def _service(name: str, document: Mapping[str, Any]) -> Service:
    check = document.get("healthcheck", {}).get("test")
    return Service(
        name=name,
        image=document["image"],
        entrypoint=tuple(document.get("entrypoint", ())),
        command=tuple(document.get("command", ())),
        environment=dict(document.get("environment", {})),
        check=None if check is None else tuple(check[1:]),
        waits_for={each: what["condition"] for each, what in document.get("depends_on", {}).items()},
        ports=tuple(int(port) for port in document.get("expose", ())),
        document=document,
    )


def _interpolated(value: Any, env: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _interpolated(each, env) for name, each in value.items()}
    if isinstance(value, list):
        return [_interpolated(each, env) for each in value]
    if not isinstance(value, str):
        return value
    return _REFERENCE.sub(lambda found: env.get(found["name"], found["default"]) if found["name"] else "$", value)
