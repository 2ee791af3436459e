"""What `lower` gives of a call that is not done yet, and what `compile` makes of that.

Functions run at once here, so there is no program to be read. What is known before is what the
arguments say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.errors import ArgumentTypeError, TracedValueError, UnsupportedError
from gpushard.frozen import dataclass
from gpushard.transforms.named_dims import innermost
from gpushard.typing import Shape

_OF_PROGRAMS = frozenset(
    [
        "as_text", "compiler_ir", "cost_analysis", "input_formats", "input_shardings", "jaxpr",
        "memory_analysis", "out_info", "out_tree", "output_formats", "output_shardings",
        "runtime_executable",
    ]
)  # fmt: skip
"""What JAX has of programs, and is not known here before a call."""


@dataclass(frozen=True)
class ArgInfo:
    """What is known of an argument before a call."""

    shape: Shape
    dtype: Any
    donated: bool


class _Stage:
    """The arguments of a call.

    Args:
      function: does the call.
      what: what errors call it.
      args: the arguments.
      kwargs: those by name.
      fixed: static ones among them, by their numbers.
      donated: the numbers of those that are given up.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        what: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        fixed: dict[int, Any],
        donated: Sequence[int],
    ) -> None:
        own = tuple([arg for n, arg in enumerate(args) if n not in fixed])
        avals = tree.map(aval_of, (own, kwargs))
        numbers = [n for n in range(len(args)) if n not in fixed]
        infos = [
            tree.map(lambda x, n=n: ArgInfo(x.shape, x.dtype, n in donated), aval)
            for n, aval in zip(numbers, avals[0], strict=True)
        ]
        named = tree.map(lambda x: ArgInfo(x.shape, x.dtype, False), avals[1])
        leaves = tree.leaves((tuple(infos), named), lambda x: isinstance(x, ArgInfo))
        self._function = function
        self._what = what
        self._fixed = fixed
        self.in_tree = tree.structure((own, kwargs))
        """The structure of the arguments that are not static, and of those by name."""
        self.in_avals = avals
        """Their shapes and types."""
        self.args_info = (tuple(infos), named)
        """What is known of each."""
        self.donate_argnums = tuple([n for n, info in enumerate(leaves) if info.donated])
        """The numbers, of all leaves, of those that are given up."""

    def __getattr__(self, name: str) -> Any:
        if name in _OF_PROGRAMS:
            raise UnsupportedError(
                f"{self._what}: {name} is of a program, and there is none: functions run at once. "
                "Call it, and look at what it returns",
                argument="name",
                name=name,
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Lowered(_Stage):
    """A call whose arguments were checked.

    >>> import gpushard as gs
    >>> lowered = gs.pmap(lambda x: x + 1).lower(gs.ShapeDtypeStruct((8, 2), "float32"))
    >>> lowered.args_info
    ((ArgInfo(shape=(8, 2), dtype=dtype('float32'), donated=False),), {})
    >>> lowered.compile()(gs.numpy.ones((8, 2), "float32")).shape
    (8, 2)
    """

    def compile(self) -> Compiled:
        """Return the function, for such arguments only."""
        made: Compiled = object.__new__(Compiled)
        made.__dict__.update(self.__dict__)
        return made


class Compiled(_Stage):
    """A function for arguments of one structure, with one shape and type each.

    It is called without the static ones.
    """

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Args:
          *args: arguments like those that it was lowered with.
          **kwargs: likewise.

        Raises:
          ArgumentTypeError: they differ from these in structure, shape or type.
          TracedValueError: in a function that is mapped.
        """
        if innermost() is not None:
            raise TracedValueError(
                f"{self._what}: what was compiled can't be called in a function that is mapped; "
                "call the function that it was made of",
                argument="self",
            )
        structure = tree.structure((args, kwargs))
        if structure != self.in_tree:
            raise ArgumentTypeError(
                f"{self._what}: it was compiled for arguments {_pytree(self.in_tree)} and is "
                f"called with {_pytree(structure)}; lower it for these",
                argument="args",
            )
        wanted, found = (
            tree.leaves(avals, lambda x: isinstance(x, ShapeDtypeStruct))
            for avals in (self.in_avals, tree.map(aval_of, (args, kwargs)))
        )
        wrong = [
            f"{n}: {_shown(a)} is {_shown(b)}"
            for n, (a, b) in enumerate(zip(wanted, found, strict=True))
            if (a.shape, a.dtype) != (b.shape, b.dtype)
        ]
        if wrong:
            raise ArgumentTypeError(
                f"{self._what}: arguments differ from those that it was compiled for, in "
                f"{'; '.join(wrong)}; lower it for these",
                argument="args",
                differ=tuple(wrong),
            )
        return with_static(self._function, self._fixed)(*args, **kwargs)

    __call__ = call


def with_static(function: Callable[..., Any], fixed: dict[int, Any]) -> Callable[..., Any]:
    """Return a function of the arguments that are not static.

    Args:
      function: of all.
      fixed: the static ones by their numbers, ascending.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        every = list(args)
        for n, value in fixed.items():
            every.insert(n, value)
        return function(*every, **kwargs)

    return call


def aval_of(x: Any) -> ShapeDtypeStruct:
    """Return the shape and type of an argument; what can't be one is refused when it is used."""
    if isinstance(x, ShapeDtypeStruct):
        return x
    own = x if hasattr(x, "dtype") else np.asarray(x)
    return ShapeDtypeStruct(own.shape, own.dtype)


def stand_in(x: Any) -> Any:
    """Return an array of the shape and type that are said, in memory for one element."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if type(x) is ShapeDtypeStruct else x


def _pytree(structure: Any) -> str:
    return repr(structure).removeprefix("TreeDef(").removesuffix(")")


def _shown(aval: ShapeDtypeStruct) -> str:
    return f"{aval.dtype}{list(aval.shape)}"
