"""Modules: objects with arrays, Variables, other modules and static values as attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Self

from gpushard._placement.device_put import register_placeable
from gpushard._transforms.values.captured import CONTAINERS, guard
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.filters import Filter, to_predicate
from gpushard.nnx.levels import Leveled, level
from gpushard.nnx.variable import Variable, describe_value, put, without_slots
from gpushard.nnx.walk import iter_graph

__all__ = ["Module"]


_get = object.__getattribute__


class Module(Leveled):
    """Base class of models and layers, which `nnx.jit` and other transforms take as arguments.

    Attributes may be Modules, Variables, arrays, and containers of these: dicts, lists, tuples and
    other pytrees. Attributes of other types are static. Modules and Variables may be shared, and
    may refer to each other in circles. So a Module is not a pytree, and functions of pytrees such
    as `gpushard.jit` do not take it. `gpushard.nnx.state(module)` returns the values of a Module as
    a pytree. `gpushard.nnx.split(module)` returns the values and the static part.

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

    __slots__ = ("__dict__", "__weakref__", "_nnx_recipe")

    _nnx_recipe: Any  # how it was split last

    def __init_subclass__(cls, *, pytree: bool = False, **more: Any) -> None:
        super().__init_subclass__(**more)
        if pytree:
            raise ArgumentError(
                f"the class {cls.__name__} cannot be a pytree: a Module is a graph, in which "
                "objects may be shared; leave pytree=True out, and use nnx.state(module)",
                argument="pytree",
            )
        without_slots(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create an object that remembers the traced function in which it was created."""
        new = super().__new__(cls)
        put(new, "_nnx_level", level())
        put(new, "_nnx_recipe", None)
        return new

    def __getattribute__(self, name: str) -> Any:
        x = _get(self, name)
        if guard() is not None and isinstance(x, CONTAINERS) and not name.startswith("_nnx_"):
            _get(self, "_watch")(x, name)
        return x

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_level(f"an assignment to {name!r}")
        put(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._check_level(f"the deletion of {name!r}")
        object.__delattr__(self, name)
        put(self, "_nnx_recipe", None)  # it would keep the deleted attribute alive

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def iter_modules(self) -> Iterator[tuple[tuple[Any, ...], Module]]:
        """Yield the path and the object of each Module inside this Module, and of this Module last.

        >>> import gpushard as gs
        >>> m = gs.nnx.Module()
        >>> m.part = gs.nnx.Module()
        >>> [path for path, _ in m.iter_modules()]
        [('part',), ()]
        """
        return ((path, x) for path, x in iter_graph(self) if isinstance(x, Module))

    def set_attributes(
        self, *filters: Filter, raise_if_not_found: bool = True, **attributes: Any
    ) -> None:
        """Set attributes of this Module and of all Modules inside it that have these attributes.

        Args:
          *filters: filters of the Modules to change; without filters all Modules are changed.
          raise_if_not_found: whether to raise an error if no Module has one of the attributes.
          **attributes: the new values of the attributes.

        Raises:
          ArgumentError: none of these Modules has one of the attributes. Nothing is changed then.
          TraceContextError: a Module was created outside the traced function that makes this call.

        >>> from gpushard import nnx
        >>> layers = nnx.Sequential(nnx.Dropout(0.5), nnx.Dropout(0.1))
        >>> layers.set_attributes(deterministic=True)
        >>> [layer.deterministic for layer in layers.layers]
        [True, True]
        """
        wanted = to_predicate(filters or ...)
        targets = [
            (x, name)
            for path, x in self.iter_modules()
            if wanted(path, x)
            for name in attributes
            if name in vars(x) or hasattr(type(x), name)
        ]
        missing = sorted(attributes.keys() - {name for _, name in targets})
        if missing and raise_if_not_found:
            raise ArgumentError(
                f"set_attributes: no Module here has {', '.join(missing)}; correct the names or "
                "the filters, or pass raise_if_not_found=False",
                argument=missing[0],
                names=tuple(missing),
            )
        for x, name in targets:
            x._check_level(f"an assignment to {name!r}")
        for x, name in targets:
            setattr(x, name, attributes[name])

    def train(self, **attributes: Any) -> None:
        """Switch layers to training: set `deterministic` and `use_running_average` to False.

        Args:
          **attributes: other attributes to set.

        >>> from gpushard import nnx
        >>> layer = nnx.Dropout(0.5, deterministic=True)
        >>> layer.train()
        >>> layer.deterministic
        False
        """
        modes = {"deterministic": False, "use_running_average": False, **attributes}
        self.set_attributes(raise_if_not_found=False, **modes)

    def eval(self, **attributes: Any) -> None:
        """Switch layers to evaluation: set `deterministic` and `use_running_average` to True.

        Args:
          **attributes: other attributes to set.

        >>> import gpushard as gs
        >>> layer = gs.nnx.Dropout(0.5)
        >>> layer.eval()
        >>> layer(gs.numpy.ones(2)).tolist()
        [1.0, 1.0]
        """
        modes = {"deterministic": True, "use_running_average": True, **attributes}
        self.set_attributes(raise_if_not_found=False, **modes)

    def __repr__(self) -> str:
        return _text(self, "", set())


def _refuse(x: Module) -> NoReturn:
    raise ArgumentTypeError(
        f"a {type(x).__name__} is a Module and no pytree; place its values. Try: "
        "nnx.update(m, device_put(nnx.state(m), place)), or nnx.jit",
        argument="x",
        type=type(x),
    )


register_placeable(Module, _refuse)


def _text(x: Any, indent: str, above: set[int]) -> str:
    """Format an object with types and shapes, without data of arrays."""
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
            return begin + ", ".join(map(describe_value, x)) + end
    else:
        return describe_value(x)
    if id(x) in above:
        return f"{begin}...{end}"
    if not items:
        return begin + end
    inner = indent + "  "
    lines = [f"{inner}{name}{_text(part, inner, above | {id(x)})}" for name, part in items]
    return begin + "\n" + ",\n".join(lines) + f"\n{indent}{end}"
