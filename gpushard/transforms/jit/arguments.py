"""What a call of a transformed function passes: which arguments are static, and which donated."""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.geometry.sharding import SingleDeviceSharding
from gpushard.placement.defaults import default_device, devices
from gpushard.runtime.runtime import Device
from gpushard.transforms.values.signature import by_position, labelled, title

Chosen: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]
"""Arguments, by number and by name."""


def among(numbers: Iterable[int], count: int) -> set[int]:
    """Count numbers of arguments from the front, and leave out those that a call does not have."""
    return {n % count for n in numbers if -count <= n < count}


class Call:
    """One call of a function: its arguments but for those that are static.

    Args:
      fun: the function.
      what: what errors call it.
      args: all arguments by position.
      kwargs: all arguments by name.
      static: those that the function gets as they are.
      argument: the argument that says so, for errors.
      error: what is raised if one that is static has no hash; JAX raises others in `pmap`.
    """

    __slots__ = ("_fun", "args", "kwargs", "statics", "structure")

    structure: Any  # of the arguments, once these are flattened

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
        self.statics: dict[Any, Any] = {}  # by number and by name
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
                    f"no hash; give a tuple, or leave it out of {argument}",
                    argument=argument,
                    type=type(value),
                ) from None
        self.args = tuple([x for n, x in enumerate(args) if n not in statics])
        self.kwargs = {k: x for k, x in kwargs.items() if k not in statics}

    def label(self, number: int) -> str:
        """Name a leaf of the arguments that are not static by its number, for errors."""
        return labelled(self._fun, self.args, self.kwargs, self.statics)(number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with others in place of the arguments that are not static."""
        args, kwargs = self.whole(args, kwargs)
        return self._fun(*args, **kwargs)

    def whole(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put arguments together with those that are static."""
        if not self.statics:
            return args, kwargs
        every = list(args)
        for n in sorted(n for n in self.statics if isinstance(n, int)):
            every.insert(n, self.statics[n])
        named = {name: x for name, x in self.statics.items() if isinstance(name, str)}
        return tuple(every), {**kwargs, **named}


@dataclass(frozen=True, eq=False)
class Options:
    """How a function is to be traced."""

    static: Chosen = ((), ())  # arguments given as they are
    donated: Chosen = ((), ())  # arguments given up
    in_shardings: Any = None  # where arguments lie: a prefix of them, or None
    out_shardings: Any = None  # where results lie: a prefix of them, or None
    device: Device | None = None  # where everything is done, or None

    def key(self) -> Any:
        """Return what is equal for equal options, or None where they cannot be compared."""
        shardings, structure = tree.flatten(
            (self.in_shardings, self.out_shardings), lambda x: x is None
        )
        found = (self.static, self.donated, tuple(shardings), structure, self.device)
        try:
            hash(found)
        except TypeError:
            return None
        return found

    def donated_leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of arguments that a call gives up, for `donated_arrays`."""
        numbers, names = self.donated
        own = [args[n] for n in among(numbers, len(args))]
        return tree.leaves(own + [kwargs[name] for name in names if name in kwargs])

    def marked(self, call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """Say of each leaf of a call, static arguments left out, whether it is donated."""
        numbers, names = among(self.donated[0], len(args)), self.donated[1]
        every = [*[(n, x, n in numbers) for n, x in enumerate(args)],
                 *[(name, x, name in names) for name, x in kwargs.items()]]  # fmt: skip
        leaves = [(tree.leaves(x), mark) for name, x, mark in every if name not in call.statics]
        return tuple([mark for own, mark in leaves for _ in own])

    def moved(self, leaves: Sequence[Any], put: Any) -> list[Any]:
        """Return arguments on the device, if one is given."""
        if self.device is None:
            return list(leaves)
        return [put(x, SingleDeviceSharding(self.device)) for x in leaves]

    def around(self) -> contextlib.AbstractContextManager[None]:
        """Return what has new arrays made on the device, if one is given."""
        return contextlib.nullcontext() if self.device is None else default_device(self.device)


def options_of(
    fun: Any,
    static: tuple[Any, Any],
    donated: tuple[Any, Any],
    shardings: tuple[Any, Any],
    places: tuple[Any, Any],
) -> Options:
    """Return what the arguments of `jit` mean, each pair in the order of its signature.

    Raises:
      ArgumentError: numbers or names that are none of the function's, or both static and donated;
        a device with a backend or with shardings.
      ArgumentTypeError: an argument has a wrong type.
    """
    what = title("jit", fun)
    statics = _chosen(fun, *static, "static")
    given_up = _chosen(fun, *donated, "donate")
    check_not_both(statics[0] + statics[1], given_up[0] + given_up[1], what)
    ins, outs = shardings
    return Options(statics, given_up, by_position(ins), outs, _device(what, *places, shardings))


def check_not_both(static: Iterable[Any], donated: Iterable[Any], what: str) -> None:
    """Check that no argument is static and donated.

    Raises:
      ArgumentError: one is.
    """
    both = set(static) & set(donated)
    if both:
        raise ArgumentError(
            f"{what}: {sorted(map(str, both))} are both static and donated; static arguments hold "
            "no arrays, leave them out of donate_argnums",
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
            f"{what}: {argument} and {other} both say where it runs; give one of them",
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
    """Check options of compilers: there are none.

    Raises:
      ArgumentError: there is one.
      ArgumentTypeError: they are no dict.
    """
    if compiler_options is not None and not isinstance(compiler_options, dict):
        raise ArgumentTypeError.refusing(
            "compiler_options", compiler_options, "must be a dict of options, or None", "jit"
        )
    if compiler_options:
        raise ArgumentError(
            f"compiler_options has {sorted(map(str, compiler_options))}, and there are no options; "
            "leave it out, and see gpushard.configure for settings",
            argument="compiler_options",
            options=sorted(map(str, compiler_options)),
        )
    if abstracted_axes is not None:
        raise ArgumentError.refusing(
            "abstracted_axes", abstracted_axes, "must be None: shapes are known when a function is "
            "traced, which is done for each", "jit",
        )  # fmt: skip


def _numbers(found: Any, argument: str, what: str) -> tuple[int, ...]:
    """Return numbers of arguments, of which there may be one alone."""
    several = found if isinstance(found, Iterable) and not isinstance(found, str) else (found,)
    numbers = () if found is None else tuple(several)
    for n in numbers:
        if not isinstance(n, int | np.integer) or isinstance(n, bool):
            raise ArgumentTypeError.refusing(
                argument, found, "must be an integer or a sequence of integers", what
            )
    return tuple(map(int, numbers))


def indices_of(argnums: Any, argument: str, what: str) -> tuple[int, ...]:
    """Return numbers of arguments of a call, which say nothing of the function's signature."""
    several = isinstance(argnums, list | tuple | set | frozenset | range)
    try:
        return tuple([operator.index(n) for n in (argnums if several else (argnums,))])
    except TypeError:
        raise ArgumentTypeError.refusing(
            argument, argnums, "must be the number of an argument, or several", what
        ) from None


def check_numbers(numbers: Iterable[int], count: int, argument: str, what: str) -> None:
    """Check that a call has the arguments of some numbers.

    Raises:
      ArgumentError: it lacks one.
    """
    for n in numbers:
        if not -count <= n < count:
            raise ArgumentError(
                f"{what}: {argument} has {n}, and the call has {count} positional arguments; count "
                "from 0, or from -1 back, and pass that argument by position",
                argument=argument,
                number=n,
                count=count,
            )


def _names(found: Any, argument: str, what: str) -> tuple[str, ...]:
    """Return names of arguments, of which there may be one alone."""
    several = (found,) if isinstance(found, str) or not isinstance(found, Iterable) else found
    names = () if found is None else tuple(several)
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError.refusing(
                argument, found, "must be a name or a sequence of names", what
            )
    return names


def _chosen(fun: Any, numbers: Any, names: Any, kind: str) -> Chosen:
    """Return numbers and names of arguments, inferred from each other where one is missing."""
    what = title("jit", fun)
    given = _numbers(numbers, f"{kind}_argnums", what)
    named = _names(names, f"{kind}_argnames", what)
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return given, named
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    _check_known(given, named, parameters, len(positional), kind, what)
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


def _check_known(
    given: Sequence[int], named: Sequence[str], parameters: Any, count: int, kind: str, what: str
) -> None:
    """Check that numbers and names are those of arguments."""
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        for n in given:
            if not -count <= n < count:
                raise ArgumentError(
                    f"{what}: {kind}_argnums has {n}, and the function has {count} positional "
                    "arguments; count from 0, or from -1 back",
                    argument=f"{kind}_argnums",
                    number=n,
                )
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = {p.name for p in parameters if p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    for name in named:
        if name not in known and not any_name:
            raise ArgumentError(
                f"{what}: {kind}_argnames has {name!r}, and the function has "
                f"{', '.join(sorted(known)) or 'no arguments with names'}; use a name of these",
                argument=f"{kind}_argnames",
                name=name,
            )
