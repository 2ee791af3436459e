"""`jit`, control flow and what says something of functions: values, types and errors are JAX's."""

# ruff: noqa: E501, B023

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, sharding
from gpushard.testing import runtime

SAME = Callable[[Any, Any, Any], Any]
"""Takes gpushard or jax, its functions of arrays, and those of lax."""


@pytest.fixture(autouse=True)
def eight_devices(jax: ModuleType) -> Iterator[None]:
    with runtime(host_devices=8), jax.enable_x64(True):
        yield


def _product(x: Any, n: Any) -> Any:
    return x * n


# fmt: off
VALUES: dict[str, SAME] = {
    "weak carry stays weak": lambda J, m, L: L.fori_loop(0,3,lambda i, c: c+1, 0),
    "weak carry f32 body": lambda J, m, L: L.fori_loop(0,3,lambda i, c: c*m.float32(2), 1.0),
    "weak int carry, float body": lambda J, m, L: L.scan(lambda c, x: (c+x, c), 0, m.arange(3)),
    "weak carry meets int32": lambda J, m, L: L.scan(lambda c, x: (c+x, c), 0, m.arange(3, dtype=m.int32)),
    "weak carry meets f32": lambda J, m, L: L.scan(lambda c, x: (c+x, c), 0.0, m.arange(3, dtype=m.float32)),
    "strong carry, weak body": lambda J, m, L: L.fori_loop(0,2,lambda i, c: 1.5, m.ones(())),
    "strong f32 carry weak body": lambda J, m, L: L.fori_loop(0,2,lambda i, c: 1.5, m.ones((), m.float32)),
    "cond weak strong": lambda J, m, L: L.cond(True, lambda: 1.0, lambda: m.ones(())),
    "cond weak strong f32": lambda J, m, L: L.cond(True, lambda: 1.0, lambda: m.ones((), m.float32)),
    "cond weak weak": lambda J, m, L: L.cond(False, lambda: 1, lambda: 2),
    "cond int weak and float weak": lambda J, m, L: L.cond(False, lambda: 1, lambda: 2.0),
    "cond number pred": lambda J, m, L: L.cond(2.0, lambda: 1, lambda: 2),
    "cond number pred 0": lambda J, m, L: L.cond(0, lambda: 1, lambda: 2),
    "cond nan pred": lambda J, m, L: L.cond(float("nan"), lambda: 1, lambda: 2),
    "switch clamp": lambda J, m, L: [L.switch(i, [lambda: 1, lambda: 2, lambda: 3]) for i in (-5, 1, 7)],
    "switch uint8": lambda J, m, L: L.switch(m.uint8(200), [lambda: 1, lambda: 2]),
    "fori weak i": lambda J, m, L: L.fori_loop(0,3,lambda i, c: c+i, m.ones(2, m.float32)),
    "fori int32 bounds": lambda J, m, L: L.fori_loop(m.int32(0),m.int32(3),lambda i, c: i, m.int32(9)),
    "fori empty": lambda J, m, L: L.fori_loop(5,3,lambda i, c: c*0, m.ones(2)),
    "fori mixed bounds": lambda J, m, L: L.fori_loop(0,m.int64(3),lambda i, c: c+i, m.int64(9)),
    "while numpy": lambda J, m, L: L.while_loop(lambda c: c[0]<3, lambda c: (c[0]+1, c[1]*2), (np.int32(0), np.ones(2))),
    "scan None xs": lambda J, m, L: L.scan(lambda c, _: (c+1, None), 0, None, length=4),
    "scan tree": lambda J, m, L: L.scan(lambda c, x: ({"a": c["a"]+x[0]}, (x[1], None, c["a"])), {"a": 0.0}, (m.arange(3.0), m.ones((3,2)))),
    "scan reverse": lambda J, m, L: L.scan(lambda c, x: (c*2+x, c), 0, m.arange(4), reverse=True),
    "scan unroll": lambda J, m, L: L.scan(lambda c, x: (c*2+x, c), 0, m.arange(4), unroll=2),
    "scan python out": lambda J, m, L: L.scan(lambda c, x: (c, 1.0), 0, m.arange(4)),
    "scan bool": lambda J, m, L: L.scan(lambda c, x: (c & x, c | x), True, m.asarray([True,False])),
    "scan length 0": lambda J, m, L: L.scan(lambda c, x: (c+x, c), 0., m.zeros((0,))),
    "map": lambda J, m, L: L.map(lambda x: {"a": x, "b": (x>1, 2)}, m.arange(3)),
    "map batch": lambda J, m, L: L.map(lambda x: x*2, m.arange(5), batch_size=2),
    "assoc": lambda J, m, L: L.associative_scan(lambda a, b: (a[0]*b[0], a[1]*b[0]+b[1]), (m.arange(1.,6), m.ones(5))),
    "assoc rev": lambda J, m, L: L.associative_scan(m.maximum, m.asarray([3,1,4,1,5]), reverse=True),
    "eval_shape weak": lambda J, m, L: [(s.shape, str(s.dtype), s.weak_type) for s in J.eval_shape(lambda x, y: (x*2, y+1, x*y, y*1.5, 3, 2.0, True), J.ShapeDtypeStruct((3,), m.float32), 2)],
    "eval_shape none": lambda J, m, L: J.eval_shape(lambda x: None, 1.0),
    "eval_shape tree": lambda J, m, L: sorted(J.eval_shape(lambda x: {"b": x, "a": (x,)}, 1.0)),
    "jit weak": lambda J, m, L: J.jit(lambda x, y: (x, y, x+y, x*m.ones((), m.float32)))(1, 2.0),
    "jit bool": lambda J, m, L: J.jit(lambda x: (x, x+1, ~x))(True),
    "jit numpy scalars": lambda J, m, L: J.jit(lambda x: x*2)(np.float32(3)),
    "jit complex": lambda J, m, L: J.jit(lambda x: (x*2, x.real))(1j),
    "jit none": lambda J, m, L: J.jit(lambda x: None)(1),
    "jit empty": lambda J, m, L: J.jit(lambda: ())(),
    "typeof": lambda J, m, L: [(J.typeof(x).shape, str(J.typeof(x).dtype), J.typeof(x).weak_type) for x in (1, 2.0, True, 1j, np.float32(2), np.ones((2,3)), m.ones(2, m.int8))],
    "vmap cond": lambda J, m, L: J.vmap(lambda x: L.cond(x>1, lambda x: x*2, lambda x: -x, x))(m.arange(4)),
    "vmap while": lambda J, m, L: J.vmap(lambda x: L.while_loop(lambda c: c<10, lambda c: c*2, x))(m.arange(1,6)),
    "vmap scan": lambda J, m, L: J.vmap(lambda x: L.scan(lambda c, y: (c+y, c*x), x, m.arange(3)))(m.arange(3)),
    "vmap switch": lambda J, m, L: J.vmap(lambda i, x: L.switch(i, [lambda x: x, lambda x: x*10, lambda x: -x], x))(m.asarray([-1,0,1,5]), m.arange(4)),
    "cond old style operand": lambda J, m, L: L.cond(True, lambda x: x+1, lambda x: x, 3),
    "cond operand kw": lambda J, m, L: L.cond(True, lambda x: x+1, lambda x: x, operand=3),
}


WRONG: dict[str, SAME] = {
    "jit none": lambda J, m, L: J.jit(3),
    "argnums range": lambda J, m, L: J.jit(_product, static_argnums=2),
    "argnums neg range": lambda J, m, L: J.jit(_product, static_argnums=-3),
    "argnums type": lambda J, m, L: J.jit(_product, static_argnums="x"),
    "argnums float": lambda J, m, L: J.jit(_product, static_argnums=1.0),
    "argnames type": lambda J, m, L: J.jit(_product, static_argnames=3),
    "argnames list type": lambda J, m, L: J.jit(_product, static_argnames=[3]),
    "argnames unknown": lambda J, m, L: J.jit(_product, static_argnames="k"),
    "donate range": lambda J, m, L: J.jit(_product, donate_argnums=5),
    "donate name": lambda J, m, L: J.jit(_product, donate_argnames="k"),
    "both": lambda J, m, L: J.jit(_product, static_argnums=1, donate_argnums=1),
    "both by name": lambda J, m, L: J.jit(_product, static_argnames="n", donate_argnums=1),
    "unhashable": lambda J, m, L: J.jit(_product, static_argnums=1)(1.0,[1]),
    "unhashable name": lambda J, m, L: J.jit(_product, static_argnames="n")(1.0,n={}),
    "too few": lambda J, m, L: J.jit(_product)(1.0),
    "too many": lambda J, m, L: J.jit(_product)(1.0,2,3),
    "unknown kw": lambda J, m, L: J.jit(_product)(1.0,k=3),
    "str": lambda J, m, L: J.jit(_product)("a",2),
    "static missing": lambda J, m, L: J.jit(_product, static_argnums=1)(1.0),
    "in_shardings kw": lambda J, m, L: J.jit(_product, in_shardings=(None,None))(1.0,n=2),
    "in_shardings tree": lambda J, m, L: J.jit(_product, in_shardings=(None,))(1.0,2),
    "out tree": lambda J, m, L: J.jit(lambda x:x, out_shardings=(None,None))(1.0),
    "backend": lambda J, m, L: J.jit(_product, backend="xpu")(1.0,2),
    "device+in": lambda J, m, L: J.jit(lambda x:x, device=J.devices()[0], in_shardings=J.sharding.SingleDeviceSharding(J.devices()[0])),
    "device+backend": lambda J, m, L: J.jit(lambda x:x, device=J.devices()[0], backend="cpu"),
    "compiler opts": lambda J, m, L: J.jit(lambda x:x, compiler_options={"nope":1})(1.0),
    "if": lambda J, m, L: J.jit(lambda x: 1 if x>0 else 2)(1.0),
    "while": lambda J, m, L: J.jit(lambda x: [x for _ in iter(lambda: x>0, True)])(1.0),
    "int": lambda J, m, L: J.jit(lambda x: int(x))(1.0),
    "float": lambda J, m, L: J.jit(lambda x: float(x))(1.0),
    "range": lambda J, m, L: J.jit(lambda x: list(range(x)))(3),
    "np.asarray": lambda J, m, L: J.jit(lambda x: np.asarray(x))(1.0),
    "index list": lambda J, m, L: J.jit(lambda x: [1,2,3][x])(1),
    "item": lambda J, m, L: J.jit(lambda x: x.item())(1.0),
    "tolist": lambda J, m, L: J.jit(lambda x: x.tolist())(m.ones(2)),
    "bool mask": lambda J, m, L: J.jit(lambda x: x[x>0])(m.ones(2)),
    "iter 0d": lambda J, m, L: J.jit(lambda x: list(x))(1.0),
    "hash": lambda J, m, L: J.jit(lambda x: hash(x))(1.0),
    "set": lambda J, m, L: J.jit(lambda x: {x: 1})(1.0),
    "format": lambda J, m, L: J.jit(lambda x: f"{x:.2f}")(1.0),
    "result str": lambda J, m, L: J.jit(lambda x: "a")(1.0),
    "result obj": lambda J, m, L: J.jit(lambda x: object())(1.0),
    "shape mismatch": lambda J, m, L: J.jit(lambda x: x+m.ones(3))(m.ones(2)),
    "zeros traced": lambda J, m, L: J.jit(lambda n: m.zeros(n))(2),
    "axis traced": lambda J, m, L: J.jit(lambda n: m.ones((2,2)).sum(axis=n))(1),
    "reshape traced": lambda J, m, L: J.jit(lambda n: m.ones(4).reshape(n, 2))(2),
    "arange traced": lambda J, m, L: J.jit(lambda n: m.arange(n))(2),
    "slice traced": lambda J, m, L: J.jit(lambda n: m.ones(4)[:n])(2),
    "lower in jit": lambda J, m, L: J.jit(lambda x: J.jit(lambda y:y).lower(x).compile()(x))(1.0),
    "cond trees": lambda J, m, L: L.cond(True, lambda: (1,), lambda: 1),
    "cond dtypes": lambda J, m, L: L.cond(True, lambda: m.ones(2), lambda: m.ones(2, m.int32)),
    "cond shapes": lambda J, m, L: L.cond(True, lambda: m.ones(2), lambda: m.ones(3)),
    "cond pred shape": lambda J, m, L: L.cond(m.ones(2)>0, lambda: 1, lambda: 2),
    "cond pred str": lambda J, m, L: L.cond("a", lambda: 1, lambda: 2),
    "cond pred None": lambda J, m, L: L.cond(None, lambda: 1, lambda: 2),
    "cond not callable": lambda J, m, L: L.cond(True, 1, 2),
    "cond args count": lambda J, m, L: L.cond(True, lambda x: x, lambda x: x),
    "cond pred complex": lambda J, m, L: L.cond(1j, lambda: 1, lambda: 2),
    "switch empty": lambda J, m, L: L.switch(0, []),
    "switch float": lambda J, m, L: L.switch(0.5, [lambda: 1]),
    "switch float2": lambda J, m, L: L.switch(0.5, [lambda: 1, lambda: 2]),
    "switch shape": lambda J, m, L: L.switch(m.arange(2), [lambda: 1, lambda: 2]),
    "switch bool": lambda J, m, L: L.switch(True, [lambda: 1, lambda: 2]),
    "switch types": lambda J, m, L: L.switch(0, [lambda: m.ones(1), lambda: m.ones(2)]),
    "switch not callables": lambda J, m, L: L.switch(0, [1, 2]),
    "while cond type": lambda J, m, L: L.while_loop(lambda c: c, lambda c: c, 1),
    "while cond shape": lambda J, m, L: L.while_loop(lambda c: c>0, lambda c: c, m.ones(2)),
    "while cond tuple": lambda J, m, L: L.while_loop(lambda c: (True,), lambda c: c, 1),
    "while carry shape": lambda J, m, L: L.while_loop(lambda c: False, lambda c: m.ones(3), m.ones(2)),
    "while carry tree": lambda J, m, L: L.while_loop(lambda c: False, lambda c: (c,), 1),
    "while carry dtype": lambda J, m, L: L.while_loop(lambda c: False, lambda c: c.astype(m.float32), m.ones(2)),
    "while not callable": lambda J, m, L: L.while_loop(1, lambda c: c, 1),
    "fori float": lambda J, m, L: L.fori_loop(0, 2.5, lambda i, c: c, 1),
    "fori shape": lambda J, m, L: L.fori_loop(0, m.ones(2, int), lambda i, c: c, 1),
    "fori body None": lambda J, m, L: L.fori_loop(0, 2, None, 1),
    "fori carry": lambda J, m, L: L.fori_loop(0, 2, lambda i, c: (c,c), 1),
    "scan no pair": lambda J, m, L: L.scan(lambda c, x: c, 0, m.arange(3)),
    "scan triple": lambda J, m, L: L.scan(lambda c, x: (c,x,x), 0, m.arange(3)),
    "scan lengths": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, (m.arange(3),m.arange(4))),
    "scan no length": lambda J, m, L: L.scan(lambda c, x: (c,x), 0),
    "scan wrong length": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, m.arange(3), length=4),
    "scan 0d": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, m.ones(())),
    "scan carry": lambda J, m, L: L.scan(lambda c, x: (m.ones(2),x), m.ones(()), m.arange(3)),
    "scan carry dtype": lambda J, m, L: L.scan(lambda c, x: (c+0.5,x), m.arange(1)[0], m.arange(3)),
    "scan carry None": lambda J, m, L: L.scan(lambda c, x: (None,x), m.ones(()), m.arange(3)),
    "scan length str": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, None, length="a"),
    "scan length float": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, None, length=2.5),
    "scan length neg": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, None, length=-1),
    "scan unroll": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, m.arange(3), unroll=-1),
    "scan xs str": lambda J, m, L: L.scan(lambda c, x: (c,x), 0, "abc"),
    "map 0d": lambda J, m, L: L.map(lambda x: x, m.ones(())),
    "map batch": lambda J, m, L: L.map(lambda x: x, m.ones(3), batch_size=2),
    "map no function": lambda J, m, L: L.map(3, m.ones(3)),
    "assoc axis": lambda J, m, L: L.associative_scan(m.add, m.ones(3), axis=2),
    "assoc fn": lambda J, m, L: L.associative_scan(3, m.ones(3)),
    "assoc lengths": lambda J, m, L: L.associative_scan(lambda a, b: a, (m.ones(3),m.ones(4))),
    "eval_shape str": lambda J, m, L: J.eval_shape(lambda x: x, "a"),
    "eval_shape not fn": lambda J, m, L: J.eval_shape(3, 1.0),
    "eval_shape bool": lambda J, m, L: J.eval_shape(lambda x: 1 if x else 2, 1.0),
    "make_jaxpr not fn": lambda J, m, L: J.make_jaxpr(3),
    "make_jaxpr str": lambda J, m, L: J.make_jaxpr(lambda x: x)("a"),
    "make_jaxpr static range": lambda J, m, L: J.make_jaxpr(lambda x: x, static_argnums=3)(1),
    "make_jaxpr unhashable": lambda J, m, L: J.make_jaxpr(lambda x, y: x, static_argnums=1)(1, [2]),
    "named_scope": lambda J, m, L: J.named_scope(3),
    "typeof": lambda J, m, L: J.typeof("a"),
    "compiled wrong tree": lambda J, m, L: J.jit(lambda x: x).lower(1.0).compile()((1.0,)),
    "compiled wrong shape": lambda J, m, L: J.jit(lambda x: x).lower(m.ones(2)).compile()(m.ones(3)),
    "compiled wrong dtype": lambda J, m, L: J.jit(lambda x: x).lower(m.ones(2)).compile()(m.ones(2, m.float32)),
    "compiled kwargs": lambda J, m, L: J.jit(lambda x: x).lower(1.0).compile()(x=1.0),
    "compiled static given": lambda J, m, L: J.jit(_product, static_argnums=1).lower(1.0, 2).compile()(1.0, 2),
    "lower str": lambda J, m, L: J.jit(lambda x: x).lower("a"),
    "dialect": lambda J, m, L: J.jit(lambda x: x).lower(1.0).as_text("nope"),
    "compile options": lambda J, m, L: J.jit(lambda x: x).lower(1.0).compile({"nope": 1}),
    "deleted arg": lambda J, m, L: (lambda x: (x.delete(), J.jit(lambda y:y+1)(x)))(m.ones(2)),
    "donated again": lambda J, m, L: (lambda x, f: (f(x), f(x)))(m.ones(2), J.jit(lambda y:y+1, donate_argnums=0)),
}
# fmt: on

OTHER = {
    "compiler opts": "RuntimeError of XLA",
    "compile options": "RuntimeError of XLA",
    "bool mask": "IndexError of JAX",
    "slice traced": "IndexError of JAX",
    "scan 0d": "IndexError of JAX",
    "map 0d": "IndexError of JAX",
    "shape mismatch": "NumPy raises ValueError",
    "scan length str": "JAX lets int() say so",
    "scan length float": "JAX cuts it off",
    "scan length neg": "JAX takes it for 0",
    "donated again": "a RuntimeError, as JAX raises for deleted arrays elsewhere",
}
"""Where errors are of other kinds, and why."""


def known(x: Any) -> tuple[Any, str]:
    """Return what can be compared of a result."""
    return np.asarray(x).tolist(), str(getattr(x, "dtype", np.asarray(x).dtype))


@pytest.mark.one_of(2)
@pytest.mark.oracle
@pytest.mark.parametrize("name", VALUES)
def test_values_and_types(name: str, jax: ModuleType) -> None:
    call = VALUES[name]
    try:
        want = call(jax, jax.numpy, jax.lax)
    except TypeError:
        if name != "fori int32 bounds":  # where JAX counts in 64 bits
            with pytest.raises(TypeError):
                call(gs, gnp, lax)
        return
    found = call(gs, gnp, lax)
    assert gs.tree.structure(found).num_leaves == jax.tree.structure(want).num_leaves
    for one, other in zip(gs.tree.leaves(found), jax.tree.leaves(want), strict=True):
        assert known(one) == known(other)


@pytest.mark.oracle
@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str, jax: ModuleType) -> None:
    call = WRONG[name]
    kind: type[Exception] | None = None
    try:
        call(jax, jax.numpy, jax.lax)
    except Exception as error:
        kind = next(k for k in type(error).__mro__ if k.__module__ == "builtins")
    if name in OTHER:
        with pytest.raises(gs.errors.GpushardError):
            call(gs, gnp, lax)
    elif kind is None:
        call(gs, gnp, lax)
    else:
        with pytest.raises(kind):
            call(gs, gnp, lax)


def counted(module: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Return a traced function, and what is added to whenever Python runs it."""
    seen: list[Any] = []

    def f(x: Any, n: Any = 2, *, k: Any = 1) -> Any:
        seen.append(1)
        return x * n + k

    return module.jit(f, **options), seen


CALLS: list[tuple[dict[str, Any], list[tuple[tuple[Any, ...], dict[str, Any]]]]] = [
    ({}, [((1,), {}), ((2,), {}), ((2.0,), {}), ((1, 3), {}), ((1,), {"n": 3}), ((1,), {"k": 2})]),
    ({"static_argnums": 1}, [((1, 2), {}), ((1, 3), {}), ((1, 2), {}), ((1,), {"n": 2})]),
    ({"static_argnames": "n"}, [((1, 2), {}), ((1,), {"n": 2}), ((1,), {"n": 3}), ((1, 3), {})]),
    ({"static_argnames": ("n", "k")}, [((1,), {"n": 2, "k": 3}), ((1,), {"k": 3, "n": 2})]),
    ({"static_argnums": (1,), "static_argnames": ("k",)}, [((1, 2), {"k": 1}), ((1, 2), {"k": 2})]),
    ({"static_argnums": 1}, [((1, 1), {}), ((1, 1.0), {}), ((1, True), {}), ((1, 1), {})]),
    ({"static_argnums": -1}, [((1, 2), {}), ((2, 2), {}), ((2, 5), {})]),
    ({"donate_argnums": 0}, [((1,), {}), ((2,), {})]),
    ({"keep_unused": True, "inline": True}, [((1,), {}), ((2,), {})]),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_how_often_functions_are_traced(number: int, jax: ModuleType) -> None:
    options, calls = CALLS[number]
    (ours, mine), (theirs, seen) = counted(gs, **options), counted(jax, **options)
    for args, named in calls:
        assert known(ours(*args, **named)) == known(theirs(*args, **named))
        assert len(mine) == len(seen), (args, named)


@pytest.mark.oracle
@pytest.mark.parametrize("numbers", [0, 1, (0, 1)])
def test_what_is_donated(numbers: Any, jax: ModuleType) -> None:
    gone = []
    for module, m in ((gs, gnp), (jax, jax.numpy)):
        x, y = m.ones(3), {"a": m.ones(3), "b": [m.zeros(3)]}
        module.jit(lambda x, y: (x + 1, y["a"] * 2, y["b"][0] - 1), donate_argnums=numbers)(x, y)
        gone.append([z.is_deleted() for z in (x, y["a"], y["b"][0])])
    assert gone[0] == gone[1]


@pytest.mark.oracle
def test_where_results_lie(jax: ModuleType) -> None:
    value = np.arange(64.0).reshape(8, 8)

    def body(x: Any) -> Any:
        return {"a": x + 1, "b": (x @ x.T, x.sum(0))}

    found = []
    for module in (gs, jax):
        own: Any = sharding if module is gs else jax.sharding
        mesh = (
            module.make_mesh((4, 2), ("x", "y"))
            if module is gs
            else jax.sharding.Mesh(np.array(jax.devices()[:8], object).reshape(4, 2), ("x", "y"))
        )
        at = lambda *spec: own.NamedSharding(mesh, own.PartitionSpec(*spec))  # noqa: E731
        prefixes: list[Any] = [
            at("x"),
            {"a": at("x", "y"), "b": at("y")},
            {"a": None, "b": (at(None, "x"), at(("x", "y")))},
        ]
        for prefix in prefixes:
            made = module.jit(body, in_shardings=at("y"), out_shardings=prefix)(value)
            leaves = (gs.tree if module is gs else jax.tree).leaves(made)
            named = [p for p in (gs.tree if module is gs else jax.tree).leaves(prefix)]
            boxes = [
                sorted(
                    str(s.index) + str(np.asarray(s.data).tolist()) for s in x.addressable_shards
                )
                for x in leaves
            ]
            found.append(
                (
                    module,
                    len(named),
                    boxes[1:] if len(named) == 2 and prefix["a"] is None else boxes,
                )
            )
    half = len(found) // 2
    for ours, theirs in zip(found[:half], found[half:], strict=True):
        assert ours[1:] == theirs[1:]


@pytest.mark.oracle
def test_shapes_and_types_in_and_out(jax: ModuleType) -> None:
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda m, x, y: x @ y, (((2, 3), "float32"), ((3, 4), "float32"))),
        (
            lambda m, x, y: {"s": x.sum(0), "t": (x > y, None)},
            (((2, 3), "int32"), ((3,), "float64")),
        ),
        (lambda m, x: [m.sort(x), x.astype(m.int8), x.max()], (((5,), "float32"),)),
        (lambda m, x: (1, 2.0, x.T[None], m.zeros(3)), (((2, 4), "bool"),)),
        (lambda m, x: m.concatenate([x, x * 2.0]), (((4,), "int64"),)),
    ]
    for body, shapes in cases:
        sides = []
        for module, m in ((gs, gnp), (jax, jax.numpy)):
            args = [module.ShapeDtypeStruct(*own) for own in shapes]
            function: Any = lambda *xs, body=body, m=m: body(m, *xs)  # noqa: E731
            shown = module.eval_shape(function, *args)
            _, again = module.make_jaxpr(function, return_shape=True)(*args)
            leaves = (gs.tree if module is gs else jax.tree).leaves
            each = [(x.shape, np.dtype(x.dtype)) for x in leaves(shown)]
            assert [(x.shape, np.dtype(x.dtype)) for x in leaves(again)] == each
            sides.append(each)
        assert sides[0] == sides[1]
