"""Packing booleans into the bits of bytes, and unpacking them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_key, integer
from gpushard._functions.sorting import along
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.padding import pad

__all__ = ["packbits", "unpackbits"]

_ORDERS = {"big": np.arange(7, -1, -1, dtype=np.uint8), "little": np.arange(8, dtype=np.uint8)}
"""How far each bit of a byte is from the last one."""


def _bits(name: str, bitorder: Any) -> Any:
    check_key(bitorder, name, "bitorder", '"big" or "little"')
    if bitorder not in _ORDERS:
        raise ArgumentError.refusing("bitorder", bitorder, 'must be "big" or "little"', name)
    return _ORDERS[bitorder]


@public
def packbits(a: Any, axis: Any = None, bitorder: str = "big", *, out_sharding: Any = None) -> Array:
    """Pack each eight consecutive elements into a byte: bit 0 for zeros, bit 1 for other numbers.

    Args:
      a: an array of booleans or integers.
      axis: the axis, which is padded with zeros; by default the array is flattened in row-major
        order.
      bitorder: "big" if the first element is the most significant bit, "little" if it is the least
        significant one.

    Raises:
      ArgumentTypeError: the array has another dtype.
      ArgumentError: `bitorder` is unknown.

    >>> packbits([1, 0, 1]), packbits([1, 0, 1], bitorder="little")
    (Array([160], dtype=uint8), Array([5], dtype=uint8))
    """
    shifts = _bits("packbits", bitorder)
    if kind_of(a.dtype) not in "biu":
        raise ArgumentTypeError(
            f"packbits: a of {a.dtype} must be of booleans or integers; give a != 0",
            argument="a",
            dtype=a.dtype,
        )
    a, at = along("packbits", a, axis)
    widths = [(0, 0)] * a.ndim
    widths[at] = 0, -a.shape[at] % 8
    a = ew.not_equal(a, 0)
    full = pad(a, widths) if widths[at][1] else a
    shape = list(full.shape)
    shape[at : (at + 1) or None] = [shape[at] // 8, 8]
    places = (shifts if at == -1 else shifts.reshape(8, *[1] * (-at - 1))).astype(np.uint8)
    bits = ew.left_shift(full.reshape(tuple(shape)).astype(np.uint8), places)
    return bits.sum(at, dtype=np.uint8)


@public
def unpackbits(
    a: Any, axis: Any = None, count: Any = None, bitorder: str = "big", *, out_sharding: Any = None
) -> Array:
    """Unpack the bits of bytes into zeros and ones.

    Args:
      a: an array of `uint8`.
      axis: the axis; by default the array is flattened in row-major order.
      count: the number of bits in the result; all bits by default. If there are fewer bits, the
        result is padded with zeros. A negative number -n drops n bits from the end.
      bitorder: "big" if the most significant bit comes first, "little" if the least significant bit
        comes first.

    Raises:
      ArgumentTypeError: the array has another dtype.
      ArgumentError: `bitorder` is unknown, or `count` drops more bits than there are.

    >>> unpackbits(np.array([160], np.uint8), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    shifts = _bits("unpackbits", bitorder)
    if a.dtype != np.uint8:
        raise ArgumentTypeError(
            f"unpackbits: a of {a.dtype} must be of uint8; convert it with astype",
            argument="a",
            dtype=a.dtype,
        )
    a, at = along("unpackbits", a, axis)
    dim = a.ndim + at
    lead, rest = a.shape[: dim + 1], a.shape[dim + 1 :]
    places = shifts.reshape(8, *[1] * len(rest))
    bits = ew.bitwise_and(ew.right_shift(a.reshape((*lead, 1, *rest)), places), 1)
    flat = bits.reshape((*lead[:-1], lead[-1] * 8, *rest))
    if count is None:
        return flat
    size = lead[-1] * 8
    wanted = integer(count, "unpackbits", "count")
    if wanted < -size:
        raise ArgumentError.refusing(
            "count", wanted, f"leaves out more than the {size} bits that there are", "unpackbits"
        )
    wanted = wanted + size if wanted < 0 else wanted
    if wanted > size:
        widths = [(0, 0)] * a.ndim
        widths[at] = 0, wanted - size
        return pad(flat, widths)
    return flat[(slice(None),) * dim + (slice(wanted),)]
