"""Modules: objects whose attributes are arrays, Variables, other modules and what is static."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Self

from gpushard.errors import ArgumentTypeError
from gpushard.nnx.levels import Leveled, level
from gpushard.nnx.variable import Variable, put, shown
from gpushard.placement.device_put import register_placeable

__all__ = ["Module"]


class Module(Leveled):
    """An object with attributes, which transforms of this package take as an argument.

    Attributes are Modules, Variables, arrays, containers of these (dict, list, tuple and other
    pytrees), or static values: all else. A Module is a node of a graph, in which objects may be
    shared and refer to each other in circles. It is no pytree: `gpushard.nnx.state` gives the
    values, `gpushard.nnx.split` what else there is, too.

    >>> import gpushard as gs
    >>> class Scale(gs.nnx.Module):
    ...     def __init__(self, size):
    ...         self.factor = gs.nnx.Param(gs.numpy.ones(size))
    ...
    ...     def __call__(self, x):
    ...         return x * self.factor
    >>> Scale(3)
    Scale(
      factor=Param(float64[3])
    )
    """

    __slots__ = ("__dict__", "__weakref__", "_plan")

    _plan: Any  # how it was taken apart last

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an object that remembers where it was made."""
        new = super().__new__(cls)
        put(new, "_level", level())
        put(new, "_plan", None)
        return new

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_level(f"an assignment to {name!r}")
        put(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._check_level(f"the deletion of {name!r}")
        object.__delattr__(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def iter_modules(self) -> Iterator[tuple[tuple[Any, ...], Module]]:
        """Yield each Module that is reached from here with its path, once; this one comes last.

        >>> import gpushard as gs
        >>> m = gs.nnx.Module()
        >>> m.part = gs.nnx.Module()
        >>> [path for path, _ in m.iter_modules()]
        [('part',), ()]
        """
        found = []
        seen: set[int] = set()
        pending: list[tuple[tuple[Any, ...], Any]] = [((), self)]
        while pending:
            path, x = pending.pop()
            if id(x) in seen:
                continue
            if isinstance(x, Module):
                found.append((path, x))
                parts: Any = sorted(vars(x).items())
            elif isinstance(x, dict):
                parts = x.items()
            elif isinstance(x, list | tuple):
                parts = enumerate(x)
            else:
                continue
            seen.add(id(x))
            pending += [((*path, key), part) for key, part in parts]
        yield from reversed(found)

    def __repr__(self) -> str:
        return _text(self, "", set())


def _refuse(x: Module) -> NoReturn:
    raise ArgumentTypeError(
        f"a {type(x).__name__} is a Module and no pytree; place what it holds, as in "
        "nnx.update(m, device_put(nnx.state(m), place)), or use nnx.jit",
        argument="x",
        type=type(x),
    )


register_placeable(Module, _refuse)


def _text(x: Any, indent: str, above: set[int]) -> str:
    """Return an object as text, with types and shapes, and no data."""
    if isinstance(x, Variable):
        return repr(x)
    if isinstance(x, Module):
        items = [(f"{name}=", part) for name, part in vars(x).items()]
        begin, end = f"{type(x).__name__}(", ")"
    elif isinstance(x, dict):
        items = [(f"{key!r}: ", part) for key, part in x.items()]
        begin, end = "{", "}"
    elif isinstance(x, list | tuple):
        items = [("", part) for part in x]
        begin, end = ("[", "]") if isinstance(x, list) else ("(", ")")
        if not any(isinstance(part, Module | Variable | dict | list | tuple) for part in x):
            return begin + ", ".join(map(shown, x)) + end
    else:
        return shown(x)
    if id(x) in above:
        return f"{begin}...{end}"
    if not items:
        return begin + end
    inner = indent + "  "
    lines = [f"{inner}{name}{_text(part, inner, above | {id(x)})}" for name, part in items]
    return begin + "\n" + ",\n".join(lines) + f"\n{indent}{end}"
