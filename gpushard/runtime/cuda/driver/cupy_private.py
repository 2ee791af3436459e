"""The names of CuPy that are not public and that gpushard uses: all of them, each checked.

CuPy may change them in any version. A version that lacks one is refused with an error that says so,
before anything is computed. Where there is another way, the name is optional.

Pure until `names` is called; needs no CuPy to be imported.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from gpushard.errors import MissingLibraryError
from gpushard.frozen import dataclass
from gpushard.typing import Dtype


@dataclass(frozen=True)
class PrivateName:
    """A name that is not public."""

    path: str  # where it is, from the module `cupy` on
    seen: str  # the versions of CuPy that it was seen in
    optional: bool = False  # whether there is another way without it


_14 = "14.0.0, 14.0.1, 14.1.0, 14.1.1, 14.2.0"

NAMES = {
    # The options that every source of CuPy is compiled with: where headers are.
    "compiler_options": PrivateName("_core.core.assemble_cupy_compiler_options", _14),
    # What `cupy.cuda.using_allocator` calls: that is a generator, and takes ten times as long.
    "get_allocator": PrivateName("cuda.memory._get_thread_local_allocator", _14),
    "set_allocator": PrivateName("cuda.memory._set_thread_local_allocator", _14),
    # Makes a ufunc of loops.
    "create_ufunc": PrivateName("_core.create_ufunc", _14),
    # Of a ufunc: its loops, the loop for some types, what stands before its kernels, and what
    # each of them begins with.
    "ufunc_loops": PrivateName("add._ops.ops", _14),
    "ufunc_loop": PrivateName("add._ops._guess_routine_from_in_types", _14),
    "ufunc_preamble": PrivateName("add._preamble", _14),
    "ufunc_start": PrivateName("add._loop_prep", _14),
    # One product of cuBLAS, with no look at its operands.
    "multiply": PrivateName("_core._routines_linalg.tensordot_core_v11", _14, optional=True),
}
"""The names, by what they are called here."""


@dataclass(frozen=True)
class Private:
    """What CuPy has under these names."""

    compiler_options: Callable[[tuple[str, ...]], tuple[str, ...]]
    get_allocator: Callable[[], Any]
    set_allocator: Callable[[Any], None]
    create_ufunc: Callable[..., Any]
    multiply: Callable[..., None] | None


def lacking(cupy: Any) -> list[str]:
    """Return the names that a CuPy has not got and that there is no other way for.

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
    """Return why a CuPy cannot be used, and the way out; None if it has every name.

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
    """Return what a CuPy has under these names.

    Raises:
      MissingLibraryError: it lacks one of them.
    """
    reason = explain(cupy)
    if reason is not None:
        raise MissingLibraryError(reason)
    found: dict[str, Any] = {
        field: None if (value := _find(cupy, NAMES[field].path)) is _NOTHING else value
        for field in Private.__dataclass_fields__
    }
    return Private(**found)


@functools.cache
def names() -> Private:
    """Return what the CuPy that is installed has under these names.

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
    """Return what stands before the kernels of a ufunc."""
    return f"{ufunc._preamble}"


def ufunc_start(ufunc: Any) -> str:
    """Return what each kernel of a ufunc begins with, before its loop."""
    start: str = ufunc._loop_prep or ""
    return start


_NOTHING = object()


def _find(cupy: Any, path: str) -> Any:
    """Return what is at a path, or `_NOTHING`; modules on it are imported."""
    found = cupy
    for n, part in enumerate(path.split("."), 1):
        if not hasattr(found, part):
            try:
                importlib.import_module(f"{cupy.__name__}.{'.'.join(path.split('.')[:n])}")
            except (ImportError, AttributeError):
                return _NOTHING
        found = getattr(found, part, _NOTHING)
    return found
