"""List and check the names of CuPy that gpushard uses although they are not public.

CuPy may change them in any version. If a version lacks one, an error says so before anything is
computed. A name is optional if gpushard can do without it.

Importing this module does not import CuPy; only `names` does.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._typing import Dtype
from gpushard.errors import MissingLibraryError


@dataclass(frozen=True)
class PrivateName:
    """A name of CuPy that is not public."""

    path: str  # its path from the module `cupy`
    seen: str  # the versions of CuPy that are known to have it
    optional: bool = False  # whether gpushard can do without it


_14 = "14.0.0, 14.0.1, 14.1.0, 14.1.1, 14.2.0"

NAMES = {
    # The compiler options of all kernels of CuPy: the paths of headers.
    "compiler_options": PrivateName("_core.core.assemble_cupy_compiler_options", _14),
    # `cupy.cuda.using_allocator` calls these; it is a generator and takes ten times as long.
    "get_allocator": PrivateName("cuda.memory._get_thread_local_allocator", _14),
    "set_allocator": PrivateName("cuda.memory._set_thread_local_allocator", _14),
    # Makes a ufunc from loops.
    "create_ufunc": PrivateName("_core.create_ufunc", _14),
    # Of a ufunc: its loops, the loop for some dtypes, the code before its kernels, and the code at
    # the start of each kernel.
    "ufunc_loops": PrivateName("add._ops.ops", _14),
    "ufunc_loop": PrivateName("add._ops._guess_routine_from_in_types", _14),
    "ufunc_preamble": PrivateName("add._preamble", _14),
    "ufunc_start": PrivateName("add._loop_prep", _14),
    # A product by cuBLAS, without checks of its operands.
    "multiply": PrivateName("_core._routines_linalg.tensordot_core_v11", _14, optional=True),
}
"""The names of CuPy by gpushard's names for them."""


@dataclass(frozen=True)
class Private:
    """The objects that CuPy has under these names."""

    compiler_options: Callable[[tuple[str, ...]], tuple[str, ...]]
    get_allocator: Callable[[], Any]
    set_allocator: Callable[[Any], None]
    create_ufunc: Callable[..., Any]
    multiply: Callable[..., None] | None


def lacking(cupy: Any) -> list[str]:
    """List the names that a CuPy lacks and that gpushard needs.

    >>> import types
    >>> lacking(types.SimpleNamespace())[:1]
    ['cupy._core.core.assemble_cupy_compiler_options']
    """
    return [
        f"cupy.{name.path}"
        for name in NAMES.values()
        if not name.optional and _find(cupy, name.path) is _NOTHING
    ]


def explain(cupy: Any) -> str | None:
    """Say why a CuPy cannot be used, and what to do; None if it has all names.

    >>> import types
    >>> print(explain(types.SimpleNamespace(__version__="99.0")).partition(";")[0])
    CuPy 99.0 has no cupy._core.core.assemble_cupy_compiler_options, which gpushard uses
    """
    missing = lacking(cupy)
    if not missing:
        return None
    seen = next(name.seen for name in NAMES.values() if f"cupy.{name.path}" == missing[0])
    return (
        f"CuPy {cupy.__version__} has no {missing[0]}, which gpushard uses; install a version that "
        f"has it, one of {seen}"
    )


def private(cupy: Any) -> Private:
    """Look up these names in a CuPy.

    Raises:
      MissingLibraryError: it lacks one of them.
    """
    reason = explain(cupy)
    if reason is not None:
        raise MissingLibraryError(reason)
    objects: dict[str, Any] = {
        field: None if (value := _find(cupy, NAMES[field].path)) is _NOTHING else value
        for field in Private.__dataclass_fields__
    }
    return Private(**objects)


@functools.cache
def names() -> Private:
    """Look up these names in the installed CuPy.

    Raises:
      MissingLibraryError: it lacks one of them.
    """
    return private(importlib.import_module("cupy"))


def ufunc_loops(ufunc: Any) -> Sequence[Any]:
    """Return the loops of a ufunc, each with its types and its statement."""
    loops: Sequence[Any] = ufunc._ops.ops
    return loops


def ufunc_loop(ufunc: Any, types: tuple[Dtype, ...]) -> Any:
    """Return the loop of a ufunc for operands of some types; None if there is none."""
    return ufunc._ops._guess_routine_from_in_types(types)


def ufunc_preamble(ufunc: Any) -> str:
    """Return the code before the kernels of a ufunc."""
    return f"{ufunc._preamble}"


def ufunc_start(ufunc: Any) -> str:
    """Return the code at the start of each kernel of a ufunc, before its loop."""
    start: str = ufunc._loop_prep or ""
    return start


_NOTHING = object()


def _find(cupy: Any, path: str) -> Any:
    """Return the object at a path, or `_NOTHING`; import modules on the way."""
    value = cupy
    for n, part in enumerate(path.split("."), 1):
        if not hasattr(value, part):
            try:
                importlib.import_module(f"{cupy.__name__}.{'.'.join(path.split('.')[:n])}")
            except (ImportError, AttributeError):
                return _NOTHING
        value = getattr(value, part, _NOTHING)
    return value
