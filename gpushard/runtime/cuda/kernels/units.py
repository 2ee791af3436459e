"""Units: neighbours in memory that one load or store moves, up to 16 bytes of them. Pure.

A thread that moves an element at a time asks for too few bytes before it waits: of bytes, 2,048
threads of a multiprocessor ask for a fifth of what a GPU's memory could have under way. So a thread
takes several neighbours. How many depends on types alone: 16 bytes of the widest type, for which
one of a narrower type is as many elements of fewer bytes.

Whether blocks lie so that units are aligned is known where a kernel runs, and decided there: each
block of threads asks the addresses that it was given. A load or store of a unit that is not aligned
is a fault on a GPU. So there is one kernel for all addresses, and the host decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpushard.typing import Dtype

UNIT_BYTES = 16
"""What a load or store moves at most."""

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
"""What kernels with units have before them."""


def elements_of(dtypes: Iterable[Dtype], most: int = UNIT_BYTES) -> int:
    """Return how many neighbours a thread takes of blocks of some types: a power of 2.

    Args:
      dtypes: types of all that is loaded and stored.
      most: how many there may be.

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
