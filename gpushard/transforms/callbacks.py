"""Functions on the host that are called with values of mapped functions, or of any arrays.

A mapped value is one array with named dims. It is copied to the host once, and a function gets the
part of it that is for one position along these names: for each device where devices have them,
otherwise for each element, or for all of these in one call, with their dims in front.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard.array.array import Array
from gpushard.array.key_array import KeyArray
from gpushard.errors import ArgumentError, ArgumentTypeError, CallbackError, UnsupportedError
from gpushard.functions.checks import as_dtype, as_shape
from gpushard.functions.concrete import concrete
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.geometry.sharding import Sharding
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import device_put
from gpushard.runtime import current
from gpushard.transforms.named_dims import (
    Mapped,
    NamedDim,
    Names,
    frames,
    innermost,
    mapped,
    merged,
)
from gpushard.transforms.signature import check_leaf
from gpushard.transforms.traced import user_line
from gpushard.typing import HostArray

Position: TypeAlias = dict[NamedDim, int]
"""Which element of some named dims."""

_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
            "legacy_vectorized", None)  # fmt: skip


class Operands:
    """What a callback is to get: the values that its arguments have now, and can be read later.

    Args:
      given: a pytree of arguments.
      what: the function that was called with them, for errors.
      others: whether leaves that are no arrays go to the callback as they are.
    """

    def __init__(self, given: Any, what: str, *, others: bool = False) -> None:
        leaves, self._structure = tree.flatten(given)
        self._values: list[Any] = []
        self.names: list[Names] = []
        """The named dims that each leaf has."""
        for leaf, path in zip(leaves, self._structure.leaf_paths(), strict=True):
            value, names = _snapshot(leaf, what, "".join(map(str, path)), others)
            self._values.append(value)
            self.names.append(names)
        self.frame = innermost()
        self.placed: Names = tuple(
            sorted(
                (name for frame in frames() for name in frame.dims if name.axes is not None),
                key=lambda name: name.order,
            )
        )
        """The named dims whose elements are on devices each."""
        self.varying = merged(*self.names)
        """All that some leaf has."""
        self.device = self._first_device()

    def _first_device(self) -> Any:
        own = (x.sharding for x in self._values if isinstance(x, Array))
        sharding: Any = next(own, None) or default_sharding(())
        return min(sharding.device_set, key=lambda device: device.id)

    def device_at(self, position: Position) -> Any:
        """Return the device of a position; the first one where that does not say."""
        mesh = None if self.frame is None else self.frame.mesh
        if mesh is None or not position:
            return self.device
        along = {name.axes[0]: at for name, at in position.items() if name.axes is not None}
        return mesh.devices[tuple([along.get(axis, 0) for axis in mesh.axis_names])]

    def read(self) -> list[Any]:
        """Wait for all values, and return them; arrays of the host are read-only."""
        return [
            concrete(x, "an argument of a callback", explicit=True) if isinstance(x, Array) else x
            for x in self._values
        ]

    def at(self, host: Sequence[Any], position: Position, dims: Names = (), how: str = "") -> Any:
        """Return what a callback gets at a position.

        Args:
          host: what `read` gave.
          position: which element.
          dims: named dims that arguments which have them keep, in front.
          how: "expand_dims" or "broadcast_all": what other arguments get for these.
        """
        parts = []
        for value, names in zip(host, self.names, strict=True):
            if not isinstance(value, np.ndarray):
                parts.append(value)
                continue
            part: HostArray = value[(*[position.get(name, slice(None)) for name in names], ...)]
            if how in ("expand_dims", "broadcast_all"):
                lead = [slice(None) if name in names else None for name in dims]
                part = part[(*lead, ...)]
            if how == "broadcast_all":
                rest = part.shape[len(dims) :]
                part = np.broadcast_to(part, (*[name.size for name in dims], *rest))
            parts.append(part)
        return tree.unflatten(self._structure, parts)


def positions(names: Sequence[NamedDim]) -> Iterator[Position]:
    """Yield all positions along names, the last of which counts fastest."""
    for at in itertools.product(*[range(name.size) for name in names]):
        yield dict(zip(names, at, strict=True))


def _snapshot(x: Any, what: str, path: str, others: bool) -> tuple[Any, Names]:
    names: Names = ()
    if type(x) is Mapped:
        x._check_open()
        x, names = x._value, x._names
    if isinstance(x, KeyArray):
        raise ArgumentTypeError(
            f"{what}: argument {path} is an array of random keys, which no callback takes; give "
            "gpushard.random.key_data(key)",
            argument=path,
        )
    if isinstance(x, Array):
        x = copy.copy(x)
        x.copy_to_host_async()
        return x, names
    if others and not hasattr(x, "__array__") and not isinstance(x, bool | int | float | complex):
        return x, ()
    check_leaf(x, what, f"argument {path}")
    value = np.array(x)
    value.flags.writeable = False
    return value, ()


def tap(
    function: Callable[[Any, Any], Any], operands: Operands, what: str, dims: Names = ()
) -> None:
    """Call a function some time soon, at each position on devices, and along other names.

    Args:
      function: takes the arguments at the position, and its device.
      operands: the arguments.
      what: the function that does so, for errors.
      dims: names that are left in the arguments.
    """
    others = [name for name in operands.varying if name.axes is None and name not in dims]
    over = (*operands.placed, *reversed(others))
    callbacks, title = current.current().callbacks, f"the function of {what} at {user_line()}"

    def run() -> None:
        host = operands.read()
        for position in positions(over):
            args = operands.at(host, position)
            callbacks.attempt(
                title, functools.partial(function, args, operands.device_at(position))
            )

    callbacks.put(title, run)


def called(
    function: Callable[[Any, Any], Any],
    result: Any,
    operands: Operands,
    what: str,
    over: Names,
    dims: Names = (),
    how: str = "",
    sharding: Sharding | None = None,
) -> Any:
    """Call a function now, and return the arrays that it gives.

    Args:
      function: takes the arguments at a position, and its device.
      result: a pytree of what has the shape and the dtype of each array.
      operands: the arguments.
      what: the function that does so, for errors.
      over: the names that it is called for each position of.
      dims: names that are left in the arguments and in the results.
      how: what other arguments get for these.
      sharding: where the arrays go.

    Raises:
      CallbackError: the function raised something, or gave something else.
    """
    leaves, structure = tree.flatten(result)
    paths = ["".join(map(str, path)) for path in structure.leaf_paths()]
    title = f"the function of {what} at {user_line()}"
    names = merged(over, dims)
    out = [_empty(leaf, names, what, path) for leaf, path in zip(leaves, paths, strict=True)]
    lead = tuple([name.size for name in dims])

    def run() -> None:
        host = operands.read()
        for position in positions(over):
            args = operands.at(host, position, dims, how)
            made = tree.leaves_with_path(function(args, operands.device_at(position)))
            own = ["".join(map(str, path)) for path, _ in made]
            if own != paths:
                raise CallbackError(
                    f"{title} gave results {own}, and {paths} are declared; return what has the "
                    "structure of result_shape_dtypes",
                    function=what,
                    leaves=own,
                    expected=paths,
                )
            at = (*[position.get(name, slice(None)) for name in names], ...)
            for array, path, (_, leaf) in zip(out, paths, made, strict=True):
                shape = (*lead, *array.shape[len(names) :])
                array[at] = _checked(np.asarray(leaf), shape, array.dtype, title, path)

    current.current().callbacks.call(title, run)
    return tree.unflatten(structure, [_placed(x, names, operands.frame, sharding) for x in out])


def _empty(leaf: Any, names: Names, what: str, path: str) -> HostArray:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise ArgumentTypeError(
            f"{what}: result_shape_dtypes{path} is a {type(leaf).__name__}; give a "
            "ShapeDtypeStruct(shape, dtype) for each array that the function returns",
            argument="result_shape_dtypes",
            leaf=path,
            type=type(leaf),
        )
    return np.empty((*[n.size for n in names], *as_shape(leaf.shape)), as_dtype(leaf.dtype))


def _checked(made: HostArray, shape: Any, dtype: Any, title: str, path: str) -> HostArray:
    if made.shape != shape or made.dtype != dtype:
        raise CallbackError(
            f"{title} gave {made.dtype}{list(made.shape)} for result{path}, which is declared as "
            f"{dtype}{list(shape)}; convert it, or declare what it gives",
            leaf=path,
            shape=made.shape,
            dtype=made.dtype,
            expected=shape,
            expected_dtype=dtype,
        )
    return made


def _placed(x: HostArray, names: Names, frame: Any, sharding: Sharding | None) -> Any:
    if frame is not None and frame.mesh is not None:
        sharding = NamedSharding(frame.mesh, P(*[name.place or None for name in names]))
    made = device_put(x, sharding)
    return made if frame is None else mapped(made, names, frame, None)


def effects_barrier() -> None:
    """Wait until all callbacks have been made: those of `debug.callback`, `debug.print` and taps.

    Raises:
      CallbackError: one of them failed since the last barrier; the last one, if several did.

    >>> import gpushard as gs
    >>> seen = []
    >>> gs.debug.callback(seen.append, gs.numpy.arange(3))
    >>> effects_barrier()
    >>> seen
    [array([0, 1, 2])]
    """
    current.current().callbacks.wait()


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a function of the host that has no effects, and return what it gives as arrays.

    It gets NumPy arrays. In a function that `shard_map` or `pmap` maps, it is called for the block
    of each device, once for blocks that are the same everywhere.

    Args:
      callback: the function.
      result_shape_dtypes: what has the shape and the dtype of the array that it returns, such as a
        `ShapeDtypeStruct`; or a pytree of these. In a mapped function, those of one element.
      *args: its arguments: pytrees of arrays and numbers.
      sharding: where the results go; not in a mapped function.
      vmap_method: how it is called in a function that `vmap` maps. "sequential": for each element;
        "expand_dims": for all at once, with the mapped dim in front, which is of one element for
        arguments that are not mapped; "broadcast_all": where these are repeated along the dim;
        "legacy_vectorized": where they have no such dim.
      **kwargs: its keyword arguments.

    Returns:
      An array for each leaf of `result_shape_dtypes`.

    Raises:
      CallbackError: the function raised something, or gave something else.
      ArgumentTypeError: what cannot be called, or an argument that is no array.
      ArgumentError: there is no such `vmap_method`.
      UnsupportedError: `vmap` maps an argument, and no `vmap_method` is given.

    >>> import gpushard as gs
    >>> x = gs.numpy.asarray([1.0, 4.0])
    >>> pure_callback(np.sqrt, gs.ShapeDtypeStruct((2,), "float64"), x)
    Array([1., 2.], dtype=float64)
    """
    if vmap_method not in _METHODS:
        raise ArgumentError(
            f"pure_callback: vmap_method={vmap_method!r} is unknown; use one of "
            f"{', '.join(map(repr, _METHODS))}",
            argument="vmap_method",
            value=vmap_method,
        )
    function, operands = _checked_call("pure_callback", callback, args, kwargs, sharding)
    dims = tuple([name for name in operands.varying if name.axes is None])
    if dims and vmap_method is None:
        raise UnsupportedError(
            "pure_callback: an argument is mapped by vmap, and vmap_method is None; give "
            'vmap_method="sequential", or "expand_dims" for a function that takes all elements '
            "at once",
            argument="vmap_method",
        )
    if vmap_method is None or vmap_method.startswith("sequential"):
        dims = ()
    over = tuple([name for name in operands.varying if name not in dims])
    return called(
        function, result_shape_dtypes, operands, "pure_callback", over, dims, vmap_method or "",
        sharding,
    )  # fmt: skip


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function of the host that has effects, and return what it gives as arrays.

    It gets NumPy arrays. In a function that `shard_map` or `pmap` maps, it is called for each
    device, so that results differ between devices; in one that `vmap` maps, for each element.

    Args:
      callback: the function.
      result_shape_dtypes: what has the shape and the dtype of the array that it returns, such as a
        `ShapeDtypeStruct`; or a pytree of these. None for a function that returns None.
      *args: its arguments: pytrees of arrays and numbers.
      sharding: where the results go; not in a mapped function.
      ordered: whether calls are made in the order of the program, as all are; not under `vmap`.
      **kwargs: its keyword arguments.

    Returns:
      An array for each leaf of `result_shape_dtypes`.

    Raises:
      CallbackError: the function raised something, or gave something else.
      ArgumentTypeError: what cannot be called, or an argument that is no array.
      ArgumentError: `ordered`, and `vmap` maps an argument.

    >>> import gpushard as gs
    >>> log = []
    >>> io_callback(log.append, None, gs.numpy.arange(2))
    >>> log
    [array([0, 1])]
    """
    function, operands = _checked_call("io_callback", callback, args, kwargs, sharding)
    if ordered and any(name.axes is None for name in operands.varying):
        raise ArgumentError(
            "io_callback: ordered=True, and an argument is mapped by vmap, whose elements have no "
            "order; leave it out",
            argument="ordered",
        )
    over = merged(operands.placed, operands.varying)
    return called(function, result_shape_dtypes, operands, "io_callback", over, sharding=sharding)


def check_callback(f: Any, what: str) -> None:
    """Check that a callback can be called.

    Raises:
      ArgumentTypeError: it cannot.
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"{what}: callback={f!r} must be a function",
            argument="callback",
            type=type(f),
        )


def _checked_call(
    what: str, callback: Any, args: Any, kwargs: Any, sharding: Sharding | None
) -> tuple[Callable[[Any, Any], Any], Operands]:
    check_callback(callback, what)
    operands = Operands((args, kwargs), what)
    if sharding is not None and operands.frame is not None:
        raise UnsupportedError(
            f"{what}: sharding={sharding!r} in the {operands.frame.what}, where results lie as "
            "what it maps; leave it out",
            argument="sharding",
        )
    return lambda given, device: callback(*given[0], **given[1]), operands
