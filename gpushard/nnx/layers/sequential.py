"""Layers one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard.errors import ArgumentTypeError
from gpushard.nnx.module import Module


class Sequential(Module):
    """Functions and layers, each of which gets what the one before it returned.

    A tuple becomes several arguments, a dict arguments by name.

    Args:
      *fns: layers, or functions.

    Raises:
      ArgumentTypeError: one of them cannot be called.

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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the last one returns; without any, the argument."""
        if not self.layers:
            return args[0] if len(args) == 1 else args or kwargs or None
        for layer in self.layers:
            output = layer(*args, **kwargs)
            args, kwargs = (output,), {}
            if isinstance(output, tuple):
                args = output
            elif isinstance(output, dict):
                args, kwargs = (), output
        return output
