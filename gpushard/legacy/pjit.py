"""`pjit`: the older form of `jit`, which takes its mesh from the context of each call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gpushard import tree
from gpushard._array.array import Array
from gpushard._cache import BoundedCache
from gpushard._functions.values import is_traced
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P, PartitionSpec
from gpushard._placement.default_placement import get_mesh
from gpushard._placement.device_put import device_put
from gpushard._runtime.current_runtime import current
from gpushard._transforms.jit.jit import Jitted, jit
from gpushard._transforms.values.leaves import by_position
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentError, NoMeshError, ShardingError
from gpushard.legacy.global_device_array import GlobalDeviceArray


class _Mark:
    """A unique value with a name, equal to itself only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


FROM_GDA: Final[Any] = _Mark("FROM_GDA")
"""In `in_axis_resources`, marks an argument that is a `GlobalDeviceArray` and stays as it lies."""

_LEFT_OUT: Final[Any] = _Mark("_LEFT_OUT")

_MESHES = 16
"""The number of meshes for which traces of one function are kept."""


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
    """Compile a function like `jit`; a `PartitionSpec` refers to the current mesh of each call.

    Args:
      fun: the function; without it, `pjit` returns a decorator.
      in_shardings: shardings or specs of the positional arguments that are not static, as a pytree
        that is a prefix of the tuple of these arguments. None leaves an argument where it is.
      out_shardings: shardings or specs of the results, as a pytree that is a prefix of the result.
        With None, `jit` chooses.
      in_axis_resources: an older name of `in_shardings`. Under this name, None copies the whole
        argument to all devices, and `legacy.FROM_GDA` keeps the sharding of a `GlobalDeviceArray`.
      out_axis_resources: an older name of `out_shardings`. Under this name, None copies the whole
        result to all devices.
      static_argnums: as for `jit`.
      static_argnames: as for `jit`.
      donate_argnums: as for `jit`.
      donate_argnames: as for `jit`.

    Returns:
      A function with the same arguments. If the setting `parallel_functions_output_gda` is on, its
      results are `GlobalDeviceArray`s.

    Raises:
      ArgumentTypeError: `fun` is not a function.
      ArgumentError: you give both names of an argument. Or you give `FROM_GDA` for results, or for
        an argument of another type.
      NoMeshError: there is a `PartitionSpec`, but no current mesh in a call.
      ShardingError: a `GlobalDeviceArray` has another sharding than `in_axis_resources` says.

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
            f"pjit: out_axis_resources={outs!r} has FROM_GDA, which is for arguments. Try: give "
            "specs, or leave out_axis_resources out",
            argument="out_axis_resources",
            value=outs,
        )
    if fun is None:
        return lambda fun: _Pjit(fun, ins, outs, how).wrap()
    return _Pjit(fun, ins, outs, how).wrap()


def _one_of(which: str, shardings: Any, resources: Any) -> Any:
    """Read an argument that has two names, in the meaning of `shardings`; None if it is left out.

    Raises:
      ArgumentError: both names are given.
    """
    if resources is _LEFT_OUT:
        return None if shardings is _LEFT_OUT else shardings
    if shardings is not _LEFT_OUT:
        raise ArgumentError(
            f"pjit: {which}_shardings and {which}_axis_resources are two names of one argument. "
            f"Try: give {which}_shardings alone",
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
    """A function, and the functions that `jit` makes of it, one for each mesh."""

    def __init__(self, fun: Any, ins: Any, outs: Any, how: dict[str, Any]) -> None:
        check_function(fun, "pjit")
        self._fun, self._ins, self._outs, self._how = fun, ins, outs, how
        self._what = title("pjit", fun)
        bare = [x for places in (ins, outs) for x in _leaves(places) if type(x) is PartitionSpec]
        self._bare = bare[0] if bare else None
        self._jitted: BoundedCache[Jitted] = BoundedCache(_MESHES)
        self.for_mesh(None) if self._bare is None else self.check_options()

    def check_options(self) -> None:
        """Check the arguments of `jit` other than shardings."""
        jit(self._fun, **self._how)

    def for_mesh(self, mesh: Mesh | None) -> Jitted:
        """Get or make the function of `jit` for a mesh; bare specs are specs over it.

        Raises:
          NoMeshError: there are bare specs, and no mesh.
        """
        if self._bare is None:
            mesh = None
        elif mesh is None:
            raise NoMeshError(
                f"{self._what}: {self._bare!r} needs a mesh, and there is none around this call. "
                "Try: call it within `with mesh:`, or give NamedSharding(mesh, spec)",
                argument="in_shardings",
                spec=self._bare,
            )
        known = self._jitted.get(mesh)
        if known is None:
            places = [
                tree.map(lambda x: _as_place(x, mesh), each, is_leaf=_is_none)
                for each in (self._ins, self._outs)
            ]
            known = jit(self._fun, in_shardings=places[0], out_shardings=places[1], **self._how)
            self._jitted.put(mesh, known, 1)
        return known

    def wrap(self) -> Callable[..., Any]:
        """Make the function that users call."""

        @functools.wraps(self._fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            mesh = get_mesh()
            jitted = self.for_mesh(mesh)
            if self._ins is not None:
                self._check_globals(jitted, args, kwargs, mesh)
            result = jitted(*args, **kwargs)
            if not current().settings.parallel_functions_output_gda:
                return result
            return tree.map(lambda x: _as_global(x, mesh, self._what), result)

        def trace(*args: Any, **kwargs: Any) -> Any:
            """Trace the function for arguments; a `ShapeDtypeStruct` may stand for an array."""
            return self.for_mesh(get_mesh()).trace(*args, **kwargs)

        def lower(*args: Any, **kwargs: Any) -> Any:
            """Trace and lower the function for arguments; the next stage is `compile`."""
            return trace(*args, **kwargs).lower()

        def eval_shape(*args: Any, **kwargs: Any) -> Any:
            """Compute the shapes and types of the results, as `gpushard.eval_shape` does."""
            return self.for_mesh(get_mesh()).eval_shape(*args, **kwargs)

        call.trace, call.lower, call.eval_shape = trace, lower, eval_shape  # type: ignore[attr-defined]
        call.clear_cache = self._jitted.clear  # type: ignore[attr-defined]
        return call

    def _check_globals(self, jitted: Jitted, args: Any, kwargs: Any, mesh: Any) -> None:
        """Check the shardings of GlobalDeviceArrays, and that `FROM_GDA` is for these only."""
        call = jitted.read(args, kwargs)
        args = call.args
        places = tree.broadcast_prefix(self._ins, args, _is_none, names=("in_shardings", "args"))
        for number, (x, place) in enumerate(zip(tree.leaves(args), places, strict=True)):
            is_global = isinstance(x, GlobalDeviceArray) or is_traced(x)
            if place is FROM_GDA and not is_global:
                raise ArgumentError(
                    f"{self._what}: in_axis_resources has FROM_GDA for "
                    f"{call.label(number)}, which is a {type(x).__name__}. Try: give "
                    "its spec, or pass a GlobalDeviceArray",
                    argument="in_axis_resources",
                    type=type(x),
                )
            if type(x) is not GlobalDeviceArray or place is None or place is FROM_GDA:
                continue
            wanted = _as_place(place, mesh)
            if not x.sharding.is_equivalent_to(wanted, x.ndim):
                raise ShardingError(
                    f"{self._what}: {call.label(number)} lies as {x.sharding}, "
                    f"and in_axis_resources say {wanted}. Try: give FROM_GDA, or reshard it first",
                    argument="in_axis_resources",
                )


def _as_place(place: Any, mesh: Mesh | None) -> Any:
    """Convert a spec or `FROM_GDA` to a value that `jit` takes."""
    if place is FROM_GDA:
        return None
    return NamedSharding(mesh, place) if type(place) is PartitionSpec and mesh else place


def _as_global(x: Any, mesh: Mesh | None, what: str) -> Any:
    """Make a GlobalDeviceArray of a result, over its mesh or over that of the call."""
    if not isinstance(x, Array) or is_traced(x):
        return x
    if not isinstance(x.sharding, NamedSharding):
        if mesh is None:
            raise NoMeshError(
                f"{what}: parallel_functions_output_gda is on, and a GlobalDeviceArray needs a "
                "mesh. Try: call it within `with mesh:`",
                argument="parallel_functions_output_gda",
            )
        x = device_put(x, NamedSharding(mesh, P()))
    return GlobalDeviceArray._of(x, tuple(x.sharding.spec))
