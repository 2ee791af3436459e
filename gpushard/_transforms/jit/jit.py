"""`jit`: trace a function once for arguments of a kind, and replay its operations afterwards.

What the first call of `jit(f)(x)` does:

1. It makes a key of the structure of the arguments, their tilings, types, and static values.
2. It looks the key up in the cache of `f` and its options. If the key is missing, it traces `f`.
   Then it optimizes the recorded graph, folds constants, and compiles the graph to a `Replay`.
3. It runs the `Replay` on the arrays.

A second call with the same key only does 1, the lookup, and 3.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import operator
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._array.data import Data, array_of_buffer
from gpushard._array.key_array import is_keys
from gpushard._array.shape_dtype import KEY, KeyDType, ShapeDtypeStruct
from gpushard._cache import BoundedCache, exact_key
from gpushard._frozen import dataclass
from gpushard._movement.buffer import ShardedBuffer
from gpushard._options import DISABLE_JIT, LOG_COMPILES
from gpushard._placement.default_placement import default_sharding, surroundings
from gpushard._placement.device_put import device_put, implicitly_put
from gpushard._placement.donation import donated_arrays, give_up
from gpushard._runtime.runtime import Device
from gpushard._transforms.control_flow import body_cache
from gpushard._transforms.control_flow.bodies import Value, trace_body, value_of
from gpushard._transforms.graph.graph import Graph
from gpushard._transforms.graph.layout_search import optimized
from gpushard._transforms.jit.arguments import Call, Options, check_options, options_of
from gpushard._transforms.jit.stages import Lowered, Signature, Traced
from gpushard._transforms.tracing.constraints import apply_shardings, check_devices, place_arguments
from gpushard._transforms.tracing.executable import Executable, form_of, var_of
from gpushard._transforms.tracing.fold import fold_constants
from gpushard._transforms.tracing.trace import Trace, Tracer, inline_argument, tracing
from gpushard._transforms.values.frames import innermost
from gpushard._transforms.values.leaves import check_leaf, flatten_arguments, is_leaf, result_names
from gpushard._transforms.values.user_functions import check_function, imitate, title
from gpushard.errors import ArgumentTypeError
from gpushard.profiler import span
from gpushard.tree.treedef import exact_structure

_LEAF = tree.structure(0)

_log = logging.getLogger("gpushard.jit")

_CACHE_BYTES = 64 << 20
"""The approximate limit of bytes of executables in the cache of one function."""


@dataclass(frozen=True, eq=False)
class Replay:
    """A traced and compiled function, for arguments of one kind."""

    graph: Graph
    executable: Executable
    structure: Any  # the structure of the results; None for one array
    inputs: tuple[int, ...]  # for each result, the number of the argument that it is, or -1
    # For each result whether it is a constant, and what `array_of_buffer` takes after the runtime.
    forms: tuple[tuple[bool, type[ConcreteArray], tuple[Any, ...]], ...]
    nbytes: int  # the approximate memory of it in the cache

    def call(
        self, leaves: list[Any], buffers: list[ShardedBuffer], given_up: Sequence[Any] = ()
    ) -> Any:
        """Run the operations on arrays of that kind, and return the results.

        Args:
          leaves: the arrays. If some arrays are given up, the list is emptied.
          buffers: their buffers. The list is used up.
          given_up: donated arrays. They are deleted before the operations run, so that results can
            take their memory.
        """
        passed: Any = leaves
        if given_up:
            passed = {n: copy.copy(leaves[n]) for n in self.inputs if n >= 0}
            give_up(given_up)
            leaves.clear()  # frees copies of donated arrays on other devices
        runtime, outputs = self.executable.runtime, self.executable.run(buffers)
        arrays = []
        seen: set[int] = set()
        for buffer, source, (constant, kind, form) in zip(
            outputs, self.inputs, self.forms, strict=True
        ):
            if source >= 0:
                arrays.append(copy.copy(passed[source]))
                continue
            if constant or id(buffer) in seen:
                buffer = copy.copy(buffer)
            seen.add(id(buffer))
            arrays.append(array_of_buffer(kind, buffer, runtime, *form))
        if self.structure is None:
            return arrays[0]
        return tree.unflatten(self.structure, arrays)


OPTIONS = 16
"""The number of options, such as different shardings, with a cache for one function.

A function that `jit` returned also keeps its own cache alive.
"""

_caches: WeakKeyDictionary[Any, BoundedCache[BoundedCache[Replay]]] = WeakKeyDictionary()
"""The caches of each function by options, so that another `jit(f)` finds them."""

_every: WeakSet[BoundedCache[Replay]] = WeakSet()
"""All caches, including those that are not in `_caches`."""


def _cache_of(fun: Any, options: Options) -> BoundedCache[Replay]:
    """Get or make the cache of a function with some options."""
    key = options.key()
    cache: BoundedCache[Replay] | None = None
    of_options: BoundedCache[BoundedCache[Replay]] | None = None
    if key is not None:
        with contextlib.suppress(TypeError):  # no hash, or no weak references
            of_options = _caches.setdefault(fun, BoundedCache(OPTIONS))
            cache = of_options.get(key)
    if cache is None:
        cache = BoundedCache(_CACHE_BYTES)
        _every.add(cache)
        if of_options is not None:
            of_options.put(key, cache, 1)
    return cache


class Jitted:
    """The function that `jit` returns: it traces once for arguments of a kind."""

    def __init__(self, fun: Any, options: Options) -> None:
        imitate(self, fun)
        self._fun = fun
        self._options = options
        self._what = title("jit", fun)
        self._cache = _cache_of(fun, options)
        self._donates = any(options.donated)
        # Whether a call is more than its arguments as they are.
        self._is_special = (
            any(options.static) or options.in_shardings is not None or options.device is not None
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def __reduce__(self) -> Any:
        """Pickle the function by its name, as Python does; otherwise by function and options."""
        name = getattr(self, "__qualname__", "")
        with contextlib.suppress(AttributeError, KeyError):
            if operator.attrgetter(name)(sys.modules[self.__module__]) is self:
                return name
        return Jitted, (self._fun, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function: replay its operations, or trace it first."""
        return self.run(args, kwargs)

    def run(self, args: Any, kwargs: Any, moved: Sequence[Any] = ()) -> Any:
        """Call the function.

        Args:
          args: the positional arguments.
          kwargs: the keyword arguments.
          moved: donated arrays; the arguments are their copies on other devices.
        """
        if DISABLE_JIT.get():
            return self._fun(*args, **kwargs)
        if innermost() is not None or tracing() is not None:
            return self._call_inline(args, kwargs)
        leaves, buffers, key = self._prepare_call(args, kwargs)
        given_up: Sequence[Any] = ()
        if self._donates:
            donated = [*self._options.donated_leaves(args, kwargs), *moved]
            given_up = donated_arrays(donated, self._what)
        compiled = self._cache.get(key)
        if compiled is None:
            call = self.read(args, kwargs)
            call.structure = key[0]
            compiled = self._find_or_compile(key, leaves, call)
        with span(self._what):
            return compiled.call(leaves, buffers, given_up)

    def _find_or_compile(self, key: tuple[Any, ...], leaves: list[Any], call: Call) -> Replay:
        """Find the compiled function for exactly this structure of arguments, or compile it.

        Equal structures may differ, as those of {1: x} and {True: x}, and the function may see it.
        """
        exact = exact_structure(call.structure)
        full_key = key if exact is call.structure else (exact, *key[1:])
        compiled = None if full_key is key else self._cache.get(full_key)
        if compiled is None:
            with self._options.on_device(), span(f"compile {self._what}"):
                compiled = self._compile(leaves, call)
            self._cache.put(full_key, compiled, compiled.nbytes)
        return compiled

    def read(self, args: Any, kwargs: Any) -> Call:
        """Separate the static arguments of a call from the others."""
        return Call(self._fun, self._what, args, kwargs, self._options.static)

    def _prepare_call(
        self, args: Any, kwargs: Any
    ) -> tuple[list[Any], list[ShardedBuffer], tuple[Any, ...]]:
        """Read a call: its arguments as arrays, their buffers, and the key of the cache.

        The key begins with the structure of the arguments that are not static.
        """
        options = self._options
        call = self.read(args, kwargs) if self._is_special else None
        if call is None:
            leaves, structure = flatten_arguments(args, kwargs)
        else:
            leaves, structure = flatten_arguments(call.args, call.kwargs)
            if options.in_shardings is not None:
                leaves = self._place_arguments(leaves, call)
            if options.device is not None:
                leaves = options.move_to_device(leaves, self._put)
        key: list[Any] = [structure, *surroundings()]
        buffers = []
        for number, x in enumerate(leaves):
            if type(x) is ConcreteArray and type(x._data) is Data:
                buffer = x._data.buffer
            else:
                if type(x) is not ConcreteArray and not is_keys(x):
                    if not is_leaf(x):
                        check_leaf(x, self._what, self.read(args, kwargs).label(number))
                    x = leaves[number] = implicitly_put(x, self._what)
                buffer = x._live()
            buffers.append(buffer)
            key += (buffer.tiling, x._dtype, x._committed, x._weak_type)
        if call is not None and call.statics:
            key.append(tuple((name, exact_key(x)) for name, x in call.statics.items()))
        return leaves, buffers, tuple(key)

    def _place_arguments(self, leaves: list[Any], call: Call) -> list[Any]:
        """Move arguments to `in_shardings`."""
        places = self._options.in_shardings
        return place_arguments(leaves, call.args, call.kwargs, places, self._what, call.label)

    def _put(self, x: Any, device: Any) -> Any:
        return implicitly_put(x, self._what, device)

    def _compile(self, leaves: list[Any], call: Call) -> Replay:
        check_devices(leaves, self._what, call.label)
        graph, structure, keys = self._trace(leaves, call)
        graph = fold_constants(optimized(graph, results_follow=True))
        executable = Executable(graph)
        numbers = {var: n for n, var in enumerate(graph.inputs)}
        if LOG_COMPILES.get():
            _log.warning("compiled %s for %s: %d steps", self._what, graph.inputs, len(graph.steps))
        return Replay(
            graph,
            executable,
            None if structure == _LEAF else structure,
            tuple(numbers.get(var, -1) for var in graph.results),
            tuple(
                (var in graph.constants, *form_of(var, keys=key))
                for var, key in zip(graph.results, keys, strict=True)
            ),
            executable.nbytes + sum(var.nbytes for var in graph.constants),
        )

    def _trace(self, leaves: list[Any], call: Call) -> tuple[Graph, Any, tuple[bool, ...]]:
        """Trace the function: its graph, the structure of its results, which results are keys."""
        trace = Trace(self._what, call.label)
        inputs = [
            trace.input(var_of(x, default_sharding(x.shape)), keys=isinstance(x.dtype, KeyDType))
            for x in leaves
        ]
        with trace.activate():
            args, kwargs = tree.unflatten(call.structure, inputs)
            out = call(*args, **kwargs)
            results, shape = tree.flatten(out)
            names = result_names(shape)
            for n, x in enumerate(results):
                if not isinstance(x, Array):
                    check_leaf(x, self._what, names[n])
                    results[n] = device_put(x)
                elif isinstance(x, Tracer):
                    x._trace.check_open(x)
            if self._options.out_shardings is not None:
                results = apply_shardings(
                    results, out, self._options.out_shardings, "out_shardings"
                )
            trace.graph.results = [trace.lift(x) for x in results]
        keys = tuple(is_keys(x) for x in results)
        return trace.graph, shape, keys

    def _call_inline(self, args: Any, kwargs: Any) -> Any:
        """Call the function within a mapped or traced one, which gets its operations."""
        options = self._options
        call = self.read(args, kwargs)
        leaves, structure = tree.flatten((call.args, call.kwargs))
        for number, x in enumerate(leaves):
            check_leaf(x, self._what, call.label(number))
            leaves[number] = inline_argument(x)
        if options.in_shardings is not None:
            leaves = apply_shardings(leaves, call.args, options.in_shardings, "in_shardings")
        leaves = options.move_to_device(leaves, device_put)
        args, kwargs = tree.unflatten(structure, leaves)
        with options.on_device():
            out = call(*args, **kwargs)
        results, shape = tree.flatten(out)
        for number, x in enumerate(results):
            if not isinstance(x, Array):
                check_leaf(x, self._what, result_names(shape)[number])
                results[number] = inline_argument(x)
        if options.out_shardings is not None:
            results = apply_shardings(results, out, options.out_shardings, "out_shardings")
        return tree.unflatten(shape, results)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for arguments; a `ShapeDtypeStruct` may stand for an array."""
        if innermost() is not None or tracing() is not None:
            raise ArgumentTypeError(
                f"{self._what} is lowered within a mapped or traced function. Try: lower it "
                "outside, or call it",
                argument="self",
            )
        call = self.read(args, kwargs)
        leaves, call.structure = tree.flatten((call.args, call.kwargs))
        if self._options.in_shardings is not None:
            leaves = self._place_arguments(leaves, call)
        leaves = self._check_shaped(leaves, call)
        leaves = self._options.move_to_device(leaves, _move_if_array)
        with self._options.on_device():
            graph, out, keys = self._trace(leaves, call)
        return Traced(
            Signature(
                self._what,
                graph,
                call.structure,
                out,
                tuple(isinstance(x.dtype, KeyDType) for x in leaves),
                keys,
                self._options.mark_donated(call, args, kwargs),
            )
        )

    def _check_shaped(self, leaves: list[Any], call: Call) -> list[Any]:
        """Make arrays of arguments that have no shape and dtype."""
        for number, x in enumerate(leaves):
            if not (hasattr(x, "shape") and hasattr(x, "dtype")):
                check_leaf(x, self._what, call.label(number))
                leaves[number] = device_put(x)
        return leaves

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower the function for arguments; the next stage is `compile`."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Forget the traced and compiled functions."""
        self._cache.clear()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the shapes and types of the results, as `gpushard.eval_shape` does."""
        return self.abstract(args, kwargs)[1]

    def abstract(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Graph, Any]:
        """Trace for arguments that may be shapes: the graph, and the shapes of the results."""
        call = self.read(args, kwargs)
        leaves, call.structure = tree.flatten((call.args, call.kwargs))
        leaves = self._check_shaped(leaves, call)
        frame = innermost()
        if frame is not None:
            values = [
                value_of(x, self._what, frame) if isinstance(x, Array) else Value(x, ())
                for x in leaves
            ]
            with self._options.on_device():
                body = trace_body(lambda a, k: call(*a, **k), call.structure, values, self._what)
            structs = [
                ShapeDtypeStruct(x.shape, x.array.dtype, weak_type=x.array._weak_type)
                for x in body.results
            ]
            return body.graph, tree.unflatten(body.structure, structs)
        with self._options.on_device():
            graph, shape, keys = self._trace(leaves, call)
        shapes = [
            ShapeDtypeStruct(var.shape, KEY if key else var.dtype, weak_type=var.weak)
            for var, key in zip(graph.results, keys, strict=True)
        ]
        return graph, tree.unflatten(shape, shapes)


def _move_if_array(x: Any, sharding: Any) -> Any:
    """Move an array; a shape and dtype without data stays as it is."""
    return device_put(x, sharding) if isinstance(x, Array) else x


def jit(
    fun: Any = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Device | None = None,
    backend: str | None = None,
    inline: bool = False,
    abstracted_axes: None = None,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compile a function: trace it once, and from then on run the recorded operations.

    Python runs the function once for each combination of shapes, dtypes and shardings of the
    arguments. The function sees traced values, which have no data. So a `print`, or an assignment
    to an outer variable, happens in the first call only.

    Args:
      fun: the function; without it, `jit` returns a decorator.
      in_shardings: shardings of the positional arguments, as a pytree that is a prefix of the tuple
        of these arguments. None leaves an `Array` where it is; `jit` replicates other data over the
        mesh of the arrays.
      out_shardings: shardings of the results, as a pytree that is a prefix of the result. With
        None, `jit` chooses.
      static_argnums: positions of the arguments that the function gets unchanged. Their values must
        be hashable; the function is traced again for each new value.
      static_argnames: names of static arguments. If you give only positions or only names, `jit`
        finds the others in the signature.
      donate_argnums: positions of donated arguments. `jit` deletes their arrays after tracing and
        before it runs the operations, so that results can use the memory. If the function raises
        while it is traced, the arrays are not deleted.
      donate_argnames: names of donated arguments.
      keep_unused: ignored. Operations that no result needs never run, and all arguments are
        checked.
      device: the device that runs all operations; arguments move to it. You cannot also give
        shardings or `backend`.
      backend: the platform of the devices, "cpu" or "gpu"; by default that of this process.
      inline: ignored. Within another traced function, the operations of `fun` always become part of
        that function.
      abstracted_axes: must be None.
      compiler_options: must be None or empty.

    Returns:
      A function with the same arguments. The recorded operations are cached with `fun`, so another
      `jit(fun)` with the same options uses them, too.

    Raises:
      ArgumentTypeError: `fun` is not a function, or an option has a wrong type.
      ArgumentError: `fun` has no argument of such a position or name, or an argument is both static
        and donated. Or `device` is given together with `backend` or shardings.
      NoDeviceError: `backend` names a platform without devices.

    >>> import gpushard as gs
    >>> @gs.jit
    ... def step(x, rate):
    ...     return x - rate * gs.numpy.sign(x)
    >>> step(gs.numpy.asarray([1.0, -2.0]), 0.5)
    Array([ 0.5, -1.5], dtype=float64)
    """
    check_options(compiler_options, abstracted_axes)
    choices = (
        (static_argnums, static_argnames),
        (donate_argnums, donate_argnames),
        (in_shardings, out_shardings),
        (device, backend),
    )

    def decorate(fun: Any) -> Jitted:
        check_function(fun, "jit")
        return Jitted(fun, options_of(fun, *choices))

    return decorate if fun is None else decorate(fun)


def disable_jit(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """Run the functions that `jit` returned without tracing, in a `with` block, to debug them.

    Args:
      disable: False enables `jit` again in the block.
    """
    return DISABLE_JIT.within(disable)


def log_compiles(log: bool = True) -> contextlib.AbstractContextManager[None]:
    """Log each compilation by `jit` in a `with` block, to the logger "gpushard.jit".

    Args:
      log: False switches logging off in the block.
    """
    return LOG_COMPILES.within(log)


def clear_caches() -> None:
    """Clear what `jit` has cached for all functions; the next call traces each function again."""
    for cache in list(_every):
        cache.clear()
    body_cache.clear_caches()
