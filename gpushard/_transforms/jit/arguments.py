"""Arguments of transformed functions: which of them are static, and which are donated."""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard._frozen import dataclass
from gpushard._geometry.sharding import SingleDeviceSharding
from gpushard._placement.default_placement import default_device
from gpushard._placement.devices import devices
from gpushard._runtime.runtime import Device
from gpushard._transforms.values.leaves import by_position, label_arguments
from gpushard._transforms.values.user_functions import title
from gpushard.errors import ArgumentError, ArgumentTypeError

Chosen: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]
"""Arguments, by number and by name."""


def among(numbers: Iterable[int], count: int) -> set[int]:
    """Count argument numbers from the front, without those beyond the arguments of a call."""
    return {n % count for n in numbers if -count <= n < count}


class Call:
    """One call of a transformed function, with its static arguments apart from the others.

    Calling the object calls the function, with new values for the arguments that are not static.

    Args:
      fun: the function.
      what: the function, for errors.
      args: all positional arguments.
      kwargs: all keyword arguments.
      static: the numbers and names of static arguments.
      argument: the argument of the transformation that lists them, for errors.
      error: the error for a static argument without a hash; `pmap` raises another one, as in JAX.
    """

    __slots__ = ("_fun", "args", "kwargs", "statics", "structure")

    structure: Any  # the structure of the arguments, once they are flattened

    def __init__(
        self,
        fun: Callable[..., Any],
        what: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        static: Chosen = ((), ()),
        argument: str = "static_argnums",
        error: type[ArgumentError | ArgumentTypeError] = ArgumentError,
    ) -> None:
        self._fun = fun
        self.args, self.kwargs = args, kwargs
        self.statics: dict[Any, Any] = {}  # by number or name
        numbers, names = static
        if not numbers and not names:
            return
        statics = self.statics
        for n in among(numbers, len(args)):
            statics[n] = args[n]
        for name in names:
            if name in kwargs:
                statics[name] = kwargs[name]
        for name, value in statics.items():
            try:
                hash(value)
            except TypeError:
                raise error(
                    f"{what}: the static argument {name!r} is a {type(value).__name__}, which has "
                    f"no hash. Try: give a tuple, or leave it out of {argument}",
                    argument=argument,
                    type=type(value),
                ) from None
        self.args = tuple([x for n, x in enumerate(args) if n not in statics])
        self.kwargs = {k: x for k, x in kwargs.items() if k not in statics}

    def label(self, number: int) -> str:
        """Name a leaf of the arguments that are not static, by its number, for errors."""
        return label_arguments(self._fun, self.args, self.kwargs, self.statics)(number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with new values for the arguments that are not static."""
        args, kwargs = self.whole(args, kwargs)
        return self._fun(*args, **kwargs)

    def whole(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Insert the static arguments among others."""
        if not self.statics:
            return args, kwargs
        every = list(args)
        for n in sorted(n for n in self.statics if isinstance(n, int)):
            every.insert(n, self.statics[n])
        named = {name: x for name, x in self.statics.items() if isinstance(name, str)}
        return tuple(every), {**kwargs, **named}


@dataclass(frozen=True, eq=False)
class Options:
    """The options of `jit` that change how a function is traced."""

    static: Chosen = ((), ())  # static arguments
    donated: Chosen = ((), ())  # donated arguments
    in_shardings: Any = None  # shardings of arguments: a prefix of them, or None
    out_shardings: Any = None  # shardings of results: a prefix of them, or None
    device: Device | None = None  # the device that runs all operations, or None

    def key(self) -> Any:
        """Make a key that is equal for equal options; None if an option has no hash."""
        shardings, structure = tree.flatten(
            (self.in_shardings, self.out_shardings), lambda x: x is None
        )
        key_parts = (self.static, self.donated, tuple(shardings), structure, self.device)
        try:
            hash(key_parts)
        except TypeError:
            return None
        return key_parts

    def donated_leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """List the leaves of the donated arguments of a call, for `donated_arrays`."""
        numbers, names = self.donated
        donated_args = [args[n] for n in among(numbers, len(args))]
        return tree.leaves(donated_args + [kwargs[name] for name in names if name in kwargs])

    def mark_donated(
        self, call: Call, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[bool, ...]:
        """Mark which leaves of the arguments that are not static are donated."""
        numbers, names = among(self.donated[0], len(args)), self.donated[1]
        every = [*[(n, x, n in numbers) for n, x in enumerate(args)],
                 *[(name, x, name in names) for name, x in kwargs.items()]]  # fmt: skip
        leaves = [(tree.leaves(x), mark) for name, x, mark in every if name not in call.statics]
        return tuple([mark for own_leaves, mark in leaves for _ in own_leaves])

    def move_to_device(self, leaves: Sequence[Any], put: Any) -> list[Any]:
        """Move arguments to the device, if one is given."""
        if self.device is None:
            return list(leaves)
        return [put(x, SingleDeviceSharding(self.device)) for x in leaves]

    def on_device(self) -> contextlib.AbstractContextManager[None]:
        """Make the device the default one for new arrays, if one is given; a context manager."""
        return contextlib.nullcontext() if self.device is None else default_device(self.device)


def options_of(
    fun: Any,
    static: tuple[Any, Any],
    donated: tuple[Any, Any],
    shardings: tuple[Any, Any],
    places: tuple[Any, Any],
) -> Options:
    """Read the arguments of `jit`.

    Args:
      fun: the function.
      static: `static_argnums` and `static_argnames`.
      donated: `donate_argnums` and `donate_argnames`.
      shardings: `in_shardings` and `out_shardings`.
      places: `device` and `backend`.

    Raises:
      ArgumentError: fun has no argument of such a number or name, or an argument is both static and
        donated. Or a device is given with a backend or with shardings.
      ArgumentTypeError: an option has a wrong type.
    """
    what = title("jit", fun)
    statics = _choose_arguments(fun, *static, "static")
    given_up = _choose_arguments(fun, *donated, "donate")
    check_not_both(statics[0] + statics[1], given_up[0] + given_up[1], what)
    ins, outs = shardings
    return Options(statics, given_up, by_position(ins), outs, _device(what, *places, shardings))


def check_not_both(static: Iterable[Any], donated: Iterable[Any], what: str) -> None:
    """Check that no argument is both static and donated.

    Raises:
      ArgumentError: an argument is both.
    """
    both = set(static) & set(donated)
    if both:
        raise ArgumentError(
            f"{what}: {sorted(map(str, both))} are both static and donated; static arguments hold "
            "no arrays. Try: leave them out of donate_argnums",
            argument="donate_argnums",
        )


def _device(what: str, device: Any, backend: Any, shardings: tuple[Any, Any]) -> Device | None:
    if device is None and backend is None:
        return None
    argument = "backend" if device is None else "device"
    other = ""
    if device is not None and backend is not None:
        other = "backend"
    elif any(place is not None for place in shardings):
        other = "in_shardings" if shardings[0] is not None else "out_shardings"
    if other:
        raise ArgumentError(
            f"{what}: {argument} and {other} both say where it runs. Try: give one of them",
            argument=argument,
        )
    if device is None:
        if not isinstance(backend, str):
            raise ArgumentTypeError.refusing("backend", backend, 'must be "cpu" or "gpu"', what)
        devices(backend)
        return None
    if not isinstance(device, Device):
        raise ArgumentTypeError.refusing(
            "device", device, "must be one of gpushard.devices()", what
        )
    return device


def check_options(compiler_options: Any, abstracted_axes: Any = None) -> None:
    """Check that no options of compilers and no abstracted axes are given.

    Raises:
      ArgumentError: there are some.
      ArgumentTypeError: compiler_options is neither a dict nor None.
    """
    if compiler_options is not None and not isinstance(compiler_options, dict):
        raise ArgumentTypeError.refusing(
            "compiler_options", compiler_options, "must be a dict of options, or None", "jit"
        )
    if compiler_options:
        raise ArgumentError(
            f"compiler_options has {sorted(map(str, compiler_options))}, and there are no options. "
            "Try: leave it out, and use gpushard.configure for settings",
            argument="compiler_options",
            options=sorted(map(str, compiler_options)),
        )
    if abstracted_axes is not None:
        raise ArgumentError.refusing(
            "abstracted_axes", abstracted_axes, "must be None: a function is traced for each "
            "combination of shapes", "jit",
        )  # fmt: skip


def _numbers(argnums: Any, argument: str, what: str) -> tuple[int, ...]:
    """Read numbers of arguments: one integer or several."""
    several = (
        argnums if isinstance(argnums, Iterable) and not isinstance(argnums, str) else (argnums,)
    )
    numbers = () if argnums is None else tuple(several)
    for n in numbers:
        if not isinstance(n, int | np.integer) or isinstance(n, bool):
            raise ArgumentTypeError.refusing(
                argument, argnums, "must be an integer or a sequence of integers", what
            )
    return tuple(map(int, numbers))


def indices_of(argnums: Any, argument: str, what: str) -> tuple[int, ...]:
    """Read numbers of arguments, without a check against the signature of the function."""
    several = isinstance(argnums, list | tuple | set | frozenset | range)
    try:
        return tuple([operator.index(n) for n in (argnums if several else (argnums,))])
    except TypeError:
        raise ArgumentTypeError.refusing(
            argument, argnums, "must be the number of an argument, or several", what
        ) from None


def check_numbers(numbers: Iterable[int], count: int, argument: str, what: str) -> None:
    """Check that a call has arguments of some numbers.

    Raises:
      ArgumentError: it has no argument of one of them.
    """
    for n in numbers:
        if not -count <= n < count:
            raise ArgumentError(
                f"{what}: {argument} has {n}, and the call has {count} positional arguments. Try: "
                "count from 0, or from -1 back, and pass that argument by position",
                argument=argument,
                number=n,
                count=count,
            )


def _names(argnames: Any, argument: str, what: str) -> tuple[str, ...]:
    """Read names of arguments: one string or several."""
    several = (
        (argnames,) if isinstance(argnames, str) or not isinstance(argnames, Iterable) else argnames
    )
    names = () if argnames is None else tuple(several)
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError.refusing(
                argument, argnames, "must be a name or a sequence of names", what
            )
    return names


def _choose_arguments(fun: Any, numbers: Any, names: Any, kind: str) -> Chosen:
    """Read numbers and names of arguments, and infer missing ones from the signature."""
    what = title("jit", fun)
    argnums = _numbers(numbers, f"{kind}_argnums", what)
    argnames = _names(names, f"{kind}_argnames", what)
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return argnums, argnames
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    _check_known(argnums, argnames, parameters, len(positional), kind, what)
    if not open_ended:
        argnums = tuple(n % len(positional) for n in argnums)
    if numbers is None:
        order = [p.name for p in positional]
        argnums = tuple(order.index(name) for name in argnames if name in order)
    elif names is None:
        argnames = tuple(
            positional[n].name
            for n in argnums
            if 0 <= n < len(positional)
            and positional[n].kind is not inspect.Parameter.POSITIONAL_ONLY
        )
    return argnums, argnames


def _check_known(
    argnums: Sequence[int],
    argnames: Sequence[str],
    parameters: Any,
    count: int,
    kind: str,
    what: str,
) -> None:
    """Check that a function has arguments of these numbers and names."""
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        for n in argnums:
            if not -count <= n < count:
                raise ArgumentError(
                    f"{what}: {kind}_argnums has {n}, and the function has {count} positional "
                    "arguments. Try: count from 0, or from -1 back",
                    argument=f"{kind}_argnums",
                    number=n,
                )
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = {p.name for p in parameters if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    for name in argnames:
        if name not in known and not any_name:
            raise ArgumentError(
                f"{what}: {kind}_argnames has {name!r}, and the function has "
                f"{', '.join(sorted(known)) or 'no arguments with names'}. Try: use one of these",
                argument=f"{kind}_argnames",
                name=name,
            )
