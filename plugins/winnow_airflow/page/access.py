"""Access rules of the page, decided by Airflow's login and auth manager.

Airflow does not authenticate the routes of plugins, so every router except static files depends on this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from fastapi import APIRouter, Depends, HTTPException, Request

from winnow.config.owners import may_act
from winnow.config.settings import Settings
from winnow_airflow.dag_ids import get_prefix, name_dag
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation
from winnow_airflow.page.responses import Document

ACTION_DAGS: Final = {
    "compact": "compact_now",
    "change": "change_partitions",
    "configure": "change_topics",
    "sweep": "sweep_topics",
    "scrub": "scrub_topics",
    "erase": "erase_keys",
    "change_many": "change_many",
}
"""The DAG that each action of the page triggers, without the installation's prefix."""

RECORDS_VIEW: Final = "Winnow records"
"""The custom view about which Airflow's auth manager is asked before records are shown."""

OWN_REQUEST_HEADER: Final = "X-Winnow-Page"
"""A header that forms and images of other sites cannot send; the page sends it with each request that is no GET."""

may_view = Depends(requires_access_view(AccessView.PLUGINS))
"""Answers 401 without a login, 403 without the right to see plugins' pages."""

router = APIRouter(dependencies=[may_view])


def may_trigger(user: BaseUser, dag_id: str) -> bool:
    """Check whether ``user`` may trigger ``dag_id``, by the same check as Airflow's own route for new DAG runs."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def may_change_tasks(user: BaseUser, dag_id: str) -> bool:
    """Check whether ``user`` may set the state of tasks of ``dag_id``, by the same check as Airflow's own route."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="PUT", access_entity=DagAccessEntity.TASK_INSTANCE, details=details, user=user
    )


def require_own_request(request: Request) -> None:
    """Refuse a request that another site made the browser send: Airflow's cookie would come with it."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if request.headers.get(OWN_REQUEST_HEADER) is None or site not in {"same-origin", "none"}:
        raise HTTPException(403, "This request was not sent by Winnow's page. Nothing was done.")


own_request = Depends(require_own_request)
"""Belongs on every route that is no GET."""


def require_right_to(action: str) -> Any:
    """Make the dependency that refuses users who may not trigger the DAG of ``action`` (:data:`ACTION_DAGS`)."""

    def require(user: GetUserDep) -> None:
        dag_id = name_dag(ACTION_DAGS[action])
        if not may_trigger(user, dag_id):
            raise HTTPException(403, f"Your role in Airflow may not trigger {dag_id}. Nothing was done.")

    return Depends(require)


def require_owner_right(installation: ShownInstallation, user: str, topics: Iterable[str]) -> None:
    """Refuse a user who may not act for the owner of one of the topics; that of a topic that is gone is unknown."""
    wanted = set(topics)
    owners = installation.settings.owners
    known = installation.store.overview.find_owners(wanted) if owners else {}
    forbidden = sorted(each for each in wanted if not may_act(owners, known.get(each), user))
    if forbidden:
        raise HTTPException(
            403,
            f"{user} may not act for the owner of {', '.join(forbidden[:5])}, by the setting owners. "
            "Nothing was changed.",
        )


def may_read_records(user: BaseUser, settings: Settings) -> bool:
    """Check whether the settings name ``user``, and the auth manager lets them see the view.

    Both, because Airflow's simple auth manager lets every viewer see every custom view.
    """
    if user.get_name() not in settings.page.record_readers:
        return False
    return get_auth_manager().is_authorized_custom_view(method="GET", resource_name=RECORDS_VIEW, user=user)


@router.get("/api/me")
def get_me(user: GetUserDep, installation: InstallationDep, now_ms: NowDep) -> Document:
    """Return the user and the actions to offer; ``read_records``: whether they may see keys and values.

    ``dag_prefix``: what stands before the ids of this installation's DAGs. ``topics_of_others``: topics that the user
    may not act on by the setting ``owners``, each with its owner; the DAGs' tasks check it again.
    """
    can = {action: may_trigger(user, name_dag(name)) for action, name in ACTION_DAGS.items()}
    can["read_records"] = may_read_records(user, installation.settings)
    return {
        "user": user.get_name(),
        "now_ms": now_ms,
        "can": can,
        "dag_prefix": get_prefix(),
        "topics_of_others": _find_topics_of_others(installation, user.get_name()),
    }


def _find_topics_of_others(installation: ShownInstallation, user: str) -> dict[str, str]:
    owners = installation.settings.owners
    others = [owner for owner in owners if not may_act(owners, owner, user)]
    return installation.store.overview.find_owned(others) if others else {}
