"""``ingest_topics`` reads Kafka: on its schedule what the settings follow, and when triggered what the run names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.kafka_broker import KafkaBroker, run_broker
from tests.dags.conftest import RunDag
from tests.dags.test_outcomes import outcomes
from tests.support.dag_topics import read_topic
from winnow.config.settings import Settings
from winnow.errors import UsageError
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow_airflow.tasks import following

BOTH = ("shop.orders", "shop.clicks")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with run_broker(tmp_path_factory.mktemp("kafka")) as running:
        names = [*BOTH, "other.topic"]
        create(running, *names)
        for name in names:
            produce(running, name, 3)
        yield running


def create(broker: KafkaBroker, *names: str) -> None:
    """Create topics."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result()


def delete(broker: KafkaBroker, *names: str) -> None:
    """Delete topics, and wait until the broker has forgotten them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_topics(list(names)).values():
        future.result()
    while set(names) & admin.list_topics(timeout=30).topics.keys():
        time.sleep(0.05)


def produce(broker: KafkaBroker, topic: str, count: int) -> None:
    """Write ``count`` records."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, key=f"k{number}", value="v")
    assert producer.flush(30) == 0


@pytest.fixture
def followed(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaBroker:
    """The broker, whose topics ``shop.…`` the settings follow."""
    monkeypatch.setenv("WINNOW_SOURCE__BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("WINNOW_SOURCE__TOPICS_REGEX", r"shop\..*")
    monkeypatch.setenv("WINNOW_SOURCE__CREATE", "true")
    return broker


def test_a_run_without_params_follows_what_the_settings_name(
    installation: Installation, run_dag: RunDag, followed: KafkaBroker
) -> None:
    """A run that finds everything there changes nothing."""
    run_dag("ingest_topics")
    assert [len(read_topic(installation, name)) for name in BOTH] == [3, 3]
    before = [installation.log.open(name).head().snapshot_id for name in BOTH]
    states = run_dag("ingest_topics")
    assert [states["ingest_kafka", -1], states["ingest_topic", -1]] == ["success", "skipped"]
    assert [installation.log.open(name).head().snapshot_id for name in BOTH] == before
    produce(followed, BOTH[1], 2)
    assert run_dag("ingest_topics")["run", -1] == "success"
    assert [len(read_topic(installation, name)) for name in BOTH] == [3, 5]
    assert "other.topic" not in installation.log.names()


def test_a_run_brings_a_table_of_the_latest_state_up_to_date_that_is_due(
    installation: Installation, run_dag: RunDag, followed: KafkaBroker
) -> None:
    """So does the watch, which comes less often; a table that is not due is left alone."""
    run_dag("ingest_topics")
    for name, seconds in zip(BOTH, ("1", "86400"), strict=True):
        alter_topic(installation, name, {"winnow.latest.table": "true", "winnow.latest.update": seconds}, [])
        update_latest_table(installation, name)
        produce(followed, name, 1)
    time.sleep(1)
    run_dag("ingest_topics")
    found = [installation.store.latest_tables.find(name) for name in BOTH]
    assert [progress is not None and progress.missing_since_ms is None for progress in found] == [True, False]
    alter_topic(installation, BOTH[1], {"winnow.latest.update": "1"}, [])
    run_dag("watch_topics")
    progress = installation.store.latest_tables.find(BOTH[1])
    assert progress is not None
    assert progress.missing_since_ms is None


def test_a_run_may_name_topics_of_the_settings_cluster_alone(
    installation: Installation, run_dag: RunDag, followed: KafkaBroker, airflow_home: Settings
) -> None:
    """It leaves what came of each, for the page and for who triggered it: appended, nothing new, or its failure."""
    assert run_dag("ingest_topics", kafka_topics=["other.topic"])["run", -1] == "success"
    assert installation.log.names() == ["other.topic"]
    assert list_outcomes(airflow_home, "ingest_kafka") == [("other.topic", "done", "3 records appended from Kafka.")]
    run_dag("ingest_topics", kafka_topics=["other.topic"])
    assert list_outcomes(airflow_home, "ingest_kafka") == [("other.topic", "idle", "Nothing was new at Kafka.")]
    states = run_dag("ingest_topics", kafka_topics_regex="shop.orders|no.such", create=False)
    ((topic, kind, text),) = list_outcomes(airflow_home, "ingest_topic")
    assert (topic, kind) == ("", "failed")
    assert "shop.orders" in text
    assert [states["ingest_kafka", -1], states["ingest_topic", 0]] == ["success", "failed"]
    assert installation.log.names() == ["other.topic"]


def test_a_failing_topic_marks_its_own_task_alone_and_is_alerted(
    installation: Installation, run_dag: RunDag, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, no such task is started; one that is gone at Kafka is an alert and no failure."""
    monkeypatch.setenv("WINNOW_SOURCE__BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("WINNOW_SOURCE__TOPICS_REGEX", r"depot\..*")
    monkeypatch.setenv("WINNOW_SOURCE__CREATE", "true")
    names = ["depot.again", "depot.good", "depot.gone"]
    create(broker, *names)
    for name in names:
        produce(broker, name, 1)
    assert run_dag("ingest_topics")["run", -1] == "success"
    delete(broker, "depot.again", "depot.gone")
    create(broker, "depot.again")
    for name in names[:2]:
        produce(broker, name, 1)
    states = run_dag("ingest_topics")
    ended = [states[each] for each in (("ingest_kafka", -1), ("ingest_topic", 0), ("run", -1))]
    assert ended == ["success", "failed", "failed"]
    assert ("ingest_topic", 1) not in states
    assert [len(read_topic(installation, name)) for name in names] == [1, 2, 1]
    assert list_open(installation) == [("depot.again", "ingest_failed"), ("depot.gone", "source_gone")]
    assert "topic id" in installation.store.alerts.list_open(["ingest_failed"])[0].message

    monkeypatch.setenv("WINNOW_SOURCE__RECREATED", "new_epoch")
    states = run_dag("ingest_topics")
    assert [states["ingest_topic", -1], states["run", -1]] == ["skipped", "success"]
    assert len(read_topic(installation, "depot.again")) == 2
    assert list_open(installation) == [("depot.gone", "source_gone")]


def list_outcomes(airflow_home: Settings, task_id: str) -> list[tuple[str, str, str]]:
    """What the newest run of ``task_id`` left: topic, kind and text."""
    return [(each["topic"], each["kind"], each["text"]) for each in outcomes(airflow_home, task_id)]


def list_open(installation: Installation) -> list[tuple[str, str]]:
    """The open alerts: topic and kind."""
    return [(alert.topic, alert.kind) for alert in installation.store.alerts.list_open()]


def test_a_run_reads_files_or_kafka(followed: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that names nothing, where nothing is followed, says what to name."""
    params: dict[str, object] = {"topic": None, "paths": [], "source_topic": None, "files": []}
    params |= {"kafka_topics": [], "kafka_topics_regex": None}
    assert following.list_file_rows(params) == []
    with pytest.raises(UsageError, match="files or Kafka"):
        following.list_file_rows({**params, "topic": "orders", "paths": ["x"], "kafka_topics": ["orders"]})
    monkeypatch.delenv("WINNOW_SOURCE__TOPICS_REGEX")
    with pytest.raises(UsageError, match="needs a topic"):
        following.list_file_rows(params)


def test_a_run_leaves_the_topics_to_another_one_that_reads_them(
    installation: Installation, run_dag: RunDag, followed: KafkaBroker
) -> None:
    with hold_lease(installation, following.LEASE):
        assert run_dag("ingest_topics")["run", -1] == "success"
    assert installation.log.names() == []


def test_the_settings_are_the_schedule(followed: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is scheduled where nothing is followed, or where the settings cannot be read."""
    assert following.choose_interval() == timedelta(minutes=5)
    monkeypatch.setenv("WINNOW_SOURCE__INTERVAL_MS", "60000")
    assert following.choose_interval() == timedelta(minutes=1)
    monkeypatch.setenv("WINNOW_SOURCE__TOPICS_REGEX", "shop(")
    assert following.choose_interval() is None
    monkeypatch.delenv("WINNOW_SOURCE__TOPICS_REGEX")
    assert following.choose_interval() is None


def test_kafka_is_not_read_into_topics_of_an_owner_whom_the_person_may_not_act_for(
    installation: Installation, run_dag: RunDag, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that names one, or matches it, appends to none; one of what the settings follow leaves it out."""
    monkeypatch.setenv("WINNOW_SOURCE__BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("WINNOW_SOURCE__TOPICS_REGEX", r"till\..*")
    monkeypatch.setenv("WINNOW_SOURCE__CREATE", "true")
    names = ["till.orders", "till.clicks"]
    create(broker, *names)
    assert run_dag("ingest_topics")["run", -1] == "success"
    alter_topic(installation, "till.orders", {"winnow.owner": "payments"}, [])
    for name in names:
        produce(broker, name, 1)

    def count_records() -> list[int]:
        return [len(read_topic(installation, name)) for name in names]

    monkeypatch.setenv("WINNOW_OWNERS__payments", "ada")
    for named in ({"kafka_topics": names}, {"kafka_topics_regex": "till.*"}):
        assert run_dag("ingest_topics", **named)["ingest_kafka", -1] == "failed"
        assert count_records() == [0, 0]
    # In one process, Airflow keeps the Params of the run before.
    assert run_dag("ingest_topics", kafka_topics=[], kafka_topics_regex=None)["run", -1] == "success"
    assert count_records() == [0, 1]
    # Airflow names this user for the runs of these tests.
    monkeypatch.setenv("WINNOW_OWNERS__payments", "dag_test")
    assert run_dag("ingest_topics", kafka_topics=names)["run", -1] == "success"
    assert count_records() == [1, 1]
