"""`jit`: a function that is traced once for arguments of a kind, and replayed afterwards."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from gpushard import tree
from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KeyDType, ShapeDtypeStruct
from gpushard.array.key_array import is_keys
from gpushard.cache import BoundedCache
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.placement.defaults import default_sharding, surroundings
from gpushard.placement.device_put import device_put
from gpushard.transforms.constraints import check_devices, laid_out, placed
from gpushard.transforms.executable import Executable, array_of, var_of
from gpushard.transforms.graph import Graph
from gpushard.transforms.named_dims import innermost
from gpushard.transforms.signature import check_function, check_leaf, labelled, title
from gpushard.transforms.stages import Lowered, Signature, Traced
from gpushard.transforms.trace import Trace, Tracer, tracing

_KEY: Any = KeyDType()
_LEAF = tree.structure(0)

_log = logging.getLogger("gpushard.jit")

_CACHE_BYTES = 256 << 20
"""Bytes of executables that one function keeps, about."""

_disabled: ContextVar[bool] = ContextVar("jit disabled", default=False)
_logged: ContextVar[bool] = ContextVar("compiles logged", default=False)


@dataclass(frozen=True, eq=False)
class Options:
    """How a function is to be traced."""

    static: tuple[tuple[int, ...], tuple[str, ...]]  # arguments given as they are: numbers, names
    donated: tuple[tuple[int, ...], tuple[str, ...]]  # arguments given up, likewise
    in_shardings: Any  # where arguments lie: a prefix of them, or None
    out_shardings: Any  # where results lie: a prefix of them, or None


@dataclass(frozen=True, eq=False)
class Compiled:
    """A function for arguments of a kind."""

    graph: Graph
    executable: Executable
    structure: Any  # of the results
    keys: tuple[bool, ...]  # which of the results are random keys
    inputs: tuple[int, ...]  # for each result the number of the argument that it is, or -1
    nbytes: int  # that it takes, about

    def call(self, leaves: Sequence[Any]) -> Any:
        """Run it on arrays of that kind, and return the results."""
        made = self.executable.run([x._live() for x in leaves])
        arrays = []
        seen: set[int] = set()
        for buffer, var, keys, source in zip(
            made, self.graph.results, self.keys, self.inputs, strict=True
        ):
            if source >= 0:
                arrays.append(copy.copy(leaves[source]))
                continue
            if id(buffer) in seen or var in self.graph.constants:
                buffer = copy.copy(buffer)
            seen.add(id(buffer))
            arrays.append(array_of(buffer, var, keys=keys))
        if self.structure is None:
            return arrays[0]
        return tree.unflatten(self.structure, arrays)


_caches: WeakKeyDictionary[Any, list[BoundedCache[Any]]] = WeakKeyDictionary()


class Jitted:
    """A function that is traced once for arguments of a kind; see `jit`."""

    def __init__(self, fun: Any, options: Options) -> None:
        functools.update_wrapper(self, fun, updated=())
        self._fun = fun
        self._options = options
        self._what = title("jit", fun)
        self._cache: BoundedCache[Compiled] = BoundedCache(_CACHE_BYTES)
        self._plain = not (any(options.static) or any(options.donated) or options.in_shardings)
        with contextlib.suppress(TypeError):  # which cannot be referred to weakly
            _caches.setdefault(fun, []).append(self._cache)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

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
        if _disabled.get():
            return self._fun(*args, **kwargs)
        if innermost() is not None or tracing() is not None:
            return self._inlined(args, kwargs)
        leaves, key, call = self._prepared(args, kwargs)
        compiled = self._cache.get(key)
        if compiled is None:
            compiled = self._compile(leaves, call)
            self._cache.put(key, compiled, compiled.nbytes)
        result = compiled.call(leaves)
        if any(self._options.donated):
            for x in self._donated(args, kwargs):
                if isinstance(x, Array):
                    x.delete()
        return result

    def _prepared(self, args: Any, kwargs: Any) -> tuple[list[Any], Any, Any]:
        """Return the arguments as arrays, what they have in common with others, and a call."""
        statics: dict[Any, Any] = {}
        if not self._plain:
            args, kwargs, statics = self._split(args, kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        label = labelled(self._fun, args, kwargs)
        if self._options.in_shardings is not None:
            leaves = placed(leaves, args, kwargs, self._options.in_shardings, self._what, label)
        key: list[Any] = [structure, *surroundings()]
        for number, x in enumerate(leaves):
            kind = type(x)
            if kind is not ConcreteArray and not is_keys(x):
                check_leaf(x, self._what, label(number))
                x = leaves[number] = device_put(x)
            key += (x._held().tiling, x._dtype, x._committed, x._weak_type)
        if statics:
            key.append(tuple((name, type(x), x) for name, x in statics.items()))
        return leaves, tuple(key), (structure, statics, label)

    def _split(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """Return arguments without those that are static, and these."""
        numbers, names = self._options.static
        statics: dict[Any, Any] = {}
        for n in numbers:
            at = n % len(args) if -len(args) <= n < len(args) else None
            if at is not None:
                statics[at] = args[at]
        for name in names:
            if name in kwargs:
                statics[name] = kwargs[name]
        for name, value in statics.items():
            _check_static(value, name, self._what)
        rest = tuple([x for n, x in enumerate(args) if n not in statics])
        return rest, {k: x for k, x in kwargs.items() if k not in statics}, statics

    def _compile(self, leaves: list[Any], call: Any) -> Compiled:
        check_devices(leaves, self._what, call[2])
        graph, structure, keys = self._trace(leaves, call)
        executable = Executable(graph)
        numbers = {var: n for n, var in enumerate(graph.inputs)}
        if _logged.get():
            _log.warning("compiled %s for %s: %d steps", self._what, graph.inputs, len(graph.steps))
        return Compiled(
            graph,
            executable,
            structure,
            keys,
            tuple(numbers.get(var, -1) for var in graph.results),
            2000 + 1000 * len(graph.steps) + sum(var.nbytes for var in graph.constants),
        )

    def _trace(self, leaves: list[Any], call: Any) -> tuple[Graph, Any, tuple[bool, ...]]:
        """Call the function with values that have no data, and return what it does."""
        structure, statics, label = call
        trace = Trace(self._what, label)
        inside = [
            trace.input(var_of(x, default_sharding(x.shape)), keys=isinstance(x.dtype, KeyDType))
            for x in leaves
        ]
        args, kwargs = tree.unflatten(structure, inside)
        args, kwargs = _joined(args, kwargs, statics)
        with trace.entered():
            out = self._fun(*args, **kwargs)
            results, shape = tree.flatten(out)
            paths = shape.leaf_paths()
            for n, x in enumerate(results):
                if not isinstance(x, Array):
                    check_leaf(x, self._what, "the result" + "".join(map(str, paths[n])))
                    results[n] = device_put(x)
                elif isinstance(x, Tracer):
                    x._trace.check_open(x)
            if self._options.out_shardings is not None:
                results = laid_out(results, out, self._options.out_shardings, "out_shardings")
            trace.graph.results = [trace.lift(x) for x in results]
        keys = tuple(is_keys(x) for x in results)
        return trace.graph, None if shape == _LEAF else shape, keys

    def _inlined(self, args: Any, kwargs: Any) -> Any:
        """Call the function in one that is mapped or traced, which sees what this one does."""
        if self._options.in_shardings is not None:
            args = tree.unflatten(
                tree.structure(args),
                laid_out(tree.leaves(args), args, self._options.in_shardings, "in_shardings"),
            )
        out = self._fun(*args, **kwargs)
        if self._options.out_shardings is None:
            return out
        leaves, structure = tree.flatten(out)
        return tree.unflatten(
            structure, laid_out(leaves, out, self._options.out_shardings, "out_shardings")
        )

    def _donated(self, args: Any, kwargs: Any) -> list[Any]:
        numbers, names = self._options.donated
        given = [args[n] for n in numbers if -len(args) <= n < len(args)]
        given += [kwargs[name] for name in names if name in kwargs]
        return [x for x in tree.leaves(given) if hasattr(x, "shape")]

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for arguments; of these a shape and a dtype are enough."""
        if innermost() is not None or tracing() is not None:
            raise ArgumentTypeError(
                f"{self._what} is lowered in a function that is mapped or traced itself; lower it "
                "outside, or call it",
                argument="self",
            )
        own_args, own_kwargs, statics = self._split(args, kwargs)
        leaves, structure = tree.flatten((own_args, own_kwargs))
        label = labelled(self._fun, own_args, own_kwargs)
        if self._options.in_shardings is not None:
            leaves = placed(
                leaves, own_args, own_kwargs, self._options.in_shardings, self._what, label
            )
        leaves = [
            x if hasattr(x, "shape") and hasattr(x, "dtype") else device_put(x) for x in leaves
        ]
        graph, out, keys = self._trace(leaves, (structure, statics, label))
        return Traced(
            Signature(
                self._what,
                graph,
                structure,
                _LEAF if out is None else out,
                tuple(isinstance(x.dtype, KeyDType) for x in leaves),
                keys,
                self._marked(args, kwargs, statics),
            )
        )

    def _marked(self, args: Any, kwargs: Any, statics: Any) -> tuple[bool, ...]:
        """Return for each leaf of the arguments that are not static whether it is donated."""
        numbers, names = self._options.donated
        given = {n % len(args) for n in numbers if -len(args) <= n < len(args)}
        marks = tuple(
            [tree.map(lambda _, n=n: n in given, x) for n, x in enumerate(args) if n not in statics]
        )
        named = {
            k: tree.map(lambda _, k=k: k in names, x) for k, x in kwargs.items() if k not in statics
        }
        return tuple(tree.leaves((marks, named)))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the function for arguments, and return the stage after that."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Forget what was traced."""
        self._cache.clear()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return shapes and types of the results, as `eval_shape` does."""
        return eval_shape(self._fun, *args, **kwargs)


def _joined(args: Any, kwargs: Any, statics: dict[Any, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments with those that are static in their places."""
    whole = list(args)
    for name in sorted(n for n in statics if isinstance(n, int)):
        whole.insert(name, statics[name])
    named = {name: value for name, value in statics.items() if isinstance(name, str)}
    return whole, {**kwargs, **named}


def _check_static(value: Any, name: Any, what: str) -> None:
    try:
        hash(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{what}: the static argument {name!r} is a {type(value).__name__}, which has no hash; "
            "give a tuple, or leave it out of static_argnums",
            argument="static_argnums",
            type=type(value),
        ) from None


def jit(
    fun: Any = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
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
      donate_argnums: arguments whose arrays may be given up, by number; they count as deleted.
      donate_argnames: likewise, by name.

    Returns:
      The function.

    Raises:
      ArgumentTypeError: fun is no function.
      ArgumentError: a number or a name is none of its arguments, or one is static and donated.

    >>> import gpushard as gs
    >>> @gs.jit
    ... def step(x, rate):
    ...     return x - rate * gs.numpy.sign(x)
    >>> step(gs.numpy.asarray([1.0, -2.0]), 0.5)
    Array([ 0.5, -1.5], dtype=float64)
    """
    if fun is None:
        return functools.partial(
            jit,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
        )
    check_function(fun, "jit")
    static = _arguments(fun, static_argnums, static_argnames, "static")
    donated = _arguments(fun, donate_argnums, donate_argnames, "donate")
    both = set(static[0]) & set(donated[0]) | set(static[1]) & set(donated[1])
    if both:
        raise ArgumentError(
            f"{title('jit', fun)}: {sorted(map(str, both))} are both static and donated; static "
            "arguments hold no arrays, leave them out of donate_argnums",
            argument="donate_argnums",
        )
    return Jitted(fun, Options(static, donated, in_shardings, out_shardings))


def _arguments(
    fun: Any, numbers: Any, names: Any, what: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return numbers and names of arguments, inferred from each other where one is missing."""
    given = (numbers,) if isinstance(numbers, int) else tuple(numbers or ())
    named = (names,) if isinstance(names, str) else tuple(names or ())
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return given, named
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in given:
        if not open_ended and not -len(positional) <= n < len(positional):
            raise ArgumentError(
                f"{title('jit', fun)}: {what}_argnums has {n}, and the function has "
                f"{len(positional)} positional arguments; count from 0, or from -1 back",
                argument=f"{what}_argnums",
                number=n,
            )
    known = {p.name for p in parameters}
    for name in named:
        if name not in known and not any_name:
            raise ArgumentError(
                f"{title('jit', fun)}: {what}_argnames has {name!r}, and the function has "
                f"{', '.join(sorted(known))}; use a name of these",
                argument=f"{what}_argnames",
                name=name,
            )
    if not open_ended:
        given = tuple(n % len(positional) for n in given)
    if numbers is None:
        order = [p.name for p in positional]
        given = tuple(order.index(name) for name in named if name in order)
    elif names is None:
        named = tuple(
            positional[n].name
            for n in given
            if 0 <= n < len(positional)
            and positional[n].kind is not inspect.Parameter.POSITIONAL_ONLY
        )
    return given, named


def _abstract(fun: Any, args: Any, kwargs: Any) -> tuple[Graph, Any, tuple[bool, ...]]:
    """Trace a function for arguments of which shape and type are enough."""
    leaves, structure = tree.flatten((args, kwargs))
    leaves = [x if hasattr(x, "shape") and hasattr(x, "dtype") else device_put(x) for x in leaves]
    own = Jitted(fun, Options(((), ()), ((), ()), None, None))
    return own._trace(leaves, (structure, {}, labelled(fun, args, kwargs)))


def make_jaxpr(fun: Callable[..., Any]) -> Callable[..., str]:
    """Return what says, for arguments, which operations a function is made of.

    Args:
      fun: the function.

    Returns:
      A function that takes arguments as `fun` does, and returns text: the values and operations, a
      line each.

    >>> import gpushard as gs
    >>> print(gs.make_jaxpr(lambda x: (x * x).sum())(gs.numpy.ones(3)))
    { lambda ; a:float64[3]. let
        b:float64[3] = multiply a a
        c:float64[] = sum b
      in (c,) }
    """
    check_function(fun, "make_jaxpr")

    @functools.wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> str:
        return _abstract(fun, args, kwargs)[0].text()

    return traced


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return shapes and types of what a function returns, without computing it.

    Args:
      fun: the function.
      *args: its arguments; what has a shape and a dtype is enough.
      **kwargs: likewise.

    Returns:
      `ShapeDtypeStruct`s in the structure of the result.

    >>> import gpushard as gs
    >>> result = gs.eval_shape(lambda x: x @ x.T, gs.ShapeDtypeStruct((2, 3), "float32"))
    >>> result.shape, result.dtype.name
    ((2, 2), 'float32')
    """
    check_function(fun, "eval_shape")
    graph, structure, keys = _abstract(fun, args, kwargs)
    shapes = [
        ShapeDtypeStruct(var.shape, _KEY if key else var.dtype, weak_type=var.weak)
        for var, key in zip(graph.results, keys, strict=True)
    ]
    return shapes[0] if structure is None else tree.unflatten(structure, shapes)


@contextlib.contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Call functions as they are within a `with` block, as if `jit` were not there.

    Args:
      disable: whether to.
    """
    token = _disabled.set(disable)
    try:
        yield
    finally:
        _disabled.reset(token)


@contextlib.contextmanager
def log_compiles(log: bool = True) -> Iterator[None]:
    """Log what is traced within a `with` block, to the logger "gpushard.jit".

    Args:
      log: whether to.
    """
    token = _logged.set(log)
    try:
        yield
    finally:
        _logged.reset(token)


def clear_caches() -> None:
    """Forget what any function was traced to."""
    for caches in list(_caches.values()):
        for cache in caches:
            cache.clear()
