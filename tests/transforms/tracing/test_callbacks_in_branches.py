"""Callbacks in branches and loops of mapped functions: each element calls what it gets to itself.

The oracle goes through a random program with one element after the other, in Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import legacy, testing
from tests.share import some

P = gs.P
lax = gs.lax
COUNT = 8

Program = list[tuple[Any, ...]]
Log = dict[int, list[tuple[int, int]]]
"""For each element the calls that it makes, in their order: which one, and with which value."""


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def random_program(rng: np.random.Generator, depth: int) -> Program:
    """Return steps, some of which have programs of their own."""
    steps: Program = []
    for _ in range(int(rng.integers(1, 4))):
        kinds = ["debug", "io", "ask", "add"] + ["cond", "switch", "while", "for"] * (depth > 0)
        kind, number = str(rng.choice(kinds)), int(rng.integers(2, 5))
        count = {"cond": 2, "switch": number, "while": 1, "for": 1}.get(kind, 0)
        inner = [random_program(rng, depth - 1) for _ in range(count)]
        steps.append((kind, number, int(rng.integers(1_000_000)), inner))
    return steps


def defined(program: Program, v: int, element: int, log: Log) -> int:
    """Run a program for one element."""
    for kind, number, tag, inner in program:
        if kind in ("debug", "io", "ask"):
            log[element].append((tag, v))
            v = v if kind != "ask" else v + tag % 5
        elif kind == "add":
            v += number
        elif kind == "cond":
            v = defined(inner[int(v % number == 0)], v, element, log)
        elif kind == "switch":
            v = defined(inner[min(v % (number + 2), number - 1)], v, element, log)
        elif kind == "while":
            i, end = 0, v % number
            while True:
                log[element].append((tag, i))
                if i >= end:
                    break
                i, v = i + 1, defined(inner[0], v, element, log)
        else:
            for i in range(v % number):
                v = defined(inner[0], v + i, element, log)
    return v


def ours(program: Program, log: Log) -> Callable[[Any, Any], Any]:
    """Return a program as a function of the value and the number of an element."""

    def called(tag: int) -> Callable[[Any, Any], Any]:
        def call(v: Any, element: Any) -> Any:
            log[int(element)].append((tag, int(v)))
            return v + tag % 5

        return call

    def logged(tag: int) -> Callable[[Any, Any], None]:
        return lambda v, element: log[int(element)].append((tag, int(v)))

    def run(program: Program, v: Any, element: Any) -> Any:
        for kind, number, tag, inner in program:
            branches = [lambda v, p=p: run(p, v, element) for p in inner]
            if kind == "debug":
                gs.debug.callback(logged(tag), v, element)
            elif kind == "io":
                gs.io_callback(logged(tag), None, v, element)
            elif kind == "ask":
                v = gs.io_callback(called(tag), gs.ShapeDtypeStruct((), "int64"), v, element)
            elif kind == "add":
                v = v + number
            elif kind == "cond":
                v = lax.cond(v % number == 0, *branches[::-1], v)
            elif kind == "switch":
                v = lax.switch(v % (number + 2), branches, v)
            elif kind == "while":

                def goes_on(state: Any, tag: int = tag) -> Any:
                    gs.debug.callback(logged(tag), state[0], element)
                    return state[0] < state[1]

                def body(state: Any, step: Any = branches[0]) -> Any:
                    return state[0] + 1, state[1], step(state[2])

                v = lax.while_loop(goes_on, body, (0, v % number, v))[2]
            else:
                v = lax.fori_loop(0, v % number, lambda i, v, step=branches[0]: step(v + i), v)
        return v

    return lambda v, element: run(program, v, element)


def placed(f: Any) -> Any:
    def block(*args: Any) -> Any:
        return f(*[x[0] for x in args])[None]

    return gs.shard_map(block, gs.make_mesh((COUNT,), ("d",)), P("d"), P("d"))


def two_meshes(f: Any) -> Any:
    def block(*args: Any) -> Any:
        return gs.vmap(f)(*args)

    return gs.shard_map(block, gs.make_mesh((2, 4), ("x", "y")), P("x"), P("x"), axis_names={"x"})


def pairs(f: Any) -> Any:
    """Map over both dims of a matrix."""

    def call(*args: Any) -> Any:
        return gs.vmap(gs.vmap(f, 0, 0), 1, 1)(*[x.reshape(2, COUNT // 2) for x in args]).ravel()

    return call


def xmapped(f: Any) -> Any:
    def call(*args: Any) -> Any:
        with gs.make_mesh((2, 4), ("x", "y")):
            return legacy.xmap(f, {0: "i"}, {0: "i"}, axis_resources={"i": "y"})(*args)

    return call


MAPS: dict[str, Callable[[Any], Any]] = {
    "vmap": gs.vmap,
    "vmap of vmap": pairs,
    "pmap": gs.pmap,
    "soft_pmap": lambda f: gs.soft_pmap(f, "i"),
    "shard_map": placed,
    "shard_map of vmap": two_meshes,
    "xmap": xmapped,
    "jit of vmap": lambda f: gs.jit(gs.vmap(f)),
    "jit of pmap": lambda f: gs.jit(gs.pmap(f)),
    "vmap of jit": lambda f: gs.vmap(gs.jit(f)),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", MAPS)
def test_each_element_calls_what_it_gets_to(name: str) -> None:
    for seed in range(some(6, 40)):
        rng = np.random.default_rng(seed)
        program = random_program(rng, 2)
        values = rng.integers(0, 20, COUNT)
        want: Log = defaultdict(list)
        results = [defined(program, int(v), n, want) for n, v in enumerate(values)]
        log: Log = defaultdict(list)
        made = MAPS[name](ours(program, log))(gs.numpy.asarray(values), gs.numpy.arange(COUNT))
        gs.effects_barrier()
        np.testing.assert_array_equal(np.asarray(made), results, f"{seed} {program}")
        assert log == want, (seed, program)


def test_taps_and_prints_are_of_the_devices_that_take_a_branch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[tuple[int, int]] = []

    def tapped(value: Any, transforms: Any, device: Any) -> None:
        assert transforms == []
        seen.append((int(value), device.id))

    def taken(v: Any) -> Any:
        gs.debug.print("{v}", v=v)
        return legacy.id_tap(tapped, v, tap_with_device=True)

    gs.pmap(lambda v: lax.cond(v % 3 == 0, taken, lambda v: v, v))(gs.numpy.arange(COUNT))
    gs.effects_barrier()
    assert seen == [(0, 0), (3, 3), (6, 6)]
    assert capsys.readouterr().out.split() == ["0", "3", "6"]


@pytest.mark.parametrize(("limit", "calls"), [(5, 1), (100, 0)])
def test_a_tap_of_all_elements_is_made_if_one_takes_the_branch(limit: int, calls: int) -> None:
    seen: list[tuple[list[int], Any]] = []

    def taken(v: Any) -> Any:
        return legacy.id_tap(lambda value, what: seen.append((value.tolist(), what)), v)

    gs.vmap(lambda v: lax.cond(v > limit, taken, lambda v: v, v))(gs.numpy.arange(COUNT))
    gs.effects_barrier()
    assert seen == calls * [(list(range(COUNT)), [("batch", {"batch_dims": (0,)})])]


def test_a_pure_callback_is_the_same_with_branches_and_without() -> None:
    def root(v: Any) -> Any:
        shape = gs.ShapeDtypeStruct((), "float64")
        return gs.pure_callback(lambda v: np.sqrt(abs(v)), shape, v, vmap_method="sequential")

    made = gs.vmap(lambda v: lax.cond(v > 0, root, lambda v: -v, v))(gs.numpy.arange(-4.0, 5))
    np.testing.assert_allclose(np.asarray(made), [4, 3, 2, 1, 0, 1, 2**0.5, 3**0.5, 2])


def test_an_ordered_call_is_refused_in_a_branch_that_some_elements_of_vmap_take() -> None:
    def taken(v: Any) -> Any:
        gs.io_callback(lambda: None, None, ordered=True)
        return v

    with pytest.raises(ValueError, match="or a condition of the call"):
        gs.vmap(lambda v: lax.cond(v > 2, taken, lambda v: v, v))(gs.numpy.arange(COUNT))
