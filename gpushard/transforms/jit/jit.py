"""`jit`: a function that is traced once for arguments of a kind, and replayed afterwards."""

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
from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KEY, KeyDType, ShapeDtypeStruct
from gpushard.array.key_array import is_keys
from gpushard.cache import BoundedCache, exact_key
from gpushard.errors import ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.options import DISABLE_JIT, LOG_COMPILES
from gpushard.placement.defaults import default_sharding, surroundings
from gpushard.placement.device_put import device_put, implicitly_put
from gpushard.placement.donation import donated_arrays, give_up
from gpushard.profiler import span
from gpushard.runtime.runtime import Device
from gpushard.transforms.control_flow import bodies
from gpushard.transforms.control_flow.bodies import Value, trace_body, value_of
from gpushard.transforms.graph.graph import Graph
from gpushard.transforms.graph.propagate import optimized
from gpushard.transforms.jit.arguments import Call, Options, check_options, options_of
from gpushard.transforms.jit.stages import Lowered, Signature, Traced
from gpushard.transforms.tracing.constraints import apply_shardings, check_devices, place_arguments
from gpushard.transforms.tracing.executable import Executable, array_of, var_of
from gpushard.transforms.tracing.fold import fold_constants
from gpushard.transforms.tracing.trace import Trace, Tracer, inline_argument, tracing
from gpushard.transforms.values.frames import innermost
from gpushard.transforms.values.signature import (
    check_function,
    check_leaf,
    flattened,
    imitate,
    result_names,
    title,
)
from gpushard.tree.treedef import exact_structure

_LEAF = tree.structure(0)

_log = logging.getLogger("gpushard.jit")

_CACHE_BYTES = 64 << 20
"""Bytes of executables that one function keeps, about."""


@dataclass(frozen=True, eq=False)
class Replay:
    """What a function does with arguments of a kind."""

    graph: Graph
    executable: Executable
    structure: Any  # of the results; None for one array
    keys: tuple[bool, ...]  # which of the results are random keys
    inputs: tuple[int, ...]  # for each result the number of the argument that it is, or -1
    nbytes: int  # that it takes, about

    def call(self, leaves: list[Any], given_up: Sequence[Any] = ()) -> Any:
        """Run it on arrays of that kind, and return the results.

        Args:
          leaves: the arrays; if some are given up, the list is used up.
          given_up: arrays that are deleted before it runs, so that their memory serves results.
        """
        passed: Any = leaves
        buffers = [x._live() for x in leaves]
        if given_up:
            passed = {n: copy.copy(leaves[n]) for n in self.inputs if n >= 0}
            give_up(given_up)
            leaves.clear()  # copies elsewhere, which nobody else has
        made = self.executable.run(buffers)
        arrays = []
        seen: set[int] = set()
        for buffer, var, keys, source in zip(
            made, self.graph.results, self.keys, self.inputs, strict=True
        ):
            if source >= 0:
                arrays.append(copy.copy(passed[source]))
                continue
            if id(buffer) in seen or var in self.graph.constants:
                buffer = copy.copy(buffer)
            seen.add(id(buffer))
            arrays.append(array_of(buffer, var, self.executable.runtime, keys=keys))
        if self.structure is None:
            return arrays[0]
        return tree.unflatten(self.structure, arrays)


OPTIONS = 16
"""For how many options, such as shardings over other meshes, `jit(f)` finds what it traced before.

What `jit` returned keeps its own cache as long as it lives.
"""

_caches: WeakKeyDictionary[Any, BoundedCache[BoundedCache[Replay]]] = WeakKeyDictionary()
"""For each function and options what it was traced to, for `jit(f)` where it is called, too."""

_every: WeakSet[BoundedCache[Replay]] = WeakSet()
"""All caches, also those that no function leads to."""


def _cache_of(fun: Any, options: Options) -> BoundedCache[Replay]:
    """Return the cache of what a function was traced to with such options."""
    key = options.key()
    cache: BoundedCache[Replay] | None = None
    of_options: BoundedCache[BoundedCache[Replay]] | None = None
    if key is not None:
        with contextlib.suppress(TypeError):  # which has no hash, or cannot be referred to weakly
            of_options = _caches.setdefault(fun, BoundedCache(OPTIONS))
            cache = of_options.get(key)
    if cache is None:
        cache = BoundedCache(_CACHE_BYTES)
        _every.add(cache)
        if of_options is not None:
            of_options.put(key, cache, 1)
    return cache


class Jitted:
    """A function that is traced once for arguments of a kind; see `jit`."""

    def __init__(self, fun: Any, options: Options) -> None:
        imitate(self, fun)
        self._fun = fun
        self._options = options
        self._what = title("jit", fun)
        self._cache = _cache_of(fun, options)
        self._donates = any(options.donated)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def __reduce__(self) -> Any:
        """Return where it is found by name, as for functions; else what makes it."""
        name = getattr(self, "__qualname__", "")
        with contextlib.suppress(AttributeError, KeyError):
            if operator.attrgetter(name)(sys.modules[self.__module__]) is self:
                return name
        return Jitted, (self._fun, self._options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        return self.run(args, kwargs)

    def run(self, args: Any, kwargs: Any, moved: Sequence[Any] = ()) -> Any:
        """Run the function.

        Args:
          args: arguments by position.
          kwargs: arguments by name.
          moved: donated arrays that are not among these, but copies of them elsewhere.
        """
        if DISABLE_JIT.get():
            return self._fun(*args, **kwargs)
        if innermost() is not None or tracing() is not None:
            return self._inlined(args, kwargs)
        options = self._options
        leaves, key, call = self._prepared(args, kwargs)
        given_up: Sequence[Any] = ()
        if self._donates:
            donated = [*options.donated_leaves(args, kwargs), *moved]
            given_up = donated_arrays(donated, self._what)
        compiled = self._cache.get(key)
        if compiled is None:
            compiled = self._compiled(key, leaves, call)
        with span(self._what):
            return compiled.call(leaves, given_up)

    def _compiled(self, key: tuple[Any, ...], leaves: list[Any], call: Call) -> Replay:
        """Return what was traced for just this structure of arguments, or trace it."""
        exact = exact_structure(call.structure)
        own = key if exact is call.structure else (exact, *key[1:])
        compiled = None if own is key else self._cache.get(own)
        if compiled is None:
            with self._options.around(), span(f"compile {self._what}"):
                compiled = self._compile(leaves, call)
            self._cache.put(own, compiled, compiled.nbytes)
        return compiled

    def read(self, args: Any, kwargs: Any) -> Call:
        """Tell static arguments of a call from the others."""
        return Call(self._fun, self._what, args, kwargs, self._options.static)

    def _prepared(self, args: Any, kwargs: Any) -> tuple[list[Any], Any, Call]:
        """Return the arguments as arrays, what they have in common with others, and the call."""
        options = self._options
        call = self.read(args, kwargs)
        leaves, call.structure = flattened(call.args, call.kwargs)
        if options.in_shardings is not None:
            leaves = self._placed(leaves, call)
        if options.device is not None:
            leaves = options.moved(leaves, self._put)
        key: list[Any] = [call.structure, *surroundings()]
        for number, x in enumerate(leaves):
            kind = type(x)
            if kind is not ConcreteArray and not is_keys(x):
                check_leaf(x, self._what, call.label(number))
                x = leaves[number] = implicitly_put(x, self._what)
            key += (x._held().tiling, x._dtype, x._committed, x._weak_type)
        if call.statics:
            key.append(tuple((name, exact_key(x)) for name, x in call.statics.items()))
        return leaves, tuple(key), call

    def _placed(self, leaves: list[Any], call: Call) -> list[Any]:
        """Return arguments where `in_shardings` say."""
        places = self._options.in_shardings
        return place_arguments(leaves, call.args, call.kwargs, places, self._what, call.label)

    def _put(self, x: Any, device: Any) -> Any:
        return implicitly_put(x, self._what, device)

    def _compile(self, leaves: list[Any], call: Call) -> Replay:
        check_devices(leaves, self._what, call.label)
        graph, structure, keys = self._trace(leaves, call)
        graph = fold_constants(optimized(graph))
        executable = Executable(graph)
        numbers = {var: n for n, var in enumerate(graph.inputs)}
        if LOG_COMPILES.get():
            _log.warning("compiled %s for %s: %d steps", self._what, graph.inputs, len(graph.steps))
        return Replay(
            graph,
            executable,
            None if structure == _LEAF else structure,
            keys,
            tuple(numbers.get(var, -1) for var in graph.results),
            executable.nbytes + sum(var.nbytes for var in graph.constants),
        )

    def _trace(self, leaves: list[Any], call: Call) -> tuple[Graph, Any, tuple[bool, ...]]:
        """Call the function with values that have no data, and return what it does."""
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

    def _inlined(self, args: Any, kwargs: Any) -> Any:
        """Call the function in one that is mapped or traced, which sees what this one does."""
        options = self._options
        call = self.read(args, kwargs)
        leaves, structure = tree.flatten((call.args, call.kwargs))
        for number, x in enumerate(leaves):
            check_leaf(x, self._what, call.label(number))
            leaves[number] = inline_argument(x)
        if options.in_shardings is not None:
            leaves = apply_shardings(leaves, call.args, options.in_shardings, "in_shardings")
        leaves = options.moved(leaves, device_put)
        args, kwargs = tree.unflatten(structure, leaves)
        with options.around():
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
        """Trace the function for arguments; of these a shape and a dtype are enough."""
        if innermost() is not None or tracing() is not None:
            raise ArgumentTypeError(
                f"{self._what} is lowered in a function that is mapped or traced itself; lower it "
                "outside, or call it",
                argument="self",
            )
        call = self.read(args, kwargs)
        leaves, call.structure = tree.flatten((call.args, call.kwargs))
        if self._options.in_shardings is not None:
            leaves = self._placed(leaves, call)
        leaves = self._shaped(leaves, call)
        leaves = self._options.moved(leaves, _if_there)
        with self._options.around():
            graph, out, keys = self._trace(leaves, call)
        return Traced(
            Signature(
                self._what,
                graph,
                call.structure,
                out,
                tuple(isinstance(x.dtype, KeyDType) for x in leaves),
                keys,
                self._options.marked(call, args, kwargs),
            )
        )

    def _shaped(self, leaves: list[Any], call: Call) -> list[Any]:
        """Return arguments that have a shape and a dtype."""
        for number, x in enumerate(leaves):
            if not (hasattr(x, "shape") and hasattr(x, "dtype")):
                check_leaf(x, self._what, call.label(number))
                leaves[number] = device_put(x)
        return leaves

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the function for arguments, and return the stage after that."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Forget what was traced."""
        self._cache.clear()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return shapes and types of the results, as `eval_shape` does."""
        return self.abstract(args, kwargs)[1]

    def abstract(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Graph, Any]:
        """Return what it does with arguments of which shape and type are enough, and gives."""
        call = self.read(args, kwargs)
        leaves, call.structure = tree.flatten((call.args, call.kwargs))
        leaves = self._shaped(leaves, call)
        frame = innermost()
        if frame is not None:
            values = [
                value_of(x, self._what, frame) if isinstance(x, Array) else Value(x, ())
                for x in leaves
            ]
            with self._options.around():
                body = trace_body(lambda a, k: call(*a, **k), call.structure, values, self._what)
            found = [
                ShapeDtypeStruct(x.shape, x.array.dtype, weak_type=x.array._weak_type)
                for x in body.results
            ]
            return body.graph, tree.unflatten(body.structure, found)
        with self._options.around():
            graph, shape, keys = self._trace(leaves, call)
        shapes = [
            ShapeDtypeStruct(var.shape, KEY if key else var.dtype, weak_type=var.weak)
            for var, key in zip(graph.results, keys, strict=True)
        ]
        return graph, tree.unflatten(shape, shapes)


def _if_there(x: Any, sharding: Any) -> Any:
    """Move an array; what has a shape and a dtype alone stays."""
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
    """Trace a function once for arguments of a kind, and replay what it does from then on.

    The function sees values that have no data: Python runs once, for all arrays of the same shapes,
    types and shardings. What it assigns to variables of outside, or prints, happens once.

    Args:
      fun: the function; without it, the result takes the function, as a decorator.
      in_shardings: where arguments lie: a prefix of the positional ones, None for as they come.
      out_shardings: where results lie: a prefix of them, None for as they come.
      static_argnums: arguments that the function gets as they are, by number; they are hashed.
      static_argnames: likewise, by name. If only one of the two is given, the other follows from
        the signature.
      donate_argnums: arguments whose arrays are given up, by number. They are deleted when the
        function has returned, before what was traced runs: results may take their memory. If the
        function raises, they stay.
      donate_argnames: likewise, by name.
      keep_unused: has no meaning here, and is there for programs that give it: what is not needed
        is not done, and arguments are checked in any case.
      device: where arguments go and everything is done; not together with shardings.
      backend: the platform of the devices, "cpu" or "gpu"; None for the one there is.
      inline: has no meaning here: what is called in a traced function always becomes a part of it.
      abstracted_axes: must be None.
      compiler_options: must be empty: there are none.

    Returns:
      The function. What was traced is kept with `fun`, so another `jit(fun)` finds it.

    Raises:
      ArgumentTypeError: fun cannot be called, or an argument has a wrong type.
      ArgumentError: a number or a name is none of its arguments, one is static and donated, or a
        device is given with shardings.
      NoDeviceError: backend has no devices.

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

    def wrapped(fun: Any) -> Jitted:
        check_function(fun, "jit")
        return Jitted(fun, options_of(fun, *choices))

    return wrapped if fun is None else wrapped(fun)


def disable_jit(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """Call functions as they are within a `with` block, as if `jit` were not there.

    Args:
      disable: whether to.
    """
    return DISABLE_JIT.within(disable)


def log_compiles(log: bool = True) -> contextlib.AbstractContextManager[None]:
    """Log what is traced within a `with` block, to the logger "gpushard.jit".

    Args:
      log: whether to.
    """
    return LOG_COMPILES.within(log)


def clear_caches() -> None:
    """Forget what any function was traced to."""
    for cache in list(_every):
        cache.clear()
    bodies.clear_caches()
