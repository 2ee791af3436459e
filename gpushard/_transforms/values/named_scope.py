"""Names that users give to parts of a traced function; the text of its graph shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from gpushard.errors import ArgumentTypeError

_scope: ContextVar[str] = ContextVar("scope", default="")


def named_scope(name: str) -> AbstractContextManager[None]:
    """Name the operations of a traced function within a `with` block, or of a decorated function.

    The text from `make_jaxpr` shows the names after each operation, outer names first.

    Args:
      name: the name.

    Returns:
      A context manager, which you can also use as a decorator.

    Raises:
      ArgumentTypeError: the name is not a string.

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
    return _enter_scope(name)


@contextmanager
def _enter_scope(name: str) -> Iterator[None]:
    around = _scope.get()
    token = _scope.set(f"{around}/{name}" if around else name)
    try:
        yield
    finally:
        _scope.reset(token)


def scope() -> str:
    """Return the names around this code, joined by slashes."""
    return _scope.get()
