"""``make test-changed``: the tests nearest to what changed."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from tests import changed


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return changed.build_graph()


def test_the_test_of_a_module_comes_first(graph: grimp.ImportGraph) -> None:
    for path, test in (
        ("winnow/clock.py", "tests/unit/test_clock.py"),
        ("winnow/files/page_checksums.py", "tests/unit/test_page_checksums.py"),
        ("winnow/cli/why.py", "tests/integration/test_cli_why.py"),
    ):
        assert changed.choose_tests(graph, [path], 5)[0][0] == test


def test_at_most_so_many_run_and_the_others_are_counted(graph: grimp.ImportGraph) -> None:
    """The clock is behind nearly everything."""
    few, left = changed.choose_tests(graph, ["winnow/clock.py"], 3)
    more, left_then = changed.choose_tests(graph, ["winnow/clock.py"], 10)
    assert (len(few), len(more)) == (3, 10)
    assert more[:3] == few
    assert left - left_then == 7
    assert left > 100


def test_a_test_that_needs_servers_runs_only_if_it_is_changed_itself(graph: grimp.ImportGraph) -> None:
    assert changed.choose_tests(graph, ["tests/kafka/test_parity.py"], 9)[0] == ["tests/kafka/test_parity.py"]
    near, _ = changed.choose_tests(graph, ["winnow/kafka/range_reader.py"], 500)
    assert near
    assert not any(path.startswith(("tests/kafka", "tests/browser", "tests/spark")) for path in near)


def test_files_that_are_no_modules_are_tested_by_what_reads_them(graph: grimp.ImportGraph) -> None:
    assert changed.choose_tests(graph, ["README.md"], 9)[0] == ["tests/unit/test_documents.py"]
    assert changed.choose_tests(graph, ["LICENSE"], 9) == ([], 0)


def test_every_declared_test_and_module_is_there(graph: grimp.ImportGraph) -> None:
    for test, modules in changed.STARTED.items():
        assert [name for name in graph.modules if name == test or (test[-1] == "." and name.startswith(test))]
        assert set(modules) <= graph.modules
    read = [path for paths in changed.READ.values() for path in paths]
    assert [path for path in read if not Path(changed.ROOT, path).is_file()] == []
