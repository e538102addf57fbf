"""The secret with which digests of erased keys are made: of the settings, or a private file that is made once.

It never lies in the warehouse, the metadata store, a plan or an argument. Who has it can find out whether a key was
erased, by guessing; who loses it cannot ingest into topics with erasures any more, so it is to be kept like a password.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from winnow.errors import ConfigurationError
from winnow.files import disk_sync, private_files

MINIMUM_BYTES: Final = 16
_MADE_BYTES: Final = 32
"""Length of a secret that Winnow makes."""


def read_secret(given: str | None, path: Path) -> bytes | None:
    """Read the secret: ``given`` if there is one, else what is in the file at ``path``; None: there is none yet.

    Raises:
        ConfigurationError: it is too short, or the file cannot be read.
    """
    if given is None:
        try:
            given = path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as problem:
            raise ConfigurationError(
                f"The secret of erasures cannot be read from {path} ({type(problem).__name__}).",
                left="Nothing was changed.",
                next="Make the file readable for this user, or set WINNOW_ERASE__SECRET.",
            ) from None
    secret = given.encode()
    if len(secret) < MINIMUM_BYTES:
        raise ConfigurationError(
            f"The secret of erasures (erase.secret) has {len(secret)} bytes; it takes at least {MINIMUM_BYTES}.",
            left="Nothing was changed.",
            next="Make one with: openssl rand -base64 32",
        )
    return secret


def make_secret(path: Path) -> bytes:
    """Make the secret in the file at ``path``, which only its owner can read, unless it is there; return it.

    Raises:
        ConfigurationError: the file cannot be written or read.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(16)}")
        private_files.write_file(draft, base64.b64encode(secrets.token_bytes(_MADE_BYTES)).decode() + "\n")
        disk_sync.sync_files([draft])
        with contextlib.suppress(FileExistsError):  # another process made one first: that counts
            os.link(draft, path)
        draft.unlink()
        disk_sync.sync_folder(path.parent)
    except OSError as problem:
        raise ConfigurationError(
            f"The secret of erasures cannot be written to {path} ({type(problem).__name__}).",
            left="Nothing was changed.",
            next="Set WINNOW_ERASE__SECRET, or erase.hmac_key_file to a file that this user can write.",
        ) from None
    found = read_secret(None, path)
    assert found is not None
    return found
