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
from gpushard.array.key_array import elements_of, is_keys
from gpushard.errors import ArgumentError, ArgumentTypeError, CallbackError, UnsupportedError
from gpushard.functions.checks import as_dtype, as_shape
from gpushard.functions.concrete import concrete
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.table.packed_keys import UNPACK
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import as_sharding, device_put
from gpushard.runtime import current
from gpushard.transforms.graph.graph import Var
from gpushard.transforms.graph.ops import Callback
from gpushard.transforms.tracing.executable import array_of
from gpushard.transforms.tracing.trace import tracing
from gpushard.transforms.values.frames import NamedDim, Names, conditions, frames, innermost, merged
from gpushard.transforms.values.mapped import Mapped, mapped
from gpushard.transforms.values.signature import check_leaf
from gpushard.transforms.values.traced import Traced, user_line
from gpushard.typing import HostArray, Shape

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
      effect: whether only elements that take the code around the call are to call it.
    """

    def __init__(self, given: Any, what: str, *, others: bool = False, effect: bool = True) -> None:
        leaves, self._structure = tree.flatten(given)
        paths = self._structure.leaf_paths()
        taken = [
            _snapshot(leaf, what, tree.keystr(path), others)
            for leaf, path in zip(leaves, paths, strict=True)
        ]
        self.count = len(taken)
        """How many of the values are arguments; the others are conditions of who calls it."""
        if effect:
            taken += [_snapshot(x, what, "", others=False) for x in conditions()]
        self.values = [value for value, _ in taken]
        self.names: list[Names] = [names for _, names in taken]
        """The named dims that each of them has."""
        self.what = what
        self.title = f"the function of {what} at {user_line()}"
        self.frame = innermost()
        self.mesh: Any = None if self.frame is None else self.frame.mesh
        self.placed = merged(
            tuple([name for frame in frames() for name in frame.dims if name.axes is not None])
        )
        """The named dims whose elements are on devices each."""
        self.varying = merged(*self.names)
        """All that some value has."""

    def device_at(self, position: Position) -> Any:
        """Return the device of a position; the first one of an array where that does not say."""
        if self.mesh is None or not position:
            own = (x._sharding for x in self.values if isinstance(x, Array))
            sharding: Any = next(own, None) or default_sharding(())
            return min(sharding.device_set, key=lambda device: device.id)
        along = {name.axes[0]: at for name, at in position.items() if name.axes is not None}
        return self.mesh.devices[tuple([along.get(axis, 0) for axis in self.mesh.axis_names])]

    def read(self) -> list[Any]:
        """Wait for all values, and return them; arrays of the host are read-only."""
        return [
            concrete(x, "an argument of a callback", explicit=True) if isinstance(x, Array) else x
            for x in self.values
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

    def is_for(self, host: Sequence[Any], position: Position, dims: Names = ()) -> bool:
        """Whether all conditions hold at a position, of some element of the named dims left."""
        holds = np.True_
        for part, names in zip(host[self.count :], self.names[self.count :], strict=True):
            own = part[_index(names, position)]
            holds = holds & own[tuple([slice(None) if n in names else None for n in dims])]
        return bool(holds.any())

    def do(
        self,
        run: Callable[[Operands], Sequence[HostArray]],
        avals: Sequence[tuple[Shape, Any]] = (),
        places: Sequence[Sharding | None] = (),
        *,
        effect: bool = True,
    ) -> list[Any]:
        """Do something with the values: now, or whenever the function runs that is being traced.

        Args:
          run: does it; gives data of the host.
          avals: shape and type of these.
          places: where they go; None for where new arrays go.
          effect: whether it is done even if nobody needs what it gives.

        Returns:
          Arrays of what it gives.
        """
        trace = tracing()
        if trace is None:
            return [device_put(x, to) for x, to in zip(run(self), places, strict=True)]
        taken = [trace.lift(x) for x in self.values if isinstance(x, Array)]
        results = []
        for (shape, dtype), to in zip(avals, places, strict=True):
            lies = to or default_sharding(shape)
            results.append(Var(dtype, lies.tiling(shape), lies, to is not None, weak=False))

        def again(buffers: Sequence[Any]) -> list[Any]:
            arrays = map(functools.partial(array_of, keys=False), buffers, taken)
            now = copy.copy(self)
            now.values = [_started(next(arrays)) if isinstance(x, Array) else x for x in now.values]
            return [device_put(x, to)._live() for x, to in zip(run(now), places, strict=True)]

        made = trace.record(None, Callback(self.what, again, effect), taken, results)
        return [made] if len(results) == 1 else list(made)


def _index(names: Names, position: Position) -> Any:
    """Return the index of what is at a position of an array whose first dims have names."""
    return (*[position.get(name, slice(None)) for name in names], ...)


def _positions(names: Sequence[NamedDim]) -> Iterator[Position]:
    """Yield all positions along names, the last of which counts fastest."""
    for at in itertools.product(*[range(name.size) for name in names]):
        yield dict(zip(names, at, strict=True))


def _snapshot(x: Any, what: str, path: str, others: bool) -> tuple[Any, Names]:
    names: Names = ()
    if isinstance(x, Traced):
        x._check_open()
    if type(x) is Mapped:
        x, names = x._value, x._names
    if isinstance(x, Array):
        x = bind(UNPACK, (elements_of(x),)) if is_keys(x) else copy.copy(x)
        return (x if isinstance(x, Traced) else _started(x)), names
    if others and not hasattr(x, "__array__") and not isinstance(x, bool | int | float | complex):
        return x, ()
    check_leaf(x, what, f"argument {path}")
    value = np.array(x)
    value.flags.writeable = False
    return value, ()


def _started(x: Any) -> Any:
    """Return an array, which is on its way to the host."""
    x.copy_to_host_async()
    return x


def tap(function: Callable[[Any, Any], Any], operands: Operands, dims: Names = ()) -> None:
    """Call a function some time soon, at each position on devices, and along other names.

    Args:
      function: takes the arguments at the position, and its device.
      operands: the arguments.
      dims: names that are left in the arguments.
    """
    others = [name for name in operands.varying if name.axes is None and name not in dims]
    over = (*operands.placed, *reversed(others))
    title = operands.title

    def put(now: Operands) -> tuple[()]:
        callbacks = current.current().callbacks

        def run() -> None:
            host = now.read()
            for position in _positions(over):
                if now.is_for(host, position, dims):
                    args, device = now.at(host, position), now.device_at(position)
                    callbacks.attempt(title, functools.partial(function, args, device))

        callbacks.put(title, run)
        return ()

    operands.do(put)


def called(
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
    """Call a function now, and return the arrays that it gives.

    Args:
      function: takes the arguments at a position, and its device.
      result: a pytree of what has the shape and the dtype of each array.
      operands: the arguments.
      over: the names that it is called for each position of.
      dims: names that are left in the arguments and in the results.
      how: what other arguments get for these.
      sharding: where the arrays go.
      effect: whether it is called even if nobody needs what it gives.

    Raises:
      CallbackError: the function raised something, or gave something else.
    """
    leaves, structure = tree.flatten(result)
    paths = [tree.keystr(path) for path in structure.leaf_paths()]
    title, mesh, names = operands.title, operands.mesh, merged(over, dims)
    own = [_aval(leaf, operands.what, path) for leaf, path in zip(leaves, paths, strict=True)]
    avals = [((*[name.size for name in names], *shape), dtype) for shape, dtype in own]
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
                if not now.is_for(host, position):
                    continue
                given = function(now.at(host, position, dims, how), now.device_at(position))
                made = tree.leaves_with_path(given)
                _check_structure([tree.keystr(path) for path, _ in made], paths, title)
                for array, path, (_, leaf) in zip(out, paths, made, strict=True):
                    part = array[_index(names, position)]
                    part[...] = _checked(np.asarray(leaf), part, title, path)

        current.current().callbacks.call(title, calls)
        return out

    arrays = operands.do(run, avals, places, effect=effect)
    if operands.frame is not None:
        arrays = [mapped(x, names, operands.frame, None) for x in arrays]
    return tree.unflatten(structure, arrays)


def _aval(leaf: Any, what: str, path: str) -> tuple[Shape, Any]:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise ArgumentTypeError(
            f"{what}: result_shape_dtypes{path} is a {type(leaf).__name__}; give a "
            "ShapeDtypeStruct(shape, dtype) for each array that the function returns",
            argument="result_shape_dtypes",
            leaf=path,
            type=type(leaf),
        )
    return as_shape(leaf.shape), as_dtype(leaf.dtype)


def _check_structure(made: list[str], paths: list[str], title: str) -> None:
    if made != paths:
        raise CallbackError(
            f"{title} gave results {made}, and {paths} are declared; return what has the "
            "structure of result_shape_dtypes",
            leaves=made,
            expected=paths,
        )


def _checked(made: HostArray, part: HostArray, title: str, path: str) -> HostArray:
    if made.shape != part.shape or made.dtype != part.dtype:
        raise CallbackError(
            f"{title} gave {made.dtype}{list(made.shape)} for result{path}, which is declared as "
            f"{part.dtype}{list(part.shape)}; convert it, or declare what it gives",
            leaf=path,
            shape=made.shape,
            dtype=made.dtype,
            expected=part.shape,
            expected_dtype=part.dtype,
        )
    return made


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
        known = ", ".join(map(repr, _METHODS))
        raise ArgumentError.refusing(
            "vmap_method", vmap_method, f"is unknown; use one of {known}", "pure_callback"
        )
    function, operands = _checked_call(
        "pure_callback", callback, args, kwargs, sharding, effect=False
    )
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
    """Call a function of the host that has effects, and return what it gives as arrays.

    It gets NumPy arrays. In a function that `shard_map` or `pmap` maps, it is called for each
    device, so that results differ between devices; in one that `vmap` maps, for each element.
    Elements that do not take a branch of `cond` or `switch`, or whose loop has ended, do not call
    it there; their results are zeros, which nobody sees.

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
            "io_callback: ordered=True, and vmap maps an argument, or a condition of the call: its "
            "elements have no order; leave it out",
            argument="ordered",
        )
    over = merged(operands.placed, operands.varying)
    return called(function, result_shape_dtypes, operands, over, sharding=sharding)


def check_callback(f: Any, what: str) -> None:
    """Check that a callback can be called.

    Raises:
      ArgumentTypeError: it cannot.
    """
    if not callable(f):
        raise ArgumentTypeError.refusing("callback", f, "must be a function", what)


def _checked_call(
    what: str,
    callback: Any,
    args: Any,
    kwargs: Any,
    sharding: Sharding | None,
    *,
    effect: bool = True,
) -> tuple[Callable[[Any, Any], Any], Operands]:
    check_callback(callback, what)
    operands = Operands((args, kwargs), what, effect=effect)
    if sharding is not None and operands.frame is not None:
        why = f"in the {operands.frame.what}, where results lie as what it maps; leave it out"
        raise UnsupportedError.refusing("sharding", sharding, why, what)
    return lambda given, device: callback(*given[0], **given[1]), operands
