"""Which failures are tried again, and how several become one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk import RetryAction

from winnow.errors import (
    BadInputError,
    CommitConflictError,
    CommitUnknownError,
    ConfigurationError,
    DamagedBackupError,
    DamagedMetadataError,
    DamagedSegmentError,
    DeletedTopicError,
    EraseRefusedError,
    ForeignConfigurationError,
    ForeignTableError,
    FormatVersionError,
    KeptVersionsError,
    LinkedFolderError,
    MissingFileError,
    OlderHeadError,
    OtherInstallationError,
    OutdatedHeadError,
    PlanVoidError,
    RunAgainError,
    ServiceError,
    TopicBusyError,
    UndoRefusedError,
    UnknownTopicError,
    UsageError,
    ValidationBrokenError,
    ValidationFailedError,
    WinnowError,
)
from winnow_airflow.older_airflow import AirflowFailException, fail_without_retries
from winnow_airflow.task_defaults import RETRY_POLICY, combine_errors, is_worth_retrying
from winnow_airflow.xcom_values import IngestRow, build_ingest_rows, build_label, share_ingest_rows, split_evenly

FAIL, AT_ONCE, BACKING_OFF = "fail", "at once", "backing off"

TREE: dict[type[WinnowError], str] = {
    WinnowError: BACKING_OFF,
    UsageError: FAIL,
    ConfigurationError: FAIL,
    OtherInstallationError: FAIL,
    LinkedFolderError: FAIL,
    UnknownTopicError: FAIL,
    DeletedTopicError: FAIL,
    EraseRefusedError: FAIL,
    UndoRefusedError: FAIL,
    ForeignTableError: FAIL,
    ForeignConfigurationError: FAIL,
    FormatVersionError: FAIL,
    BadInputError: FAIL,
    ValidationFailedError: FAIL,
    DamagedSegmentError: FAIL,
    DamagedMetadataError: FAIL,
    DamagedBackupError: FAIL,
    OlderHeadError: FAIL,
    ValidationBrokenError: FAIL,
    RunAgainError: BACKING_OFF,
    PlanVoidError: FAIL,
    CommitUnknownError: BACKING_OFF,
    CommitConflictError: AT_ONCE,
    OutdatedHeadError: BACKING_OFF,
    TopicBusyError: BACKING_OFF,
    ServiceError: BACKING_OFF,
    MissingFileError: BACKING_OFF,
    KeptVersionsError: FAIL,
}
"""What becomes of a task that ends with each of Winnow's errors."""


def subclasses(kind: type[WinnowError]) -> set[type[WinnowError]]:
    """``kind`` and all that derive from it, whoever defined them."""
    return {kind}.union(*[subclasses(each) for each in kind.__subclasses__()])


def what_happens(problem: BaseException) -> str:
    """What the retry policy decides, in a word."""
    assert RETRY_POLICY is not None
    decision = RETRY_POLICY.evaluate(problem, 1, 3)
    if decision.action is RetryAction.RETRY:
        return AT_ONCE if decision.retry_delay == timedelta(0) else f"after {decision.retry_delay}"
    return FAIL if decision.action is RetryAction.FAIL else BACKING_OFF


def test_the_retries_of_every_error_are_decided() -> None:
    """The whole tree below the root, so that a new error must be placed here."""
    known = {kind for kind in subclasses(WinnowError) if kind.__module__ == "winnow.errors"}
    assert known == TREE.keys()


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_airflow_without_retry_policies_fails_at_once_what_the_policy_does(kind: type[WinnowError]) -> None:
    """Before Airflow 3.3 the exception says that there is no retry; its text is the error's."""
    expected = AirflowFailException if TREE[kind] == FAIL else kind
    with pytest.raises(expected, match="the text") as raised, fail_without_retries(has_policies=False):
        raise kind("the text")
    assert type(raised.value) is expected
    with pytest.raises(kind), fail_without_retries():
        raise kind("with policies it stays what it is")


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_bad_data_is_not_tried_again_conflicts_at_once_and_services_with_back_off(kind: type[WinnowError]) -> None:
    """What meets the same data again ends the same way; a lost race is over; a service needs time."""
    problem = kind("x")
    assert what_happens(problem) == TREE[kind]
    assert is_worth_retrying(problem) is (TREE[kind] is not FAIL)


def test_a_stranger_is_tried_again_with_back_off() -> None:
    """Nobody foresaw it; it may pass."""
    assert what_happens(OSError("x")) == BACKING_OFF


def test_a_conflict_beside_a_service_that_is_away_waits_for_the_service() -> None:
    """Of several topics in one task the most patient decides; all are named."""
    problem = combine_errors([("orders", CommitConflictError("lost")), ("clicks", ServiceError("store is away"))])
    assert what_happens(problem) == BACKING_OFF
    assert str(problem) == "orders: lost\nclicks: store is away"
    assert what_happens(combine_errors([("a", CommitConflictError("x")), ("b", BadInputError("y"))])) == AT_ONCE


def test_several_failures_are_tried_again_when_one_of_them_can_end_otherwise() -> None:
    """The others are through and end as before; all of them are named."""
    problem = combine_errors([("orders", ValidationFailedError("is wrong")), ("clicks", ServiceError("store is away"))])
    assert isinstance(problem, ServiceError)
    assert str(problem) == "orders: is wrong\nclicks: store is away"


def test_failures_that_all_end_the_same_way_stay_final() -> None:
    """A void plan beside a failed validation."""
    problem = combine_errors([("orders", PlanVoidError("is void")), ("clicks", ValidationFailedError("is wrong"))])
    assert what_happens(problem) == FAIL


def test_a_strangers_message_is_not_repeated() -> None:
    """A library may quote the data it stumbled over."""
    problem = combine_errors([("orders", ValueError("secret")), ("clicks", ValueError("secret"))])
    assert "secret" not in str(problem)
    assert "ValueError" in str(problem)


def test_surprise_beside_a_damaged_segment_is_tried_again() -> None:
    """Another try may end otherwise."""
    problem = combine_errors([("orders", DamagedSegmentError("is damaged")), ("a", WinnowError("odd"))])
    assert type(problem) is WinnowError
    assert str(problem).splitlines() == ["orders: is damaged", "a: odd"]
    assert what_happens(problem) == BACKING_OFF


def test_topics_share_mapped_tasks_only_when_there_are_too_many() -> None:
    """One task per topic, as people expect to see it; evenly shared beyond the limit; none for none."""
    assert split_evenly(["a", "b"], 5) == [["a"], ["b"]]
    assert split_evenly(["a", "b", "c", "d", "e"], 2) == [["a", "b"], ["c", "d", "e"]]
    assert split_evenly([], 5) == []
    assert build_label(["a"]) == "a"
    assert build_label(["a", "b", "c"]) == "a … c (3 topics)"
    assert build_label([]) == ""


def test_ingest_takes_one_topic_and_lists_of_them() -> None:
    """Both ways of asking give entries of the same shape."""
    params = {"topic": "orders", "paths": ["/a"], "files": [{"topic": "clicks", "paths": ["/b", "/c"]}]}
    assert build_ingest_rows(params) == [
        IngestRow(topic="orders", paths=["/a"]),
        IngestRow(topic="clicks", paths=["/b", "/c"]),
    ]


def test_entries_share_few_tasks_and_those_of_a_topic_stay_together_in_order() -> None:
    """Up to eight tasks, more only when a task would have more than twenty-five entries."""
    rows = [IngestRow(topic=f"t{number % 30:02d}", paths=[f"/{number}"]) for number in range(60)]
    shares = share_ingest_rows(rows)
    assert len(shares) == 8
    assert sorted(map(len, shares)) == [6, 6, 8, 8, 8, 8, 8, 8]
    assert [row["paths"] for row in shares[0]] == [["/0"], ["/30"], ["/1"], ["/31"], ["/2"], ["/32"]]
    assert [len(share_ingest_rows(rows[:count])) for count in (0, 1, 5, 8, 9)] == [0, 1, 5, 8, 8]
    many = [IngestRow(topic=f"t{number}", paths=["/a"]) for number in range(1_000)]
    assert {len(share) for share in share_ingest_rows(many)} == {25}
    assert len(share_ingest_rows(many * 10)) == 200


@pytest.mark.parametrize(
    "params",
    [
        {"topic": None, "paths": [], "files": []},
        {"topic": "orders", "paths": [], "files": []},
        {"topic": None, "paths": ["/a"], "files": []},
        {"topic": None, "paths": [], "files": [{"topic": "orders", "paths": []}]},
    ],
)
def test_ingest_refuses_an_entry_without_topic_or_paths(params: dict[str, object]) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match="Nothing was ingested"):
        build_ingest_rows(params)
