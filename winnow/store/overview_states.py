"""The state of topics and partitions in one word, as SQL: pictures joined with marks and pauses at one instant."""

from __future__ import annotations

from typing import Final, TypeVarTuple

from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, select

from winnow.store import tables
from winnow.store.overview_values import PictureState

Columns = TypeVarTuple("Columns")

STATES: Final = tuple(PictureState)
"""In the order of severity: a state is its place in here while SQL handles it."""
_RANK: Final = {state: place for place, state in enumerate(STATES)}

picture = tables.PartitionOverview
mark = tables.Uncleanable
pause = tables.Paused

_MARKED: Final = and_(mark.topic == picture.topic, mark.partition == picture.partition)
_PAUSED: Final = and_(pause.topic == picture.topic, pause.partition == picture.partition)


def rank_of(state: PictureState) -> int:
    """The place of ``state`` in the order of severity."""
    return _RANK[state]


def partition_rank(now_ms: int) -> ColumnElement[int]:
    """The rank of a partition's state at ``now_ms``, over pictures with marks and pauses joined."""
    working = pause.topic.is_(None)
    return case(
        (mark.topic.is_not(None), _RANK[PictureState.UNCLEANABLE]),
        (and_(working, picture.deadline_ms < now_ms), _RANK[PictureState.OVERDUE]),
        (and_(working, picture.eligible), _RANK[PictureState.DUE]),
        (pause.topic.is_not(None), _RANK[PictureState.PAUSED]),
        else_=_RANK[PictureState.HEALTHY],
    )


def topic_ranks(now_ms: int, *, topic: str | None = None) -> Subquery:
    """Per topic (None = all): the ``rank`` of its worst partition, the ``deadline_ms`` of what nobody paused."""
    ranked = select(
        picture.topic,
        func.min(partition_rank(now_ms)).label("rank"),
        func.min(case((pause.topic.is_(None), picture.deadline_ms))).label("deadline_ms"),
    )
    if topic is not None:
        ranked = ranked.where(picture.topic == topic)
    return with_marks(ranked).group_by(picture.topic).subquery("states")


def with_marks(pictures: Select[*Columns]) -> Select[*Columns]:
    """A query over pictures of partitions, with marks and pauses beside them."""
    return pictures.select_from(picture).outerjoin(mark, _MARKED).outerjoin(pause, _PAUSED)
