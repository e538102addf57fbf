"""The state of topics and partitions in one word, as SQL: pictures joined with marks and pauses at one instant."""

from __future__ import annotations

from typing import Final, TypeVarTuple

from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, select

from winnow.store import tables
from winnow.store.overview_values import OverviewState

Columns = TypeVarTuple("Columns")

STATES: Final = tuple(OverviewState)
"""In the order of severity: a state is its place in here while SQL handles it."""
_RANK: Final = {state: place for place, state in enumerate(STATES)}

partition_overview = tables.PartitionOverviewTable
mark = tables.UncleanableTable
pause = tables.Paused

_MARKED: Final = and_(mark.topic == partition_overview.topic, mark.partition == partition_overview.partition)
_PAUSED: Final = and_(pause.topic == partition_overview.topic, pause.partition == partition_overview.partition)


def make_rank(state: OverviewState) -> int:
    """The place of ``state`` in the order of severity."""
    return _RANK[state]


def make_partition_rank(now_ms: int) -> ColumnElement[int]:
    """The rank of a partition's state at ``now_ms``, over pictures with marks and pauses joined."""
    working = pause.topic.is_(None)
    return case(
        (mark.topic.is_not(None), _RANK[OverviewState.UNCLEANABLE]),
        (and_(working, partition_overview.deadline_ms < now_ms), _RANK[OverviewState.OVERDUE]),
        (and_(working, partition_overview.eligible), _RANK[OverviewState.DUE]),
        (pause.topic.is_not(None), _RANK[OverviewState.PAUSED]),
        else_=_RANK[OverviewState.HEALTHY],
    )


def select_topic_ranks(now_ms: int, *, topic: str | None = None) -> Subquery:
    """Per topic (None = all): the ``rank`` of its worst partition, the ``deadline_ms`` of what nobody paused."""
    ranked = select(
        partition_overview.topic,
        func.min(make_partition_rank(now_ms)).label("rank"),
        func.min(case((pause.topic.is_(None), partition_overview.deadline_ms))).label("deadline_ms"),
    )
    if topic is not None:
        ranked = ranked.where(partition_overview.topic == topic)
    return join_marks(ranked).group_by(partition_overview.topic).subquery("states")


def join_marks(pictures: Select[*Columns]) -> Select[*Columns]:
    """A query over pictures of partitions, with marks and pauses beside them."""
    return pictures.select_from(partition_overview).outerjoin(mark, _MARKED).outerjoin(pause, _PAUSED)
