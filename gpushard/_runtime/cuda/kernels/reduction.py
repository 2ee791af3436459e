"""Generate kernels that reduce dense rows, by one launch for the blocks of many devices. Pure.

CuPy's reductions examine their operands in every call, as its elementwise functions do. Here the
threads of a row go along it together, each with a unit of 16 bytes (`units`): up to 32 threads, or
a block of threads if the row has work for all. Within a unit, elements are combined in pairs. A
thread adds up its units, and then threads combine in pairs, by shuffles within a warp. So each
element is rounded only a few times. The order depends only on the dtype and the length of rows: not
on timing, the number of rows, or the alignment of units.

    rows of 128 of float32    32 units: 32 threads with a unit each, 8 rows a block of threads
    rows of 100 of int8        7 units: a thread with all of them, 256 rows
    rows of 8192 of float32    2,048 units: 256 threads with 8 units each, a row
"""

from __future__ import annotations

import numpy as np

from gpushard._runtime.cuda.kernels import units
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.elementwise import NAMES, Signature, with_headers
from gpushard._runtime.cuda.kernels.units import elements_of
from gpushard._typing import Dtype

MOST_ELEMENTS = 1 << 14
"""Longest row. Longer rows keep more than one block of threads busy: they are left to CuPy."""

LEAST_ELEMENTS = 32  # shorter rows would leave most of a block idle; they are left to CuPy, too
LENGTHS = 3
"""Numbers for each call: the length of rows, the number of rows, and the logarithm to base 2 of the
number of a row's threads."""

LANES = 32
"""Threads of a warp."""

OPERATIONS = {
    "sum": ("P(x)", "a + b", "W(0)"),
    "prod": ("P(x)", "a * b", "W(1)"),
    "any": ("x != T(0)", "a || b", "false"),
    "all": ("x != T(0)", "a && b", "true"),
    "amin": ("P(x)", "isnan(a) || !(isnan(b) || b < a) ? a : b", ""),
    "amax": ("P(x)", "isnan(a) || !(isnan(b) || a < b) ? a : b", ""),
}
"""For each reduction: the value of an element, the combination of two, and the start. Without a
start, an element of the row is the start, which may be counted twice."""

_WHOLE = {"amin": "b < a ? b : a", "amax": "a < b ? b : a"}
"""The combination of two elements of dtypes without NaNs."""

_TRUTH = {"any", "all"}
"""Reductions that give booleans, and also take complex elements."""

SHUFFLES = """
// What the thread of the same warp has that comes so many threads later.
template <class V>
__device__ V of_later(const V& value, unsigned int distance) {
  unsigned int words[(sizeof(V) + 3) / 4] = {};
  memcpy(words, (const void*)&value, sizeof(V));
  for (unsigned int n = 0; n < sizeof(words) / 4; n++) {
    words[n] = __shfl_down_sync(0xffffffff, words[n], distance);
  }
  V result;
  memcpy((void*)&result, words, sizeof(V));
  return result;
}

// What the first of so many threads of a warp has.
template <class V>
__device__ V of_first(const V& value, unsigned int lanes) {
  unsigned int words[(sizeof(V) + 3) / 4] = {};
  memcpy(words, (const void*)&value, sizeof(V));
  for (unsigned int n = 0; n < sizeof(words) / 4; n++) {
    words[n] = __shfl_sync(0xffffffff, words[n], 0, lanes);
  }
  V result;
  memcpy((void*)&result, words, sizeof(V));
  return result;
}
"""
"""Source before kernels that combine values of threads within a warp."""

_SOURCE = """
struct Batch {
  unsigned long long at[2 * %(calls)d];
  unsigned long long count[%(lengths)d * %(calls)d];
  alignas(16) unsigned char scalar[1][16];
};
%(units)s
%(shuffles)s
typedef %(given)s T;
typedef %(work)s W;
typedef %(result)s R;
typedef %(part)s P;

__device__ __forceinline__ P element(const T x) { return %(element)s; }
template <class V>
__device__ __forceinline__ V together(const V a, const V b) { return %(combine)s; }

const unsigned int each = %(each)d, threads = %(threads)d, warp = 32;

// Brings the units of a thread together.
template <bool aligned>
__device__ __forceinline__ W gone_along(
    const T* from, unsigned int length, unsigned int lane, unsigned int lanes) {
  W a = %(start)s;
  for (unsigned int at = lane * each; at < length; at += lanes * each) {
    P value[each];
    if (aligned) {
      Unit<T, each> unit;
      unit.load(from + at);
      #pragma unroll
      for (unsigned int k = 0; k < each; k++) value[k] = element(unit.value[k]);
    } else {
      #pragma unroll
      for (unsigned int k = 0; k < each; k++) {
        value[k] = at + k < length ? element(from[at + k]) : P(%(spare)s);
      }
    }
    #pragma unroll
    for (unsigned int half = each / 2; half > 0; half /= 2) {
      #pragma unroll
      for (unsigned int k = 0; k < half; k++) value[k] = together(value[k], value[k + half]);
    }
    a = together(a, W(value[0]));
  }
  return a;
}

extern "C" __global__ void reduction(const __grid_constant__ Batch batch) {
  alignas(16) __shared__ unsigned char raw[threads / warp * sizeof(W)];
  const unsigned int call = blockIdx.y, calls = gridDim.y;
  const unsigned int length = batch.count[call], power = batch.count[2 * calls + call];
  const unsigned long long rows = batch.count[calls + call];
  const unsigned int lanes = 1u << power, lane = threadIdx.x & (lanes - 1);
  const unsigned long long first = blockIdx.x * (unsigned long long)(threads >> power);
  if (first >= rows) return;
  const unsigned long long own = first + (threadIdx.x >> power);
  const unsigned long long row = own < rows ? own : rows - 1;  // all threads come to shuffles
  const T* const block = (const T*)batch.at[call];
  const T* const from = block + row * length;
  const bool aligned = Unit<T, each>::begins_at(block) && length %% each == 0;
  W a = aligned ? gone_along<true>(from, length, lane, lanes)
                : gone_along<false>(from, length, lane, lanes);
  #pragma unroll
  for (unsigned int half = warp / 2; half > 0; half /= 2) {
    if (half < lanes) a = together(a, of_later(a, half));
  }
  if (lanes > warp) {
    W* const parts = (W*)raw;
    if (threadIdx.x %% warp == 0) parts[threadIdx.x / warp] = a;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned int n = 1; n < threads / warp; n++) a = together(a, parts[n]);
    }
  }
  if (lane == 0 && own < rows) ((R*)batch.at[calls + call])[row] = R(a);
}
"""


def power_of(length: int, dtype: Dtype) -> int:
    """Choose the number of threads of a row of `length` elements; return its logarithm to base 2.

    >>> [power_of(n, np.dtype(np.float32)) for n in (32, 128, 1024, 2044, 2045)]
    [3, 5, 5, 5, 8]
    >>> [power_of(n, np.dtype(np.int8)) for n in (32, 128, 1024, 8176, 8177)]
    [0, 1, 4, 5, 8]
    """
    count = -(-length // elements_of([dtype]))
    # With narrow dtypes a thread has more units: they take less time to load than to combine.
    lanes = min(LANES, count // max(1, 4 // dtype.itemsize))
    return (THREADS if count >= 2 * THREADS else max(1, lanes)).bit_length() - 1


def _part(name: str, operand: Dtype, result: Dtype) -> str | None:
    """Return the type for the sum of a unit of small integers; None if it is that of the row."""
    narrow = operand.kind in "biu" and operand.itemsize < 4
    return "int" if name == "sum" and narrow and result.kind not in "bc" else None


def source(name: str, signature: Signature) -> str | None:
    """Generate the source of the kernel `reduction`; None for dtypes that CUDA C++ lacks.

    >>> double = np.dtype(np.float64)
    >>> "{ return a + b; }" in source("sum", Signature((double,), (), (double,), 8, False))
    True
    """
    ((operand,), (result,)) = signature.operands, signature.results
    types = [
        NAMES.get(f"{t.kind}{t.itemsize}") if t.isbuiltin == 1 else None for t in (operand, result)
    ]
    if None in types:
        return None
    if operand.kind == "c" and (name in _WHOLE or (result.kind != "c" and name not in _TRUTH)):
        return None
    element, combine, start = OPERATIONS[name]
    spare = start
    if not start:
        start, spare = "element(from[0])", "element(from[at])"
    if operand.kind != "f":
        combine = _WHOLE.get(name, combine)
    work = "float" if result == np.float16 else types[1]
    text = _SOURCE % {
        "calls": signature.calls,
        "lengths": LENGTHS,
        "units": units.SOURCE,
        "shuffles": SHUFFLES,
        "each": elements_of([operand]),
        "threads": THREADS,
        "given": types[0],
        "work": work,
        "part": _part(name, operand, result) or work,
        "result": types[1],
        "start": start,
        "spare": spare,
        "element": element,
        "combine": combine,
    }
    return with_headers(text)
