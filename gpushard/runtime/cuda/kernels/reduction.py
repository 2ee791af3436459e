"""Reductions of dense rows as kernels of one launch, for the blocks of many devices. Pure.

CuPy's own find out with every call what they are given, as its elementwise functions do. Here a
block of threads reduces a row: each thread adds up every 256th element, and then all of them are
brought together in pairs. So an element takes part in as few roundings as there are to a thread,
and the order does not depend on timing.
"""

from __future__ import annotations

import numpy as np

from gpushard.runtime.cuda.kernels.batches import THREADS
from gpushard.runtime.cuda.kernels.elementwise import NAMES, Signature, with_headers

MOST_ELEMENTS = 1 << 14
"""Longer rows keep more than one block of threads busy: they are left to CuPy."""

LEAST_ELEMENTS = 32  # shorter ones would leave most of a block idle, likewise
OPERATIONS = {
    "sum": ("W(x)", "a + b", "W(0)"),
    "prod": ("W(x)", "a * b", "W(1)"),
    "any": ("x != T(0)", "a || b", "false"),
    "all": ("x != T(0)", "a && b", "true"),
    "amin": ("W(x)", "isnan(a) || !(isnan(b) || b < a) ? a : b", "W(row[0])"),
    "amax": ("W(x)", "isnan(a) || !(isnan(b) || a < b) ? a : b", "W(row[0])"),
}
"""What is done: what becomes of an element, how two come together, what to start with."""

_WHOLE = {"amin": "b < a ? b : a", "amax": "a < b ? b : a"}
"""How two come together of types without NaNs."""

_SOURCE = """
struct Batch {
  unsigned long long at[2 * %(calls)d];
  unsigned long long count[%(calls)d];
  alignas(16) unsigned char scalar[1][16];
};

typedef %(given)s T;
typedef %(work)s W;
typedef %(result)s R;

extern "C" __global__ void reduction(const __grid_constant__ Batch batch) {
  alignas(16) __shared__ unsigned char raw[%(threads)d * sizeof(W)];
  W* const parts = (W*)raw;
  const unsigned int call = blockIdx.y, calls = gridDim.y, own = threadIdx.x;
  const unsigned long long count = batch.count[call];
  const T* const row = (const T*)batch.at[call] + blockIdx.x * count;
  W a = %(start)s;
  for (unsigned int i = own; i < count; i += %(threads)d) {
    const T x = row[i];
    const W b = %(element)s;
    a = %(combine)s;
  }
  parts[own] = a;
  for (unsigned int half = %(threads)d / 2; half > 0; half /= 2) {
    __syncthreads();
    if (own < half) {
      const W a = parts[own], b = parts[own + half];
      parts[own] = %(combine)s;
    }
  }
  if (own == 0) ((R*)batch.at[calls + call])[blockIdx.x] = R(parts[0]);
}
"""


def source(name: str, signature: Signature) -> str | None:
    """Return a kernel called `reduction`; None for types that CUDA C++ has not.

    >>> double = np.dtype(np.float64)
    >>> "a = a + b;" in source("sum", Signature((double,), (), (double,), 8, False))
    True
    """
    ((given,), (result,)) = signature.operands, signature.results
    types = [
        NAMES.get(f"{t.kind}{t.itemsize}") if t.isbuiltin == 1 else None for t in (given, result)
    ]
    if None in types or (given.kind == "c" and result.kind not in "cb"):
        return None
    if name in _WHOLE and given.kind == "c":
        return None
    element, combine, start = OPERATIONS[name]
    if given.kind != "f":
        combine = _WHOLE.get(name, combine)
    work = "float" if result == np.float16 else types[1]
    text = _SOURCE % {
        "calls": signature.calls,
        "threads": THREADS,
        "given": types[0],
        "work": work,
        "result": types[1],
        "start": start,
        "element": element,
        "combine": combine,
    }
    return with_headers(text)
