"""Makes sure that what writes belongs to the installation that the warehouse's namespace is of.

The id is in the metadata store and in a document at the warehouse's root. The first command that writes creates both. A
store that was lost and rebuilt takes the warehouse's id over if the catalog has tables there; any other id is refused.
"""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from winnow.errors import OtherInstallationError, ServiceError, WinnowError
from winnow.log.installation import create_installation, read_installation
from winnow.values.model import InstallationIdentity

if TYPE_CHECKING:
    from winnow.clock import Clock
    from winnow.config.settings import Settings
    from winnow.log.topics import TopicLogs
    from winnow.store import Store

log = logging.getLogger("winnow")

MAXIMUM_AGE_MS: Final = 10_000
"""How long a process relies on what it has read of the warehouse's document."""


class InstallationGuard:
    """Compares the store's installation with the warehouse's, for one process."""

    def __init__(self, settings: Settings, store: Store, logs: TopicLogs, now_ms: Clock) -> None:
        self._settings = settings
        self._store = store
        self._logs = logs
        self._now_ms = now_ms
        self._confirmed_at_ms: int | None = None

    @property
    def document(self) -> str:
        """The document that names the warehouse's installation."""
        return self._logs.installation_document

    def check(self) -> bool:
        """Refuse another installation's warehouse before a command begins; return whether its id was taken over.

        What cannot be read now is read before anything is written.

        Raises:
            OtherInstallationError: the warehouse's namespace is another installation's.
            ConfigurationError, FormatVersionError: the document cannot be understood.
        """
        try:
            return self._confirm(writes=False)
        except (ServiceError, OSError):
            return False

    def check_and_report(self, actor: str, origin: str) -> None:
        """Check as :meth:`check`; say and record in the audit log if the id was taken over."""
        if not self.check():
            return
        from winnow.store.audit import AuditAction
        from winnow.store.rows import AuditEntry

        log.warning(
            "The metadata store had no installation's id, and the catalog has topics in this warehouse: it took over "
            "the id that %s names.",
            self.document,
        )
        action, detail = AuditAction.TAKE_OVER.value, f"the id in {self.document}"
        self._store.audit.record(AuditEntry(self._now_ms(), actor, action, origin=origin, detail=detail))

    def warn(self) -> None:
        """Say on standard error that what is read is in another installation's warehouse; never raises."""
        try:
            there = read_installation(self.document)
            own = None if there is None or is_sqlite_missing(self._settings) else self._store.installation.find()
        except (WinnowError, OSError):
            return  # whoever reads need not be able to reach the store
        if own is None or there is None or self._settings.warehouse_shared:
            return
        if own.installation_id != there.installation_id:
            log.warning(
                "The warehouse belongs to another installation of Winnow: %s names %s, and this one's metadata store "
                "has %s. What is read may be another's.",
                self.document,
                there.installation_id,
                own.installation_id,
            )

    def require_own(self) -> None:
        """Refuse another installation's warehouse before something is written, published or deleted there.

        Raises:
            OtherInstallationError, ConfigurationError, FormatVersionError: as :meth:`check`.
            ServiceError: store, catalog or object store do not answer.
            OSError: the disk does not take the document.
        """
        age_ms = None if self._confirmed_at_ms is None else self._now_ms() - self._confirmed_at_ms
        if age_ms is None or not 0 <= age_ms < MAXIMUM_AGE_MS:
            self._confirm(writes=True)

    def _confirm(self, *, writes: bool) -> bool:
        there, own = read_installation(self.document), self._store.installation.find()
        taken_over = False
        if there is None:
            if not writes and not self._logs.has_tables_in_warehouse():
                return False
            own = own or self._store.installation.claim(make_installation(self._now_ms()))
            there = self._create(own)
        elif own is None and self._logs.has_tables_in_warehouse():
            own = self._store.installation.claim(there)
            taken_over = own == there
        if not self._settings.warehouse_shared and (own is None or own.installation_id != there.installation_id):
            raise make_installation_error(self._settings, self.document, own, there)
        self._confirmed_at_ms = self._now_ms()
        return taken_over

    def _create(self, own: InstallationIdentity) -> InstallationIdentity:
        try:
            _ = self._logs.catalog  # with vended credentials it makes the table in whose folder the document lies
            return create_installation(self.document, own)
        except ServiceError as problem:
            what = "The warehouse could not be marked as this installation's, so nothing was begun or changed."
            raise ServiceError(f"{what} {problem.what}", problem.left, problem.next) from problem


def make_installation(now_ms: int) -> InstallationIdentity:
    """Make a new installation's id."""
    return InstallationIdentity(str(uuid.uuid4()), now_ms)


def make_installation_error(
    settings: Settings, document: str, own: InstallationIdentity | None, there: InstallationIdentity
) -> OtherInstallationError:
    """Make the error about a warehouse of another installation: which id is where, and the ways on."""
    known = (
        "this one's metadata store has no id, and its catalog has no topic in that warehouse"
        if own is None
        else f"this one's metadata store has the id {own.installation_id}"
    )
    return OtherInstallationError(
        f"The namespace {settings.namespace} in the warehouse {settings.warehouse} belongs to another installation of "
        f"Winnow: {document} names {there.installation_id}, and {known}.",
        left="Nothing was changed.",
        next=(
            "If catalog or store were lost, put them back from a backup, or have the topics adopted from the "
            "warehouse: winnow topics adopt TOPIC LOCATION --take-over. For an installation beside the other one, set "
            "a namespace of its own (WINNOW_NAMESPACE), or, if both shall write to this one, "
            "WINNOW_WAREHOUSE_SHARED=true."
        ),
    )


def find_installation_to_read(settings: Settings) -> InstallationIdentity | None:
    """Find the id in the metadata store of ``settings`` without making a store; None: there is none.

    Raises:
        ServiceError: the store cannot be reached.
    """
    from winnow.store import Store

    if is_sqlite_missing(settings):
        return None
    with Store.open_to_read(settings.store_url) as store:
        return store.installation.find()


def is_sqlite_missing(settings: Settings) -> bool:
    """Check whether the store is a SQLite file that is not there: reading makes none."""
    path = settings.store_url.removeprefix("sqlite:///")
    return path != settings.store_url and not Path(path).exists()
