"""Interpreters plug into the one door and use the rows as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import gpushard as gs
from gpushard import testing
from gpushard.array.methods import Methods
from gpushard.array.operators import Operators
from gpushard.ops.aval import Aval
from gpushard.ops.bind import bind
from gpushard.ops.row import Params, Row
from gpushard.ops.scalars import KINDS
from gpushard.ops.table import movement
from gpushard.ops.table.elementwise import ufunc_row


class Flops:
    """Counts operations on elements; it knows rows by their rules, not by their names."""

    level = 1

    def __init__(self) -> None:
        self.count = 0

    def bind(self, row: Row, args: Sequence[Any], params: Params, out_sharding: Any = None) -> Any:
        avals = [self._aval(arg) for arg in args]
        (result,) = row.infer(avals, params)
        if row.moves is None:
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


class Counted(Operators, Methods):
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
    assert bind(movement.TRANSPOSE, (x,), ((-1,),)).shape == (3,)
