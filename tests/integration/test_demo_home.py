"""Where the demo begins, and what of an earlier demo it removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.home import locate_archive_folder, start_fresh
from demo.records import CONFIGURATION, TOPICS
from winnow.config.settings import Settings, load_settings
from winnow.errors import ConfigurationError, UsageError
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.definition import create_topic, list_topics


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(cwd=tmp_path, env={})


def _create(settings: Settings, *topics: str) -> None:
    with open_installation(settings) as installation:
        for topic in topics:
            create_topic(installation, topic, 1, CONFIGURATION.get(topic, {}))


def _topics(settings: Settings) -> list[str]:
    with open_installation(settings) as installation:
        return list_topics(installation)


def test_demo_begins_in_an_empty_home(settings: Settings) -> None:
    """Nothing is there, so nothing was there before."""
    assert start_fresh(settings) is False


def test_demo_removes_the_topics_and_the_archive_of_the_demo_before_it(settings: Settings) -> None:
    """The same topics can be created again, and their folders are empty."""
    start_fresh(settings)
    _create(settings, *TOPICS)
    archived = locate_archive_folder(settings) / "aircraft" / "1.jsonl"
    archived.parent.mkdir(parents=True)
    archived.write_text("{}")

    assert start_fresh(settings) is True
    assert _topics(settings) == []
    assert not archived.exists()
    assert not (settings.home / "warehouse").exists()
    _create(settings, *TOPICS)


def test_demo_leaves_what_it_did_not_make(settings: Settings) -> None:
    """Airflow's home and whatever else lies in the home stay through a second demo."""
    start_fresh(settings)
    kept = [settings.airflow_home / "airflow.db", settings.home / "notes.txt"]
    for file in kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")

    start_fresh(settings)

    assert [file.read_text() for file in kept] == ["mine", "mine"]


@pytest.mark.parametrize("topic", ["orders", "aircraft"])
def test_demo_stops_where_topics_are_that_it_did_not_make(settings: Settings, topic: str) -> None:
    """A topic that was there first is left alone, even when it is called like one of the demo's."""
    _create(settings, topic)

    with pytest.raises(UsageError, match=rf"did not make: {topic}\. Nothing was changed\. .*WINNOW_HOME="):
        start_fresh(settings)

    assert _topics(settings) == [topic]


def test_demo_stops_when_a_topic_came_beside_its_own(settings: Settings) -> None:
    """Its own topics stay too, since the catalog is no longer the demo's alone."""
    start_fresh(settings)
    _create(settings, *TOPICS, "orders")

    with pytest.raises(UsageError, match="did not make: orders"):
        start_fresh(settings)

    assert _topics(settings) == sorted([*TOPICS, "orders"])


def test_demo_stops_where_the_warehouse_is_elsewhere(tmp_path: Path) -> None:
    """What is shared with others is not for a demo to remove."""
    settings = load_settings(cwd=tmp_path, env={"WINNOW_WAREHOUSE": str(tmp_path / "lake")})

    with pytest.raises(ConfigurationError, match=r"here warehouse would be elsewhere\. Nothing was changed"):
        start_fresh(settings)

    assert not settings.home.exists()
