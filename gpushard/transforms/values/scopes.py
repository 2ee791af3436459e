"""Names that programs give to parts of a traced function, for its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from gpushard.errors import ArgumentTypeError

_scope: ContextVar[str] = ContextVar("scope", default="")


def named_scope(name: str) -> AbstractContextManager[None]:
    """Name what a traced function does within a `with` block, or in a function that it decorates.

    The text of a graph says the names behind each operation, the outer ones first.

    Args:
      name: the name.

    Returns:
      What is used in a `with` statement, or as a decorator.

    Raises:
      ArgumentTypeError: it is no string.

    >>> import gpushard as gs
    >>> def layer(x):
    ...     with gs.named_scope("layer"):
    ...         return x * 2
    >>> print(gs.make_jaxpr(layer)(1.5))
    { lambda ; a:float64[]. let
        b:float64[] = multiply a 2  # layer
      in (b,) }
    """
    if not isinstance(name, str):
        raise ArgumentTypeError.refusing("name", name, "must be a string", "named_scope")
    return _entered(name)


@contextmanager
def _entered(name: str) -> Iterator[None]:
    around = _scope.get()
    token = _scope.set(f"{around}/{name}" if around else name)
    try:
        yield
    finally:
        _scope.reset(token)


def scope() -> str:
    """Return the names of where this code runs, with strokes between them."""
    return _scope.get()
