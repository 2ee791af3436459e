"""Functions, modules and options of transforms leave nothing behind, or so many of them."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, nnx
from gpushard._transforms.jit import jit as tracing
from gpushard.errors import TraceContextError
from tests.share import some

TURNS = some(8, 200)


class Model(nnx.Module):
    """A circle, with a static value that differs from turn to turn."""

    def __init__(self, turn: int) -> None:
        self.w = nnx.Param(gnp.ones(8))
        self.parts = {"b": [nnx.BatchStat(gnp.zeros(4))], "again": nnx.State({"w": self.w})}
        self.me, self.turn = self, turn


def new_mesh(turn: int) -> gs.Mesh:
    """Return one of 56 meshes."""
    first, second = divmod(turn % 56, 7)
    devices = gs.devices()[:8]
    return gs.Mesh([devices[first], devices[second + (second >= first)]], "x")


def function() -> Any:
    def double(m: Any) -> Any:
        m.w.value = m.w.value * 2

    return double


def with_shardings(f: Any, turn: int) -> Any:
    mesh = new_mesh(turn)
    rows = gs.NamedSharding(mesh, P("x"))
    return nnx.jit(f, in_shardings=(nnx.StateSharding({nnx.Param: rows, ...: None}),))


def over_mesh(f: Any, turn: int) -> Any:
    specs = nnx.StateSharding({nnx.Param: P("x"), ...: P()})
    return nnx.shard_map(f, mesh=new_mesh(turn), in_specs=(specs,), out_specs=P())


def refused(f: Any, turn: int) -> Any:
    captured = Model(turn)

    def changes(m: Any) -> None:
        captured.parts["b"].append(m.w)

    def call(m: Any) -> None:
        with contextlib.suppress(TraceContextError):
            nnx.jit(changes)(m)
        assert len(captured.parts["b"]) == 1

    return call


WRAPPERS: dict[str, Callable[[Any, int], Any]] = {
    "jit": lambda f, turn: nnx.jit(f),
    "jit with shardings": with_shardings,
    "shard_map": over_mesh,
    "shard_map in jit": lambda f, turn: nnx.jit(over_mesh(f, turn)),
    "stages": lambda f, turn: lambda m: nnx.jit(f).lower(m).compile()(m),
    "eval_shape": lambda f, turn: lambda m: nnx.eval_shape(f, m),
    "copies": lambda f, turn: lambda m: nnx.merge(*nnx.split(nnx.clone(m))),
    "refused": refused,
}


@pytest.mark.parametrize("how", WRAPPERS)
def test_a_loop_that_makes_functions_and_modules_leaves_nothing(how: str) -> None:
    gone: list[Any] = []
    kept = []
    for turn in range(TURNS):
        f, m = function(), Model(turn)
        call = WRAPPERS[how](f, turn)
        call(m)
        call(m)
        gone += map(weakref.ref, (f, m, m.w, m.parts["b"][0], m.parts["again"]["w"], call))
        del f, m, call
        if turn in (TURNS // 2, TURNS - 1):
            gc.collect()
            kept.append(len(tracing._every))
    assert [ref() for ref in gone if ref() is not None] == []
    assert kept[0] == kept[1]


def add(x: Any) -> Any:
    return x + 1


def doubled(m: Any) -> None:
    m.w.value = m.w.value * 2


def call_pjit(turn: int) -> Any:
    with new_mesh(turn):
        return PJIT(np.ones((8, 8)))


PJIT: Any = gs.pjit(add, in_axis_resources=P("x"), out_axis_resources=P())

OPTIONS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "jit": (
        add,
        lambda turn: gs.jit(add, in_shardings=gs.NamedSharding(new_mesh(turn), P("x")))(
            gnp.ones((8, 8))
        ),
    ),
    "pjit": (add, call_pjit),
    "nnx.jit": (doubled, lambda turn: with_shardings(doubled, turn)(Model(0))),
}


@pytest.mark.parametrize("how", OPTIONS)
def test_one_function_is_kept_for_so_many_options(how: str) -> None:
    fun, call = OPTIONS[how]
    kept = []
    for turn in range(tracing.OPTIONS + some(2, 6)):
        call(turn)
        if turn >= tracing.OPTIONS:
            gc.collect()
            kept.append(len(tracing._every))
    assert len(set(kept)) == 1
    for owner in (fun, *dict(tracing._caches)):
        if owner in tracing._caches:
            assert len(tracing._caches[owner].values()) <= tracing.OPTIONS


def test_what_is_kept_is_found_again_and_can_be_forgotten() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x + 1

    first = gs.jit(f)
    first(1.0)
    gs.jit(f)(1.0)
    nnx.jit(f)(1.0)
    nnx.jit(f)(1.0)
    assert len(calls) == 2
    for turn in range(2 * tracing.OPTIONS):  # it is no longer found, and still lives
        gs.jit(f, in_shardings=gs.NamedSharding(new_mesh(turn), P()))
    first(1.0)
    assert len(calls) == 2
    gs.clear_caches()
    first(1.0)
    assert len(calls) == 3
