"""The first call of a transformed function leaves nothing that only the collector finds."""

import ast
import functools
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax


def over_mesh(f: Any) -> Any:
    return gs.shard_map(f, gs.make_mesh((4,), "x"), gs.P("x"), gs.P("x"))


def branching(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, x)


def looping(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, x: x * 2 + i, x)


def scanning(x: Any) -> Any:
    return lax.scan(lambda c, y: (c + y, c * y), x[0], x)[1]


def branched(x: Any) -> Any:
    y = gnp.exp(x) + x
    return y / y.sum(), (y * x).max(), gnp.where(x > 0, x, -x)


PROGRAMS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "a sum": lambda: gs.jit(lambda x: x.sum()),
    "several results": lambda: gs.jit(lambda x: branched(x)),
    "a branch": lambda: gs.jit(lambda x: branching(x)),
    "a loop": lambda: gs.jit(lambda x: looping(x)),
    "a scan": lambda: gs.jit(lambda x: scanning(x)),
    "a prefix scan": lambda: gs.jit(lambda x: lax.associative_scan(gnp.add, x)),
    "vmap": lambda: gs.vmap(lambda x: x + 1),
    "jit of vmap": lambda: gs.jit(gs.vmap(lambda x: x * x.sum())),
    "shard_map": lambda: over_mesh(lambda x: lax.psum(x, "x") + x),
    "jit of shard_map": lambda: gs.jit(over_mesh(lambda x: x + lax.psum(x, "x"))),
    "pmap": lambda: gs.pmap(lambda x: x + 1),
    "a class": lambda: gs.jit(functools.partial(tuple)),
    "the leaves of a tree": lambda: lambda x: gs.tree.reduce_associative(gnp.add, [x, x, x]),
    "an inverse": lambda: gs.jit(lambda x: gnp.linalg.inv(x[:4].reshape(2, 2) + gnp.eye(2))),
}


@pytest.fixture(scope="module")
def uncollected() -> Iterator[None]:
    """Leave what a program makes to reference counts, with nothing older in the way."""
    for program in PROGRAMS.values():  # whatever is imported or made once
        run(program())
    gc.disable()
    yield
    gc.enable()


def run(f: Callable[[Any], Any]) -> None:
    x = gs.device_put(np.arange(1.0, 9.0))
    for result in gs.tree.leaves(f(x)):
        result.block_until_ready()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_first_call_leaves_no_cycles(name: str, uncollected: None) -> None:
    function = PROGRAMS[name]()
    gc.collect()
    run(function)
    assert gc.collect() == 0


def test_no_function_within_another_refers_to_itself() -> None:
    """Such a function, its cell and whatever it closes over make a cycle at each call."""
    recursive = []
    for path in Path(gs.__file__).parent.rglob("*.py"):
        for outer in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(outer, ast.FunctionDef):
                continue
            inner = {x.name: x for x in ast.walk(outer) if isinstance(x, ast.FunctionDef)}
            del inner[outer.name]
            for name, function in inner.items():
                names = {x.id for x in ast.walk(function) if isinstance(x, ast.Name)}
                if name in names:
                    recursive.append(f"{path.name}:{function.lineno} {name}")
    assert recursive == []
