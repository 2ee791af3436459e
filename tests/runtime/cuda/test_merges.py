"""Merges name the right kernel and refuse arrays that do not go together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from gpushard.runtime.cuda.batches import Allocation
from gpushard.runtime.cuda.merges import (
    MERGE,
    MOST_INPUTS,
    OPERATIONS,
    Dense,
    kernel_name,
    make_merge,
)

MEMORY = Allocation(4096, 1 << 20)


def dense(start: int, shape: tuple[int, ...] = (4, 4), dtype: Any = np.float32) -> Dense:
    return Dense(MEMORY.address + start, MEMORY, shape, np.dtype(dtype))


def test_every_numeric_dtype_has_its_kernels() -> None:
    assert kernel_name("sum", np.float64) == "merge_arrays<Sum, double>"
    assert kernel_name("max", np.int8) == "merge_arrays<Max, signed char>"
    assert kernel_name("prod", np.int64) == "merge_arrays<Prod, unsigned long long>"
    assert kernel_name("prod", np.complex128) == "merge_arrays<Prod, Complex<double>>"
    assert kernel_name("min", np.float16) == "merge_arrays<Min, __half>"
    assert {kernel_name(operation, bool) for operation in OPERATIONS} == {
        "merge_arrays<And, unsigned char>",
        "merge_arrays<Or, unsigned char>",
    }


def test_operations_that_a_dtype_does_not_have_are_refused() -> None:
    for dtype in (np.float16, np.float64, np.complex64):
        with pytest.raises(TypeError, match="'and'"):
            kernel_name("and", dtype)
    for dtype in (np.longdouble, np.clongdouble, "M8[s]", "S4", ">i4", object):
        with pytest.raises(TypeError, match="not merged by 'sum'"):
            kernel_name("sum", dtype)
    with pytest.raises(ValueError, match="only sum, prod"):
        kernel_name("xor", np.int32)  # type: ignore[arg-type]


def test_the_argument_holds_the_addresses_in_order() -> None:
    inputs = [dense(64 * position) for position in (3, 0, 2)]
    launch = make_merge("sum", inputs, inputs[1])
    argument = launch.argument
    assert argument.dtype == MERGE and argument.nbytes <= 4096
    assert argument["inputs"][:3].tolist() == [4096 + 192, 4096, 4096 + 128]
    assert argument["output"] == 4096 and argument["count"] == 3 and argument["elements"] == 16
    assert argument["wide"] == 1 and not launch.needs_half
    assert make_merge("sum", [dense(4), dense(128)], dense(256)).argument["wide"] == 0
    assert make_merge("sum", [dense(0, dtype="f2")], dense(0, dtype="f2")).needs_half


def test_blocks_follow_the_bytes() -> None:
    for dtype, size, blocks in (("i1", 4096, 1), ("i1", 4097, 2), ("f8", 512, 1), ("F", 0, 0)):
        array = dense(0, (size,), dtype)
        assert make_merge("sum", [array], array).blocks == blocks
    scalar = dense(0, ())
    assert make_merge("sum", [scalar, dense(4, ())], scalar).blocks == 1


def test_arrays_that_do_not_go_together_are_refused() -> None:
    fine = dense(0)
    end = MEMORY.nbytes - 64
    assert make_merge("sum", [fine, dense(end)], dense(64)).blocks == 1
    for other, message in (
        (dense(end + 4), "outside"),
        (dense(-4), "outside"),
        (dense(128, (16,)), "is merged into"),
        (dense(128, dtype=np.int32), "is merged into"),
        (dense(130), "misaligned"),
    ):
        with pytest.raises(AssertionError, match=message):
            make_merge("sum", [fine, other], fine)
        with pytest.raises(AssertionError, match=message):
            make_merge("sum", [fine], other)
    with pytest.raises(AssertionError, match="overlaps a part"):
        make_merge("sum", [fine, dense(32)], fine)
    with pytest.raises(AssertionError, match="outside"):
        make_merge("sum", [dataclasses.replace(fine, memory=Allocation(4096, 63))], dense(64))


def test_a_launch_has_1_to_64_inputs() -> None:
    many = [dense(64 * position) for position in range(MOST_INPUTS + 1)]
    assert make_merge("sum", many[1:], many[0]).argument["count"] == 64
    for wrong in ([], many):
        with pytest.raises(ValueError, match="1 to 64"):
            make_merge("sum", wrong, many[0])
