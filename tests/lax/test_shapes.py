"""Functions that move elements as wholes beside their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.lax.calls import Call, check, check_everywhere, check_mapped, values
from tests.lax.definitions.registry import DTYPES

X = values((5, 3), "f8", 1)
POINT = values((), "f8", 1)
CUBE = values((3, 1, 5), "i4", 2)
NONE = values((0, 3), "f4")

SHORT = [(), (0,), (1,), (2,), (2, 1), (0, 2), (2, 0, 3), (-1,), (2, -1)]
PERMUTATIONS = [*itertools.permutations(range(3)), (0, 1), (0, 1, 1), (-1, 0, 1), (1, 2, 3), ()]

PAIRS = [*itertools.product(range(-3, 3), repeat=2)]
SOME = [(), (1,), (3,), (2, 1), (1, 3), (0, 3), (2,)]

CALLS = [
    *[Call("broadcast", x, sizes) for x in (X, NONE, CUBE, POINT) for sizes in SHORT],
    *[Call("broadcast_in_dim", X, (5, 3), dims) for dims in PAIRS],
    *[
        Call("broadcast_in_dim", x, shape, dims)
        for x in (X, X[:1], X[:, :1], NONE, POINT)
        for shape in ((2, 5, 3), (5, 4, 3), (5, 3, 2), (0, 3, 3), (1, 3, 3), (5,), ())
        for count in range(4)
        for dims in itertools.combinations(range(3), count)
    ],
    *[Call("broadcast_in_dim", X, (5, 5, 3), dims) for dims in ((1, 0), (2, 1), (-3, -1), (0, 0))],
    *[Call("broadcast_to_rank", x, rank) for x in (X, NONE, POINT) for rank in range(-1, 5)],
    *[
        Call("broadcast_shapes", *shapes)
        for count in (1, 2, 3)
        for shapes in itertools.product(SOME, repeat=count)
    ],
    *[Call("full", shape, 7) for shape in ((), 3, (2, 3), (0, 3))],
    *[Call("full", (5, 3), fill, dtype) for fill in (0, 1.5, True) for dtype in (None, "f4", "c8")],
    Call("full", (2,), np.float32(3)),
    *[Call("full_like", x, 3) for x in (X, NONE, CUBE)],
    Call("full_like", X, 3, "i2"), Call("full_like", X, 3, None, (4,)),
    Call("full_like", X, 3, shape=(0, 2)), Call("full_like", X, 2.5, "c8", (7, 2)),
    *[Call("empty", shape, dtype) for shape in ((), (5, 3), (0, 2)) for dtype in ("f4", "i8", "?")],
    *[Call("iota", dtype, size) for dtype in DTYPES for size in (0, 1, 5)],
    *[Call("iota", dtype, size) for dtype in ("i1", "u1") for size in (127, 128, 129, 256, 300)],
    Call("iota", "f2", 3000), Call("broadcasted_iota", "i1", (2, 200), 1), Call("iota", "f4", -1),
    *[
        Call("broadcasted_iota", dtype, shape, at)
        for dtype in ("i4", "f8", "c8", "u1")
        for shape in ((5,), (5, 3), (2, 5, 3), (0, 3), (3, 0))
        for at in range(-4, 4)
    ],
    *[
        Call("collapse", x, start, stop)
        for x in (X, CUBE, NONE, POINT)
        for start in range(-4, 5)
        for stop in (None, *range(-4, 5))
    ],
    *[Call("concatenate", [X, X[:2], X[:0]], at) for at in range(-3, 3)],
    *[Call("concatenate", (CUBE, CUBE), at) for at in range(-4, 4)],
    Call("concatenate", [X], 0), Call("concatenate", [X, X[0]], 0), Call("concatenate", [], 0),
    Call("concatenate", [X, X.astype("f4")], 0), Call("concatenate", [X[:0], NONE.astype("f8")], 0),
    Call("concatenate", [X[:, :1], X, X[:, 1:]], 1), Call("concatenate", [POINT, POINT], 0),
    *[Call("stack", [x, x + x, x], at) for x in (X, CUBE, POINT) for at in range(-5, 5)],
    Call("stack", [X, X[:2]]), Call("stack", []), Call("stack", (X, X)),
    *[Call("unstack", x, at) for x in (X, CUBE, NONE, POINT) for at in range(-4, 4)],
    *[
        Call("expand_dims", x, dims)
        for x in (X, POINT, NONE)
        for count in range(3)
        for dims in itertools.product(range(-5, 5), repeat=count)
    ],
    *[
        Call("squeeze", x, dims)
        for x in (CUBE, CUBE[:1], NONE)
        for count in range(3)
        for dims in itertools.product(range(-4, 4), repeat=count)
    ],
    *[Call("reshape", X, to) for to in ((15,), (3, 5), (5, 3), (1, 15, 1), (4, 4), (-3, -5))],
    *[Call("reshape", X, to, turn) for to in ((15,), (3, 5)) for turn in ((0, 1), (1, 0), (1, 1))],
    Call("reshape", NONE, (3, 0)), Call("reshape", NONE, (0,)), Call("reshape", POINT, (1, 1)),
    *[
        Call("rev", x, dims)
        for x in (X, CUBE, NONE)
        for count in range(4)
        for dims in itertools.product(range(-4, 4), repeat=count)
        if count < 3 or dims == (0, 1, 2)
    ],
    *[Call("transpose", CUBE, order) for order in PERMUTATIONS],
    Call("transpose", X, (1, 0)), Call("transpose", NONE, (1, 0)), Call("transpose", POINT, ()),
    *[Call("tile", x, reps) for x in (X, NONE) for reps in itertools.product((0, 1, 3), repeat=2)],
    *[Call("tile", X, reps) for reps in ((), (2,), (1, 2, 3), (-1, 2))],
    *[Call("split", X, sizes) for sizes in itertools.product(range(-1, 4), repeat=3)],
    *[Call("split", X, sizes, at) for sizes in ((3,), (1, 2), (0, 3), ()) for at in range(-3, 3)],
    Call("split", NONE, ()), Call("split", NONE, (0, 0)),
]  # fmt: skip

TRIPLES = [*itertools.product((-2, -1, 0, 1, 2), (-2, -1, 0, 2), (-1, 0, 1, 2))]
PADS = [
    *[Call("pad", x, 1.5, (triple,)) for x in (X[:, 0], X[:1, 0], X[:0, 0]) for triple in TRIPLES],
    *[
        Call("pad", X, 1.5, (triple, other))
        for triple, other in zip(TRIPLES, TRIPLES[17:] + TRIPLES[:17], strict=True)
    ],
    *[Call("pad", X, POINT, (triple, (1, -1, 0))) for triple in TRIPLES],
    Call("pad", POINT, 1.5, ()), Call("pad", X, 1.5, ((1, 1, 0),)), Call("pad", X, 1.5, ()),
    Call("pad", X, 1.5, ((1, 1), (1, 1))), Call("pad", X, X[0], ((0, 0, 0), (0, 0, 0))),
    Call("pad", X, np.ones((), "f4"), ((0, 0, 0), (0, 0, 0))),
    Call("pad", CUBE, 2.5, ((0, 0, 0),) * 3), Call("pad", CUBE, 2, ((1, 1, 1),) * 3),
    Call("pad", NONE, 1.0, ((1, 2, 3), (0, -1, 1))),
    Call("pad", X > 0, True, ((1, 2, 1), (0, 1, 0))),
]  # fmt: skip
OF_NAME = {name: [each for each in CALLS if each.name == name] for name in {c.name for c in CALLS}}


@pytest.mark.parametrize("name", sorted(OF_NAME))
def test_each_argument(name: str) -> None:
    for call in OF_NAME[name]:
        check(call)


@pytest.mark.parametrize("number", range(8))
def test_pad(number: int) -> None:
    for call in PADS[number::8]:
        check(call)


NAMES = sorted({*OF_NAME} - {"broadcast_shapes", "full", "empty", "iota", "broadcasted_iota"})
EVERYWHERE = [
    Call("broadcast", X, (2,)), Call("broadcast_in_dim", X, (5, 2, 3), (0, 2)),
    Call("broadcast_in_dim", X[:1], (5, 4, 3), (0, 2)), Call("broadcast_to_rank", X, 4),
    Call("full_like", X, 3), Call("collapse", CUBE, 0, 2), Call("collapse", X, 1, 1),
    Call("concatenate", [X, X[:2], X], 0), Call("concatenate", [X, X[:, :1]], -1),
    Call("stack", [X, X + 1], 1), Call("stack", (X, X + 1), -1), Call("unstack", X, 1),
    Call("expand_dims", X, (0, 2)), Call("expand_dims", X, (-1,)), Call("squeeze", CUBE, (1,)),
    Call("reshape", X, (3, 5)), Call("reshape", X, (15,), (1, 0)), Call("rev", X, (0,)),
    Call("rev", CUBE, (0, -1)), Call("transpose", CUBE, (2, 0, 1)), Call("tile", X, (2, 3)),
    Call("split", X, (1, 0, 4)), Call("split", X, (2, 1), 1), Call("split", X, (2, 1), -1),
    Call("pad", X, 1.5, ((1, -2, 1), (-1, 2, 0))), Call("pad", X, POINT, ((1, 2, 0), (0, 1, 2))),
    Call("pad", X, 0.5, ((1, 2, 0), (-1, 1, 0))),
]  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("call", EVERYWHERE, ids=repr)
def test_traced_and_mapped(call: Call) -> None:
    check_everywhere(call)
    check_mapped(call, traced=True)


def test_all_are_traced_and_mapped() -> None:
    assert {call.name for call in EVERYWHERE} == {*NAMES, "pad"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type(dtype: Any) -> None:
    x = values((5, 3), dtype, 3)
    for call in EVERYWHERE:
        if call.args[0] is X and call.name not in ("pad", "full_like"):
            check(Call(call.name, x, *call.args[1:]))
    check(Call("concatenate", [x, x[:2]], 0))
    check(Call("pad", x, x[0, 0], ((1, 2, 1), (-1, 0, 0))))
    check(Call("empty", (2, 3), dtype))


def test_places() -> None:
    mesh = gs.make_mesh((4, 2), ("a", "b"))
    place = gs.NamedSharding(mesh, gs.P("a", "b"))
    for result in (
        gs.lax.full((5, 3), 2.0, sharding=place),
        gs.lax.full_like(X, 2.0, sharding=place),
        gs.lax.empty((5, 3), float, out_sharding=place),
        gs.lax.broadcasted_iota(float, (5, 3), 1, out_sharding=place),
        gs.lax.broadcast(X[0], (5,), out_sharding=place),
        gs.lax.broadcast_in_dim(X[0], (5, 3), (1,), out_sharding=place),
        gs.lax.reshape(gs.numpy.arange(15), (5, 3), out_sharding=place),
    ):
        assert result.sharding == place and result.shape == (5, 3)
