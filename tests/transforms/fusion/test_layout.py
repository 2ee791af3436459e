"""How a region becomes one operation: what a launch of its loop nest is told."""

from __future__ import annotations

import dataclasses
import types
from typing import Any
from unittest import mock

import numpy as np

from gpushard._ops.programs import launched
from gpushard._ops.programs.calls import CallPlan, KernelCall
from gpushard._ops.programs.local import Compute
from gpushard._runtime.cuda.kernels.thread_nests import COUNTERS, launched_kernel
from tests.runtime.cuda.kernels.test_thread_nests import FLOAT, nest


def test_what_a_launch_is_told() -> None:
    """Two devices have two rows and one; beyond results there is room where parts meet."""
    kept = nest(
        (3, 9000, 5), [(0, 1, 2)], [((0, 2.0), (0, 1, 2), ()), ((1,), (0, 2), (1,)),
                                    ((2,), (0,), (2,))], 3)  # fmt: skip
    operand: Any = types.SimpleNamespace(shard_shapes=[(2, 9000, 5), (1, 9000, 5)])
    result, other = mock.sentinel.result, mock.sentinel.other
    fields = {field.name: None for field in dataclasses.fields(KernelCall)}
    calls = [
        KernelCall(**{**fields, "home": home, "shapes": ((rows,), (7,))})
        for home, rows in ((0, 2), (1, 1))
    ]
    work = CallPlan(mock.sentinel.runtime, "f", np.add, calls, [0, 1], [result, other], [FLOAT] * 2)
    kernel = launched_kernel(kept)
    assert kernel is not None
    with mock.patch.object(launched, "_in_groups") as launch:
        made = launched.launched_nest(work, kept, kernel, [operand])
    assert made is not None
    told, kinds, scalars, blocks, takes, lengths = launch.call_args.args
    parts = kernel.function.parts
    room = [rows * (COUNTERS + parts * 5) for rows in (2, 1)]
    assert parts == 9
    assert (kinds, [*scalars], blocks) == ([FLOAT, FLOAT], [1], ())
    assert takes == [[(0, 0)], [(0, 1)]]
    assert lengths == [(2, 9000, 5), (1, 9000, 5)]
    assert [call.shapes for call in told.calls] == [
        ((2,), (7,), (room[0],)),
        ((1,), (7,), (room[1],)),
    ]
    assert told.tilings == [result, other, result]
    assert kernel.numbers == [2.0]
    assert made is launch.return_value


def test_where_parts_meet_is_no_result() -> None:
    calls: Any = mock.Mock(dtypes=[FLOAT, FLOAT], writes=[16, 64], of_device=[0])
    calls.run.return_value = ["sums", "where parts meet"]
    step = Compute(calls, count=1)
    assert (step.writes, step.scratch) == ([16], 64)
    assert step.run([], []) == ["sums"]
    assert Compute(calls).run is calls.run
