"""Functions that read or write on the host: texts, buffers and archives."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import integer, ranged
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import as_dtype
from gpushard._functions.host_memory import on_host
from gpushard._functions.shapes import element_count
from gpushard._placement.creation import asarray
from gpushard._placement.device_get import device_get
from gpushard._placement.npy import PathLike, checked_path
from gpushard.errors import ArgumentError, ArgumentRangeError, ArgumentTypeError

__all__ = [
    "array2string", "array_repr", "array_str", "errstate", "frombuffer", "fromiter",
    "get_printoptions", "iterable", "ndindex", "printoptions", "savez", "set_printoptions",
]  # fmt: skip

# NumPy's own, which take arrays, or have nothing to do with them.
array2string, array_repr, array_str = np.array2string, np.array_repr, np.array_str
get_printoptions, set_printoptions = np.get_printoptions, np.set_printoptions
errstate, iterable, ndindex, printoptions = np.errstate, np.iterable, np.ndindex, np.printoptions

_host = described(
    device="a device or a sharding for the result; by default the one for new arrays.",
    out_sharding="another name of `device`.",
)


@_host
def frombuffer(
    buffer: Any,
    dtype: Any = float,
    count: int = -1,
    offset: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create a vector from the bytes of a buffer on the host.

    Args:
      buffer: a bytes object, or another object with the buffer protocol.
      dtype: the dtype of the elements.
      count: the number of elements; -1 for all.
      offset: the position of the first element, in bytes.

    Raises:
      ArgumentError: the buffer has too few bytes, or ends within an element.
      ArgumentTypeError: `buffer` is not a buffer, or an argument is not an integer.

    >>> frombuffer(bytes([1, 2]), "u1")
    Array([1, 2], dtype=uint8)
    """
    name, target = "frombuffer", as_dtype(dtype)
    places = ranged(count, name, "count"), ranged(offset, name, "offset")
    try:
        data = np.frombuffer(buffer, target, *places)
    except (TypeError, ValueError) as error:
        kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(
            f"{name}: count={count} elements of {target} at offset={offset}: {error}",
            argument="buffer",
        ) from None
    return asarray(data, device=device, out_sharding=out_sharding)


@_host
def fromiter(
    iter: Iterable[Any],
    dtype: Any,
    count: int = -1,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create a vector from the numbers that an iterator yields.

    Args:
      iter: the iterator.
      dtype: the dtype of the elements.
      count: the number of elements; -1 for all.

    Raises:
      ArgumentError: the iterator yields fewer than `count` numbers.
      ArgumentTypeError: the iterator yields an object that is not a number.

    >>> fromiter((n * n for n in range(4)), int)
    Array([0, 1, 4, 9], dtype=int64)
    """
    name, target, number = "fromiter", as_dtype(dtype), integer(count, "fromiter", "count")
    most = None if number == -1 else element_count(max(number, 0), name, "count")
    try:
        entries = builtins.iter(iter)
    except TypeError:
        raise ArgumentTypeError.refusing("iter", iter, "must be an iterator", name) from None
    failures: list[BaseException] = []
    try:
        data = on_host(name, np.fromiter, _watched(entries, most, failures), target)
    except (TypeError, ValueError, OverflowError) as error:
        if failures:  # of the caller's iterator
            raise
        kind = ArgumentRangeError if isinstance(error, OverflowError) else ArgumentTypeError
        raise kind(
            f"{name}: iter must give numbers that {target} can hold: {error}", argument="iter"
        ) from None
    if most is not None and len(data) < most:
        raise ArgumentError.refusing(
            "count", most, f"is more than the {len(data)} numbers of iter; use -1 for all", name
        )
    return asarray(data, device=device, out_sharding=out_sharding)


def _watched(
    entries: Iterator[Any], most: int | None, failures: list[BaseException]
) -> Iterator[Any]:
    """Yield the first entries, and remember what the caller's iterator raises."""
    try:
        yield from itertools.islice(entries, most)
    except BaseException as error:
        failures.append(error)
        raise


def savez(file: PathLike, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to a `.npz` file, which `numpy.load` reads.

    Before it writes the file, `savez` copies all arrays to host memory.

    Args:
      file: the path of the file.
      *args: arrays; their names in the file are `arr_0`, `arr_1` and so on.
      allow_pickle: whether to pickle NumPy arrays of Python objects. Arrays of numbers need no
        pickle.
      **kwds: more arrays; the keyword of each is its name in the file.

    Raises:
      ArgumentError: `allow_pickle` is False, and an array holds Python objects.
      ExecutionError: the computation of an array failed.
    """
    if not hasattr(file, "write"):
        checked_path(file)
    arrays, named_arrays = device_get(list(args)), device_get(kwds)
    if not allow_pickle:
        _refuse_objects({f"arr_{n}": x for n, x in enumerate(arrays)} | named_arrays)
    np.savez(file, *arrays, **named_arrays)


def _refuse_objects(arrays: Mapping[str, Any]) -> None:
    """Check that no array needs a pickle: NumPy before 2.1 cannot forbid it."""
    for name, x in arrays.items():
        if np.asanyarray(x).dtype.hasobject:
            why = f"forbids {name}, which holds Python objects. Try: allow_pickle=True"
            raise ArgumentError.refusing("allow_pickle", False, why, "savez")
