"""Every function of `gpushard.numpy` that JAX has: a call of both on the same arrays.

What rows of docs/coming-from-jax.md call the same is compared here, or where `ELSEWHERE` says.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests import right_calls
from tests.test_coming_from_jax import sections

ELSEWHERE: dict[str, str] = {
    "argpartition": "the order within parts is anyone's",
    "array_repr": "texts name shardings",
    "array_str": "texts name shardings",
    "einsum_path": "NumPy's own text",
    "fromiter": "JAX's is not implemented",
    "frompyfunc": "test_ufunc_methods.py",
    "get_printoptions": "NumPy's own",
    "iterable": "NumPy's own",
    "load": "test_npy.py",
    "partition": "the order within parts is anyone's",
    "printoptions": "NumPy's own",
    "savez": "test_npy.py",
    "save": "test_npy.py",
    "set_printoptions": "NumPy's own",
    "vectorize": "test_editing.py",
}
"""Functions that are not compared here, and why, or where they are."""

TYPES = frozenset(
    {
        "convolve", "correlate", "digitize", "histogram", "histogram2d",
        "histogramdd", "linalg.matrix_rank", "reciprocal", "searchsorted", "tri",
    }
)  # fmt: skip
"""Functions whose results have NumPy's types, also of 64-bit numbers."""

LOWER = frozenset({"linalg.cholesky", "linalg.eigh", "linalg.eigvalsh"})
"""Functions of symmetric matrices: JAX takes the mean of both triangles of others."""


def _calls(x: gs.Array) -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Return arguments in JAX's order, where some of ours have a default, or other names."""
    mask = gs.numpy.asarray([True, False])
    return {
        "compress": ([mask, x], {}),
        "concat": ([[x, x]], {}),
        "divmod": ([x, 3.0], {}),
        "expand_dims": ([x, 0], {}),
        "fill_diagonal": ([x.reshape(2, -1), 1.0], {"inplace": False}),
        "floor_divide": ([x, 3.0], {}),
        "imag": ([x], {}),
        "lexsort": ([[x.ravel(), x.ravel()[::-1]]], {}),
        "linalg.matrix_rank": ([x], {}),
        "linalg.tensordot": ([x, x], {}),
        "mask_indices": ([3, np.triu], {}),
        "nonzero": ([x.reshape(2, -1)], {}),
        "permute_dims": ([x, (0,) if x.ndim == 1 else (1, 0)], {}),
        "place": ([x, x > 1, x.ravel()[:3]], {"inplace": False}),
        "polydiv": ([x.ravel()[:5], x.ravel()[:2] + 1], {"trim_leading_zeros": False}),
        "polyfit": ([x.ravel()[:5] + 0.0, x.ravel()[:5] * 2.0, 2], {}),
        "put": ([x, gs.numpy.asarray([1, 2]), x.ravel()[:2]], {"inplace": False}),
        "put_along_axis": ([x.ravel(), gs.numpy.asarray([1]), 3.0, 0], {"inplace": False}),
        "real": ([x], {}),
        "vsplit": ([x.reshape(2, -1), 2], {}),
    }


def _theirs(value: Any, jnp: ModuleType) -> Any:
    if isinstance(value, gs.Array):
        return jnp.asarray(np.asarray(value))
    if isinstance(value, list | tuple):
        return type(value)(_theirs(each, jnp) for each in value)
    return value


def _functions() -> dict[str, Callable[..., Any]]:
    every = dict(right_calls.functions())
    return {name[6:]: call for name, call in every.items() if name.startswith("numpy.")}


FUNCTIONS = _functions()


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with 64-bit types in JAX."""
    with jax.enable_x64(True), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _same(name: str, got: Any, want: Any, *, types: bool) -> None:
    got, want = gs.tree.leaves(got), gs.tree.leaves(want)
    assert len(got) == len(want), name
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert mine.shape == theirs.shape, name
        assert mine.dtype == theirs.dtype or not types or name in TYPES, (mine.dtype, theirs.dtype)
        if mine.dtype.kind in "biufc":
            close = 1e-2 if mine.dtype == np.float16 else 1e-6
            np.testing.assert_allclose(
                mine.astype(complex), theirs.astype(complex), close, close, err_msg=name
            )


NAMES = [name for name in FUNCTIONS if name not in ELSEWHERE]


@pytest.mark.one_of(8)
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, jax: ModuleType) -> None:
    theirs = functools.reduce(lambda at, part: getattr(at, part, None), name.split("."), jax.numpy)
    if theirs is None:
        assert name not in {row for row, how, _ in sections()["numpy"] if how != "not there"}
        return
    compared = 0
    for x in right_calls.operands():
        value = x + x.T if name in LOWER and x.ndim == 2 else x
        args, named = right_calls.call_of(f"numpy.{name}", FUNCTIONS[name], value)
        args, named = _calls(value).get(name, (args, named))
        try:
            got = FUNCTIONS[name](*args, **named)
        except (gs.errors.GpushardError, TypeError):
            continue  # an operand of another kind
        named = {key: _theirs(each, jax.numpy) for key, each in named.items()}
        want = theirs(*(_theirs(each, jax.numpy) for each in args), **named)
        if name == "linalg.lstsq":  # JAX has residuals where there is nothing left over
            got, want = [*got[:1], *got[2:]], [*want[:1], *want[2:]]
        wide = all(
            each.dtype.itemsize == 8
            for each in gs.tree.leaves((args, named))
            if isinstance(each, gs.Array) and each.dtype.kind in "iuf"
        )
        _same(name, got, want, types=wide)
        compared += 1
        if compared == 2:
            break
    assert compared


def test_what_is_the_same_is_compared() -> None:
    same = {name for name, how, _ in sections()["numpy"] if how == "same"}
    functions = {
        name
        for name in same
        if callable(getattr(gs.numpy, name)) and not isinstance(getattr(gs.numpy, name), type)
    }
    assert functions <= {*NAMES, *ELSEWHERE}, functions - {*NAMES, *ELSEWHERE}
    assert set(ELSEWHERE) <= {name for name, how, _ in sections()["numpy"] if how != "not there"}
