"""`pjit`: what `jit` was called when the mesh came from the context, with its older arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gpushard import tree
from gpushard.array.array import Array
from gpushard.cache import BoundedCache
from gpushard.errors import ArgumentError, NoMeshError, ShardingError
from gpushard.functions.values import is_traced
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P, PartitionSpec
from gpushard.legacy.global_device_array import GlobalDeviceArray
from gpushard.placement.defaults import get_mesh
from gpushard.placement.device_put import device_put
from gpushard.runtime.current import current
from gpushard.transforms.jit.jit import Jitted, jit
from gpushard.transforms.values.signature import by_position, check_function, title


class _Mark:
    """A value that is only itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


FROM_GDA: Final[Any] = _Mark("FROM_GDA")
"""In `in_axis_resources`, for an argument that is a `GlobalDeviceArray`: as it lies."""

_LEFT_OUT: Final[Any] = _Mark("_LEFT_OUT")

_MESHES = 16
"""How many meshes one function is traced for at a time."""


def pjit(
    fun: Any = None,
    in_shardings: Any = _LEFT_OUT,
    out_shardings: Any = _LEFT_OUT,
    *,
    in_axis_resources: Any = _LEFT_OUT,
    out_axis_resources: Any = _LEFT_OUT,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
) -> Any:
    """Do what `jit` does; bare `PartitionSpec`s mean the mesh around each call.

    Args:
      fun: the function; without it, the result takes the function, as a decorator.
      in_shardings: where arguments lie: a prefix of the positional ones that are not static, None
        for as they come.
      out_shardings: where results lie, likewise.
      in_axis_resources: the older name of `in_shardings`, in which None means a replica on each
        device, and `legacy.FROM_GDA` as a `GlobalDeviceArray` lies.
      out_axis_resources: the older name of `out_shardings`, likewise without `FROM_GDA`.
      static_argnums: as for `jit`.
      static_argnames: as for `jit`.
      donate_argnums: as for `jit`.
      donate_argnames: as for `jit`.

    Returns:
      The function. Its results are `GlobalDeviceArray`s where the setting
      `parallel_functions_output_gda` is on.

    Raises:
      ArgumentTypeError: fun is no function.
      ArgumentError: both spellings are given, or `FROM_GDA` for what is no `GlobalDeviceArray`.
      NoMeshError: a call has a bare spec, and there is no mesh around it.
      ShardingError: an argument lies otherwise than it should.

    >>> import gpushard as gs
    >>> gram = gs.pjit(
    ...     lambda x: x @ x.T, in_axis_resources=gs.P("x"), out_axis_resources=gs.P("y", "x")
    ... )
    >>> with gs.make_mesh((4, 2), ("x", "y")):
    ...     gram(gs.numpy.ones((8, 2))).sharding.spec
    PartitionSpec('y', 'x')
    """
    how = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
    }
    ins = by_position(_one_of("in", in_shardings, in_axis_resources))
    outs = _one_of("out", out_shardings, out_axis_resources)
    if outs is not None and any(leaf is FROM_GDA for leaf in _leaves(outs)):
        raise ArgumentError(
            f"pjit: out_axis_resources has FROM_GDA, and results come from no GlobalDeviceArray; "
            f"give {outs!r} specs, and leave out what may lie as it comes",
            argument="out_axis_resources",
            value=outs,
        )
    if fun is None:
        return lambda fun: _Pjit(fun, ins, outs, how).wrapped()
    return _Pjit(fun, ins, outs, how).wrapped()


def _one_of(which: str, shardings: Any, resources: Any) -> Any:
    """Return what is given of two spellings, in that of shardings; None if neither is.

    Raises:
      ArgumentError: both are given.
    """
    if resources is _LEFT_OUT:
        return None if shardings is _LEFT_OUT else shardings
    if shardings is not _LEFT_OUT:
        raise ArgumentError(
            f"pjit: {which}_shardings and {which}_axis_resources are two names of one argument; "
            f"give {which}_shardings alone",
            argument=f"{which}_axis_resources",
            value=resources,
        )
    resources = by_position(resources)
    return tree.map(lambda x: P() if x is None else x, resources, is_leaf=_is_none)


def _is_none(x: Any) -> bool:
    return x is None


def _leaves(places: Any) -> list[Any]:
    return tree.leaves(places, is_leaf=_is_none)


class _Pjit:
    """A function, and what `jit` makes of it for each mesh."""

    def __init__(self, fun: Any, ins: Any, outs: Any, how: dict[str, Any]) -> None:
        check_function(fun, "pjit")
        self._fun, self._ins, self._outs, self._how = fun, ins, outs, how
        self._what = title("pjit", fun)
        bare = [x for places in (ins, outs) for x in _leaves(places) if type(x) is PartitionSpec]
        self._bare = bare[0] if bare else None
        self._jitted: BoundedCache[Jitted] = BoundedCache(_MESHES)
        self.over(None) if self._bare is None else self.checked()

    def checked(self) -> None:
        """Check what `jit` checks of other arguments than places."""
        jit(self._fun, **self._how)

    def over(self, mesh: Mesh | None) -> Jitted:
        """Return what is traced for a mesh, which bare specs mean.

        Raises:
          NoMeshError: there are such, and no mesh.
        """
        if self._bare is None:
            mesh = None
        elif mesh is None:
            raise NoMeshError(
                f"{self._what}: {self._bare!r} needs a mesh, and there is none around this call; "
                "call it within `with mesh:`, or give NamedSharding(mesh, spec)",
                argument="in_shardings",
                spec=self._bare,
            )
        known = self._jitted.get(mesh)
        if known is None:
            places = [
                tree.map(lambda x: _placed(x, mesh), each, is_leaf=_is_none)
                for each in (self._ins, self._outs)
            ]
            known = jit(self._fun, in_shardings=places[0], out_shardings=places[1], **self._how)
            self._jitted.put(mesh, known, 1)
        return known

    def wrapped(self) -> Callable[..., Any]:
        """Return the function that users call."""

        @functools.wraps(self._fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            mesh = get_mesh()
            own = self.over(mesh)
            if self._ins is not None:
                self._check_globals(own, args, kwargs, mesh)
            result = own(*args, **kwargs)
            if not current().settings.parallel_functions_output_gda:
                return result
            return tree.map(lambda x: _as_global(x, mesh, self._what), result)

        def trace(*args: Any, **kwargs: Any) -> Any:
            """Trace the function for arguments; of these a shape and a dtype are enough."""
            return self.over(get_mesh()).trace(*args, **kwargs)

        def lower(*args: Any, **kwargs: Any) -> Any:
            """Trace the function for arguments, and return the stage after that."""
            return trace(*args, **kwargs).lower()

        def eval_shape(*args: Any, **kwargs: Any) -> Any:
            """Return shapes and types of the results, as `gpushard.eval_shape` does."""
            return self.over(get_mesh()).eval_shape(*args, **kwargs)

        call.trace, call.lower, call.eval_shape = trace, lower, eval_shape  # type: ignore[attr-defined]
        call.clear_cache = self._jitted.clear  # type: ignore[attr-defined]
        return call

    def _check_globals(self, own: Jitted, args: Any, kwargs: Any, mesh: Any) -> None:
        """Check that GlobalDeviceArrays lie as it is said, and that `FROM_GDA` is for no others."""
        call = own.read(args, kwargs)
        args = call.args
        places = tree.broadcast_prefix(self._ins, args, _is_none, names=("in_shardings", "args"))
        for number, (x, place) in enumerate(zip(tree.leaves(args), places, strict=True)):
            is_global = isinstance(x, GlobalDeviceArray) or is_traced(x)
            if place is FROM_GDA and not is_global:
                raise ArgumentError(
                    f"{self._what}: in_axis_resources has FROM_GDA for "
                    f"{call.label(number)}, which is a {type(x).__name__}; give "
                    "its spec, or pass a GlobalDeviceArray",
                    argument="in_axis_resources",
                    type=type(x),
                )
            if type(x) is not GlobalDeviceArray or place is None or place is FROM_GDA:
                continue
            wanted = _placed(place, mesh)
            if not x.sharding.is_equivalent_to(wanted, x.ndim):
                raise ShardingError(
                    f"{self._what}: {call.label(number)} lies as {x.sharding}, "
                    f"and in_axis_resources say {wanted}; give FROM_GDA, or reshard it first",
                    argument="in_axis_resources",
                )


def _placed(place: Any, mesh: Mesh | None) -> Any:
    """Return a place as `jit` takes it."""
    if place is FROM_GDA:
        return None
    return NamedSharding(mesh, place) if type(place) is PartitionSpec and mesh else place


def _as_global(x: Any, mesh: Mesh | None, what: str) -> Any:
    """Return a result as a GlobalDeviceArray over its mesh, or over that of the call."""
    if not isinstance(x, Array) or is_traced(x):
        return x
    if not isinstance(x.sharding, NamedSharding):
        if mesh is None:
            raise NoMeshError(
                f"{what}: parallel_functions_output_gda is on, and a GlobalDeviceArray needs a "
                "mesh; call it within `with mesh:`",
                argument="parallel_functions_output_gda",
            )
        x = device_put(x, NamedSharding(mesh, P()))
    return GlobalDeviceArray._of(x, tuple(x.sharding.spec))
