"""Call functions on the host with values of arrays: `pure_callback`, `io_callback` and others.

A mapped value is one array with named dims. It is copied to the host once. The callback is then
called once for each position along the named dims: for each device if the dims lie on devices
(`shard_map`, `pmap`), for each element otherwise (`vmap`). Or it is called once for all elements,
with the mapped dims in front.

An example: `vmap` over 3 elements calls `f` with `x` of shape (2,). `x` is one array of shape
(3, 2), with the named dim first. With `vmap_method="sequential"`, the callback gets 3 arrays of
shape (2,), one after the other; with "expand_dims" it gets one array of shape (3, 2).
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard._array.array import Array
from gpushard._array.key_array import elements_of, is_keys
from gpushard._functions.element_types import as_dtype
from gpushard._functions.host_reads import concrete
from gpushard._functions.shapes import as_shape
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.table.packed_keys import UNPACK
from gpushard._placement.default_placement import default_sharding
from gpushard._placement.device_put import as_sharding, device_put
from gpushard._runtime import current_runtime
from gpushard._transforms.graph.graph import Var
from gpushard._transforms.graph.ops import Callback
from gpushard._transforms.tracing.executable import array_of
from gpushard._transforms.tracing.trace import tracing
from gpushard._transforms.values.frames import (
    NamedDim,
    Names,
    conditions,
    frames,
    innermost,
    merge_names,
)
from gpushard._transforms.values.leaves import check_leaf
from gpushard._transforms.values.mapped import Mapped, mapped
from gpushard._transforms.values.traced import TracedValue, user_line
from gpushard._typing import HostArray, Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, CallbackError, UnsupportedError

Position: TypeAlias = dict[NamedDim, int]
"""An index along each of some named dims."""

_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
            "legacy_vectorized", None)  # fmt: skip


class Operands:
    """The arguments of a callback: their values at the time of the call, to be read later.

    Args:
      arguments: a pytree of arguments.
      what: the function that was called with them, for errors.
      others: whether leaves that are no arrays go to the callback unchanged.
      effect: whether the callback has effects. It is then called only for the elements that reach
        the call: those in a branch that they choose, or in a loop that they have not left.
    """

    def __init__(
        self, arguments: Any, what: str, *, others: bool = False, effect: bool = True
    ) -> None:
        leaves, self._structure = tree.flatten(arguments)
        paths = self._structure.leaf_paths()
        snapshots = [
            _take_snapshot(leaf, what, tree.keystr(path), others)
            for leaf, path in zip(leaves, paths, strict=True)
        ]
        self.count = len(snapshots)
        """How many values are arguments. The rest are conditions: whether an element calls it."""
        if effect:
            snapshots += [_take_snapshot(x, what, "", others=False) for x in conditions()]
        self.values = [value for value, _ in snapshots]
        self.names: list[Names] = [names for _, names in snapshots]
        """The named dims of each value."""
        self.what = what
        self.title = f"the function of {what} at {user_line()}"
        self.frame = innermost()
        self.mesh: Any = None if self.frame is None else self.frame.mesh
        self.placed = merge_names(
            tuple([name for frame in frames() for name in frame.dims if name.axes is not None])
        )
        """The named dims that lie on devices, one element on each."""
        self.varying = merge_names(*self.names)
        """The named dims of all values together."""

    def device_at(self, position: Position) -> Any:
        """Return the device at a position; without a mesh, the first device of an array."""
        if self.mesh is None or not position:
            shardings = (x._sharding for x in self.values if isinstance(x, Array))
            sharding: Any = next(shardings, None) or default_sharding(())
            return min(sharding.device_set, key=lambda device: device.id)
        along = {name.axes[0]: at for name, at in position.items() if name.axes is not None}
        return self.mesh.devices[tuple([along.get(axis, 0) for axis in self.mesh.axis_names])]

    def read(self) -> list[Any]:
        """Wait for all values, and return them as read-only NumPy arrays."""
        return [
            concrete(x, "an argument of a callback", explicit=True) if isinstance(x, Array) else x
            for x in self.values
        ]

    def at(self, host: Sequence[Any], position: Position, dims: Names = (), how: str = "") -> Any:
        """Return the arguments for the callback at a position.

        Args:
          host: the values that `read` returned.
          position: the index along the other named dims.
          dims: named dims that stay, as the first dims of the arguments that have them.
          how: for arguments that lack some of `dims`: "expand_dims" gives them dims of length 1,
            "broadcast_all" repeats them; anything else leaves them out.
        """
        parts = []
        for part, names in zip(host[: self.count], self.names, strict=False):
            if isinstance(part, np.ndarray):
                part = part[_index(names, position)]
                if how in ("expand_dims", "broadcast_all"):
                    part = part[(*[slice(None) if n in names else None for n in dims], ...)]
                if how == "broadcast_all":
                    full = [name.size for name in dims]
                    part = np.broadcast_to(part, (*full, *part.shape[len(dims) :]))
            parts.append(part)
        return tree.unflatten(self._structure, parts)

    def is_active(self, host: Sequence[Any], position: Position, dims: Names = ()) -> bool:
        """Whether all conditions hold at a position, for any element along the dims in `dims`."""
        holds = np.True_
        for part, names in zip(host[self.count :], self.names[self.count :], strict=True):
            condition = part[_index(names, position)]
            holds = holds & condition[tuple([slice(None) if n in names else None for n in dims])]
        return bool(holds.any())

    def run_or_record(
        self,
        run: Callable[[Operands], Sequence[HostArray]],
        avals: Sequence[tuple[Shape, Any]] = (),
        places: Sequence[Sharding | None] = (),
        *,
        effect: bool = True,
    ) -> list[Any]:
        """Call a function with the values: now, or at each run of the function being traced.

        Args:
          run: takes operands that can be read, and returns results on the host.
          avals: shape and type of each result.
          places: the sharding of each result; None for that of new arrays.
          effect: whether it is called even if no result is needed.

        Returns:
          The results as arrays.
        """
        trace = tracing()
        if trace is None:
            return [device_put(x, to) for x, to in zip(run(self), places, strict=True)]
        lifted = [trace.lift(x) for x in self.values if isinstance(x, Array)]
        results = []
        for (shape, dtype), to in zip(avals, places, strict=True):
            lies = to or default_sharding(shape)
            results.append(Var(dtype, lies.tiling(shape), lies, to is not None, weak=False))

        def run_again(buffers: Sequence[Any]) -> list[Any]:
            arrays = iter(
                [
                    array_of(buffer, var, buffer.runtime, keys=False)
                    for buffer, var in zip(buffers, lifted, strict=True)
                ]
            )
            now = copy.copy(self)
            now.values = [
                _start_copy(next(arrays)) if isinstance(x, Array) else x for x in now.values
            ]
            return [device_put(x, to)._live() for x, to in zip(run(now), places, strict=True)]

        traced = trace.record(None, Callback(self.what, run_again, effect), lifted, results)
        return [traced] if len(results) == 1 else list(traced)


def _index(names: Names, position: Position) -> Any:
    """Return the index that takes a position out of an array with named dims in front."""
    return (*[position.get(name, slice(None)) for name in names], ...)


def _positions(names: Sequence[NamedDim]) -> Iterator[Position]:
    """Yield all positions along named dims; the last dim counts fastest."""
    for at in itertools.product(*[range(name.size) for name in names]):
        yield dict(zip(names, at, strict=True))


def _take_snapshot(x: Any, what: str, path: str, others: bool) -> tuple[Any, Names]:
    """Return the value that an argument has now, and its named dims; arrays start to copy."""
    names: Names = ()
    if isinstance(x, TracedValue):
        x._check_open()
    if type(x) is Mapped:
        x, names = x._value, x._names
    if isinstance(x, Array):
        x = bind(UNPACK, (elements_of(x),)) if is_keys(x) else copy.copy(x)
        return (x if isinstance(x, TracedValue) else _start_copy(x)), names
    if others and not hasattr(x, "__array__") and not isinstance(x, bool | int | float | complex):
        return x, ()
    check_leaf(x, what, f"argument {path}")
    value = np.array(x)
    value.flags.writeable = False
    return value, ()


def _start_copy(x: Any) -> Any:
    """Start to copy an array to the host, and return the array."""
    x.copy_to_host_async()
    return x


def call_later(function: Callable[[Any, Any], Any], operands: Operands, dims: Names = ()) -> None:
    """Call a function later, on the thread of callbacks, for each device and each mapped element.

    Args:
      function: takes the arguments at a position, and the device.
      operands: the arguments.
      dims: named dims that the arguments keep instead, as their first dims.
    """
    others = [name for name in operands.varying if name.axes is None and name not in dims]
    over = (*operands.placed, *reversed(others))
    title = operands.title

    def put(now: Operands) -> tuple[()]:
        callbacks = current_runtime.current().callbacks

        def run() -> None:
            host = now.read()
            for position in _positions(over):
                if now.is_active(host, position, dims):
                    args, device = now.at(host, position), now.device_at(position)
                    callbacks.attempt(title, functools.partial(function, args, device))

        callbacks.put(title, run)
        return ()

    operands.run_or_record(put)


def call_now(
    function: Callable[[Any, Any], Any],
    result: Any,
    operands: Operands,
    over: Names,
    dims: Names = (),
    how: str = "",
    sharding: Any = None,
    *,
    effect: bool = True,
) -> Any:
    """Call a function, wait for it, and return its results as arrays.

    Args:
      function: takes the arguments at a position, and the device.
      result: a pytree of objects with the shape and the dtype of each result.
      operands: the arguments.
      over: named dims; it is called for each position along them.
      dims: named dims that arguments and results keep, as their first dims.
      how: what arguments that lack some of `dims` get; see `Operands.at`.
      sharding: the sharding of the results.
      effect: whether it is called even if no result is needed.

    Raises:
      CallbackError: the function raised an error, or its results are not as declared.
    """
    leaves, structure = tree.flatten(result)
    paths = [tree.keystr(path) for path in structure.leaf_paths()]
    title, mesh, names = operands.title, operands.mesh, merge_names(over, dims)
    declared = [
        _declared_aval(leaf, operands.what, path) for leaf, path in zip(leaves, paths, strict=True)
    ]
    avals = [((*[name.size for name in names], *shape), dtype) for shape, dtype in declared]
    if mesh is not None:
        sharding = NamedSharding(mesh, P(*[name.place for name in names]))
    places = [
        None if sharding is None else as_sharding(sharding, len(shape), "sharding")
        for shape, _ in avals
    ]

    def run(now: Operands) -> list[HostArray]:
        out = [np.zeros(*aval) for aval in avals]

        def calls() -> None:
            host = now.read()
            for position in _positions(over):
                if not now.is_active(host, position):
                    continue
                returned = function(now.at(host, position, dims, how), now.device_at(position))
                results = tree.leaves_with_path(returned)
                _check_structure([tree.keystr(path) for path, _ in results], paths, title)
                for array, path, (_, leaf) in zip(out, paths, results, strict=True):
                    part = array[_index(names, position)]
                    part[...] = _check_part(np.asarray(leaf), part, title, path)

        current_runtime.current().callbacks.call(title, calls)
        return out

    arrays = operands.run_or_record(run, avals, places, effect=effect)
    if operands.frame is not None:
        arrays = [mapped(x, names, operands.frame, None) for x in arrays]
    return tree.unflatten(structure, arrays)


def _declared_aval(leaf: Any, what: str, path: str) -> tuple[Shape, Any]:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise ArgumentTypeError(
            f"{what}: result_shape_dtypes{path} is a {type(leaf).__name__}; give a "
            "ShapeDtypeStruct(shape, dtype) for each array that the callback returns",
            argument="result_shape_dtypes",
            leaf=path,
            type=type(leaf),
        )
    return as_shape(leaf.shape), as_dtype(leaf.dtype)


def _check_structure(leaves: list[str], paths: list[str], title: str) -> None:
    """Check that the leaves of a result are those of `result_shape_dtypes`."""
    if leaves != paths:
        raise CallbackError(
            f"{title} returned results {leaves}, and {paths} are declared; return a pytree with "
            "the structure of result_shape_dtypes",
            leaves=leaves,
            expected=paths,
        )


def _check_part(result: HostArray, part: HostArray, title: str, path: str) -> HostArray:
    """Check that a result has the shape and the type of its part of the declared array."""
    if result.shape != part.shape or result.dtype != part.dtype:
        raise CallbackError(
            f"{title} returned {result.dtype}{list(result.shape)} for result{path}, which is "
            f"declared as {part.dtype}{list(part.shape)}; convert it in the function, or change "
            "result_shape_dtypes",
            leaf=path,
            shape=result.shape,
            dtype=result.dtype,
            expected=part.shape,
            expected_dtype=part.dtype,
        )
    return result


def effects_barrier() -> None:
    """Wait until all pending callbacks have run, for example those of `debug.print`.

    Raises:
      CallbackError: a callback has failed since the last barrier. If several have failed, the error
        is that of the last one.

    >>> import gpushard as gs
    >>> seen = []
    >>> gs.debug.callback(seen.append, gs.numpy.arange(3))
    >>> effects_barrier()
    >>> seen
    [array([0, 1, 2])]
    """
    current_runtime.current().callbacks.wait()


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has no side effects, with NumPy arrays, also in traced functions.

    Use it to call NumPy, SciPy and other libraries from `jit`, `vmap` or `shard_map`. In a function
    that `shard_map` or `pmap` maps, gpushard calls the callback for the block of each device.
    Devices with the same block share a call. Use `io_callback` for a function that has side
    effects.

    Args:
      callback: the function. It gets read-only NumPy arrays.
      result_shape_dtypes: describes the array that the callback returns: a `ShapeDtypeStruct`, or
        any object with a shape and a dtype; or a pytree of them. In a mapped function, these
        describe the result for one element.
      *args: arguments of the callback: pytrees of arrays and numbers.
      sharding: the sharding of the results; must be None in a mapped function.
      vmap_method: how to call the callback in a function that `vmap` maps. "sequential" calls it
        once for each element. The other methods call it once for all elements, with the mapped axis
        as first axis. They differ in arguments that `vmap` does not map. "expand_dims" gives these
        a first axis of length 1. "broadcast_all" repeats them along the mapped axis.
        "legacy_vectorized" leaves them unchanged.
      **kwargs: keyword arguments of the callback.

    Returns:
      An array for each leaf of `result_shape_dtypes`.

    Raises:
      CallbackError: the callback raised an error, or its results differ from `result_shape_dtypes`.
      ArgumentTypeError: `callback` cannot be called, or an argument is not an array.
      ArgumentError: `vmap_method` is unknown.
      UnsupportedError: `vmap` maps an argument, and `vmap_method` is None. Or `sharding` is given
        in a mapped function.

    >>> import gpushard as gs
    >>> x = gs.numpy.asarray([1.0, 4.0])
    >>> pure_callback(np.sqrt, gs.ShapeDtypeStruct((2,), "float64"), x)
    Array([1., 2.], dtype=float64)
    """
    if vmap_method not in _METHODS:
        known = ", ".join(map(repr, _METHODS))
        raise ArgumentError.refusing(
            "vmap_method", vmap_method, f"is unknown; use one of {known}", "pure_callback"
        )
    function, operands = _read_call("pure_callback", callback, args, kwargs, sharding, effect=False)
    dims = tuple([name for name in operands.varying if name.axes is None])
    if dims and vmap_method is None:
        raise UnsupportedError(
            "pure_callback: an argument is mapped by vmap, and vmap_method is None. Try: "
            'vmap_method="sequential", or "expand_dims" for a callback that takes all elements '
            "at once",
            argument="vmap_method",
        )
    if vmap_method is None or vmap_method.startswith("sequential"):
        dims = ()
    over = tuple([name for name in operands.varying if name not in dims])
    return call_now(
        function, result_shape_dtypes, operands, over, dims, vmap_method or "", sharding,
        effect=False,
    )  # fmt: skip


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has side effects, with NumPy arrays, also in traced functions.

    Use it to read files, to log, or to draw from a generator. gpushard calls the function even if
    nothing needs its results. In a function that `shard_map` or `pmap` maps, it is called for each
    device, and results may differ between devices. In a function that `vmap` maps, it is called for
    each element. It is not called for elements that do not choose its branch of `cond` or `switch`,
    or that have left its loop.

    Args:
      callback: the function. It gets read-only NumPy arrays.
      result_shape_dtypes: describes the array that the callback returns: a `ShapeDtypeStruct`, or
        any object with a shape and a dtype; or a pytree of them. None if the callback returns None.
      *args: arguments of the callback: pytrees of arrays and numbers.
      sharding: the sharding of the results; must be None in a mapped function.
      ordered: whether calls keep the order of the program. They always do. Under `vmap`, True
        raises an error, because elements have no order.
      **kwargs: keyword arguments of the callback.

    Returns:
      An array for each leaf of `result_shape_dtypes`.

    Raises:
      CallbackError: the callback raised an error, or its results are not as declared.
      ArgumentTypeError: `callback` cannot be called, or an argument is no array.
      ArgumentError: `ordered` is True, and `vmap` maps an argument.
      UnsupportedError: `sharding` is given in a mapped function.

    >>> import gpushard as gs
    >>> log = []
    >>> io_callback(log.append, None, gs.numpy.arange(2))
    >>> log
    [array([0, 1])]
    """
    function, operands = _read_call("io_callback", callback, args, kwargs, sharding)
    if ordered and any(name.axes is None for name in operands.varying):
        raise ArgumentError(
            "io_callback: ordered=True, and vmap maps an argument or a condition of the call; "
            "mapped elements have no order. Leave ordered out",
            argument="ordered",
        )
    over = merge_names(operands.placed, operands.varying)
    return call_now(function, result_shape_dtypes, operands, over, sharding=sharding)


def check_callback(f: Any, what: str) -> None:
    """Check that a callback can be called.

    Raises:
      ArgumentTypeError: it cannot be called.
    """
    if not callable(f):
        raise ArgumentTypeError.refusing("callback", f, "must be a function", what)


def _read_call(
    what: str,
    callback: Any,
    args: Any,
    kwargs: Any,
    sharding: Sharding | None,
    *,
    effect: bool = True,
) -> tuple[Callable[[Any, Any], Any], Operands]:
    """Check a call of a public function; return the callback for `call_now`, and its arguments."""
    check_callback(callback, what)
    operands = Operands((args, kwargs), what, effect=effect)
    if sharding is not None and operands.frame is not None:
        why = f"in the {operands.frame.what}, which decides where results lie; leave it out"
        raise UnsupportedError.refusing("sharding", sharding, why, what)
    return lambda arguments, device: callback(*arguments[0], **arguments[1]), operands
