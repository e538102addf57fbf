"""The note of a restore that has begun and not ended: until then its topics are not complete, and no other is made."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.errors import RunAgainError
from winnow.files import storage
from winnow.values import documents


@dataclass(frozen=True, slots=True)
class RestoreNote:
    """A restore of a backup. ``destination``: the folder of backups. ``has_store``: the store's rows are there."""

    backup_id: str
    destination: str = ""
    has_store: bool = False
    format_version: int = 1

    @property
    def command(self) -> str:
        """The command that completes it."""
        return f"winnow backup restore {self.destination or 'BACKUPS'} --backup {self.backup_id}"


def read_restore_note(uri: str) -> RestoreNote | None:
    """Read the note at ``uri``; None: no restore has begun that has not ended."""
    try:
        return documents.load_json(RestoreNote, storage.read_bytes(uri))
    except FileNotFoundError:
        return None


def require_no_restore(uri: str) -> None:
    """Check that no restore has begun that has not ended.

    Raises:
        RunAgainError: one has. A topic that is entered now is one of its own that is not complete, or in its way.
    """
    note = read_restore_note(uri)
    if note is not None:
        raise RunAgainError(
            f"A restore of the backup {note.backup_id} has begun here and not ended.",
            left="Nothing was changed.",
            next=(
                f"Run it again when that has ended. If it was stopped, complete it: {note.command} (if that backup is "
                f"gone: look at what was restored, and remove the note {storage.format_path(uri)})"
            ),
        )
