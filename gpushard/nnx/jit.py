"""`jit` of functions that take and return Modules."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from gpushard import tree
from gpushard.array.array import Array
from gpushard.cache import BoundedCache
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.boundary import Outside, called, graph_leaves
from gpushard.nnx.graph import clone
from gpushard.nnx.levels import Leveled
from gpushard.nnx.places import Places, check_aliases
from gpushard.nnx.stages import Traced
from gpushard.placement.device_put import implicitly_put
from gpushard.runtime.runtime import Device
from gpushard.transforms.jit.arguments import Call, Options, among, check_options, options_of
from gpushard.transforms.jit.jit import OPTIONS, Jitted
from gpushard.transforms.jit.stages import Lowered
from gpushard.transforms.tracing.constraints import apply_shardings, place_arguments
from gpushard.transforms.tracing.trace import tracing
from gpushard.transforms.values.frames import innermost
from gpushard.transforms.values.signature import (
    check_function,
    imitate,
    labelled,
    title,
)

__all__ = ["JitWrapped", "Missing", "eval_shape", "jit"]


class Missing:
    """Stands for a function that is not given yet."""


class _Pure:
    """A function of arrays and what is static, made of one of graphs.

    Args:
      fun: the function.
      options: how it is traced.
      get: gives the function.
    """

    def __init__(self, fun: Any, options: Options, get: Callable[[], Any]) -> None:
        functools.update_wrapper(self, fun, updated=())
        vars(self).pop("__wrapped__")  # which would keep it alive
        with contextlib.suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(fun)
        self._fun = get
        self._options = options
        self._lays = options.in_shardings is not None or options.out_shardings is not None
        self._keeps = options.in_shardings is not None or options.device is not None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and return arguments, keyword arguments and its result."""
        count, options = len(args), self._options
        statics = among(options.static[0], count)
        donated = {*among(options.donated[0], count), *options.donated[1]}
        lay = functools.partial(self._laid_out, statics) if self._lays else None
        return called(
            self._fun(), args, kwargs, keeps=lambda name: self._keeps or name in donated, lay=lay
        )

    def _laid_out(self, statics: set[int], args: Any, kwargs: Any, out: Any) -> list[Any]:
        """Set leaves of results where shardings say."""
        own = tuple([x for n, x in enumerate(args) if n not in statics])
        before = Places(self._options.in_shardings, own, "in_shardings", "the arguments")
        named = Places(None, kwargs, "in_shardings", "the keyword arguments")
        results = Places(self._options.out_shardings, out, "out_shardings", "the result")
        said = [each for each in results.roots() if each[2] is not None]  # None leaves it open
        check_aliases([*before.roots(), *named.roots(), *said], "out_shardings")
        return [*before.laid_out(), *named.leaves, *results.laid_out()]


_pures: WeakKeyDictionary[Any, BoundedCache[_Pure]] = WeakKeyDictionary()
"""For each function and options what is traced, so that `jit(f)` may be written in a loop."""


def _pure_of(fun: Any, options: Options) -> _Pure:
    """Return the function of arrays that stands for one of graphs."""
    key = options.key()
    if key is None or type(fun) is not types.FunctionType:  # others may be equal, and go
        return _Pure(fun, options, lambda: fun)
    of_options = _pures.setdefault(fun, BoundedCache(OPTIONS))
    pure = of_options.get(key)
    if pure is None:
        pure = _Pure(fun, options, weakref.ref(fun))
        of_options.put(key, pure, 1)
    return pure


class JitWrapped:
    """A function of graphs that is traced once for arguments of a kind; see `jit`."""

    def __init__(self, fun: Any, options: Options) -> None:
        imitate(self, fun)
        self.in_shardings = options.in_shardings
        self.out_shardings = options.out_shardings
        self.static_argnums = options.static[0]
        self.what = title("jit", fun)
        plain = dataclasses.replace(options, in_shardings=None, out_shardings=None)
        self._fun = fun
        self._options = plain
        self._jitted = Jitted(_pure_of(fun, options), plain)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<nnx.{self.what}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        outside = Outside()
        args, kwargs = self.pure(outside, args, kwargs)
        return outside.update(self._jitted.run(args, kwargs, outside.moved))

    def pure(
        self, outside: Outside, args: Any, kwargs: Any, *, whole: bool = True, moves: bool = True
    ) -> Any:
        """Return arguments with graphs taken apart, where `in_shardings` say.

        Args:
          outside: of the call.
          args: the arguments.
          kwargs: keyword arguments.
          whole: whether static arguments are among them.
          moves: whether arrays are moved there.
        """
        static = self._options.static if whole else ((), ())
        call = Call(self._fun, self.what, args, kwargs, static)
        for name, x in call.statics.items():
            if _has_graph(x):
                raise ArgumentTypeError(
                    f"{self.what}: the static argument {name!r} has a {type(x).__name__}, whose "
                    "values may change; leave it out of static_argnums: what is static of a Module "
                    "is part of the key anyway",
                    argument="static_argnums",
                    type=type(x),
                )
        own = tuple([outside.pure(x) for x in call.args])
        named = kwargs and {name: outside.pure(x) for name, x in sorted(call.kwargs.items())}
        if self.in_shardings is None or not moves:
            return call.whole(own, named)
        if kwargs:
            raise ArgumentError(
                f"{self.what}: in_shardings with the keyword arguments {sorted(kwargs)}; pass "
                "them by position",
                argument="in_shardings",
            )
        return call.whole(self._placed(outside, call, own, whole), named)

    def _placed(self, outside: Outside, call: Call, own: Any, whole: bool) -> Any:
        """Return arguments where `in_shardings` say."""
        parts = iter(outside.splitter.parts)
        leaves, structure = graph_leaves(call.args)
        found = [next(parts) if isinstance(x, Leveled) else x for x in leaves]
        full = structure.unflatten(found)
        places = Places(self.in_shardings, full, "in_shardings", "args")
        if not places.agree():
            check_aliases(places.roots(), "in_shardings")
        ends = tuple(places.each())
        arrays, shape = tree.flatten(own)
        if innermost() is not None or tracing() is not None:
            moved = apply_shardings(
                [x if isinstance(x, Array) else implicitly_put(x, self.what) for x in arrays],
                tuple(arrays), ends, "in_shardings",
            )  # fmt: skip
        else:
            label = labelled(self._jitted, own, {}, call.statics)
            moved = place_arguments(arrays, tuple(arrays), {}, ends, self.what, label)
            if whole:
                stay = set(map(id, moved))
                given_up = self._options.donated_leaves(*call.whole(own, {}))
                elsewhere = {id(x): x for x in given_up if id(x) not in stay}
                outside.moved = list(elsewhere.values())
        return shape.unflatten(moved)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns, with shapes and types in place of arrays.

        Args:
          *args: the arguments, which stay as they are; what has a shape and a dtype is enough.
          **kwargs: likewise.
        """
        outside = Outside()
        call = Call(self._fun, self.what, args, kwargs, self._options.static)
        args, kwargs = call.whole(*clone((call.args, call.kwargs)))
        args, kwargs = self.pure(outside, args, kwargs, moves=False)
        return outside.update(self._jitted.eval_shape(*args, **kwargs))

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for arguments, which stay as they are."""
        args, kwargs = self.pure(Outside(), args, kwargs)
        return Traced(self._jitted.trace(*args, **kwargs)._signature, self)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the function for arguments, which stay as they are; return the stage after that."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Forget what was traced."""
        self._jitted.clear_cache()


def _has_graph(x: Any) -> bool:
    return any(isinstance(leaf, Leveled) for leaf in graph_leaves(x)[0])


def jit(
    fun: Any = Missing,
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
) -> Any:
    """Trace a function of Modules once for arguments of a kind, and replay it from then on.

    It is `gpushard.jit` for functions whose arguments and results may have Modules and Variables in
    them. The function gets objects of its own, and may assign values, add, delete and rebind
    attributes. When it has returned, the caller's objects are brought up to date and stay the same
    objects: what is shared, also between arguments, is shared in the function and afterwards. If it
    raises, nothing has changed.

    Args:
      fun: the function; without it, the result takes the function, as a decorator, also of methods.
      in_shardings: where arguments lie: a prefix of the positional ones that are not static. A
        sharding is for all of a Module, a `StateSharding` for each part of it one. Modules lie so
        afterwards, too, changed or not.
      out_shardings: where results lie: a prefix of them.
      static_argnums: arguments that the function gets as they are, by number; they are hashed.
      static_argnames: likewise, by name.
      donate_argnums: arguments whose arrays are given up, by number, as in `gpushard.jit`;
        Variables have other arrays afterwards.
      donate_argnames: likewise, by name.
      keep_unused: has no meaning here, as in `gpushard.jit`.
      device: where arguments go and everything is done; not together with shardings.
      backend: the platform of the devices, "cpu" or "gpu".
      inline: has no meaning here, as in `gpushard.jit`.
      abstracted_axes: must be None.

    Returns:
      The function. Arguments are of one kind if, beside what counts for `gpushard.jit`, Modules are
      made up of the same types, names and static values.

    Raises:
      ArgumentTypeError: fun is no function, or has a Module bound to it, as `model.apply` has; a
        Module is a static argument, or an attribute that is static has no hash.
      ArgumentError: shardings do not fit, or say different things of one Variable.
      TraceContextError: the function changes a Variable that is no argument.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> class Counter(nnx.Module):
    ...     def __init__(self):
    ...         self.count = nnx.Variable(gs.numpy.zeros((), int))
    >>> @nnx.jit
    ... def step(counter, x):
    ...     counter.count += 1
    ...     return x * counter.count
    >>> counter = Counter()
    >>> int(step(counter, 5)), int(step(counter, 5)), counter.count.value
    (5, 10, Array(2, dtype=int64))
    """
    check_options(None, abstracted_axes)
    choices = (
        (static_argnums, static_argnames),
        (donate_argnums, donate_argnames),
        (in_shardings, out_shardings),
        (device, backend),
    )

    def wrapped(fun: Any) -> JitWrapped:
        check_function(fun, "nnx.jit")
        _check_unbound(fun)
        return JitWrapped(fun, options_of(fun, *choices))

    return wrapped if fun is Missing else wrapped(fun)


def _check_unbound(fun: Any) -> None:
    """Check that a function has no Module bound to it, whose values would be traced once for all.

    Raises:
      ArgumentTypeError: it is a method of a Module, a Module, or has one as a partial argument.
    """
    parts: Any = ()
    while isinstance(fun, functools.partial):
        parts = (parts, fun.args, fun.keywords)
        fun = fun.func
    bound = fun.__self__ if isinstance(fun, types.MethodType) else fun
    call = "f(m, x)"
    if isinstance(bound, Leveled):
        call = "m(x)" if fun is bound else f"m.{fun.__name__}(x)"
    elif not _has_graph(parts):
        return
    raise ArgumentTypeError(
        "nnx.jit: the function has a Module bound to it, which would be traced with the values "
        f"that it has now; pass it as an argument. Try: nnx.jit(lambda m, x: {call})(m, x)",
        argument="fun",
        type=type(bound),
    )


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a function returns, with shapes and types in place of arrays; nothing is made.

    Args:
      f: the function, such as one that makes a Module.
      *args: its arguments, which stay as they are; what has a shape and a dtype is enough.
      **kwargs: likewise.

    Raises:
      ArgumentTypeError: f is no function.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> class Scale(nnx.Module):
    ...     def __init__(self, size):
    ...         self.factor = nnx.Param(gs.numpy.ones(size))
    >>> type(nnx.eval_shape(lambda: Scale(10**12)).factor.value).__name__
    'ShapeDtypeStruct'
    """
    check_function(f, "nnx.eval_shape")
    nothing = None, None
    wrapped = (
        f
        if isinstance(f, JitWrapped)
        else JitWrapped(f, options_of(f, nothing, nothing, nothing, nothing))
    )
    return wrapped.eval_shape(*args, **kwargs)
