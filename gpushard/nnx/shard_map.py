"""`shard_map` of functions that take and return Modules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from gpushard import tree
from gpushard.geometry.mesh import AbstractMesh, Mesh
from gpushard.geometry.partition_spec import P
from gpushard.nnx.boundary import Outside, called
from gpushard.nnx.jit import Missing
from gpushard.nnx.places import Places, check_aliases
from gpushard.transforms.mapping.shard_map import shard_map as of_arrays
from gpushard.transforms.values.signature import (
    by_position,
    check_function,
    parameter_names,
    result_names,
)

__all__ = ["shard_map"]


def shard_map(
    f: Any = Missing,
    *,
    mesh: Mesh | AbstractMesh,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
    auto: Collection[str] = frozenset(),
) -> Any:
    """Map a function of Modules over the blocks of arrays: it sees one block of each.

    It is `gpushard.shard_map` for functions whose arguments and results may have Modules and
    Variables in them. Within the function the value of a Variable is a block. When it has returned,
    the blocks of each Variable are joined as its spec says, the caller's objects are brought up to
    date, and stay the same objects. If it raises, nothing has changed.

    Args:
      f: the function; without it, the result takes the function, as a decorator, also of methods,
        whose `self` the first spec is for.
      mesh: the devices. An `AbstractMesh` stands for that of the arguments, or around the call.
      in_specs: a prefix of the positional arguments. A `PartitionSpec` is for all of a Module, a
        `StateSharding` for each part of it one; None is for what comes whole. Keyword arguments
        come whole.
      out_specs: a prefix of the results.
      check_rep: whether values must be the same along axes that their specs do not name. If not,
        the first device's counts.
      auto: axes of the mesh that the function is not mapped over.

    Returns:
      The function. Its attribute `inner` is the mapped function of arrays: it takes what
      `gpushard.nnx.to_tree` makes of arguments, and returns arguments, keyword arguments and result
      in that form.

    Raises:
      ArgumentTypeError: f is no function, or a class; or a spec is none.
      ArgumentError: axes do not divide a dim, a spec does not fit, says something else than another
        one of the same Variable, or a value varies along an axis that its spec does not name.
      TraceContextError: the function changes a Variable that is no argument.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> mesh = gs.make_mesh((4,), "x")
    >>> class Scale(nnx.Module):
    ...     def __init__(self, size):
    ...         self.factor = nnx.Param(gs.numpy.ones(size))
    >>> @nnx.shard_map(mesh=mesh, in_specs=(gs.P("x"), gs.P("x")), out_specs=gs.P("x"))
    ... def scaled(scale, x):
    ...     scale.factor += gs.lax.axis_index("x")
    ...     return x * scale.factor
    >>> scale = Scale(8)
    >>> scaled(scale, gs.numpy.ones(8)).tolist()
    [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    >>> scale.factor.sharding.spec
    PartitionSpec('x')
    """
    if f is Missing:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            check_rep=check_rep,
            auto=auto,
        )
    check_function(f, "nnx.shard_map")
    in_specs = by_position(in_specs)
    over = functools.partial(of_arrays, mesh=mesh, check_rep=check_rep, auto=auto)
    over(f)  # checks mesh and axes

    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> Any:
        specs = Places(in_specs, args, "in_specs", "args", P()).each()
        own = tree.structure(args).unflatten(specs)
        ends = _Ends(f, in_specs, out_specs)

        @functools.wraps(f)
        def pure(*args: Any, **kwargs: Any) -> Any:
            return called(f, args, kwargs, lay=ends.take)

        return over(pure, in_specs=own, out_specs=ends.of)(*args, **kwargs)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = [
            Places(in_specs, args, "in_specs", "args", P()),
            Places(None, kwargs, "in_specs", "kwargs", P()),
        ]
        check_aliases([root for each in places for root in each.roots()], "in_specs")
        outside = Outside()
        own = tuple([outside.pure(x) for x in args])
        named = {name: outside.pure(x) for name, x in sorted(kwargs.items())}
        return outside.update(inner(*own, **named))

    wrapper.inner = inner  # type: ignore[attr-defined]
    return wrapper


class _Ends:
    """How blocks of results are joined: known when the function has returned.

    Args:
      f: the function.
      in_specs: of its arguments, which return.
      out_specs: of what it returns.
    """

    def __init__(self, f: Callable[..., Any], in_specs: Any, out_specs: Any) -> None:
        self._f = f
        self._in_specs = in_specs
        self._out_specs = out_specs
        self._specs: list[Any] = []

    def take(self, args: Any, kwargs: Any, out: Any) -> list[Any]:
        """Note the specs of results, and return their leaves."""
        every = [
            Places(self._in_specs, args, "in_specs", "the arguments", P()),
            Places(None, kwargs, "in_specs", "the keyword arguments", P()),
            Places(self._out_specs, out, "out_specs", "the result", P()),
        ]
        check_aliases([root for each in every for root in each.roots()], "out_specs")
        self._specs = [spec for each in every for spec in each.each()]
        return [leaf for each in every for leaf in each.leaves]

    def of(self, results: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return leaves, specs, and how errors call each result and the argument with its spec."""
        args, kwargs, out = results
        positions = parameter_names(self._f, len(args))
        names = []
        for path, _ in tree.leaves_with_path((args, kwargs)):
            first = path[1]
            name = positions[first.idx] if hasattr(first, "idx") else str(first.key)
            left = f"argument {name}{tree.keystr(path[2:])}, as the function leaves it,"
            names.append((left, "in_specs"))
        names += [(name, "out_specs") for name in result_names(tree.structure(out))]
        return tree.leaves(results), self._specs, names
