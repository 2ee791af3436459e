"""Functions take what NumPy's and JAX's take, under the same names."""

import importlib
import inspect
import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs

NOWHERE = {
    "like": "NumPy chooses a library by it",
    "subok": "there are no subclasses",
    "signature": "NumPy chooses a loop by it",
    "_dot_general": "private",
}
"""Names that no function takes, with the reason."""

OF_UFUNCS = {
    "where": "says where `out` is written, and there is none",
    "casting": "says what `out` may lose",
    "order": "results are in row-major order",
    "axes": "of operands with core dims, which einsum has for all cases",
    "axis": "likewise",
    "keepdims": "likewise",
    "dtype": "matvec and vecmat give what their operands promote to",
}
"""Names that NumPy's ufuncs take, but not all of those here."""

EXCEPT: dict[str, dict[str, str]] = {
    "clip": {"a_min": "the older name of min", "a_max": "the older name of max"},
    "array": {"ndmax": "says where arrays of objects begin"},
    "argsort": {"dtype": "positions have 64 bits"},
    "ravel_multi_index": {"dtype": "positions have 64 bits"},
    "einsum_path": {"einsum_call": "what NumPy's own einsum asks for"},
    "polyval": {"unroll": "there is no loop to unroll"},
    "matmul": {"a": "x1 is only positional in NumPy", "b": "x2 likewise"},
    "cholesky": {"symmetrize_input": "one triangle is read, as in NumPy"},
    "eigh": {"symmetrize_input": "one triangle is read, as in NumPy"},
    "eigvalsh": {"symmetrize_input": "one triangle is read, as in NumPy"},
    "lstsq": {"numpy_resid": "residuals are NumPy's"},
    "matrix_rank": {"M": "NumPy calls it A"},
    "load": dict.fromkeys(
        ("allow_pickle", "encoding", "fix_imports", "max_header_size", "mmap_mode"),
        "files hold numbers, and shards are read where they go",
    ),
    "vectorize": {"cache": "the function is not called to find types"},
    "mask_indices": {"size": "how many there are is known"},
    "svd": {"subset_by_index": "take a part of the result"},
}
"""Names that single functions do not take, with the reason."""

MODULES = ["numpy", "numpy.linalg", "numpy.fft"]
Parameters = dict[str, inspect.Parameter]


def parameters(function: Any) -> Parameters:
    """Return what a function takes; nothing if it does not say."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def by_name(given: Parameters) -> set[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name for name, parameter in given.items() if parameter.kind in kinds}


def functions(module: str) -> dict[str, Callable[..., Any]]:
    ours = importlib.import_module(f"gpushard.{module}")
    return {n: getattr(ours, n) for n in ours.__all__ if inspect.isfunction(getattr(ours, n))}


def missing(name: str, ours: Any, theirs: Any) -> set[str]:
    """Return the names that a function ought to take and does not."""
    fine = NOWHERE.keys() | EXCEPT.get(name, {}).keys()
    if isinstance(getattr(np, name, None), np.ufunc):
        fine |= OF_UFUNCS.keys() | {"x", "x1", "x2"}
    return by_name(parameters(theirs)) - by_name(parameters(ours)) - fine


def check(module: str, oracle: ModuleType) -> None:
    lacking = {}
    for name, ours in functions(module).items():
        theirs = getattr(oracle, name, None)
        found = set() if theirs is None else missing(name, ours, theirs)
        if found:
            lacking[name] = found
    assert lacking == {}


@pytest.mark.parametrize("module", MODULES)
def test_names_are_numpys(module: str) -> None:
    check(module, importlib.import_module(module))


@pytest.mark.parametrize("module", MODULES)
def test_names_are_those_of_jax(module: str, jax: ModuleType) -> None:
    check(module, importlib.import_module(f"jax.{module}"))


@pytest.mark.parametrize("module", MODULES)
def test_places_are_numpys(module: str) -> None:
    """What may be given by place comes in NumPy's order; functions may stop earlier."""
    oracle = importlib.import_module(module)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
    for name, ours in functions(module).items():
        theirs = getattr(oracle, name, None)
        if theirs is None or isinstance(theirs, np.ufunc):
            continue
        mine, wanted = (
            [n for n, p in parameters(f).items() if p.kind in kinds] for f in (ours, theirs)
        )
        wanted = [n for n in wanted if n not in ("subok", "device", *EXCEPT.get(name, {}))]
        common = [n for n in mine if n in wanted]
        assert common == [n for n in wanted if n in mine], name


DEFAULTS = {
    "order": "elements are in row-major order, however it is said",
    "out": "a pair of None is None",
    "stable": "results do not depend on it",
    "optimize": "makes no difference",
    "dtype": "None is float, and for indices int",
    "excluded": "nothing, however it is said",
    "kind": "makes no difference",
}
"""Arguments whose default is another one than NumPy's, with the same meaning, and why."""


def differing(one: Any, other: Any) -> set[str]:
    """Return which arguments that both have have defaults of two kinds."""
    mine, theirs = parameters(one), parameters(other)
    pairs = {n: (mine[n].default, theirs[n].default) for n in mine.keys() & theirs.keys()}
    unsaid = (inspect.Parameter.empty, np._NoValue)
    return {
        name
        for name, pair in pairs.items()
        if not any(one is other for one in pair for other in unsaid)
        and repr(pair[0]) != repr(pair[1])
    }


@pytest.mark.parametrize("module", MODULES)
def test_defaults_are_numpys(module: str) -> None:
    oracle = importlib.import_module(module)
    apart = {n: differing(f, getattr(oracle, n, None)) for n, f in functions(module).items()}
    assert {name for name, found in apart.items() if found - DEFAULTS.keys()} == set()


OF_JAX: dict[str, set[str]] = {
    "": {
        "device_put may_alias",
        "jit fun",
        "jit in_shardings",
        "jit out_shardings",
        "shard_map check_vma",
        "shard_map in_specs",
    },
    "random": {"lognormal sigma", "weibull_min shape"},
    "sharding": set(),
    "special": set(),
    "tree": {"reduce initializer", "reduce_associative identity"},
    "tree_util": {"tree_reduce initializer", "tree_reduce_associative identity"},
}
"""Modules, and arguments whose default is said in another way, or that are not meant for users."""


@pytest.mark.parametrize("module", OF_JAX)
def test_defaults_are_those_of_jax(module: str, jax: ModuleType) -> None:
    ours = importlib.import_module(f"gpushard.{module}".rstrip("."))
    oracle = importlib.import_module(
        f"jax.scipy.{module}" if module == "special" else f"jax.{module}".rstrip(".")
    )
    apart = {
        f"{name} {argument}"
        for name in ours.__all__
        for argument in differing(getattr(ours, name), getattr(oracle, name, None))
    }
    assert apart == OF_JAX[module]


def test_defaults_of_methods_are_those_of_functions() -> None:
    common = functions("numpy").keys() & set(dir(gs.Array))
    apart = {n: differing(getattr(gs.Array, n), getattr(gs.numpy, n)) for n in common}
    assert {name for name, found in apart.items() if found - DEFAULTS.keys()} == set()


UNTYPED = {
    "numpy": {"fromfunction", "gradient", "indices", "intersect1d", "polyfit"},
    "numpy.linalg": {"lstsq"},
    "numpy.fft": set(),
    "random": {"clone", "fold_in", "split"},
    "special": set(),
}
"""Functions whose result has a type that depends on values."""


@pytest.mark.parametrize("module", UNTYPED)
def test_results_have_a_type(module: str) -> None:
    untyped = {
        name
        for name, function in functions(module).items()
        if "Any" in str(inspect.signature(function).return_annotation).split("[")[0]
        and not typing.get_overloads(function)
        and function.__module__.startswith("gpushard")
    }
    assert untyped == UNTYPED[module]


def test_exceptions_are_of_functions() -> None:
    every = {name for module in MODULES for name in functions(module)}
    assert EXCEPT.keys() <= every
    assert not any(
        name in by_name(parameters(getattr(gs.numpy, function)))
        for function, names in EXCEPT.items()
        for name in names
        if hasattr(gs.numpy, function)
    )
