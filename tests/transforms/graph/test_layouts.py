"""Operations of a graph have the programs of the same operations that are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._ops import dispatch
from gpushard._transforms.graph.layouts import bound, program_for
from gpushard._transforms.tracing import trace
from gpushard.errors import ArgumentError

P = gs.P

CALLS: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda x: x + x,
    "an array and a Python integer": lambda x: x + 2,
    "a Python float and an array": lambda x: 2.5 - x,
    "a Python boolean": lambda x: x * True,
    "numbers of NumPy": lambda x: np.float64(2) * x,
    "numbers of several kinds": lambda x: gnp.clip(x, 1, np.float32(3)),
    "data of the host": lambda x: x + np.arange(4),
    "a Python number of a row that sums": lambda x: gnp.einsum("ij,->ij", x, 2.0),
    "a boolean of a row that sums": lambda x: gnp.einsum("ij,->ij", x, True),
    "a transposed array": lambda x: x.T @ x,
    "two transposed arrays": lambda x: x.T @ x.T[:, :4].T.T,
    "parameters": lambda x: x.sum(axis=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_traced_operation_has_the_program_of_one_that_was_called(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = CALLS[name]
    with testing.runtime(host_devices=4):
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))
        x = gs.device_put(np.arange(16, dtype="f").reshape(4, 4), place)
        called = call(x)
        made: list[str] = []

        def note(case: Any, key: Any) -> Any:
            made.append(case.row.name)
            return dispatch.make_program(case, key)

        monkeypatch.setattr(trace, "make_program", note)
        graph = gs.jit(call).trace(x)
        assert not made
        (info,) = graph.out_info if isinstance(graph.out_info, tuple) else (graph.out_info,)
        assert (info.dtype, info.weak_type) == (called.dtype, called.weak_type)


def test_an_operation_that_is_laid_out_anew_keeps_the_types_of_its_operands() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        rows, columns = (gs.NamedSharding(mesh, spec) for spec in (P("x"), P(None, "x")))
        x, moved = (gs.device_put(np.ones((4, 4), "f"), place) for place in (rows, columns))
        for call in (lambda x: gnp.einsum("ij,->ij", x, 2.0), lambda x: x * 2.0):
            (step,) = gs.jit(call).lower(x).compiler_ir().needed()
            elsewhere = trace.var_of(moved)
            made = bound(step, [elsewhere, *step.operands[1:]], None)
            assert made.results[0].sharding == columns
            data = [moved._live(), *[one.data for one in step.operands[1:]]]
            (buffer,) = program_for(made.op, made.operands).run(data, made.op.numbers)
            assert buffer.dtype == made.results[0].dtype == np.float32


def test_errors_are_about_transposed_operands_as_they_were_given() -> None:
    x, y = gnp.ones((2, 3)), gnp.ones((5, 4))
    for call in (lambda x, y: x.T @ y, gs.jit(lambda x, y: x.T @ y)):
        with pytest.raises(ArgumentError, match=r"shapes \(3, 2\), \(5, 4\) do not fit"):
            call(x, y)
