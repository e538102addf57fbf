"""Small changes of a function's syntax tree, each of which must fit exactly one place.

Words say which place is meant: each is a name, an attribute, a keyword or a whole string that must occur there; a word
with spaces is looked for inside strings. A pattern is an expression in which single capital letters stand for anything
and ``f(...)`` for a call with any arguments. So most entries survive when variables are renamed or code is reworded.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeAlias

P = ParamSpec("P")

_SIMPLE_STATEMENTS: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Raise)
_OPERATORS: Final = {"==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node hangs in the tree."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST

    def put(self, nodes: list[ast.AST]) -> None:
        """Put one node here instead of the present one; in a list also none."""
        if self.index is None:
            setattr(self.parent, self.field, nodes[0])
        else:
            getattr(self.parent, self.field)[self.index : self.index + 1] = nodes


Edit: TypeAlias = Callable[[Place], list[ast.AST] | None]
"""What the node at a place becomes: another or, empty, nothing. None: the change does not fit there."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change as the list names it, and what it makes of a place."""

    text: str
    edit: Edit

    def find(self, tree: ast.AST) -> list[Callable[[], None]]:
        """For each place in ``tree`` that the change fits, what makes the change there."""
        return [_put(place, nodes) for place in _places(tree) if (nodes := self.edit(place)) is not None]


def _operation(make: Callable[P, Edit]) -> Callable[P, Change]:
    def change(*args: P.args, **kwargs: P.kwargs) -> Change:
        return Change(f"{make.__name__}({', '.join(map(repr, args))})", make(*args, **kwargs))

    return change


@_operation
def never(*words: str) -> Edit:
    """A condition of ``if``, ``a if b else c`` or ``while`` is always false."""
    return lambda place: [ast.Constant(False)] if place.field == "test" and _mentions(place.node, words) else None


@_operation
def always(*words: str) -> Edit:
    """A condition of ``if``, ``a if b else c`` or ``while`` is always true."""
    return lambda place: [ast.Constant(True)] if place.field == "test" and _mentions(place.node, words) else None


@_operation
def drop_operand(*words: str) -> Edit:
    """An operand of ``and`` or ``or`` is left out."""

    def edit(place: Place) -> list[ast.AST] | None:
        if not isinstance(place.node, ast.BoolOp):
            return None
        operands = place.node.values
        kept = [operand for operand in operands if not _mentions(operand, words)]
        inner = (node for operand in operands for node in ast.walk(operand) if isinstance(node, ast.BoolOp))
        if len(kept) != len(operands) - 1 or any(_mentions(node, words) for node in inner):
            return None
        return [kept[0] if len(kept) == 1 else ast.BoolOp(place.node.op, kept)]

    return edit


@_operation
def drop_statement(*words: str) -> Edit:
    """A statement without a block, such as a call or an assignment, is left out."""
    return lambda place: (
        [ast.Pass()] if isinstance(place.node, _SIMPLE_STATEMENTS) and _mentions(place.node, words) else None
    )


@_operation
def drop_element(pattern: str) -> Edit:
    """An element of a tuple, list or set, or an argument, is left out."""
    return lambda place: (
        [] if place.field in {"elts", "args"} and _match(_expression(pattern), place.node, {}) else None
    )


@_operation
def drop_keyword(name: str) -> Edit:
    """A keyword argument is left out."""
    return lambda place: [] if isinstance(place.node, ast.keyword) and place.node.arg == name else None


@_operation
def set_keyword(name: str, value: str) -> Edit:
    """A keyword argument has another value."""
    return lambda place: (
        [ast.keyword(name, _expression(value))]
        if isinstance(place.node, ast.keyword) and place.node.arg == name
        else None
    )


@_operation
def assign(value: str, *words: str) -> Edit:
    """A variable or constant gets another value than the present one, in which ``words`` occur."""
    return lambda place: _value(place, value, words) if isinstance(place.parent, ast.Assign | ast.AnnAssign) else None


@_operation
def return_value(value: str, *words: str) -> Edit:
    """Another value is returned than the present one, in which ``words`` occur."""
    return lambda place: _value(place, value, words) if isinstance(place.parent, ast.Return) else None


@_operation
def swap_operator(old: str, new: str, *words: str) -> Edit:
    """A comparison has another operator."""

    def edit(place: Place) -> list[ast.AST] | None:
        node = place.node
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not _mentions(node, words):
            return None
        if not isinstance(node.ops[0], _OPERATORS[old]):
            return None
        return [ast.Compare(node.left, [_OPERATORS[new]()], node.comparators)]

    return edit


@_operation
def replace_call(old: str, new: str) -> Edit:
    """Another function is called with the same arguments."""
    return lambda place: (
        [ast.Name(new, ast.Load())]
        if place.field == "func" and isinstance(place.node, ast.Name) and place.node.id == old
        else None
    )


@_operation
def replace_text(old: str, new: str) -> Edit:
    """A part of a string reads otherwise; in an f-string ``{expression}`` stands as in the code."""

    def edit(place: Place) -> list[ast.AST] | None:
        match place.node:
            case ast.JoinedStr(values=parts):
                text = "".join(map(_template, parts))
                return [_expression("f" + repr(text.replace(old, new)))] if old in text else None
            case ast.Constant(value=str(text)) if not isinstance(place.parent, ast.JoinedStr):
                return [ast.Constant(text.replace(old, new))] if old in text else None
        return None

    return edit


@_operation
def replace(pattern: str, expression: str) -> Edit:
    """An expression of this form becomes another, in which the pattern's capital letters mean the same."""

    def edit(place: Place) -> list[ast.AST] | None:
        bound: dict[str, ast.AST] = {}
        if not isinstance(place.node, ast.expr) or not _match(_expression(pattern), place.node, bound):
            return None
        return [_Fill(bound).visit(_expression(expression))]

    return edit


def _places(tree: ast.AST) -> Iterator[Place]:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield Place(parent, field, None, value)
            elif isinstance(value, list):
                yield from (Place(parent, field, i, item) for i, item in enumerate(value) if isinstance(item, ast.AST))


def _put(place: Place, nodes: list[ast.AST]) -> Callable[[], None]:
    return lambda: place.put(nodes)


def _value(place: Place, value: str, words: tuple[str, ...]) -> list[ast.AST] | None:
    return [_expression(value)] if place.field == "value" and _mentions(place.node, words) else None


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _mentions(node: ast.AST, words: tuple[str, ...]) -> bool:
    names: set[str] = set()
    texts: list[str] = []
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.Constant(value=str(text)):
                texts.append(text)
    return all(word in names or any(word == text or (" " in word and word in text) for text in texts) for word in words)


def _match(pattern: object, node: object, bound: dict[str, ast.AST]) -> bool:
    match pattern, node:
        case ast.Name(id=name), ast.expr() if re.fullmatch("[A-Z]", name):
            return ast.dump(bound.setdefault(name, node)) == ast.dump(node)
        case ast.Call(func=callee, args=[ast.Constant(value=value)]), ast.Call() if value is ...:
            return _match(callee, node.func, bound)
        case ast.AST(), ast.AST():
            fields = [field for field in pattern._fields if field not in {"ctx", "kind"}]
            return type(pattern) is type(node) and all(
                _match(getattr(pattern, field), getattr(node, field), bound) for field in fields
            )
        case list(), list():
            return len(pattern) == len(node) and all(_match(a, b, bound) for a, b in zip(pattern, node, strict=True))
    return type(pattern) is type(node) and pattern == node


class _Fill(ast.NodeTransformer):
    """Puts what a pattern's capital letters stood for into another expression."""

    def __init__(self, bound: dict[str, ast.AST]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:  # the name that ast looks for
        return copy.deepcopy(self._bound.get(node.id, node))


def _template(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value).replace("{", "{{").replace("}", "}}")
    return ast.unparse(ast.JoinedStr([part]))[2:-1]
