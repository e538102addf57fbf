"""Each mutant of ``make mutants`` still applies to the code, and its test is still there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import MUTANTS
from tests.mutants.changes import (
    Change,
    always,
    assign,
    drop_element,
    drop_keyword,
    drop_operand,
    drop_statement,
    never,
    replace,
    replace_call,
    replace_text,
    return_value,
    set_keyword,
    swap_operator,
)
from tests.mutants.mutant import Mutant, find_test, mutate

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_compiles_is_other_code_and_has_a_test(mutant: Mutant) -> None:
    path, text = mutate(ROOT, mutant)

    compile(text, str(path), "exec")
    assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(path.read_text()))
    assert find_test(ROOT, mutant).partition("[")[0].endswith(f"::{mutant.test.partition('[')[0]}")


def test_names_of_mutants_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (never("b"), "if a == b: f()", "if False: f()"),
        (always("b"), "x = y if b else z", "x = y if True else z"),
        (drop_operand("c"), "x = a and b.c", "x = a"),
        (drop_operand("c"), "x = (a and b and c) or d", "x = a and b or d"),
        (drop_statement("fsync"), "os.fsync(a)", "pass"),
        (drop_statement("DELETE FROM"), "do('x'); do('DELETE FROM t')", "do('x'); pass"),
        (drop_element("A.in_(B)"), "f(a.in_(b), c)", "f(c)"),
        (drop_keyword("k"), "f(a, k=b)", "f(a)"),
        (set_keyword("k", "0"), "f(a, k=b)", "f(a, k=0)"),
        (assign("None", "g"), "x = 1; y = g(a)", "x = 1; y = None"),
        (return_value("True", "b"), "return a == b", "return True"),
        (swap_operator(">", ">=", "b"), "x = a > b and c > d", "x = a >= b and c > d"),
        (replace_call("f", "g"), "f(g(f))", "g(g(f))"),
        (replace_text("= {limit}", "> 0"), "x = f'SELECT {a} = {limit} AND {b}'", "x = f'SELECT {a} > 0 AND {b}'"),
        (replace_text("FULL", "EXTRA"), "x = 'sync FULL'", "x = 'sync EXTRA'"),
        (replace("max(A, B.c)", "B.d + A"), "x = max(1, y.z.c)", "x = y.z.d + 1"),
        (replace("A == A", "False"), "x = a == b or a == a", "x = a == b or False"),
        (replace("f(...)", "0"), "x = f(a, *b, k=c) + g(d)", "x = 0 + g(d)"),
    ],
    ids=lambda value: value.text if isinstance(value, Change) else "",
)
def test_a_change_fits_its_place_alone(tmp_path: Path, change: Change, before: str, after: str) -> None:
    _write(tmp_path, f"def f():\n    {before}\n")

    _, text = mutate(tmp_path, Mutant("m", "s").changes("f", change))

    assert ast.unparse(ast.parse(text)) == ast.unparse(ast.parse(f"def f():\n    {after}\n"))


def test_only_the_lines_of_the_function_change(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "# first\nclass C:\n    @property\n    def f(self):\n"
        '        """Says.\n\n        More.\n        """\n'
        "        text = '''a\nb'''\n        return (1\n            + 2)\n\n    # last\n    g = 1\n",
    )

    path, text = mutate(tmp_path, Mutant("m", "s").changes("C.f", return_value("text")))

    assert text.startswith("# first\nclass C:\n    @property\n    def f(self):\n")
    assert text.endswith("        return text\n\n    # last\n    g = 1\n")
    changed = ast.unparse(ast.parse(path.read_text())).replace("return 1 + 2", "return text")
    assert ast.unparse(ast.parse(text)) == changed


@pytest.mark.parametrize(
    ("function", "words", "places"), [("f", ("b",), 2), ("f", ("z",), 0), ("g", (), 0), ("other.f", ("b",), 1)]
)
def test_a_change_that_does_not_fit_exactly_one_place_is_an_error(
    tmp_path: Path, function: str, words: tuple[str, ...], places: int
) -> None:
    _write(tmp_path, "def f():\n    if b: pass\n")
    (tmp_path / "winnow" / "other.py").write_text("def f():\n    if b: pass\n")
    mutant = Mutant("m", "s").changes(function, never(*words))

    if places == 1:
        assert mutate(tmp_path, mutant)[0].name == "other.py"
    else:
        with pytest.raises(ValueError, match=f"the code has changed and the list has not.* fits {places} places"):
            mutate(tmp_path, mutant)


def test_a_test_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 files have a test test_gone"):
        find_test(tmp_path, Mutant("m", "s").caught_by("test_gone[1]"))


def _write(root: Path, code: str) -> None:
    (root / "winnow").mkdir()
    (root / "winnow" / "code.py").write_text(code)
