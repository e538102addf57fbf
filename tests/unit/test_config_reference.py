"""The configuration reference: in step with the tables, and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_site.configuration_page import render_reference
from winnow.config.broker import BROKER_DEFINITIONS
from winnow.config.definitions import DEFINITIONS, TOPIC_KEY_OF_BROKER_NAME
from winnow.config.setting_names import MAPS, NAMES, SETTINGS


def row_of(name: str) -> list[str]:
    """The cells of the line that begins with ``name``."""
    (line,) = [line for line in render_reference().splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_page_is_what_the_tables_say(root: Path) -> None:
    """A changed table without a new page fails here; the page itself says the command."""
    written = (root / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == render_reference(), "Write it anew: make docs"


@pytest.mark.parametrize("name", [*(d.name for d in DEFINITIONS), *(d.name for d in BROKER_DEFINITIONS), *NAMES])
def test_every_key_and_setting_has_one_line_with_no_empty_cell(name: str) -> None:
    """Name, default, valid values and a sentence."""
    assert all(row_of(name))


def test_every_broker_name_stands_beside_its_topic_key() -> None:
    """With its unit where that is not the key's."""
    for broker, key in TOPIC_KEY_OF_BROKER_NAME.items():
        assert f"`{broker}`" in row_of(key)[1]
    assert row_of("retention.ms")[1] == (
        "`log.retention.ms`, `log.retention.minutes` (minutes), `log.retention.hours` (hours)"
    )


def test_default_that_differs_has_kafkas_beside_it() -> None:
    """An archive may be the only copy."""
    assert row_of("retention.ms")[2] == "`-1`; Kafka: `604800000` (7 days)"
    assert row_of("cleanup.policy")[2] == "`compact`; Kafka: `delete`"
    assert row_of("segment.bytes")[2:4] == ["`1073741824` (1 GiB)", "32-bit number, at least 14"]
    assert row_of("min.cleanable.dirty.ratio")[3] == "number from 0 to 1"


def test_every_setting_has_a_sentence_and_an_example_or_a_default() -> None:
    """A setting that is added without one fails here; the catalog's default depends on what else is set."""
    assert SETTINGS.keys() == {*NAMES, *MAPS}
    assert [name for name, each in SETTINGS.items() if not each.sentence] == []
    unknown = [
        name for name, each in SETTINGS.items() if each.default is each.example is None and each.from_home is None
    ]
    assert unknown == ["catalog"]
