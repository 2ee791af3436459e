"""Divide by a length that the host knows, by a multiplication. Pure.

GPUs have no instruction that divides integers: a quotient takes about twenty instructions. A kernel
that computes the indices of an element divides by the lengths of loops, which are equal for all
threads of a launch. So the host computes a factor for each length, and the kernel multiplies by it:

    factor = ceil(2**(31 + shift) / length), where 2**shift is the least power of 2 >= length
    n / length = (2 * n * factor) >> (32 + shift), for all n below 2**31

This is exact: the factor is too large by less than 1, so the product is too large by less than
n < 2**31. That does not bring a quotient to the next whole number, as 2**shift >= length.

Kernels that count with 64 bits divide.
"""

from __future__ import annotations

NARROW = """
struct Divisor {
  unsigned int length, factor, shift;

  __device__ Divisor(unsigned long long count)
      : length(count), factor(count >> 32), shift(length < 2 ? 0 : 32 - __clz(length - 1)) {}
  // The remainder; leaves the quotient.
  __device__ unsigned int take(unsigned int& rest) const {
    const unsigned int quotient = __umulhi(rest << 1, factor) >> shift;
    const unsigned int index = rest - quotient * length;
    rest = quotient;
    return index;
  }
};
"""
WIDE = """
struct Divisor {
  unsigned long long length;

  __device__ Divisor(unsigned long long count) : length(count) {}
  __device__ unsigned long long take(unsigned long long& rest) const {
    const unsigned long long index = rest % length;
    rest /= length;
    return index;
  }
};
"""
"""Source before kernels that divide: `NARROW` to count with 32 bits, `WIDE` with 64."""


def pack_divisor(length: int) -> int:
    """Pack a length below 2**31 and its factor, for a kernel that counts with 32 bits.

    >>> pack_divisor(1) == 1 + (1 << 31 << 32)
    True
    >>> factor = pack_divisor(7) >> 32
    >>> [(2 * n * factor) >> 32 + 3 for n in (6, 7, 2**31 - 1)] == [0, 1, 306783378]
    True
    """
    shift = max(0, length - 1).bit_length()
    factor = -(-(1 << 31 + shift) // max(1, length))
    return length | factor << 32
