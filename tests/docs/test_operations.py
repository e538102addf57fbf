"""The runbook: what each section says to type is typed, in a lake in which its subject has come about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.incidents import CASES, lake_settings
from tests.docs.runbook import Section, prompt_program, run_block, sections
from tests.support.world import FakeClock, World, open_world
from winnow.clock import read_wall_clock_ms
from winnow.report.alert_kinds import AlertKind

PAGE = sections("operations.md")
PARTS = ("**What it means.**", "**What is safe.**", "**Look", "**Do", "**Over when")


def open_kinds(world: World) -> list[str]:
    """The alerts that have not recovered."""
    return [alert.kind for alert in world.installation.store.alerts.list_open()]


def newest(world: World, topic: str) -> set[int]:
    """The offset of the newest record of each key of partition 0."""
    found: dict[bytes | None, int] = {}
    for record in world.read(partition=0, topic=topic):
        found[record.key] = record.offset
    return set(found.values())


@pytest.fixture(scope="module")
def scripts_of_docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a prompt ``winnow``."""
    with prompt_program("winnow", tmp_path_factory.mktemp("bin")) as folder:
        yield folder


@pytest.mark.parametrize("title", CASES)
def test_commands_of_a_section_end_what_it_is_about(title: str, tmp_path: Path, scripts_of_docs: Path) -> None:
    """None of them fails, the alert recovers, and readers see the newest record of every key."""
    case = CASES[title]
    settings = lake_settings(tmp_path)
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), settings) as world:
        env = case.cause(world)
        if case.alert is not None:
            assert open_kinds(world) == [case.alert]
    for block in PAGE[title].blocks():
        run_block(block, tmp_path, {**settings, **env}, first_on_path=scripts_of_docs)
    home = {"WINNOW_HOME": str(tmp_path / case.home)}
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), {**settings, **home}) as world:
        if case.alert is not None:
            assert open_kinds(world) == []
        assert newest(world, case.topic) == case.newest


def test_every_section_with_commands_is_run() -> None:
    """A section that is added is brought about in a lake, or this fails."""
    assert {title for title, section in PAGE.items() if section.blocks()} == set(CASES)


def test_every_kind_of_alert_has_its_section_with_all_its_parts() -> None:
    """What it means, what is safe, where to look, what to do, when it is over; commands at the end of it."""
    for kind in AlertKind:
        section = PAGE[kind.value]
        if kind is AlertKind.RECOVERED:
            continue
        places = [section.text.find(part) for part in PARTS]
        assert -1 not in places, (kind, places)
        assert places == sorted(places), kind
        assert section.text.rstrip().endswith("```"), kind


def test_table_of_alerts_gives_each_kind_its_severity() -> None:
    """As the messages have it."""
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for kind in AlertKind:
        assert f"| [{kind.value}](#{kind.value}) | {kind.severity} |" in text


def test_commands_that_messages_give_are_among_those_of_the_section() -> None:
    """Whoever comes from the message finds the command again, and what stands around it."""
    missing = {
        title: case.command
        for title, case in CASES.items()
        if case.command is not None and case.command not in _commands(PAGE[title])
    }
    assert missing == {}


def _commands(section: Section) -> list[str]:
    return [line.partition("#")[0].strip() for block in section.blocks() for line in block.splitlines()]
