"""Interpreters plug into `bind` and use the rows as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import gpushard as gs
from gpushard import testing
from gpushard._array.methods import Methods
from gpushard._functions import indexing, take_elements, x_at
from gpushard._functions.values import Value
from gpushard._ops.aval import Aval
from gpushard._ops.bind import _plain as holder
from gpushard._ops.bind import bind, set_eager
from gpushard._ops.row import Params, Row
from gpushard._ops.scalars import KINDS
from gpushard._ops.table import manipulation
from gpushard._ops.table.elementwise import ufunc_row
from tests.ops.cases import moves


class Flops:
    """Counts operations on elements; it knows rows by their rules, not by their names."""

    level = 1

    def __init__(self) -> None:
        self.count = 0

    def bind(self, row: Row, args: Sequence[Any], params: Params, out_sharding: Any = None) -> Any:
        avals = [self._aval(arg) for arg in args]
        (result,) = row.infer(avals, params)
        if not moves(row):
            self.count += math.prod(row.rule_for(avals, params).sizes)
        inner = [arg.value if isinstance(arg, Counted) else arg for arg in args]
        made = bind(row, inner, params)
        assert (made.shape, made.dtype) == (result.shape, result.dtype)
        return Counted(self, made)

    @staticmethod
    def _aval(arg: Any) -> Aval:
        if type(arg) in KINDS:
            return KINDS[type(arg)]
        value = arg.value if isinstance(arg, Counted) else arg
        return Aval(value.shape, value.dtype, value.weak_type)


class Counted(Methods):
    """An array whose operations are counted."""

    def __init__(self, interpreter: Flops, value: gs.Array) -> None:
        self.interpreter = interpreter
        self.value = value

    @property
    def shape(self) -> Any:
        return self.value.shape

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return self.value.ndim


def test_an_interpreter_uses_rows_unchanged() -> None:
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        values = [np.arange(n * m).reshape(n, m) / 7 for n, m in ((6, 4), (4, 5))]
        x, w = (gs.device_put(v, gs.NamedSharding(mesh, gs.P("x", "y"))) for v in values)
        flops = Flops()

        def f(x: Any, w: Any) -> Any:
            return ((x @ w + 1).T * 2).sum(0)

        made = f(Counted(flops, x), w)
        np.testing.assert_allclose(np.asarray(made.value), f(*values))
        assert made.value.sharding == f(x, w).sharding
        assert flops.count == 6 * 4 * 5 + 3 * 6 * 5


class Levels(Flops):
    """Says who took an operation."""

    def __init__(self, level: int, taken: list[int]) -> None:
        super().__init__()
        self.level = level
        self._taken = taken

    def bind(self, row: Row, args: Sequence[Any], params: Params, out_sharding: Any = None) -> Any:
        self._taken.append(self.level)
        return super().bind(row, args, params)


def test_the_innermost_interpreter_takes_an_operation() -> None:
    taken: list[int] = []
    x = gs.device_put(np.arange(3.0))
    outer, inner = (Counted(Levels(level, taken), x) for level in (1, 2))
    bind(ufunc_row(np.add), (outer, inner.value))
    bind(ufunc_row(np.add), (outer.value, inner))
    assert taken == [1, 2]
    assert bind(manipulation.TRANSPOSE, (x,), ((-1,),)).shape == (3,)


class Noted:
    """Notes the rows that it is asked for, and leaves the work to plain arrays' interpreter."""

    level = 0

    def __init__(self, plain: Any) -> None:
        self.rows: list[str] = []
        self._plain = plain

    def bind(self, row: Row, args: Sequence[Any], params: Params, out_sharding: Any = None) -> Any:
        self.rows.append(row.name)
        return self._plain.bind(row, args, params, out_sharding)


def test_creation_and_updates_go_through_the_door() -> None:
    noted = Noted(holder.eager)
    set_eager(noted)
    try:
        x = gs.numpy.zeros((4, 3))
        gs.numpy.full_like(x, 2), gs.numpy.arange(3), gs.numpy.linspace(0, 1, 3), gs.numpy.eye(2)
        assert noted.rows == ["full", "full", "arange", "linspace", "eye"]
        noted.rows.clear()
        made = x.at[1].set(1).at[2:, 0].add(3).at[[0, 3]].multiply(x[:2]).at[x > 2].set(5)
        rows = ["update", "indexing", "add", "update", "indexing", "indexed update"]
        rows += ["greater", "where"]
        assert noted.rows == rows
        assert made.tolist() == [[0, 0, 0], [1, 1, 1], [3, 0, 0], [0, 0, 0]]
    finally:
        set_eager(noted._plain)


class Replaced(Value):
    """An array whose values nobody knows: only its interpreter has them."""

    def __init__(self, interpreter: Any, value: gs.Array) -> None:
        self.interpreter = interpreter
        self.value = value

    def __getattr__(self, name: str) -> Any:
        assert name in ("shape", "dtype", "ndim", "size", "nbytes", "weak_type"), name
        return getattr(self.value, name)


class Unknown(Flops):
    """Makes values that nobody knows."""

    def bind(self, row: Row, args: Sequence[Any], params: Params, out_sharding: Any = None) -> Any:
        assert out_sharding is None
        inner = [arg.value if isinstance(arg, Replaced) else arg for arg in args]
        return Replaced(self, bind(row, inner, params))


def test_values_without_data_are_indexed_and_updated() -> None:
    data, at = np.arange(12.0).reshape(4, 3), np.array([3, 0])
    unknown = Unknown()
    x, places, mask = (Replaced(unknown, gs.device_put(one)) for one in (data, at, data > 4))

    def read(index: Any) -> Any:
        return np.asarray(indexing.read_at(x, index).value)

    np.testing.assert_array_equal(read((slice(1, 3), 2)), data[1:3, 2])
    np.testing.assert_array_equal(read((slice(None), [2, 0])), data[:, [2, 0]])
    np.testing.assert_array_equal(read(places), data[at])
    np.testing.assert_array_equal(np.asarray(take_elements.take(x, places, 0).value), data[at])
    for index, own in ((1, 1), (places, at), ((places, slice(0, 2)), (at, slice(0, 2)))):
        want = data.copy()
        want[own] += 7
        np.testing.assert_array_equal(np.asarray(x_at.At(x, index).add(7).value), want)
        want[own] = -1
        np.testing.assert_array_equal(np.asarray(x_at.At(x, index).set(-1).value), want)
    made = x_at.At(x, mask).set(0.0)
    np.testing.assert_array_equal(np.asarray(made.value), np.where(data > 4, 0, data))
