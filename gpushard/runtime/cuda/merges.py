"""Elementwise merges as launches of the kernel in `kernels/merge.cu`. Pure; needs no GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from gpushard.frozen import dataclass
from gpushard.runtime.cuda.batches import THREADS, Allocation
from gpushard.typing import Shape

Operation: TypeAlias = Literal["sum", "prod", "min", "max", "and", "or"]
"""`np.add`, `np.multiply`, `np.minimum`, `np.maximum`, `np.bitwise_and`, `np.bitwise_or`."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

MOST_INPUTS = 64
"""How many arrays a launch merges; `kMostInputs` of the kernel."""

MERGE = np.dtype(
    [
        ("output", np.uint64),
        ("inputs", np.uint64, MOST_INPUTS),
        ("elements", np.uint64),
        ("count", np.uint32),
        ("wide", np.uint32),
    ],
    align=True,
)
"""`struct Merge` of the kernel."""

VECTOR = 16
"""Bytes of the output that a thread makes."""

_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long long"}
_FLOAT = {2: "__half", 4: "float", 8: "double"}
_BOOLEAN = {"sum": "Or", "prod": "And", "min": "And", "max": "Or", "and": "And", "or": "Or"}


@dataclass(frozen=True)
class Dense:
    """A dense array."""

    address: int
    """Its first byte."""

    memory: Allocation
    """Where it lies."""

    shape: Shape
    """Elements of each dim."""

    dtype: np.dtype[np.generic]
    """What they are."""

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.address + self.size * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class Merging:
    """One launch."""

    kernel: str
    """Name expression of the kernel."""

    needs_half: bool
    """Whether that exists only where `GPUSHARD_HALF` is defined, which takes `cuda_fp16.h`."""

    argument: npt.NDArray[np.void]
    """Its argument, of type `MERGE`."""

    blocks: int
    """How many blocks it has."""


def kernel_name(operation: Operation, dtype: npt.DTypeLike) -> str:
    """Return the name expression of the kernel for an operation on a dtype.

    Args:
      operation: what merges two elements.
      dtype: bool, an integer of 1 to 8 bytes, float16, 32 or 64, complex64 or 128.

    Raises:
      TypeError: the dtype is none of these, or a bitwise operation is asked of floats.
      ValueError: there is no such operation.

    >>> kernel_name("sum", "int16"), kernel_name("min", "complex64")
    ('merge_arrays<Sum, unsigned short>', 'merge_arrays<Min, Complex<float>>')
    """
    if operation not in OPERATIONS:
        raise ValueError(f"no operation {operation!r} to merge with, only {', '.join(OPERATIONS)}")
    dtype = np.dtype(dtype)
    size = dtype.itemsize
    name, kind = operation.capitalize(), None
    if not dtype.isnative:
        pass
    elif dtype.kind == "b":
        name, kind = _BOOLEAN[operation], _UNSIGNED[1]
    elif dtype.kind == "i" and operation in ("min", "max"):
        kind = _SIGNED[size]
    elif dtype.kind in "iu":
        kind = _UNSIGNED[size]
    elif dtype.kind == "f" and operation not in ("and", "or"):
        kind = _FLOAT.get(size)
    elif dtype.kind == "c" and operation not in ("and", "or") and size <= 16:
        kind = f"Complex<{_FLOAT[size // 2]}>"
    if kind is None:
        raise TypeError(f"arrays of {dtype} are not merged by {operation!r}")
    return f"merge_arrays<{name}, {kind}>"


def make_merge(operation: Operation, inputs: Sequence[Dense], output: Dense) -> Merging:
    """Return the launch that merges arrays in the order given.

    Args:
      operation: what merges two elements.
      inputs: 1 to `MOST_INPUTS` arrays.
      output: where the result goes; may be one of the inputs.

    Returns:
      The launch; one without blocks for arrays without elements.

    Raises:
      AssertionError: the arrays differ in shape or dtype, one leaves its allocation or is not
        aligned to its elements, or the output overlaps a part of an input. This is a defect of
        the library.
      TypeError: there is no such operation on their dtype.
      ValueError: there is no such operation at all, no input, or too many.

    >>> memory = Allocation(4096, 1024)
    >>> a, b = (Dense(4096 + start, memory, (5, 2), np.dtype("f4")) for start in (0, 40))
    >>> launch = make_merge("sum", [a, b], a)
    >>> launch.kernel, launch.blocks, int(launch.argument["wide"])
    ('merge_arrays<Sum, float>', 1, 0)
    """
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise ValueError(f"a launch merges 1 to {MOST_INPUTS} arrays, not {len(inputs)}")
    kernel = kernel_name(operation, output.dtype)
    _check(inputs, output)
    argument = np.zeros((), MERGE)
    argument["output"] = output.address
    argument["inputs"][: len(inputs)] = [array.address for array in inputs]
    argument["elements"] = output.size
    argument["count"] = len(inputs)
    argument["wide"] = all(array.address % VECTOR == 0 for array in (output, *inputs))
    blocks = -(-output.size * output.dtype.itemsize // (THREADS * VECTOR))
    assert blocks < 1 << 31, "a launch has at most 2**31 - 1 blocks"
    return Merging(kernel, output.dtype == np.float16, argument, blocks)


def _check(inputs: Sequence[Dense], output: Dense) -> None:
    alignment = output.dtype.alignment
    for array in (output, *inputs):
        assert array.shape == output.shape, f"{array.shape} is merged into {output.shape}"
        assert array.dtype == output.dtype, f"{array.dtype} is merged into {output.dtype}"
        assert array.address % alignment == 0, f"{array.address:#x} is misaligned"
        array.memory.check(array.address, array.end)
        apart = array.end <= output.address or output.end <= array.address
        assert apart or array.address == output.address, "the output overlaps a part of an input"
