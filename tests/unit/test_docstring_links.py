"""Links in docstrings name what exists, or ``make lint`` says which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docstring_links import find_dangling_links

ENGINE = '''
from parts.pistons import Piston
from parts import pistons

SPEED_KM_H = 5

def start(): ...

class Engine(pistons.Moving):
    """LINK"""

    running: bool

    def __init__(self):
        self.heat_c = 0

    def stop(self): ...
'''

PISTONS = """
class Moving:
    def rest(self): ...

class Piston:
    class Ring: ...
"""


def find_links(root: Path, link: str) -> list[str]:
    """Lay out two packages, one of them below ``plugins``, with a link in a class; find those that lead nowhere."""
    (root / "cars").mkdir()
    (root / "plugins/parts").mkdir(parents=True)
    engine, pistons = root / "cars/engine.py", root / "plugins/parts/pistons.py"
    engine.write_text(ENGINE.replace("LINK", link))
    pistons.write_text(PISTONS)
    return [str(dangling) for dangling in find_dangling_links(root, [engine, pistons])]


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("func", "start"),
        ("data", "SPEED_KM_H"),
        ("class", "Piston"),
        ("class", "Piston.Ring"),
        ("meth", "stop"),
        ("meth", "Engine.stop"),
        ("meth", "rest"),
        ("attr", "running"),
        ("attr", "heat_c"),
        ("mod", "cars.engine"),
        ("mod", "parts"),
        ("class", "~parts.pistons.Piston"),
        ("meth", "cars.engine.Engine.rest"),
        ("class", "cars.engine.Piston"),
        ("func", "os.path.join"),
        ("mod", "cars"),
    ],
)
def test_a_link_to_something_that_exists_is_no_finding(tmp_path: Path, role: str, name: str) -> None:
    assert find_links(tmp_path, f":{role}:`{name}`") == []


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("func", "begin"),
        ("meth", "Engine.begin"),
        ("attr", "Engine.cold"),
        ("mod", "engine"),
        ("mod", "cars.engines"),
        ("func", "cars.engine.begin"),
        ("class", "parts.pistons.Valve"),
        ("class", "Piston.Valve"),
        ("func", "os.path.attach"),
        ("func", "cars.engine"),
        ("class", "Ring"),
    ],
)
def test_a_link_to_nothing_is_named_with_its_place(tmp_path: Path, role: str, name: str) -> None:
    link = f":{role}:`{name}`"

    assert find_links(tmp_path, link) == [f"cars/engine.py:10: {link} names nothing that exists"]


def test_a_link_in_a_comment_is_checked(tmp_path: Path) -> None:
    link = ":func:" + "`begin`"

    assert find_links(tmp_path, f'"""\n    # As {link}\n    """') == [
        f"cars/engine.py:11: {link} names nothing that exists"
    ]
