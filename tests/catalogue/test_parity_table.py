"""The catalogue is whole: every case that concerns an archive has a test, and the page says what the tests say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogue.cases import CASES, SECTIONS, Case, Relevance
from tests.catalogue.parity import COMMAND, DOCUMENT, covering_tests, document


@pytest.fixture(scope="module")
def covering() -> dict[str, list[str]]:
    """Every test of this checkout by the numbers it covers."""
    return covering_tests()


def test_every_number_is_there_once_in_order() -> None:
    """1 to 144, and 100b after 100; then the guarantees."""
    numbers = [case.number for section in SECTIONS for case in section.cases]
    assert numbers == [*map(str, range(1, 101)), "100b", *map(str, range(101, 145)), *(f"G{n}" for n in range(1, 31))]


def test_every_case_that_concerns_an_archive_has_a_test(covering: dict[str, list[str]]) -> None:
    """A number without a test is named here."""
    wanted = [number for number, case in CASES.items() if case.relevance is not Relevance.BROKER]
    assert [number for number in wanted if number not in covering] == []


def test_every_mark_names_a_known_case(covering: dict[str, list[str]]) -> None:
    """A mistyped number covers nothing."""
    assert {number: tests for number, tests in covering.items() if number not in CASES} == {}


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.number)
def test_exactly_the_cases_of_a_broker_say_why_they_have_no_test(case: Case) -> None:
    """The others say their rule in one sentence."""
    assert (case.relevance is Relevance.BROKER) == bool(case.why_not)
    assert case.rule.endswith(".")
    assert not case.why_not or case.why_not.endswith(".")


def test_the_page_says_what_the_table_and_the_marks_say(covering: dict[str, list[str]]) -> None:
    """Drift is mended by writing the page again."""
    assert DOCUMENT.read_text(encoding="utf-8") == document(covering), f"Run: {COMMAND}"


BAD = ["@pytest.mark.kafka", "@pytest.mark.kafka()", "@pytest.mark.kafka(7)", "@pytest.mark.kafka(X)"]


@pytest.mark.parametrize("mark", BAD)
def test_a_mark_that_names_no_number_as_text_is_refused(tmp_path: Path, mark: str) -> None:
    """It would cover nothing without anybody noticing."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(f"{mark}\ndef test_it() -> None: ...\n")
    with pytest.raises(ValueError, match=r"tests/test_it\.py::test_it"):
        covering_tests(tmp_path)


def test_a_test_is_found_by_its_numbers(tmp_path: Path) -> None:
    """Also among other decorators, in a class, and twice."""
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "tests" / "deep" / "test_it.py").write_text(
        "class Of:\n    @given()\n    @pytest.mark.kafka('7', '8')\n    def test_a(self) -> None: ...\n"
        "@pytest.mark.kafka('7')\ndef test_b() -> None: ...\n@pytest.mark.skafka('9')\ndef test_c() -> None: ...\n"
    )
    assert covering_tests(tmp_path) == {
        "7": ["tests/deep/test_it.py::test_a", "tests/deep/test_it.py::test_b"],
        "8": ["tests/deep/test_it.py::test_a"],
    }
