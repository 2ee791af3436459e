"""What can be known without computing anything: operations of functions, shapes and types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpushard.array.array import Array
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.placement.device_put import device_put
from gpushard.transforms.jit.jit import Jitted, jit
from gpushard.transforms.values.signature import check_function, check_leaf
from gpushard.transforms.values.traced import Traced


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] | None = (),
    return_shape: bool = False,
) -> Callable[..., Any]:
    """Return what says, for arguments, which operations a function is made of.

    Args:
      fun: the function.
      static_argnums: arguments that it gets as they are, by number; they are hashed.
      return_shape: whether to return shapes and types of the results, too.

    Returns:
      A function that takes arguments as `fun` does, and returns text: the values and operations, a
      line each; with `return_shape` a pair of that and of what `eval_shape` returns.

    Raises:
      ArgumentError: a number is none of its arguments.
      ArgumentTypeError: fun is no function.

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
    """Return shapes and types of what a function returns, without computing it.

    Args:
      fun: the function; static arguments are those of `jit`.
      *args: its arguments; what has a shape and a dtype is enough.
      **kwargs: likewise.

    Returns:
      `ShapeDtypeStruct`s in the structure of the result.

    >>> import gpushard as gs
    >>> result = gs.eval_shape(lambda x: x @ x.T, gs.ShapeDtypeStruct((2, 3), "float32"))
    >>> result.shape, result.dtype.name
    ((2, 2), 'float32')
    """
    check_function(fun, "eval_shape")
    return (fun if isinstance(fun, Jitted) else jit(fun)).eval_shape(*args, **kwargs)


def typeof(x: Any) -> ShapeDtypeStruct:
    """Return what is known of a value without its elements.

    Args:
      x: an array, also one in a function that is traced or mapped; or a number.

    Returns:
      Its shape and type, and for an array that is there its sharding.

    Raises:
      ArgumentTypeError: it is neither.

    >>> import gpushard as gs
    >>> gs.typeof(gs.numpy.ones((2, 3))).shape, gs.typeof(1).weak_type
    ((2, 3), True)
    """
    check_leaf(x, "typeof", "x")
    if isinstance(x, Traced):
        return x.aval
    if not isinstance(x, Array):
        x = device_put(x).aval
        return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type)
    return ShapeDtypeStruct(x.shape, x.dtype, x.sharding, x.weak_type)
