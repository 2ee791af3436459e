"""A plugin of pytest: notes which blocks of the package each test runs.

A mark stands at the start of each block of a function: a store into an array of bytes, which takes
far less than to trace lines. It must be there before the package is imported.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

MOST = 1 << 17
"""Blocks that the package may have."""

_NAME = "__gpushard_blocks__"
_hits = bytearray(MOST)
_blocks: list[tuple[str, list[int]]] = []
"""The file of each block, and its lines."""


class _Marker(ast.NodeTransformer):
    """Puts marks into a file, and notes its blocks."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._depth = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Leave alone what runs when the package is imported."""
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Mark the body of a function."""
        node.body = self._marked(node.body)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Mark what a lambda gives: a call that returns None comes before it."""
        self.generic_visit(node)
        lines = range(node.body.lineno, (node.body.end_lineno or node.body.lineno) + 1)
        mark = ast.parse(f"{_NAME}.__setitem__({self._number(lines)}, 1)", mode="eval").body
        for part in ast.walk(mark):
            ast.copy_location(part, node.body)
        node.body = ast.copy_location(ast.BoolOp(ast.Or(), [mark, node.body]), node.body)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Mark the blocks of a statement within a function."""
        for field, value in ast.iter_fields(node):
            is_block = isinstance(value, list) and bool(value) and isinstance(value[0], ast.stmt)
            if self._depth and is_block:
                setattr(node, field, self._marked(value, again=False))
            elif isinstance(value, list):
                value[:] = [self.visit(x) if isinstance(x, ast.AST) else x for x in value]
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    def _marked(self, body: Sequence[ast.stmt], again: bool = True) -> list[ast.stmt]:
        """Return a block with marks: where it begins, and after each statement with a block."""
        self._depth += 1
        done: list[ast.stmt] = []
        start = int(again and ast.get_docstring(_module(body)) is not None)
        done += body[:start]
        rest = list(body[start:])
        while rest:
            n = next((n for n, x in enumerate(rest, 1) if _inner_blocks(x)), len(rest))
            part, rest = rest[:n], rest[n:]
            lines = [line for statement in part for line in _own_lines(statement)]
            if isinstance(part[0], ast.Nonlocal | ast.Global):
                done.append(part.pop(0))
            done.append(self._mark(self._number(lines), part[0] if part else done[-1]))
            done += [self.visit(statement) for statement in part]
        self._depth -= 1
        return done

    def _number(self, lines: Iterable[int]) -> int:
        _blocks.append((self._file, sorted({*lines})))
        return len(_blocks) - 1

    @staticmethod
    def _mark(number: int, at: ast.AST) -> ast.stmt:
        (statement,) = ast.parse(f"{_NAME}[{number}] = 1").body
        for part in ast.walk(statement):
            ast.copy_location(part, at)
        return statement


def _module(body: Sequence[ast.stmt]) -> ast.Module:
    return ast.Module([*body], [])


def _inner_blocks(statement: ast.stmt) -> list[ast.AST]:
    """Return what of a statement has blocks of its own: itself, and handlers and cases."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return []
    parts = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    return [part for part in parts if getattr(part, "body", None)]


def _own_lines(statement: ast.stmt) -> Iterator[int]:
    """Yield the lines of a statement that are in none of its blocks."""
    inside: set[int] = set()
    for part in _inner_blocks(statement):
        for field in ("body", "orelse", "finalbody"):
            for inner in getattr(part, field, ()):
                inside.update(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
        if line not in inside:
            yield line


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with marks."""

    def get_code(self, fullname: str) -> types.CodeType | None:
        """Compile it."""
        tree = ast.parse(self.get_data(self.path))
        return compile(_Marker(self.path).visit(tree), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the package."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a module with a loader that marks it."""
        if fullname.partition(".")[0] != "gpushard":
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if found and type(found.loader) is importlib.machinery.SourceFileLoader:
            found.loader = _Loader(found.loader.name, found.loader.path)
        return found


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the name of the file, and see to marks before anything imports the package."""
    if "gpushard" in sys.modules:
        raise ImportError("the package is there already, without marks")
    setattr(builtins, _NAME, _hits)
    sys.meta_path.insert(0, _Finder())
    parser.addoption("--blocks", help="the file that takes which test runs which blocks")


def pytest_configure(config: pytest.Config) -> None:
    """Note what each test runs from now on."""
    config.pluginmanager.register(_Notes(Path(config.getoption("--blocks"))))


class _Notes:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._of: dict[str, bytes] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note the blocks that a test runs."""
        _hits[:] = bytes(MOST)
        result = yield
        self._of[item.nodeid] = np.packbits(np.frombuffer(_hits, np.uint8)).tobytes()
        return result

    def pytest_sessionfinish(self) -> None:
        """Write it down."""
        size = -(-len(_blocks) // 8)
        rows = [np.frombuffer(row, np.uint8, size) for row in self._of.values()]
        np.savez_compressed(
            self._file,
            tests=np.array([*self._of], np.str_),
            rows=np.array(rows, np.uint8).reshape(len(rows), size),
            files=np.array([file for file, _ in _blocks], np.str_),
            lines=np.array([" ".join(map(str, lines)) for _, lines in _blocks], np.str_),
        )
