"""Layers one after another: `Sequential`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from gpushard.errors import ArgumentTypeError
from gpushard.nnx.module import Module


class Sequential(Module):
    """A layer that calls layers and functions in sequence, each with the result of the one before.

    If a layer returns a tuple, the next layer gets its elements as arguments; the entries of a dict
    become keyword arguments. The argument `rngs` of a call is passed to each layer that has a
    parameter of this name.

    Args:
      *fns: layers, or functions.

    Raises:
      ArgumentTypeError: a layer cannot be called.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Linear, Rngs
    >>> rngs = Rngs(0)
    >>> model = Sequential(Linear(3, 8, rngs=rngs), gs.nn.relu, Linear(8, 2, rngs=rngs))
    >>> model(gs.numpy.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(self, *fns: Callable[..., Any]) -> None:
        for place, function in enumerate(fns):
            if not callable(function):
                raise ArgumentTypeError.refusing(
                    f"fns[{place}]", function, "must be a layer or a function", "Sequential"
                )
        self.layers = list(fns)

    def __call__(self, *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        """Call all layers, and return the result of the last one; without layers, the argument."""
        if not self.layers:
            return args[0] if len(args) == 1 else args or kwargs or None
        for layer in self.layers:
            if rngs is not None and _takes_rngs(layer):
                kwargs = {**kwargs, "rngs": rngs}
            output = layer(*args, **kwargs)
            args, kwargs = (output,), {}
            if isinstance(output, tuple):
                args = output
            elif isinstance(output, dict):
                args, kwargs = (), output
        return output


def _takes_rngs(layer: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(layer).parameters
    except (TypeError, ValueError):  # some functions of C have none
        return False
    return "rngs" in parameters and parameters["rngs"].kind is not Parameter.POSITIONAL_ONLY
