"""`shard_map` for functions that take and return Modules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from gpushard import tree
from gpushard._geometry.mesh import AbstractMesh, Mesh
from gpushard._geometry.partition_spec import P
from gpushard._transforms.mapping.shard_map import shard_map as of_arrays
from gpushard._transforms.values.leaves import by_position, result_names
from gpushard._transforms.values.user_functions import check_function, parameter_names
from gpushard.nnx.argument_shardings import Places, check_aliases
from gpushard.nnx.jit import Missing
from gpushard.nnx.module_arguments import Outside, call_with_graphs

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
    """Run a function of Modules on each block of their arrays; it sees one block of each array.

    `nnx.shard_map` is `gpushard.shard_map` for functions with Modules and Variables among their
    arguments and results. Inside the function, the value of a Variable is a block. Afterwards,
    `nnx.shard_map` joins the blocks of each Variable according to its spec, and writes the changes
    into your objects. If the function raises, nothing changes.

    Args:
      f: the function or method; without it, `nnx.shard_map` returns a decorator. If `f` is a
        method, the first spec is that of `self`.
      mesh: the mesh. With an `AbstractMesh`, the mesh is the current mesh, or that of an argument.
      in_specs: specs of the positional arguments, as a pytree that is a prefix of the tuple of
        these arguments. A `PartitionSpec` applies to a whole Module; a `StateSharding` has one for
        each part. None passes the whole argument to all devices. Keyword arguments are passed
        whole.
      out_specs: specs of the results, as a pytree that is a prefix of the result.
      check_rep: whether to check that a value is equal along mesh axes that its spec does not name.
        Without the check, `nnx.shard_map` takes the first block along these axes.
      auto: mesh axes that the function is not mapped over.

    Returns:
      A function with the same arguments. Its attribute `inner` is the mapped function of arrays: it
      takes arguments as `gpushard.nnx.to_tree` returns them. It returns positional arguments,
      keyword arguments and result in the same form.

    Raises:
      ArgumentTypeError: `f` is a class, or not a function. Or an entry of the specs is not a spec.
      ArgumentError: mesh axes do not divide an axis, a spec does not fit its argument, or two
        specs of one Variable differ. Or a value varies along a mesh axis that its spec does not
        name.
      TraceContextError: the function changes a Variable that is not in its arguments.

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
        own_specs = tree.structure(args).unflatten(specs)
        ends = _Ends(f, in_specs, out_specs)

        @functools.wraps(f)
        def pure(*args: Any, **kwargs: Any) -> Any:
            return call_with_graphs(f, args, kwargs, lay=ends.take)

        return over(pure, in_specs=own_specs, out_specs=ends.of)(*args, **kwargs)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = [
            Places(in_specs, args, "in_specs", "args", P()),
            Places(None, kwargs, "in_specs", "kwargs", P()),
        ]
        check_aliases([root for each in places for root in each.roots()], "in_specs")
        outside = Outside()
        own_args = tuple([outside.pure(x) for x in args])
        named = {name: outside.pure(x) for name, x in sorted(kwargs.items())}
        return outside.update(inner(*own_args, **named))

    wrapper.inner = inner  # type: ignore[attr-defined]
    return wrapper


class _Ends:
    """The specs by which blocks of results are joined, once the function has returned.

    Args:
      f: the function.
      in_specs: the specs of its arguments, which are among the results.
      out_specs: the specs of its result.
    """

    def __init__(self, f: Callable[..., Any], in_specs: Any, out_specs: Any) -> None:
        self._f = f
        self._in_specs = in_specs
        self._out_specs = out_specs
        self._specs: list[Any] = []

    def take(self, args: Any, kwargs: Any, out: Any) -> list[Any]:
        """Note the specs of arguments and result, and list their leaves."""
        every = [
            Places(self._in_specs, args, "in_specs", "the arguments", P()),
            Places(None, kwargs, "in_specs", "the keyword arguments", P()),
            Places(self._out_specs, out, "out_specs", "the result", P()),
        ]
        check_aliases([root for each in every for root in each.roots()], "out_specs")
        self._specs = [spec for each in every for spec in each.each()]
        return [leaf for each in every for leaf in each.leaves]

    def of(self, results: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """List leaves, specs, and the names of each leaf and of its spec for errors."""
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
