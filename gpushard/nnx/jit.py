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
from gpushard._array.array import Array
from gpushard._cache import BoundedCache
from gpushard._placement.device_put import implicitly_put
from gpushard._runtime.runtime import Device
from gpushard._transforms.jit.arguments import Call, Options, among, check_options, options_of
from gpushard._transforms.jit.jit import OPTIONS, Jitted
from gpushard._transforms.jit.stages import Lowered
from gpushard._transforms.tracing.constraints import apply_shardings, place_arguments
from gpushard._transforms.tracing.trace import tracing
from gpushard._transforms.values.frames import innermost
from gpushard._transforms.values.leaves import label_arguments
from gpushard._transforms.values.user_functions import check_function, imitate, title
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.argument_shardings import Places, check_aliases
from gpushard.nnx.graph import clone
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module_arguments import Outside, call_with_graphs, graph_leaves
from gpushard.nnx.stages import Traced

__all__ = ["JitWrapped", "Missing", "eval_shape", "jit"]


class Missing:
    """Mark that the argument `fun` is missing: the call then returns a decorator."""


class _Pure:
    """A function of arrays that stands for a function of Modules.

    Args:
      fun: the function of Modules.
      options: its options of `jit`.
      get: returns the function, which this object must not keep alive.
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
        """Call the function; return positional arguments, keyword arguments and its result."""
        count, options = len(args), self._options
        statics = among(options.static[0], count)
        donated = {*among(options.donated[0], count), *options.donated[1]}
        lay = functools.partial(self._lay_out, statics) if self._lays else None
        return call_with_graphs(
            self._fun(), args, kwargs, keeps=lambda name: self._keeps or name in donated, lay=lay
        )

    def _lay_out(self, statics: set[int], args: Any, kwargs: Any, out: Any) -> list[Any]:
        """Move the leaves of arguments and results to their shardings."""
        own_args = tuple([x for n, x in enumerate(args) if n not in statics])
        before = Places(self._options.in_shardings, own_args, "in_shardings", "the arguments")
        named = Places(None, kwargs, "in_shardings", "the keyword arguments")
        results = Places(self._options.out_shardings, out, "out_shardings", "the result")
        placed_roots = [
            each for each in results.roots() if each[2] is not None
        ]  # None says nothing
        check_aliases([*before.roots(), *named.roots(), *placed_roots], "out_shardings")
        return [*before.laid_out(), *named.leaves, *results.laid_out()]


_pures: WeakKeyDictionary[Any, BoundedCache[_Pure]] = WeakKeyDictionary()
"""The functions of arrays by function and options, so that `jit(f)` may stand in a loop."""


def _pure_of(fun: Any, options: Options) -> _Pure:
    """Get or make the function of arrays that stands for a function of Modules."""
    key = options.key()
    if key is None or type(fun) is not types.FunctionType:  # others may be equal, or die
        return _Pure(fun, options, lambda: fun)
    of_options = _pures.setdefault(fun, BoundedCache(OPTIONS))
    pure = of_options.get(key)
    if pure is None:
        pure = _Pure(fun, options, weakref.ref(fun))
        of_options.put(key, pure, 1)
    return pure


class JitWrapped:
    """The type of functions that `nnx.jit` returns."""

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
        """Call the function, and update the Modules among the arguments."""
        outside = Outside()
        args, kwargs = self.pure(outside, args, kwargs)
        return outside.update(self._jitted.run(args, kwargs, outside.moved))

    def pure(
        self, outside: Outside, args: Any, kwargs: Any, *, whole: bool = True, moves: bool = True
    ) -> Any:
        """Split the Modules among arguments, and move arrays to `in_shardings`.

        Args:
          outside: the state of the call.
          args: the positional arguments.
          kwargs: the keyword arguments.
          whole: whether `args` includes static arguments.
          moves: whether to move arrays.
        """
        static = self._options.static if whole else ((), ())
        call = Call(self._fun, self.what, args, kwargs, static)
        for name, x in call.statics.items():
            if _has_graph(x):
                raise ArgumentTypeError(
                    f"{self.what}: the static argument {name!r} has a {type(x).__name__}, and its "
                    "values may change. Try: leave it out of static_argnums; static attributes of "
                    "a Module are static anyway",
                    argument="static_argnums",
                    type=type(x),
                )
        own_args = tuple([outside.pure(x) for x in call.args])
        named = kwargs and {name: outside.pure(x) for name, x in sorted(call.kwargs.items())}
        if self.in_shardings is None or not moves:
            return call.whole(own_args, named)
        if kwargs:
            raise ArgumentError(
                f"{self.what}: in_shardings with the keyword arguments {sorted(kwargs)}. Try: pass "
                "them by position",
                argument="in_shardings",
            )
        return call.whole(self._move_arguments(outside, call, own_args, whole), named)

    def _move_arguments(self, outside: Outside, call: Call, split_args: Any, whole: bool) -> Any:
        """Move the arrays of arguments to `in_shardings`."""
        parts = iter(outside.splitter.parts)
        leaves, structure = graph_leaves(call.args)
        split_leaves = [next(parts) if isinstance(x, Leveled) else x for x in leaves]
        full = structure.unflatten(split_leaves)
        places = Places(self.in_shardings, full, "in_shardings", "args")
        if not places.agree():
            check_aliases(places.roots(), "in_shardings")
        ends = tuple(places.each())
        arrays, shape = tree.flatten(split_args)
        if innermost() is not None or tracing() is not None:
            moved = apply_shardings(
                [x if isinstance(x, Array) else implicitly_put(x, self.what) for x in arrays],
                tuple(arrays), ends, "in_shardings",
            )  # fmt: skip
        else:
            label = label_arguments(self._jitted, split_args, {}, call.statics)
            moved = place_arguments(arrays, tuple(arrays), {}, ends, self.what, label)
            if whole:
                stay = set(map(id, moved))
                given_up = self._options.donated_leaves(*call.whole(split_args, {}))
                elsewhere = {id(x): x for x in given_up if id(x) not in stay}
                outside.moved = list(elsewhere.values())
        return shape.unflatten(moved)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result with a `ShapeDtypeStruct` in place of each array.

        Args:
          *args: the positional arguments, which the call does not change. You may pass a
            `ShapeDtypeStruct` in place of an array.
          **kwargs: the keyword arguments.
        """
        outside = Outside()
        call = Call(self._fun, self.what, args, kwargs, self._options.static)
        args, kwargs = call.whole(*clone((call.args, call.kwargs)))
        args, kwargs = self.pure(outside, args, kwargs, moves=False)
        return outside.update(self._jitted.eval_shape(*args, **kwargs))

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for arguments, without changing them."""
        args, kwargs = self.pure(Outside(), args, kwargs)
        return Traced(self._jitted.trace(*args, **kwargs)._signature, self)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower the function for arguments, without changing them."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Clear what the function has cached; the next call traces again."""
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
    """Compile a function of Modules: trace it once, and from then on run the recorded operations.

    `nnx.jit` is `gpushard.jit` for functions with Modules and Variables among their arguments and
    results. The function works on copies of the Modules. It may set Variables, and add, delete and
    rebind attributes. When it has returned, `nnx.jit` writes the changes into your objects. An
    object that several arguments share is shared inside the function and afterwards. If the
    function raises, nothing changes.

    Args:
      fun: the function or method; without it, `nnx.jit` returns a decorator.
      in_shardings: shardings of the positional arguments that are not static, as a pytree that is a
        prefix of the tuple of these arguments. A sharding applies to a whole Module; a
        `StateSharding` has one for each part. Modules keep these shardings after the call, whether
        their values change or not.
      out_shardings: shardings of the results, as a pytree that is a prefix of the result.
      static_argnums: positions of the arguments that the function gets unchanged. Their values must
        be hashable.
      static_argnames: names of static arguments.
      donate_argnums: positions of donated arguments, as in `gpushard.jit`. The Variables of donated
        Modules get new arrays.
      donate_argnames: names of donated arguments.
      keep_unused: ignored, as in `gpushard.jit`.
      device: the device that runs all operations; arguments move to it. You cannot also give
        shardings or `backend`.
      backend: the platform of the devices, "cpu" or "gpu".
      inline: ignored, as in `gpushard.jit`.
      abstracted_axes: must be None.

    Returns:
      A function with the same arguments. It is traced again for other shapes, dtypes or shardings,
      as in `gpushard.jit`, and for Modules with other types, names or static values.

    Raises:
      ArgumentTypeError: `fun` is not a function, or is a bound method of a Module, such as
        `model.apply`. Or a Module is a static argument, or a static attribute has no hash.
      ArgumentError: a sharding does not fit its argument, or two shardings of one Variable differ.
      TraceContextError: the function changes a Variable that is not in its arguments.

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

    def decorate(fun: Any) -> JitWrapped:
        check_function(fun, "nnx.jit")
        _check_unbound(fun)
        return JitWrapped(fun, options_of(fun, *choices))

    return decorate if fun is Missing else decorate(fun)


def _check_unbound(fun: Any) -> None:
    """Check that no Module is bound to a function: its values would be traced as constants.

    Raises:
      ArgumentTypeError: fun is a Module, a method of one, or has one as a partial argument.
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
    """Compute the result of a function with shapes in place of arrays, without running it.

    Args:
      f: the function, for example one that creates a Module.
      *args: the positional arguments, which the call does not change. You may pass a
        `ShapeDtypeStruct` in place of an array.
      **kwargs: the keyword arguments.

    Raises:
      ArgumentTypeError: `f` is not a function.

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
