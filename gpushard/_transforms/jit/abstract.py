"""`make_jaxpr`, `eval_shape`, `typeof`: operations, shapes and types, without computing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpushard._array.array import Array
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._placement.device_put import device_put
from gpushard._transforms.jit.jit import Jitted, jit
from gpushard._transforms.values.leaves import check_leaf
from gpushard._transforms.values.traced import TracedValue
from gpushard._transforms.values.user_functions import check_function


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] | None = (),
    return_shape: bool = False,
) -> Callable[..., Any]:
    """Make a function that returns the operations of `fun` as text, without running them.

    Args:
      fun: the function.
      static_argnums: positions of the arguments that `fun` gets unchanged; their values must be
        hashable.
      return_shape: whether to also return the shapes and dtypes of the results.

    Returns:
      A function that takes the arguments of `fun` and returns text, with a line for each operation.
      With `return_shape` it returns a pair of the text and the result of `eval_shape`.

    Raises:
      ArgumentError: a position in `static_argnums` is beyond the arguments of `fun`.
      ArgumentTypeError: `fun` is not a function.

    >>> import gpushard as gs
    >>> print(gs.make_jaxpr(lambda x: (x * x).sum())(gs.numpy.ones(3)))
    { lambda ; a:float64[3]. let
        b:float64[3] = multiply a a
        c:float64[] = sum b
      in (c,) }
    """
    check_function(fun, "make_jaxpr")
    jitted: Jitted = fun if isinstance(fun, Jitted) else jit(fun, static_argnums=static_argnums)

    @functools.wraps(fun, updated=())
    def traced(*args: Any, **kwargs: Any) -> Any:
        graph, shapes = jitted.abstract(args, kwargs)
        return (graph.text(), shapes) if return_shape else graph.text()

    return traced


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compute the shapes and dtypes of the results of a function, without running it.

    Args:
      fun: the function. If `jit` returned it, its static arguments stay static.
      *args: positional arguments: arrays, or objects with a shape and a dtype.
      **kwargs: keyword arguments of the same kinds.

    Returns:
      The result, with a `ShapeDtypeStruct` in place of each array.

    Raises:
      ArgumentTypeError: fun is no function.

    >>> import gpushard as gs
    >>> result = gs.eval_shape(lambda x: x @ x.T, gs.ShapeDtypeStruct((2, 3), "float32"))
    >>> result.shape, result.dtype.name
    ((2, 2), 'float32')
    """
    check_function(fun, "eval_shape")
    return (fun if isinstance(fun, Jitted) else jit(fun)).eval_shape(*args, **kwargs)


def typeof(x: Any) -> ShapeDtypeStruct:
    """Return the shape and the dtype of an array or a number.

    Args:
      x: an array, a value in a traced or mapped function, or a number.

    Returns:
      A `ShapeDtypeStruct`. Outside of traced and mapped functions, it has the sharding of the
      array, too.

    Raises:
      ArgumentTypeError: `x` is neither an array nor a number.

    >>> import gpushard as gs
    >>> gs.typeof(gs.numpy.ones((2, 3))).shape, gs.typeof(1).weak_type
    ((2, 3), True)
    """
    check_leaf(x, "typeof", "x")
    if isinstance(x, TracedValue):
        return x.aval
    if not isinstance(x, Array):
        x = device_put(x).aval
        return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type)
    return ShapeDtypeStruct(x.shape, x.dtype, x.sharding, x.weak_type)
