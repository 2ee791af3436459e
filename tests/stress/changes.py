"""Small changes of the package, drawn at random.

A change is one of: a comparison (`<` for `<=`, `==` for `!=`), a sign (`+` for `-`, `x` for `-x`),
`&` for `|`, a number that is one too large, `and` for `or`, `min` for `max`, `any` for `all`, a
`not` that is gone, a statement that is gone.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.stress.sites import PACKAGE, Site, parse

OUT_OF_REACH = {
    "_runtime/cuda/driver/cupy_driver.py": "every line calls CuPy",
    "_runtime/cuda/kernels/special.py": "every line calls CuPy",
    "_runtime/cuda/driver/green_driver.py": "every line calls the driver of a GPU",
    "interop/torch.py": "every line calls PyTorch",
    "testing": "tools for tests",
}
"""Files and folders from which nothing is drawn, and why."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
TYPES = ("annotation", "returns", "decorator_list", "bases")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one place."""

    site: Site
    """Its name."""

    lines: range
    """The lines of the place."""

    source: str
    """The file after the change."""


def draw(
    count: int,
    seed: int,
    below: Sequence[str] = ("",),
    weights: Mapping[str, int] = MappingProxyType({}),
) -> list[Mutant]:
    """Draw changes at random over all files, each place as likely as any other unless weighted.

    Names and the seed decide: edits of other places, and files that move, leave a sample as it is.

    Args:
      count: how many.
      seed: another one draws others.
      below: how the paths of the files in the package begin.
      weights: how many times as likely places are in files whose paths begin so.
    """
    files = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    places = [
        (file, n, f"{seed} {Path(file).name}{str(site).removeprefix(file)}")
        for file in files
        if file.startswith(tuple(below))
        and not any(file == out or file.startswith(f"{out}/") for out in OUT_OF_REACH)
        for n, (site, *_) in enumerate(_candidates(file)[1])
    ]

    def rank(place: tuple[str, int, str]) -> bytes:
        file, _, name = place
        tickets = max((n for start, n in weights.items() if file.startswith(start)), default=1)
        names = [name, *(f"{name} {ticket}" for ticket in range(1, tickets))]
        return min(hashlib.sha256(name.encode()).digest() for name in names)

    return [_changed(file, n) for file, n, _ in sorted(sorted(places, key=rank)[:count])]


def _changed(file: str, n: int) -> Mutant:
    tree, places = _candidates(file)
    site, node, parent, new = places[n]
    before = dict(ast.iter_fields(parent))
    for field, value in before.items():
        if value is node:
            setattr(parent, field, new)
        elif isinstance(value, list):
            setattr(parent, field, [new if entry is node else entry for entry in value])
    text = ast.unparse(ast.fix_missing_locations(tree))
    for field, value in before.items():
        setattr(parent, field, value)
    first = getattr(node, "lineno", 1)
    lines = range(first, (getattr(node, "end_lineno", None) or first) + 1)
    return Mutant(site, lines, text)


@functools.cache
def _candidates(file: str) -> tuple[ast.Module, list[tuple[Site, ast.AST, ast.AST, ast.AST]]]:
    """Return a file, and (name, node, parent, what replaces it) of every possible change."""
    tree = parse((PACKAGE / file).read_text(encoding="utf-8"))
    seen: dict[tuple[str, str, str], int] = defaultdict(int)
    found = []
    for scope, node, parent in _walk(tree, ""):
        for kind, new in _changes(node, parent):
            place = parent if kind == "off by one" else node
            key = (scope, kind, ast.unparse(place).partition("\n")[0][:80])
            found.append((Site(file, *key, seen[key]), node, parent, new))
            seen[key] += 1
    return tree, found


def _walk(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield (qualified function, node, parent) of what runs: no types, no texts of errors."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if field in TYPES or _is_for_checkers(child):
                continue
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}".lstrip(".")
            yield inner, child, node
            yield from _walk(child, inner)


def _is_for_checkers(node: ast.AST) -> bool:
    """Whether only type checkers read it: a protocol whose methods have documentation alone."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    methods = [child for child in ast.walk(node) if isinstance(child, ast.FunctionDef)]
    return (
        isinstance(node, ast.ClassDef)
        and "Protocol" in map(ast.unparse, node.bases)
        and all(len(method.body) == 1 for method in methods)
    )


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kind of every change of a node, and what replaces it."""
    if isinstance(node, ast.Compare):
        for n, operator in enumerate(node.ops):
            if type(operator) in COMPARISONS:
                swapped = [*node.ops]
                swapped[n] = COMPARISONS[type(operator)]()
                yield "compare", ast.Compare(node.left, swapped, node.comparators)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        new = copy.copy(node)
        new.op = OPERATORS[type(node.op)]()
        yield "operator", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield ("not" if isinstance(node.op, ast.Not) else "sign"), node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", ast.Constant(node.value + 1)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other, node.values)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(parent, ast.Call):
        yield "name", ast.Name(NAMES[node.id], ast.Load())
    if _can_go(node):
        yield "dropped", ast.Pass()


def _can_go(node: ast.AST) -> bool:
    """Whether a statement can be dropped so that what follows can still run."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return isinstance(node, ast.Raise | ast.Continue | ast.Break | ast.AugAssign)
