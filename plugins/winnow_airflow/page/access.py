"""Access rules of the page, decided by Airflow's login and auth manager.

Airflow does not authenticate the routes of plugins, so every router except static files depends on this module.
"""

from __future__ import annotations

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from fastapi import APIRouter, Depends

from winnow_airflow.page.dependencies import NowDep
from winnow_airflow.page.responses import Document

COMPACT, CHANGE = "compact_now", "change_partitions"
"""The DAGs that actions of the page trigger."""

may_view = Depends(requires_access_view(AccessView.PLUGINS))
"""Answers 401 without a login, 403 without the right to see plugins' pages."""

router = APIRouter(dependencies=[may_view])


def may_trigger(user: BaseUser, dag_id: str) -> bool:
    """Check whether ``user`` may trigger ``dag_id``, by the same check as Airflow's own route for new DAG runs."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


@router.get("/api/me")
def get_me(user: GetUserDep, now_ms: NowDep) -> Document:
    """Return the user and the actions to offer."""
    can = {"compact": may_trigger(user, COMPACT), "change": may_trigger(user, CHANGE)}
    return {"user": user.get_name(), "now_ms": now_ms, "can": can}
