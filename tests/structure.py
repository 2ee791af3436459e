"""How the package is put together: size, circles of imports, words, and what a value passes.

`python -m tests.structure` prints the figures. `--words FOLDER` lists each place that counts as a
word to mend, in the files of the package below that folder. `--write` also brings the reader's
page in CONTRIBUTING.md up to date, which a test holds against the code.
"""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard.testing import runtime

PACKAGE = Path(gs.__file__).parent
PAGE = PACKAGE.parent / "CONTRIBUTING.md"
BEGIN, END = "<!-- walks: begin -->", "<!-- walks: end -->"


def modules() -> dict[str, Path]:
    """Give the file of each module by its name, but for `gpushard` itself."""
    paths = {path.relative_to(PACKAGE.parent): path for path in sorted(PACKAGE.rglob("*.py"))}
    names = {".".join(at.with_suffix("").parts): path for at, path in paths.items()}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def imports(name: str, path: Path, known: Sequence[str] | dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file names in an import, wherever that stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)


def circles() -> list[list[str]]:
    """List the groups of modules that import each other, those for type checkers included.

    Strongly connected components, by Tarjan's algorithm.
    """
    files = modules()
    graph = {name: sorted({*imports(name, path, files)} - {name}) for name, path in files.items()}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            component = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(component) > 1:
                components.append(sorted(component))

    for name in graph:
        if name not in number:
            visit(name)
    return components


EMPTY_NAMES = frozenset(("found", "made", "given", "own", "kept", "there", "many", "one", "said"))
"""Words that say nothing as names of values: a reader asks found where, made of what."""

ARCHAISMS = re.compile(
    r"\b(of which|thereby|whose|nothing but|takes? part in|likewise)\b", re.IGNORECASE
)
NO_OBJECT = re.compile(r"(Return|Give|Yield|Say) (what|the same|whether it|it)\b|[Ll]ikewise\b")
"""Docstrings that begin so name no object that a caller would look for."""

_TEXTS = {
    tokenize.STRING,
    tokenize.COMMENT,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),  # from Python 3.12 on
}

LONGEST_SENTENCE = 25
"""Most words of a sentence in a docstring."""


def names_bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each name that a file assigns to or takes as a parameter, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a file and of the names in it, each with its first line."""
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for before, statement in itertools.pairwise(
            [None, *body] if isinstance(body, list) else ()
        ):
            documented = before is None or isinstance(before, ast.Assign | ast.AnnAssign)
            if (
                documented
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield statement.lineno, statement.value.value


def sentences(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring; lists, sections, code and tables end one."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*|>] |\w[\w`, *]*:(?:\s|$))", docstring):
        is_table = re.search(r"^\||^=|\S {2,}\S", paragraph, re.MULTILINE) is not None
        if not is_table and not paragraph.lstrip().startswith(">>>"):
            yield from re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split()))


def words_to_mend() -> list[tuple[str, str, int, str]]:
    """List the kind, file, line and text of each place that CONTRIBUTING's rules would change."""
    places = []
    for path in modules().values():
        text = path.read_text(encoding="utf-8")
        file = path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(text)
        for line, name in names_bound(tree):
            if name.strip("_") in EMPTY_NAMES:
                places.append(("empty name", file, line, name.strip("_")))
        for line, docstring in docstrings(tree):
            if NO_OBJECT.match(docstring):
                places.append(("no object", file, line, docstring.partition("\n")[0]))
            for sentence in sentences(docstring):
                if len(sentence.split()) > LONGEST_SENTENCE:
                    places.append(("long sentence", file, line, sentence))
        with path.open("rb") as lines:
            for token in tokenize.tokenize(lines.readline):
                if token.type in _TEXTS:
                    for match in ARCHAISMS.finditer(token.string):
                        line = token.start[0] + token.string.count("\n", 0, match.start())
                        places.append(("archaism", file, line, match.group().lower()))
    return places


class Walk:
    """The functions of the package that a call passes, in order, each with its depth."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.calls: list[tuple[int, str, str]] = []
        depths = {id(sys._getframe()): -1}

        def look(frame: FrameType, event: str, _: Any) -> None:
            if event != "call":
                return
            code = frame.f_code
            depth = depths.get(id(frame.f_back), -1)
            file = _file(code)
            if file is not None and not code.co_name.startswith("<"):
                depth += 1
                self.calls.append((depth, file, code.co_qualname))
            depths[id(frame)] = depth

        sys.setprofile(look)
        try:
            function()
        finally:
            sys.setprofile(None)

    @property
    def files(self) -> list[str]:
        """The files that are passed."""
        return sorted({file for _, file, _ in self.calls})

    @property
    def changes(self) -> int:
        """How often one call and the next are in different packages."""
        folders = [file.rpartition("/")[0].partition("/")[0] for _, file, _ in self.calls]
        return sum(a != b for a, b in itertools.pairwise(folders))

    def lines(self) -> list[str]:
        """List the functions, each where it is passed first."""
        first = dict.fromkeys(("  " * depth, file, name) for depth, file, name in self.calls)
        seen: set[tuple[str, str]] = set()
        result = []
        for indent, file, name in first:
            if (file, name) not in seen:
                seen.add((file, name))
                result.append(f"{indent}{file}: {name.replace('.<locals>', '')}")
        return result


@functools.cache
def _file(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def programs() -> dict[str, Callable[[], Any]]:
    """Give the calls that are followed, by what they are called; in a runtime of 8 devices."""
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    rows, columns = (gs.NamedSharding(mesh, gs.P(axis)) for axis in ("x", "y"))
    data = np.arange(64.0).reshape(8, 8)
    x, y = (gs.device_put(data, rows) for _ in range(2))
    idx = gs.device_put(np.array([5, 0, 3]))
    key = gs.random.key(0)
    model, batch = gs.nnx.Linear(8, 8, rngs=gs.nnx.Rngs(0)), gnp.ones((2, 8))

    def add_one(x: Any) -> Any:
        return x + 1

    def add_row(total: Any, row: Any) -> Any:
        return total + row, row

    jitted, mapped = gs.jit(lambda x: x * 2 + x), gs.vmap(lambda row: row * 2)
    forward = gs.nnx.jit(lambda model, x: model(x))
    replicas = gs.pmap(lambda x: x + gs.lax.psum(x, "i"), axis_name="i")
    blocks = gs.shard_map(
        lambda x: x + gs.lax.psum(x, "x"), mesh=mesh, in_specs=gs.P("x"), out_specs=gs.P("x")
    )
    return {
        "x + y": lambda: x + y,
        "device_put": lambda: gs.device_put(data, rows),
        "reshard": lambda: gs.reshard(x, columns),
        "x.sum()": lambda: x.sum(),
        "x[idx]": lambda: x[idx],
        "random.normal": lambda: gs.random.normal(key, (8, 8)),
        "gnp.sum(x)": lambda: gnp.sum(x),
        "np.asarray": lambda: np.asarray(y),
        "jit": lambda: jitted(x),
        "vmap": lambda: mapped(x),
        "pmap": lambda: replicas(x),
        "shard_map": lambda: blocks(x),
        "lax.cond": lambda: gs.lax.cond(True, add_one, abs, x),
        "lax.scan": lambda: gs.lax.scan(add_row, x[0], x),
        "nnx.jit": lambda: forward(model, batch),
    }


FOLLOWED = ("x + y", "device_put", "reshard", "x.sum()")
"""What the reader's page shows."""


def walks() -> tuple[dict[str, Walk], dict[str, Walk]]:
    """Follow each program at first, and when it has been run before."""
    with runtime(host_devices=8):
        calls = programs()
        cold = {name: Walk(call) for name, call in calls.items()}
        for call in calls.values():
            call()
        return cold, {name: Walk(call) for name, call in calls.items()}


def page() -> str:
    """Write the part of CONTRIBUTING.md that says what a value passes."""
    _, warm = walks()
    parts = []
    for name in FOLLOWED:
        parts.append("\n".join([f"`{name}`:\n", "```text", *warm[name].lines(), "```"]))
    return "\n\n".join(parts)


def written(text: str) -> str:
    """Return what stands on the page now."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page of CONTRIBUTING.md")
    parser.add_argument("--words", metavar="FOLDER", help="list the words to mend in a folder")
    options = parser.parse_args()
    if options.words is not None:
        for kind, file, line, text in words_to_mend():
            if f"gpushard/{file}".startswith(options.words):
                print(f"{file}:{line}: {kind}: {text}")
        return
    files = modules()
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files.values())
    print(f"{lines} lines in {len(files)} files, {len(circles())} circles of imports")
    for circle in circles():
        print("  circle:", " ".join(circle))
    places = words_to_mend()
    print("words to mend:", dict(Counter(kind for kind, *_ in places)))
    print(
        "  empty names:", dict(Counter(text for kind, *_, text in places if kind == "empty name"))
    )
    cold, warm = walks()
    print("walk            | changes of package, at first | warm | files, at first | warm")
    for name, walk in cold.items():
        then = warm[name]
        print(
            f"{name:15} | {walk.changes} | {then.changes} | {len(walk.files)} | {len(then.files)}"
        )
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        if BEGIN not in text or END not in text:
            raise SystemExit(f"{PAGE} lacks {BEGIN} or {END}")
        head, _, rest = text.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n\n{page()}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
