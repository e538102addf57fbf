"""The document at the warehouse's root that says whose namespace it is: the id of the installation.

It is created once, by the first command that writes, and never replaced but by a person's command. A local disk
creates it in one act. An object store cannot: of two that create it at once the later wins there, so each reads it
again after a while, and every process reads it again before it publishes or deletes anything.
"""

from __future__ import annotations

import json
import time
from typing import Final

from winnow.errors import ConfigurationError, FormatVersionError
from winnow.files import storage
from winnow.values.model import InstallationIdentity

FORMAT_VERSION: Final = 1
SETTLING_SECONDS: Final = 0.2
"""How long the creator of the document waits before it reads it again where two may create it at once."""


def read_installation(uri: str) -> InstallationIdentity | None:
    """Read the document at ``uri``; None: there is none.

    Raises:
        ConfigurationError: it cannot be read.
        FormatVersionError: a newer Winnow wrote it.
        ServiceError: the object store does not answer.
    """
    try:
        # Without Arrow, whose import a local warehouse can be spared here.
        data = storage.parse_local_path(uri).read_bytes() if storage.is_local(uri) else storage.read_bytes(uri)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        document = json.loads(data)
        version = int(document["format_version"])
        found = InstallationIdentity(str(document["installation_id"]), int(document["created_at_ms"]))
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(
            f"The document {uri} does not say which installation of Winnow the warehouse belongs to: it is damaged, "
            "or another program wrote it.",
            left="Nothing was changed.",
            next=(
                "Restore it from a backup or the object store's versions; if the warehouse is this installation's "
                "alone, remove it, and the next command writes it anew."
            ),
        ) from None
    if version > FORMAT_VERSION:
        raise FormatVersionError(
            f"The document {uri} was written by a newer Winnow (format {version}; this one knows {FORMAT_VERSION}).",
            left="Nothing was changed.",
            next="Use the newer Winnow.",
        )
    return found


def create_installation(uri: str, installation: InstallationIdentity) -> InstallationIdentity:
    """Write ``installation`` to ``uri`` unless there is one; return the one that is there now.

    Raises:
        ConfigurationError, FormatVersionError, ServiceError: as :func:`read_installation`.
        OSError: the disk does not take it.
    """
    there = read_installation(uri)
    if there is None and storage.create_bytes(uri, _encode(installation)) and not storage.is_local(uri):
        time.sleep(SETTLING_SECONDS)
    return there or read_installation(uri) or installation


def replace_installation(uri: str, installation: InstallationIdentity) -> None:
    """Write ``installation`` to ``uri`` in place of the one that is there."""
    storage.write_bytes(uri, _encode(installation))


def _encode(installation: InstallationIdentity) -> bytes:
    document = {
        "format_version": FORMAT_VERSION,
        "installation_id": installation.installation_id,
        "created_at_ms": installation.created_at_ms,
    }
    return json.dumps(document).encode()
