"""Checks whether the metadata store and the warehouse belong to the same installation."""

from __future__ import annotations

from winnow.config.settings import Settings
from winnow.errors import WinnowError
from winnow.files.storage import join
from winnow.log.installation import read_installation
from winnow.log.namespaces import Namespaces
from winnow.pipeline.doctor.check_runner import CheckResult, build_failure, build_failure_from_error, build_ok
from winnow.pipeline.installation_guard import find_installation_to_read, make_installation_error
from winnow.values.model import InstallationIdentity

NAME = "installation"


def check_installation(settings: Settings) -> list[CheckResult]:
    """Show the installation's id, and whether the warehouse names another one."""
    names = Namespaces(settings.namespace, gathered=settings.vended_credentials)
    document = join(settings.warehouse, names.installation)
    try:
        there, own = read_installation(document), find_installation_to_read(settings)
    except WinnowError as problem:
        return [build_failure_from_error(NAME, problem, "winnow doctor")]
    except OSError as problem:
        return [build_failure(NAME, f"{document} cannot be read: {problem.strerror or problem}.", "winnow doctor", 6)]
    if there is None:
        shown = "none yet" if own is None else f"{own.installation_id}"
        return [build_ok(NAME, f"{shown}; the next command that writes notes it in {document}.")]
    if own is None:
        return [build_ok(NAME, f"{document} names {there.installation_id}; the metadata store has no id yet.")]
    return [_compare(settings, document, own, there)]


def _compare(settings: Settings, document: str, own: InstallationIdentity, there: InstallationIdentity) -> CheckResult:
    if own.installation_id == there.installation_id:
        return build_ok(NAME, f"{own.installation_id}, as {document} names it.")
    refusal = make_installation_error(settings, document, own, there)
    if settings.warehouse_shared:
        shared = f"{own.installation_id}; {document} names {there.installation_id}, and WINNOW_WAREHOUSE_SHARED is set."
        return build_ok(NAME, shared)
    return build_failure_from_error(NAME, refusal, "winnow settings")
