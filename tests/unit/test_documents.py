"""Checks that the documents name modules, files, links and anchors that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from winnow.config.broker import BROKER_DEFINITIONS, BROKER_KEYS_WITHOUT_MEANING
from winnow.config.definitions import DEFINITIONS, KAFKA_KEYS_WITHOUT_MEANING, TOPIC_KEY_OF_BROKER_NAME
from winnow.config.settings import Settings
from winnow.kafka.java_properties import JAVA_PROPERTIES
from winnow.kafka.token_callbacks import OWN_NAMES

ROOT = Path(__file__).parents[2]

GENERATED = ("docs/archives.md", "docs/configuration.md", "docs/kafka-parity.md")

PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if str(page.relative_to(ROOT)) not in GENERATED
)

PACKAGES = {
    "winnow": ROOT / "winnow",
    "winnow_airflow": ROOT / "plugins/winnow_airflow",
    **{name: ROOT / name for name in ("oracle", "demo", "broker", "bench")},
    **{folder.name: folder for folder in (ROOT / "winnow").iterdir() if (folder / "__init__.py").is_file()},
}

CLIENT_PROPERTIES = {known.name for known in JAVA_PROPERTIES} | set(OWN_NAMES)
NAMES_OF_OTHER_THINGS = {
    "winnow.toml",  # the settings file
    "values.yaml",  # of a Helm chart
    "winnow.state",  # a property of a snapshot
    "winnow.fence",  # a property of a table
    "winnow.keyless",  # a property of a snapshot
    "winnow.partitions",  # a property of a table
    "winnow.events",  # a logger
    "winnow.orders",  # an Iceberg table
    "winnow.runs.published",  # metrics
    "winnow.phase.validate",
    "catalog.uri",  # properties of PyIceberg's catalogs
    "catalog.type",
}

FOLDERS = tuple(f"{folder.name}/" for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def read_page(page: str) -> str:
    """The text of one page."""
    return (ROOT / page).read_text(encoding="utf-8")


def list_code_spans(text: str) -> list[str]:
    """What stands between single backticks, outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def list_configuration_names() -> set[str]:
    """Every key of topics and brokers, and every setting, as documents write them."""
    broker = {definition.name for definition in BROKER_DEFINITIONS} | set(BROKER_KEYS_WITHOUT_MEANING)
    topic = {definition.name for definition in DEFINITIONS} | set(KAFKA_KEYS_WITHOUT_MEANING)
    settings = {
        f"{name}.{part}"
        for name, field in Settings.model_fields.items()
        for part in getattr(field.annotation, "model_fields", {})
    }
    return broker | topic | settings | set(TOPIC_KEY_OF_BROKER_NAME)


def exists_in_code(name: str) -> bool:
    """Whether a dotted ``name`` is a package, a module, or a name defined at the top of one or in a class of it."""
    first, *rest = name.split(".")
    place = PACKAGES[first]
    while rest and (place / rest[0]).is_dir():
        place /= rest.pop(0)
    if rest and (place / f"{rest[0]}.py").is_file():
        place /= f"{rest.pop(0)}.py"
    if not rest:
        return True
    source = (place / "__init__.py" if place.is_dir() else place).read_text(encoding="utf-8")
    return all(re.search(rf"^\s*(?:(?:class|def) )?{part}\b", source, re.MULTILINE) for part in rest)


def find_headings(page: str) -> set[str]:
    """The anchors of one page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", read_page(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_name_that_is_gone_is_found() -> None:
    """A module, and a name in a module that is there."""
    names = (
        "pipeline.compaction.publish",
        "winnow.pipeline.compaction.gone",
        "winnow.clock.format_ms",
        "winnow.clock.gone",
    )
    assert [exists_in_code(name) for name in names] == [True, False, True, False]


@pytest.mark.parametrize("page", PAGES)
def test_modules_named_in_a_page_exist(page: str) -> None:
    """Dotted names that begin with one of our packages, and the imports of examples."""
    known = list_configuration_names() | NAMES_OF_OTHER_THINGS | CLIENT_PROPERTIES
    dotted = [span for span in list_code_spans(read_page(page)) if re.fullmatch(r"[A-Za-z_]+(\.[A-Za-z_]+)+", span)]
    named = [name for name in dotted if name.split(".")[0] in PACKAGES and name not in known]
    for module, names in re.findall(r"^from ((?:winnow|oracle)\S*) import (.+)$", read_page(page), re.MULTILINE):
        named += [f"{module}.{name.strip()}" for name in names.split(",")]
    assert [name for name in named if not exists_in_code(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_a_page_exist(page: str) -> None:
    """Paths from the top of the repository, and the targets of links."""
    text = read_page(page)
    paths = [span for span in list_code_spans(text) if span.startswith(FOLDERS) and re.fullmatch(r"[\w./-]+", span)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    links = re.findall(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_anchors_in_a_page_lead_to_headings(page: str) -> None:
    """Within the page, and to other pages."""
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*\.md)?#([^)]+)\)", read_page(page)):
        aim = ((ROOT / page).parent / target).resolve().relative_to(ROOT) if target else page
        assert anchor in find_headings(str(aim)), (target, anchor)


@pytest.mark.parametrize("page", PAGES)
def test_no_merge_has_left_its_marks_in_a_page(page: str) -> None:
    """Linters read code; nothing else reads the pages."""
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", read_page(page), re.MULTILINE) == []


def test_the_house_shows_every_package() -> None:
    """ARCHITECTURE.md has a line for each module and package of winnow, its pipeline and its values."""
    drawn = read_page("ARCHITECTURE.md").split("## The house", 1)[1].split("```")[1]
    inner = drawn.split("\nwinnow/\n", 1)[1].split("\noracle/", 1)[0]
    named = [word for line in inner.splitlines() for word in _read_names(line)]
    there = [name for part in ("", "pipeline", "values") for name in _list_parts(ROOT / "winnow" / part)]
    assert sorted(named) == sorted(there)


def _read_names(line: str) -> list[str]:
    head = re.match(r"\s*((?:[a-z_]+/?)(?: \| [a-z_]+)*)(?=\s{2,})", line)
    return [] if head is None else [name.rstrip("/") for name in head[1].split(" | ")]


def _list_parts(folder: Path) -> list[str]:
    modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    return modules + [path.name for path in folder.iterdir() if (path / "__init__.py").is_file()]
