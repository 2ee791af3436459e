"""Generate kernels of elementwise functions on dense blocks, for many devices in one launch.

Pure; needs no GPU.

A function of CuPy examines its operands in every call and launches for one array. Here, everything
that calls of a row have in common is known in advance; only addresses in the argument change. The
kernel computes CuPy's own statement in C++, so the results are equal. If all blocks begin at a
multiple of a unit, a thread loads units of several elements (`units`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.kernels import units
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.limits import index_type
from gpushard._typing import Dtype

MOST_CALLS = 64  # most calls of a launch
SCALAR_BYTES = 16  # bytes of a number in the argument, for any dtype
NAMES = {
    "b1": "bool",
    **{f"i{n}": name for n, name in ((1, "signed char"), (2, "short"), (4, "int"))},
    **{f"u{n}": f"unsigned {name}" for n, name in ((1, "char"), (2, "short"), (4, "int"))},
    **{"i8": "long long", "u8": "unsigned long long"},
    **{"f2": "float16", "f4": "float", "f8": "double"},
    **{"c8": "complex<float>", "c16": "complex<double>"},
}
"""Names of dtypes in CUDA C++, by kind and size."""

_HEADERS = {"float16": "cupy/float16.cuh", "CUDART_": "cupy/math_constants.h"}
"""The header that declares a word. With float16, NVRTC of CUDA 12 takes half again as long."""

_SOURCE = """
struct Batch {
  unsigned long long at[%(arrays)d * %(calls)d];
  unsigned long long count[%(calls)d];
  alignas(16) unsigned char scalar[%(scalars)d][16];
};
%(units)s
%(types)s
%(preamble)s

__device__ __forceinline__ void element(%(parameters)s) {
  %(statement)s;
}

extern "C" __global__ void elementwise(const __grid_constant__ Batch batch) {
  typedef %(index)s Index;
  const unsigned int call = blockIdx.y, calls = gridDim.y;
  const Index count = batch.count[call];
  const unsigned int each = %(each)d, threads = %(threads)d;
  %(pointers)s
  Index i = blockIdx.x * Index(threads * each) + threadIdx.x;
  Index stop = (blockIdx.x + Index(1)) * (threads * each);
  if (each > 1%(aligned)s) {
    const Index first = (blockIdx.x * Index(threads) + threadIdx.x) * each;
    if (first + each <= count) {
      %(loads)s
      #pragma unroll
      for (unsigned int k = 0; k < each; k++) {
        element(%(held)s);
      }
      %(stores)s
    }
    // What no whole unit has is left to the block of threads that the next unit belongs to.
    const Index whole = count / each * each;
    i = whole + threadIdx.x;
    stop = whole / (threads * each) == blockIdx.x ? count : 0;
  }
  if (stop > count) stop = count;
  #pragma unroll 1
  for (; i < stop; i += threads) {
    %(reads)s
    element(%(named)s);
    %(writes)s
  }
}
"""


@dataclass(frozen=True)
class Signature:
    """The operands and results of a kernel, and the layout of its argument."""

    operands: tuple[Dtype, ...]  # dtypes of its operands
    scalars: tuple[int, ...]  # positions of operands that are numbers, not blocks
    results: tuple[Dtype, ...]  # dtypes of its results
    calls: int  # most calls of a launch
    wide: bool  # whether it counts with 64 bits
    loops: int = 1  # number of lengths of each call

    @property
    def arrays(self) -> int:
        """Number of blocks of a call, operands and results."""
        return len(self.operands) - len(self.scalars) + len(self.results)

    @property
    def each(self) -> int:
        """Elements of each block that a thread of an elementwise kernel works on."""
        blocks = [x for n, x in enumerate(self.operands) if n not in self.scalars]
        return units.elements_of((*blocks, *self.results))

    @property
    def at_counts(self) -> int:
        """Offset of the numbers of elements in the argument."""
        return 8 * self.arrays * self.calls

    @property
    def at_scalars(self) -> int:
        """Offset of the numbers in the argument."""
        behind = self.at_counts + 8 * self.loops * self.calls
        return -(-behind // SCALAR_BYTES) * SCALAR_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of the argument."""
        return self.at_scalars + SCALAR_BYTES * max(1, len(self.scalars))


@dataclass(frozen=True)
class Statement:
    """The computation for each element, in C++: `out0 = in0 + in1`."""

    text: str  # the statement; its operands are in0, in1, ..., its results out0, out1, ...
    preamble: str  # the source before the kernel
    operands: tuple[Dtype, ...]  # the dtypes to which operands are converted
    results: tuple[Dtype, ...]  # the dtypes of its results


def can_be(statement: Statement, operands: Sequence[Dtype], results: Sequence[Dtype]) -> bool:
    """Whether a kernel can apply a statement to these dtypes, converting only real operands."""
    if statement.results != tuple(results):
        return False
    for working, operand in zip(statement.operands, operands, strict=True):
        kinds = working.kind + operand.kind
        if working != operand and ("c" in kinds or "e" in working.char + operand.char):
            return False
    every = (*statement.operands, *statement.results, *operands)
    return all(map(is_known, every))


def is_known(dtype: Dtype) -> bool:
    """Whether CUDA C++ has a dtype."""
    return dtype.isbuiltin == 1 and f"{dtype.kind}{dtype.itemsize}" in NAMES


def source(statement: Statement, signature: Signature) -> str:
    """Generate the source of the kernel `elementwise`.

    >>> import numpy as np
    >>> single = np.dtype(np.float32)
    >>> statement = Statement("out0 = in0 + in1", "", (single, single), (single,))
    >>> text = source(statement, Signature((single, single), (1,), (single,), 8, False))
    >>> "const in1_type number1(*(const float*)batch.scalar[0]);" in text
    True
    """
    types, pointers, parameters, aligned = list[str](), list[str](), list[str](), list[str]()
    loads, held, stores = list[str](), list[str](), list[str]()
    reads, named, writes = list[str](), list[str](), list[str]()
    at = 0
    for n, (working, operand) in enumerate(
        zip(statement.operands, signature.operands, strict=True)
    ):
        name = cuda_name(operand)
        types.append(f"typedef {cuda_name(working)} in{n}_type;")
        parameters.append(f"const in{n}_type in{n}")
        if n in signature.scalars:
            number = f"*(const {name}*)batch.scalar[{signature.scalars.index(n)}]"
            pointers.append(f"const in{n}_type number{n}({number});")
            held.append(f"number{n}")
            named.append(f"number{n}")
            continue
        place = f"batch.at[{at} * calls + call]"
        pointers.append(f"auto* const from{n} = (const {name}*){place};")
        aligned.append(f"Unit<{name}, each>::begins_at(from{n})")
        loads.append(f"Unit<{name}, each> unit{n}; unit{n}.load(from{n} + first);")
        held.append(f"in{n}_type(unit{n}.value[k])")
        reads.append(f"const {name} given{n} = from{n}[i];")
        named.append(f"in{n}_type(given{n})")
        at += 1
    for n, working in enumerate(statement.results):
        types.append(f"typedef {cuda_name(working)} out{n}_type;")
        parameters.append(f"out{n}_type& out{n}")
        pointers.append(f"auto* const to{n} = (out{n}_type*)batch.at[{at + n} * calls + call];")
        aligned.append(f"Unit<out{n}_type, each>::begins_at(to{n})")
        loads.append(f"Unit<out{n}_type, each> made{n};")
        held.append(f"made{n}.value[k]")
        stores.append(f"made{n}.store(to{n} + first);")
        reads.append(f"out{n}_type out{n};")
        named.append(f"out{n}")
        writes.append(f"to{n}[i] = out{n};")
    text = _SOURCE % {
        "calls": signature.calls,
        "arrays": signature.arrays,
        "scalars": max(1, len(signature.scalars)),
        "units": units.SOURCE,
        "types": "\n".join(types),
        "preamble": statement.preamble,
        "index": index_type(signature.wide),
        "each": signature.each,
        "threads": THREADS,
        "parameters": ", ".join(parameters),
        "pointers": "\n  ".join(pointers),
        "aligned": "".join(f" &&\n      {test}" for test in aligned),
        "loads": "\n      ".join(loads),
        "held": ", ".join(held),
        "stores": "\n      ".join(stores),
        "reads": "\n    ".join(reads),
        "statement": statement.text,
        "named": ", ".join(named),
        "writes": "\n    ".join(writes),
    }
    return with_headers(text)


def with_headers(source: str) -> str:
    """Put the headers of CuPy that a source needs in front of it.

    >>> with_headers("float16 x;").splitlines()[2:]
    ['#include <cupy/float16.cuh>', 'float16 x;']
    """
    extra = [header for word, header in _HEADERS.items() if word in source]
    headers = ["cupy/complex.cuh", "cupy/carray.cuh", *extra]
    return "\n".join([*(f"#include <{header}>" for header in headers), source])


def cuda_name(dtype: Dtype) -> str:
    """Return the name of a dtype in CUDA C++.

    >>> import numpy as np
    >>> cuda_name(np.dtype(np.uint8))
    'unsigned char'
    """
    return NAMES[f"{dtype.kind}{dtype.itemsize}"]
