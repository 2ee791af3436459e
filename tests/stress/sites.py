"""Finds every place that waits or keeps memory alive, and makes sources in which one does not.

Found by name, in the layers that all backends share and in the CUDA backend:

- calls that wait: the statement goes;
- questions whether work is over: the answer is that it is;
- notes of ticks on memory: the assignment goes;
- the waits of an item: none;
- what work says that it reads: nothing;
- claims that are handed on: the receiver gets one that keeps nothing alive;
- sources of a read that is under way: likewise.
"""

from __future__ import annotations

import ast
import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path

_parsing = threading.Lock()
"""CPython 3.11 does not always survive two threads that parse at once (its issue 106905)."""

PACKAGE = Path(__file__).parents[2] / "gpushard"
FILES = tuple(
    f"_runtime/{name}.py"
    for name in ("runtime", "launch", "reclaim", "memory", "claims", "pool", "stream", "callbacks")
)
FOLDERS = ("_runtime/cuda", "_movement", "_ops", "_array", "_placement")

WAITS = {"wait", "wait_for", "wait_idle", "synchronize", "_wait"}
OVER = {
    "pending": False,
    "busy": False,
    "finished": True,
    "covers": True,
    "covered": True,
    "is_settled": True,
    "query": True,
}
NOTES = {"written", "used"}
HOLDERS = {"claim", "claims"}
READS = 3
"""The position of what is read in a call of `submit`."""
READERS = {"zip", "len", "map", "enumerate", "any", "all", "max", "min"}

DETACHED = """
def _detached(claims):
    from gpushard._runtime.claims import Claim
    if isinstance(claims, list):
        return [_detached(c) for c in claims]
    claim = Claim()
    claim.memory = claims.memory
    return claim
"""


@dataclasses.dataclass(frozen=True)
class Site:
    """One place, named so that edits elsewhere in the file do not rename it."""

    file: str
    function: str
    kind: str
    text: str
    number: int
    """Which of those in the function that read the same."""

    def __str__(self) -> str:
        again = f" #{self.number}" if self.number else ""
        return f"{self.file}:{self.function}: {self.kind} {self.text}{again}"


def parse(text: str) -> ast.Module:
    """Parse a file, one thread at a time."""
    with _parsing:
        return ast.parse(text)


def files() -> list[str]:
    """List the sources of these layers, relative to the package."""
    found = [PACKAGE / name for name in FILES]
    for folder in FOLDERS:
        found += sorted((PACKAGE / folder).rglob("*.py"))
    return [path.relative_to(PACKAGE).as_posix() for path in found]


def sites() -> list[Site]:
    """List all places."""
    return [site for file in files() for site, *_ in _sites_of(file)]


def mutated(wanted: Site) -> str:
    """Return the source of a file with one place disabled."""
    for site, position, tree in _sites_of(wanted.file):
        if site == wanted:
            _replace(tree, position, site.kind)
            return ast.unparse(ast.fix_missing_locations(tree)) + DETACHED
    raise LookupError(f"no such place: {wanted}")


def _sites_of(file: str) -> Iterator[tuple[Site, int, ast.Module]]:
    """Yield each place of a file, its position in `_walk`, and the file's tree."""
    tree = parse((PACKAGE / file).read_text(encoding="utf-8"))
    seen: dict[tuple[str, str, str], int] = {}
    for position, (function, node, parent) in enumerate(_walk(tree)):
        for kind in _kinds(node, parent):
            key = (function, kind, ast.unparse(_named_by(node, kind)))
            number = seen[key] = seen.get(key, -1) + 1
            yield Site(file, *key, number), position, tree


def _walk(tree: ast.Module) -> list[tuple[str, ast.AST, ast.AST]]:
    """List (qualified function, node, parent) in a fixed order."""
    found: list[tuple[str, ast.AST, ast.AST]] = []

    def visit(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}" if scope else child.name
            if scope or inner:
                found.append((inner, child, node))
            visit(child, inner)

    visit(tree, "")
    return found


def _kinds(node: ast.AST, parent: ast.AST) -> Iterator[str]:
    name = _called(node.value) if isinstance(node, ast.Expr) else None
    if name in WAITS:
        yield "wait"
    if _called(node) in OVER and not isinstance(parent, ast.Expr):
        yield "over"
    if isinstance(node, ast.Assign) and any(_is_note(target) for target in node.targets):
        yield "note"
    if _called(node) == "tuple" and ast.unparse(node) == "tuple(waits.items())":
        yield "waits"
    if _called(node) == "submit" and isinstance(node, ast.Call) and len(node.args) > READS:
        yield "reads"
    if _hands_on(node, parent):
        yield "claim"


def _named_by(node: ast.AST, kind: str) -> ast.AST:
    """Return the part of a node that names its place."""
    return node.args[READS] if kind == "reads" and isinstance(node, ast.Call) else node


def _called(node: ast.AST) -> str | None:
    """Return the name of what a call calls."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else None
    )


def _is_note(target: ast.AST) -> bool:
    if isinstance(target, ast.Tuple):
        return any(_is_note(element) for element in target.elts)
    if isinstance(target, ast.Subscript):
        target = target.value
    return isinstance(target, ast.Attribute) and target.attr in NOTES


def _hands_on(node: ast.AST, parent: ast.AST) -> bool:
    """Whether an expression of claims goes to somebody who shall keep them."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    name = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", None)
    if name not in HOLDERS or not isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    if isinstance(parent, ast.Call):
        return node in parent.args and _called(parent) not in READERS
    return isinstance(parent, ast.List | ast.Tuple | ast.ListComp | ast.Return | ast.keyword)


def _replace(tree: ast.Module, position: int, kind: str) -> None:
    _, node, parent = _walk(tree)[position]
    new: ast.AST
    if kind in ("wait", "note"):
        new = ast.Pass()
    elif kind == "over" and isinstance(parent, ast.Assign):  # a list of what is not over
        new = ast.Tuple([], ast.Load())
    elif kind == "over":
        new = ast.Constant(OVER[_called(node) or ""])
    elif kind == "waits":
        new = ast.Tuple([], ast.Load())
    elif kind == "reads":
        assert isinstance(node, ast.Call)
        nothing = ast.Tuple([], ast.Load())
        arguments = [*node.args[:READS], nothing, *node.args[READS + 1 :]]
        new = ast.Call(node.func, arguments, node.keywords)
    else:
        assert isinstance(node, ast.expr)
        new = ast.Call(ast.Name("_detached", ast.Load()), [node], [])
    for field, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, field, new)
        elif isinstance(value, list) and any(entry is node for entry in value):
            setattr(parent, field, [new if entry is node else entry for entry in value])
