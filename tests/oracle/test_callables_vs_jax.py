"""What can be transformed, and what a transformed function shows of it, against JAX."""

import functools
import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime


class Box:
    """Holds a value; a node of trees."""

    kind = "box"

    def __init__(self, x: Any) -> None:
        self.x = x

    def doubled(self, y: Any) -> Any:
        return self.x * 2 + y


class Adds:
    """Can be called."""

    fixed = 7

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, x: Any) -> Any:
        return x + self.n


def plain(x: Any, y: Any = 1) -> Any:
    """Add."""
    return x + y


def callables(module: Any) -> dict[str, Any]:
    class Node(Box):
        pass

    module.tree_util.register_pytree_node(Node, lambda b: ((b.x,), None), lambda _, x: Node(*x))
    attributed = functools.wraps(plain)(lambda x: x * 3)
    attributed.lower_case = "a"
    return {
        "a class": Node,
        "an instance": Adds(2),
        "a bound method": Node(3.0).doubled,
        "a partial": functools.partial(plain, y=5),
        "a partial of a class": functools.partial(Node),
        "a wrapper": attributed,
        "a transformed function": module.jit(plain),
        "a container": lambda x: tuple([x, x]),
        "a type of Python's": tuple,
        "a static lambda": staticmethod(plain).__func__,
    }


NAMES = list(callables(gs))
WAYS = {
    "jit": lambda module, f: module.jit(f),
    "vmap": lambda module, f: module.vmap(f),
    "jit of vmap": lambda module, f: module.jit(module.vmap(f)),
    "pmap": lambda module, f: module.pmap(f),
    "shard_map": lambda module, f: module.shard_map(
        f,
        mesh=module.sharding.Mesh(module.devices()[:4], ("x",)),
        in_specs=module.P("x"),
        out_specs=module.P("x"),
    ),
    "eval_shape": lambda module, f: functools.partial(module.eval_shape, f),
}


def leaves(module: Any, result: Any) -> list[Any]:
    found = module.tree_util.tree_leaves(result)
    return [np.asarray(x).tolist() if hasattr(x, "tobytes") else x.shape for x in found]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_callables(jax: ModuleType, name: str, way: str) -> None:
    results = []
    with runtime():
        for module in (gs, jax):
            f = WAYS[way](module, callables(module)[name])
            argument = module.numpy.arange(4.0)
            if name == "a type of Python's":
                argument = [argument, argument]
            results.append(leaves(module, f(argument)))
    assert results[0] == results[1]


def attributes(module: Any) -> list[Any]:
    """Return what transformed callables show."""

    def f(x: Any) -> Any:
        """Say."""
        return x

    f.count = 4
    f.__mark__ = "m"
    shown = []
    for way in ("jit", "vmap", "pmap"):
        g = getattr(module, way)(f)
        shown += [
            g.count,
            g.__mark__,
            g.__name__,
            ("Say." in g.__doc__),
            g.__wrapped__ is f,
            g.__module__,
        ]
        g.count = 5
        shown += [g.count, f.count, str(inspect.signature(g))]
    box = module.jit(Box)
    shown += [box.kind, box.__name__, isinstance(box, type), str(inspect.signature(box))]
    adds = module.jit(Adds(2))
    shown += [adds.n, hasattr(adds, "fixed"), int(adds(1))]
    shown.append(module.jit(module.jit(f)).count)
    f.later = 3
    return [*shown, hasattr(module.jit(f), "later"), hasattr(g, "later")]


def test_attributes(jax: ModuleType) -> None:
    assert attributes(gs) == attributes(jax)


def test_attributes_hide_no_methods() -> None:
    def f(x: Any) -> Any:
        return x + 1

    f.lower, f._fun = "low", "hidden"
    g = gs.jit(f)
    assert (g.lower(1.0).compile()(1.0), g(1.0)) == (2.0, 2.0)


def test_what_cannot_be_traced(jax: ModuleType) -> None:
    def yielding(x: Any) -> Any:
        yield x

    for module in (gs, jax):
        for wrong in (3, classmethod(plain), yielding):
            with pytest.raises(TypeError):
                module.jit(wrong)(1.0)
