"""Units: adjacent elements, up to 16 bytes, that one load or store moves. Pure.

A thread that moves one element at a time has too few bytes under way: with elements of one byte,
2,048 threads of a multiprocessor request a fifth of the bytes that a GPU's memory can deliver. So a
thread moves several adjacent elements. Their number depends only on dtypes: it is 16 bytes of the
widest dtype. A unit of a narrower dtype has as many elements, and fewer bytes.

On a GPU, a load or store of an unaligned unit is a fault. Whether units are aligned is decided in
the kernel: each block of threads checks its addresses. So there is one kernel for all addresses,
and the host decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpushard._typing import Dtype

UNIT_BYTES = 16
"""Most bytes that a load or store moves."""

SOURCE = """
template <unsigned int bytes> struct Word;
template <> struct Word<1> { typedef unsigned char type; };
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<4> { typedef unsigned int type; };
template <> struct Word<8> { typedef unsigned long long type; };
template <> struct Word<16> { typedef ulonglong2 type; };

// Neighbours in memory, which one load or store moves.
template <class T, unsigned int count>
struct Unit {
  typedef typename Word<count * sizeof(T)>::type Whole;
  T value[count];

  __device__ static bool begins_at(const T* at) {
    return (unsigned long long)at % sizeof(Whole) == 0;
  }
  __device__ void load(const T* at) {
    const Whole whole = *(const Whole*)at;
    memcpy((void*)value, &whole, sizeof(whole));
  }
  __device__ void store(T* at) const {
    Whole whole;
    memcpy(&whole, (const void*)value, sizeof(whole));
    *(Whole*)at = whole;
  }
};
"""
"""Source before kernels with units."""


def elements_of(dtypes: Iterable[Dtype], most: int = UNIT_BYTES) -> int:
    """Count the elements of a unit for blocks of some dtypes: a power of 2.

    Args:
      dtypes: dtypes of all loads and stores.
      most: most elements.

    >>> import numpy as np
    >>> [elements_of(map(np.dtype, letters)) for letters in ("bbb", "bf", "ee", "D")]
    [16, 4, 8, 1]
    >>> elements_of([np.dtype(np.int8)], 5)
    4
    """
    count = max(1, UNIT_BYTES // max((dtype.itemsize for dtype in dtypes), default=UNIT_BYTES))
    while count > max(1, most):
        count //= 2
    return count
