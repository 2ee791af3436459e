"""Operations of graphs are data, of kinds that all are known."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax
from gpushard._transforms.graph import ops
from gpushard._transforms.graph.graph import Graph, Op
from gpushard._transforms.tracing import executable


def traced(function: Any) -> Graph:
    graph: Graph = gs.jit(function).trace(gnp.ones((2, 3))).lower().compiler_ir()
    return graph


PROGRAMS: dict[str, Any] = {
    "RowOp": lambda x: x + 1,
    "Reshard": lambda x: gs.reshard(x, gs.SingleDeviceSharding(gs.devices()[1])),
    "While": lambda x: lax.while_loop(lambda x: (x < 3).all(), lambda x: x + 1, x),
    "For": lambda x: lax.fori_loop(0, 3, lambda n, x: x + n, x),
    "Scan": lambda x: lax.scan(lambda c, row: (c + row.sum(), row * 2), 0.0, x),
    "Branch": lambda x: lax.cond(x.sum() > 1, lambda x: x, lambda x: -x, x),
    "Callback": lambda x: gs.pure_callback(np.sin, gs.typeof(x), x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_recorded_is_of_its_kind_and_can_be_changed_by_nobody(name: str) -> None:
    found = [step for step in traced(PROGRAMS[name]).needed() if type(step.op).__name__ == name]
    assert found
    for step in found:
        with pytest.raises(AttributeError):
            step.operands = ()  # type: ignore[misc]
        with pytest.raises(AttributeError):
            step.op.name = "other"
        assert all(isinstance(body, Graph) for body in step.op.bodies)
        assert dataclasses.is_dataclass(step.op)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_kind_runs(name: str) -> None:
    x = gnp.arange(6.0).reshape(2, 3)
    for want, got in zip(
        gs.tree.leaves(PROGRAMS[name](x)), gs.tree.leaves(gs.jit(PROGRAMS[name])(x)), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_all_kinds_are_in_the_table_of_the_module() -> None:
    kinds = inspect.getmembers(ops, lambda x: inspect.isclass(x) and issubclass(x, Op))
    lines = [line for line in str(ops.__doc__).splitlines() if line.startswith("`")]
    assert {line.split()[0].strip("`") for line in lines} == {name for name, _ in kinds} - {"Op"}


def test_nothing_is_prepared_that_is_of_no_kind() -> None:
    with pytest.raises(NotImplementedError):
        executable.prepare(Op())
