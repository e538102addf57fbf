"""Open alerts and undelivered messages, in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

from tests.support import store_fixtures
from tests.support.store_fixtures import assessment
from winnow.store import Store
from winnow.store.alert_handling import AlertCounts, AlertState
from winnow.store.alerts import Compose
from winnow.store.retired_files import WaitingFiles
from winnow.store.rows import Window
from winnow.values.model import Assessment, Reason
from winnow.values.results import Delivery, OpenAlert
from winnow.values.topic_state import RetiredFile

postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

NOW_MS = 1_760_000_000_000


def alert(partition: int | None = 0, kind: str = "validation_failed", topic: str = "orders") -> OpenAlert:
    return OpenAlert(kind, topic, partition, NOW_MS - 1, f"{topic} {partition}")


def to(*channels: str) -> Compose:
    """Writes one message per channel that names what it is about."""

    def compose(alerts: Sequence[OpenAlert]) -> list[tuple[str, str]]:
        return [(channel, " ".join(each.key for each in alerts)) for channel in channels]

    return compose


def nothing(_: Sequence[OpenAlert]) -> list[tuple[str, str]]:
    return []


def documents(store: Store, channel: str) -> list[str]:
    """Takes every message of a channel."""
    found = []
    while (delivery := store.alerts.claim_delivery(channel, NOW_MS, NOW_MS + 1)) is not None:
        found.append(delivery.document)
        store.alerts.finish_delivery(delivery.key)
    return found


def test_only_what_was_not_open_is_fresh_and_told_to_every_channel(store: Store) -> None:
    compose = to("webhook", "mail")
    assert store.alerts.remember_all([alert(0), alert(1)], NOW_MS, compose) == [alert(0), alert(1)]
    assert store.alerts.remember_all([alert(1), alert(2)], NOW_MS, compose) == [alert(2)]
    assert store.alerts.remember_all([alert(1)], NOW_MS, compose) == []
    told = ["validation_failed:orders:0 validation_failed:orders:1", "validation_failed:orders:2"]
    assert documents(store, "webhook") == documents(store, "mail") == told
    assert store.alerts.list_open() == [alert(0), alert(1), alert(2)]


def test_of_tasks_that_find_the_same_at_once_one_tells_each_partition(store: Store) -> None:
    barrier = Barrier(8)

    def find(_: int) -> list[OpenAlert]:
        barrier.wait()
        return store.alerts.remember_all([alert(0), alert(1)], NOW_MS, nothing)

    with ThreadPoolExecutor(8) as threads:
        fresh = [each for found in threads.map(find, range(8)) for each in found]
    assert sorted(each.partition or 0 for each in fresh) == [0, 1]


def test_closing_takes_the_partitions_and_the_topic_as_a_whole_and_leaves_the_rest(store: Store) -> None:
    broken = alert(None, "validation_broken")
    others = [alert(2), alert(0, "deadline_missed"), alert(0, topic="clicks")]
    store.alerts.remember_all([alert(0), alert(1), broken, *others], NOW_MS, nothing)
    kinds = {"validation_failed", "validation_broken"}
    assert store.alerts.forget_all("orders", kinds, [0, 1], NOW_MS, nothing) == [broken, alert(0), alert(1)]
    assert store.alerts.forget_all("orders", kinds, [0, 1], NOW_MS, to("webhook")) == []
    assert documents(store, "webhook") == []
    assert store.alerts.list_open() == [others[2], others[1], others[0]]
    assert store.alerts.list_open(["deadline_missed"]) == [others[1]]
    assert store.alerts.forget_all("orders", {"deadline_missed"}, None, NOW_MS, nothing) == [others[1]]


def test_released_alert_stays_open_until_it_is_told_again(store: Store) -> None:
    store.alerts.remember_all([alert(0), alert(1)], NOW_MS, nothing)
    store.alerts.release("orders", {"validation_failed"}, [0], "released by anna", NOW_MS)
    assert [each.released for each in store.alerts.list_open()] == ["released by anna", None]
    assert store.alerts.remember_all([alert(0), alert(1)], NOW_MS + 5, nothing) == [alert(0)]
    assert store.alerts.remember_all([alert(0)], NOW_MS + 5, nothing) == []
    assert [each.released for each in store.alerts.list_open()] == [None, None]


def test_messages_of_a_channel_go_out_one_at_a_time_in_their_order(store: Store) -> None:
    for number in range(3):
        store.alerts.remember_all([alert(number)], NOW_MS, to("webhook"))
    first = store.alerts.claim_delivery("webhook", NOW_MS, NOW_MS + 10)
    assert first is not None
    assert (first.document, first.channel, first.created_at_ms) == ("validation_failed:orders:0", "webhook", NOW_MS)
    assert store.alerts.claim_delivery("webhook", NOW_MS + 9, NOW_MS + 20) is None, "somebody is at it"
    assert store.alerts.claim_delivery("mail", NOW_MS, NOW_MS + 10) is None
    store.alerts.postpone_delivery(first.key, NOW_MS + 30)
    assert store.alerts.claim_delivery("webhook", NOW_MS + 29, NOW_MS + 40) is None, "what came after it waits for it"
    assert store.alerts.claim_delivery("webhook", NOW_MS + 30, NOW_MS + 40) == first
    store.alerts.finish_delivery(first.key)
    second = store.alerts.claim_delivery("webhook", NOW_MS, NOW_MS + 10)
    assert second is not None
    assert second.document == "validation_failed:orders:1"


def test_a_message_that_nobody_takes_holds_up_the_others_until_it_is_stale(store: Store) -> None:
    store.alerts.remember_all([alert(0)], NOW_MS, to("webhook"))
    store.alerts.remember_all([alert(1)], NOW_MS + 100, to("webhook"))
    first = store.alerts.claim_delivery("webhook", NOW_MS + 100, NOW_MS + 900)
    assert first is not None
    assert store.alerts.claim_delivery("webhook", NOW_MS + 200, NOW_MS + 900, stale_before_ms=NOW_MS) is None
    second = store.alerts.claim_delivery("webhook", NOW_MS + 200, NOW_MS + 900, stale_before_ms=NOW_MS + 1)
    assert second is not None
    assert second.document == "validation_failed:orders:1"
    again = store.alerts.claim_delivery("webhook", NOW_MS + 900, NOW_MS + 999, stale_before_ms=NOW_MS + 1)
    assert again == first, "it is tried again before younger ones"


def test_of_senders_that_reach_for_a_message_at_once_one_gets_it(store: Store) -> None:
    store.alerts.remember_all([alert()], NOW_MS, to("webhook"))
    barrier = Barrier(8)

    def reach(number: int) -> Delivery | None:
        barrier.wait()
        return store.alerts.claim_delivery("webhook", NOW_MS, NOW_MS + 10 + number)

    with ThreadPoolExecutor(8) as threads:
        assert [each is None for each in threads.map(reach, range(8))].count(False) == 1


def test_messages_that_nobody_took_are_given_up_by_their_age(store: Store) -> None:
    store.alerts.remember_all([alert(0)], NOW_MS, to("webhook", "mail"))
    store.alerts.remember_all([alert(1)], NOW_MS + 1, to("webhook"))
    assert store.alerts.drop_deliveries(NOW_MS) == 0
    assert store.alerts.drop_deliveries(NOW_MS + 1) == 2
    assert documents(store, "webhook") == ["validation_failed:orders:1"]


def test_topics_that_are_due_are_found_by_their_latest_assessment(store: Store) -> None:
    """An older one may have named a deadline that was met since."""
    for topic, deadline_ms in (("a", NOW_MS), ("b", NOW_MS + 1), ("c", None)):
        store.assessments.record(1, 1, [due(topic, 0, NOW_MS - 5)])
        store.assessments.record(2, 2, [due(topic, 0, deadline_ms), due(topic, 1, deadline_ms)])
    assert store.assessments.list_topics_due_by(NOW_MS - 1) == []
    assert store.assessments.list_topics_due_by(NOW_MS) == ["a"]
    assert store.assessments.list_topics_due_by(NOW_MS + 1) == ["a", "b"]


def due(topic: str, partition: int, deadline_ms: int | None) -> Assessment:
    return replace(assessment(topic, partition, reason=Reason.PAUSED), deadline_ms=deadline_ms)


def test_files_that_wait_are_summed_by_topic(store: Store) -> None:
    """Folders of attempts are marks in the ledger, not files; what is deleted waits no more."""
    for topic in ("orders", "clicks"):
        files = [RetiredFile(f"{topic}/{number}", 10, NOW_MS + number, "p") for number in range(4)]
        store.retired_files.record(topic, files, "data")
    store.retired_files.record("orders", [RetiredFile("orders/m", 5, NOW_MS - 1, "p")], "manifest")
    store.retired_files.record("orders", [RetiredFile("orders/a", 5, NOW_MS - 9, "p")], "attempts")
    store.retired_files.mark_deleted("clicks", ["clicks/0"], NOW_MS)
    assert store.retired_files.list_waiting(NOW_MS - 2) == []
    assert store.retired_files.list_waiting(NOW_MS + 1) == [
        WaitingFiles("clicks", 1, 10, NOW_MS + 1),
        WaitingFiles("orders", 3, 25, NOW_MS - 1),
    ]
    assert store.retired_files.list_waiting(NOW_MS + 1, "clicks") == [WaitingFiles("clicks", 1, 10, NOW_MS + 1)]


KEYS = {number: alert(number).key for number in range(3)}


def handled(store: Store, state: AlertState | None = None) -> list[int | None]:
    """The partitions of the open alerts in a state."""
    return [each.partition for each in store.alert_handling.list_alerts(Window(), NOW_MS, state=state).rows]


def events(store: Store) -> list[tuple[str, int | None, str, str]]:
    """What happened to alerts, the oldest first."""
    found = store.alert_history.list_events(Window()).rows
    return [(each.event, each.partition, each.actor, each.text) for each in reversed(found)]


def test_acknowledged_alert_names_who_and_why_until_it_happens_again(store: Store) -> None:
    """Only open ones can be acknowledged; a release that fails is a new occurrence, which nobody has acknowledged."""
    store.alerts.remember_all([alert(0), alert(1)], NOW_MS, nothing)
    keys = [KEYS[0], "validation_failed:clicks:0"]
    assert store.alert_handling.acknowledge(keys, NOW_MS + 1, by="anna", why="disk ordered") == [alert(0)]
    assert (handled(store, AlertState.NEW), handled(store, AlertState.ACKNOWLEDGED)) == ([1], [0])
    (seen, _) = store.alert_handling.list_alerts(Window(), NOW_MS).rows
    assert (seen.acknowledged_by, seen.acknowledged_why, seen.acknowledged_at_ms) == (
        "anna",
        "disk ordered",
        NOW_MS + 1,
    )
    assert store.alert_handling.count(NOW_MS) == AlertCounts(open=2, new=1, muted=0)
    store.alerts.release("orders", {"validation_failed"}, [0], "released by anna", NOW_MS + 2)
    store.alerts.remember_all([alert(0)], NOW_MS + 3, nothing)
    assert store.alert_handling.count(NOW_MS).new == 2
    assert events(store) == [
        ("raised", 0, "", "orders 0"),
        ("raised", 1, "", "orders 1"),
        ("acknowledged", 0, "anna", "disk ordered"),
        ("released", 0, "", "released by anna"),
        ("raised", 0, "", "orders 0"),
    ]


def test_muted_alert_that_happens_again_is_sent_when_its_mute_ends_and_once(store: Store) -> None:
    """Others of the same call are sent at once."""
    store.alerts.remember_all([alert(0)], NOW_MS, nothing)
    assert store.alert_handling.mute([KEYS[0]], NOW_MS + 50, NOW_MS, by="anna", why="copying") == [alert(0)]
    store.alerts.release("orders", {"validation_failed"}, [0], "released by anna", NOW_MS)
    assert store.alerts.remember_all([alert(0), alert(1)], NOW_MS + 1, to("webhook")) == [alert(0), alert(1)]
    assert documents(store, "webhook") == [KEYS[1]]
    assert handled(store, AlertState.MUTED) == [0]
    assert store.alerts.end_mutes(NOW_MS + 49, to("webhook")) == []
    assert store.alerts.end_mutes(NOW_MS + 50, to("webhook", "mail")) == [alert(0)]
    assert store.alerts.end_mutes(NOW_MS + 51, to("webhook", "mail")) == []
    assert documents(store, "webhook") == documents(store, "mail") == [KEYS[0]]
    assert events(store)[-1] == ("mute_ended", 0, "", "")


def test_of_watchers_that_see_the_end_of_a_mute_at_once_one_sends_it(store: Store) -> None:
    store.alerts.remember_all([alert(0)], NOW_MS, nothing)
    store.alert_handling.mute([KEYS[0]], NOW_MS + 1, NOW_MS, by="anna", why="")
    barrier = Barrier(8)

    def watch(_: int) -> list[OpenAlert]:
        barrier.wait()
        return store.alerts.end_mutes(NOW_MS + 1, to("webhook"))

    with ThreadPoolExecutor(8) as threads:
        assert sum(len(found) for found in threads.map(watch, range(8))) == 1
    assert documents(store, "webhook") == [KEYS[0]]


def test_recovery_is_sent_although_muted_and_ends_the_mute(store: Store) -> None:
    """What happens after a recovery is news; the end of the mute has nothing left to send."""
    store.alerts.remember_all([alert(0)], NOW_MS, nothing)
    store.alert_handling.mute([KEYS[0]], NOW_MS + 50, NOW_MS, by="anna", why="")
    assert store.alerts.forget_all("orders", {"validation_failed"}, [0], NOW_MS + 1, to("webhook"), how="was published")
    assert documents(store, "webhook") == [KEYS[0]]
    assert store.alerts.end_mutes(NOW_MS + 50, to("webhook")) == []
    store.alerts.remember_all([alert(0)], NOW_MS + 2, to("webhook"))
    assert documents(store, "webhook") == [KEYS[0]]
    assert [name for name, *_ in events(store)] == ["raised", "muted", "recovered", "raised"]


def test_alert_that_is_sent_after_its_mute_is_over_is_not_sent_by_the_end_of_the_mute(store: Store) -> None:
    """It happened again between the end of the mute and the watch that would have noticed that end."""
    store.alerts.remember_all([alert(0)], NOW_MS, nothing)
    store.alert_handling.mute([KEYS[0]], NOW_MS + 5, NOW_MS, by="anna", why="")
    store.alerts.release("orders", {"validation_failed"}, [0], "released by anna", NOW_MS)
    store.alerts.remember_all([alert(0)], NOW_MS + 6, to("webhook"))
    assert store.alerts.end_mutes(NOW_MS + 7, to("webhook")) == []
    assert documents(store, "webhook") == [KEYS[0]]


def test_unmuted_alert_is_sent_by_the_next_watch(store: Store) -> None:
    """Only what is muted can be unmuted."""
    store.alerts.remember_all([alert(0), alert(1)], NOW_MS, nothing)
    store.alert_handling.mute([KEYS[0]], NOW_MS + 50, NOW_MS, by="anna", why="")
    assert store.alerts.are_muted([KEYS[0]], NOW_MS)
    assert not store.alerts.are_muted([KEYS[0], KEYS[1]], NOW_MS)
    assert store.alert_handling.unmute([KEYS[0], KEYS[1]], NOW_MS + 1, by="bert", why="copied") == [alert(0)]
    assert not store.alerts.are_muted([KEYS[0]], NOW_MS + 1)
    assert store.alerts.end_mutes(NOW_MS + 1, to("webhook")) == [alert(0)]


def test_alerts_and_their_history_are_listed_by_topic_and_kind(store: Store) -> None:
    clicks = alert(0, "deadline_near", "clicks")
    store.alerts.remember_all([alert(0), alert(1), clicks], NOW_MS, nothing)
    store.alerts.forget_all("orders", {"validation_failed"}, [0], NOW_MS + 1, nothing, recovered=False)
    seen = store.alert_handling.list_alerts(Window(), NOW_MS, topic="clicks", kind="deadline_near")
    assert (seen.total, seen.rows[0].key) == (1, clicks.key)
    assert store.alert_handling.list_alerts(Window(1, 1), NOW_MS).total == 2
    history = store.alert_history
    assert [each.topic for each in history.list_events(Window(), topic="clicks").rows] == ["clicks"]
    assert history.list_events(Window(), kind="validation_failed").total == 3
    assert [each.partition for each in history.list_events(Window(), event="closed").rows] == [0]
