"""Where files lie if a REST catalog vends the credentials for them, and the variables that say so to each process.

A catalog vends credentials for a table's folder, and for nothing else. So what otherwise lies in the warehouse outside
of tables (the copies of documents, the notes of deleted topics, the document of the installation, the staging area)
lies in the folder of one more table, which has no rows: ``<warehouse>/<namespace>_shared/documents/_winnow/``. Other
engines' orphan removal leaves alone what lies below a name that begins with ``_``.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlparse

from winnow.errors import ConfigurationError
from winnow.files.object_store import S3_SCHEMES, VENDING_SWITCH

if TYPE_CHECKING:
    from winnow.config.settings import Settings

SWITCH: Final = VENDING_SWITCH
WAREHOUSE: Final = "WINNOW_WAREHOUSE"
NAMESPACE: Final = "WINNOW_NAMESPACE"
CATALOG: Final = "WINNOW_CATALOG__"
DOCUMENTS_TABLE: Final = "documents"
"""The name of the table whose folder holds what lies outside of the topics' tables."""
PROPERTIES: Final = (
    "uri",
    "warehouse",
    "token",
    "credential",
    "oauth2-server-uri",
    "scope",
    "audience",
    "resource",
    "s3.endpoint",
    "s3.region",
)
"""The catalog's properties that a process needs to ask it for credentials and to use them."""

_OWN_KEYS: Final = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
_OTHER_LOGINS: Final = ("rest.sigv4-enabled", "auth")


def name_shared(namespace: str) -> str:
    """Return the namespace of the table whose folder holds what lies outside of the topics' tables."""
    return f"{namespace}_shared"


def find_shared_folder(namespace: str) -> str:
    """Return the folder below the warehouse of what lies outside of the topics' tables."""
    return f"{name_shared(namespace)}/{DOCUMENTS_TABLE}/_winnow"


def name_variable(name: str) -> str:
    """Return the environment variable of the catalog's property ``name``."""
    return CATALOG + name.upper().replace(".", "__").replace("-", "_")


def export_access(settings: Settings, env: MutableMapping[str, str]) -> None:
    """Put into ``env`` what this process and those that it starts need to ask the catalog; nothing if it vends none.

    Raises:
        ConfigurationError: the settings contradict vended credentials, or the staging area is where none are vended.
    """
    if not settings.vended_credentials:
        env.pop(SWITCH, None)
        return
    check_settings(settings)
    env.update({SWITCH: "true", WAREHOUSE: settings.warehouse, NAMESPACE: settings.namespace})
    env.update({name_variable(name): settings.catalog[name] for name in PROPERTIES if settings.catalog.get(name)})


def locate_staging(settings: Settings) -> str:
    """Return the place below the warehouse where a staging area can be."""
    return f"{settings.warehouse}/{find_shared_folder(settings.namespace)}/staging"


def check_settings(settings: Settings) -> None:
    """Check that the settings agree with vended credentials.

    Raises:
        ConfigurationError: they do not; nothing was opened.
    """
    told = "vended_credentials is on, but"
    catalog, warehouse = settings.catalog, settings.warehouse
    kind = catalog.get("type", "rest" if catalog.get("uri", "").startswith("http") else "")
    if kind.lower() != "rest":
        raise ConfigurationError(
            f"{told} only REST catalogs vend credentials, and catalog.type is {kind or 'not set'!a}.",
            left="Nothing was changed.",
            next="Set WINNOW_CATALOG__TYPE=rest, or unset WINNOW_VENDED_CREDENTIALS.",
        )
    if urlparse(warehouse).scheme not in S3_SCHEMES:
        raise ConfigurationError(
            f"{told} the warehouse {warehouse} is not on S3, and other stores' vended credentials are not supported.",
            left="Nothing was changed.",
            next="Unset WINNOW_VENDED_CREDENTIALS, and give the processes access of their own.",
        )
    if own := [name for name in _OWN_KEYS if catalog.get(name)]:
        raise ConfigurationError(
            f"{told} catalog.{own[0]} is set, too: which of both opens a table would not be clear.",
            left="Nothing was changed.",
            next=f"Unset {name_variable(own[0])}, or WINNOW_VENDED_CREDENTIALS.",
        )
    if other := [name for name in catalog for login in _OTHER_LOGINS if name == login or name.startswith(f"{login}.")]:
        raise ConfigurationError(
            f"{told} Spark's tasks can ask the catalog only with catalog.token or catalog.credential, not with "
            f"catalog.{other[0]}.",
            left="Nothing was changed.",
            next="Log in with one of these, or unset WINNOW_VENDED_CREDENTIALS.",
        )
    shared = f"{warehouse}/{find_shared_folder(settings.namespace)}"
    if f"{settings.staging}/".startswith(f"{warehouse}/") and not settings.staging.startswith(f"{shared}/"):
        raise ConfigurationError(
            f"{told} no credentials are vended for the staging area {settings.staging}: it is in no table's folder.",
            left="Nothing was changed.",
            next=(
                f"Set WINNOW_STAGING={locate_staging(settings)}, or to a place outside of the warehouse that the "
                "processes can open by themselves."
            ),
        )
