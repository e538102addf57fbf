"""The URL of the metadata store: which databases are served, and how it is named without its secrets."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from winnow.config.masking import MASK, is_secret_name, mask
from winnow.errors import ConfigurationError

_RIGHT_FORM = "Write sqlite:////folder/store.db or postgresql+psycopg://user:password@host/database (WINNOW_STORE_URL)."
_SERVED = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg"}


def parse_address(text: str) -> URL:
    """The URL of a SQLite file or of a PostgreSQL database, its driver settled.

    Raises:
        ConfigurationError: it is something else. The message never repeats the URL.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError(f"The URL of the metadata store cannot be read. {_RIGHT_FORM}") from None
    backend, _, driver = url.drivername.partition("+")
    served = _SERVED.get(backend)
    if served is None or (driver and url.drivername != served):
        raise ConfigurationError(
            f"The metadata store has no driver for {url.drivername}; it knows SQLite and PostgreSQL. {_RIGHT_FORM}"
        )
    if backend == "sqlite":
        # Leases and checkpoints are there for the next process.
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise ConfigurationError(f"The metadata store must be a file that other processes can open. {_RIGHT_FORM}")
    elif "@" in f"{url.host}{url.database}":
        # The URL was split inside the password, and a driver would print the rest of it as the host's name.
        raise ConfigurationError(
            "The URL of the metadata store holds an @ in its host or database name, so the password most likely holds "
            f"one: write it as %40. {_RIGHT_FORM}"
        )
    return url.set(drivername=served)


def mask_address(url: URL) -> str:
    """``url`` for people: no password, no options."""
    return url.set(query={}).render_as_string(hide_password=True)


def remove_secrets(text: str, url: URL) -> str:
    """``text`` without the password of ``url`` and without whatever looks like a secret."""
    options = {name: str(value) for name, value in url.query.items() if is_secret_name(name)}
    for secret in sorted([*options.values(), str(url.password or "")], key=len, reverse=True):
        if secret:
            text = text.replace(secret, MASK)
    return mask("", text)
