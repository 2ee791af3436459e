"""NumPy's own functions on arrays (NEP 13, NEP 18), and the namespace of the Array API."""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from gpushard._array import Array
from gpushard._array.callers import caller, is_in_place
from gpushard._functions.argument_checks import check_choice, refuse_out
from gpushard._functions.values import is_value
from gpushard._ops.scalars import is_number
from gpushard.errors import ArgumentTypeError
from gpushard.numpy import linear_algebra, ufuncs
from gpushard.numpy.ufunc_methods import UfuncMethods

EXTENSIONS = {
    "fft": "gpushard.numpy.fft",
    "lib": "gpushard.numpy.lib",
    "linalg": "gpushard.numpy.linalg",
    "special": "gpushard.special",
}
"""Modules of functions that are imported when they are first asked for; SciPy looks there, too."""

_STRIDE_TRICKS = "lib.stride_tricks", "gpushard.numpy.lib.stride_tricks"

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # versions of the Array API
_METHODS: dict[str, tuple[str, ...]] = {
    "reduce": ("axis", "dtype", "keepdims", "initial", "where"),
    "accumulate": ("axis", "dtype"),
    "outer": (),
    "at": (),
    "reduceat": ("axis", "dtype"),
}
"""Methods of ufuncs, and the keywords that they take."""

_WITH_CORE_DIMS = ("matmul", "vecdot", "matvec", "vecmat")

_ON_HOST = (
    "array2string", "array_repr", "array_str", "copyto", "may_share_memory", "save", "savetxt",
    "savez", "savez_compressed", "shares_memory",
)  # fmt: skip
"""Functions that work on the host: they read the value there, like `numpy.asarray`."""

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "where": (True,),
    "order": ("K", "C", "A"),
    "subok": (True,),
    "signature": (None,),
    "initial": (None,),
}
"""Keywords of ufuncs that are allowed with their default value."""

_NAMES = {"a_min": "min", "a_max": "max"}  # NumPy's names of arguments that have others here


def namespace_of(module: ModuleType, api_version: str | None) -> ModuleType:
    """Implement `Array.__array_namespace__`."""
    check_choice("__array_namespace__", "api_version", api_version, (*VERSIONS, None))
    return module


def array_ufunc(
    x: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Implement `Array.__array_ufunc__`.

    With an array `a` on the host, NumPy calls `a += x` as `add(a, x, out=a)`. The former gives the
    name `a` another value; the latter is refused.
    """
    if any(map(_is_foreign, inputs)):
        return NotImplemented
    name = ufunc.__name__
    if kwargs:
        out = kwargs.pop("out", None)
        if out and out[0] is inputs[0] and is_in_place(caller()):
            kwargs.pop("axes", None)  # of `a @= x`, which are those of matmul
        else:
            refuse_out(name, out)
        _drop_defaults(name, method, kwargs)
    if method == "__call__" and ufunc.signature is None and not _of_objects(ufunc):
        known = _taken(kwargs, "dtype", "casting")
        _check_rest(name, kwargs)
        return ufuncs.call(ufunc, inputs, **known)
    if method == "__call__" and name in _WITH_CORE_DIMS:
        known = _taken(kwargs, "dtype", "axis")
        kwargs.pop("casting", None)
        _check_rest(name, kwargs)
        return getattr(linear_algebra, name)(*inputs, **known)
    if (
        method in _METHODS
        and ufunc.nout == 1
        and ufunc.signature is None
        and not _of_objects(ufunc)
    ):
        known = _taken(kwargs, *_METHODS[method])
        _check_rest(name, kwargs)
        methods = UfuncMethods(name, _calling(ufunc), ufunc.nin, ufunc.identity, ufunc)
        return getattr(methods, method)(*inputs, **known)
    what = name if method == "__call__" else f"{name}.{method}"
    raise _unknown(f"numpy.{what}")


def _calling(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda *operands: ufuncs.call(ufunc, operands)


def _drop_defaults(name: str, method: str, kwargs: dict[str, Any]) -> None:
    """Remove keywords that have their default value."""
    if kwargs.get("initial") is np._NoValue:
        del kwargs["initial"]
    for keyword in _DEFAULTS.keys() & kwargs.keys() - set(_METHODS.get(method, ())):
        value = kwargs.pop(keyword)
        allowed = _DEFAULTS[keyword]
        if not any(
            value is default or (isinstance(default, str) and value == default)
            for default in allowed
        ):
            raise _no_keyword(name, keyword)


@functools.lru_cache(maxsize=256)
def _of_objects(ufunc: np.ufunc) -> bool:
    """Whether a ufunc is a Python function on objects, not an operation on arrays of numbers."""
    return all("O" in types for types in ufunc.types)


def _is_foreign(x: Any) -> bool:
    """Whether another library implements ufuncs for an operand."""
    if is_value(x) or is_number(x) or isinstance(x, np.ndarray):
        return False
    return hasattr(x, "__array_ufunc__")


def _taken(kwargs: dict[str, Any], *keywords: str) -> dict[str, Any]:
    """Pop some keywords from a dict."""
    return {k: kwargs.pop(k) for k in keywords if k in kwargs}


def _check_rest(name: str, kwargs: Mapping[str, Any]) -> None:
    for keyword in kwargs:
        raise _no_keyword(name, keyword)


def _no_keyword(name: str, keyword: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name}: {keyword}= is not supported for gpushard arrays; leave it out, or take "
        "numpy.asarray(x) for the host",
        argument=keyword,
    )


def _unknown(name: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name} is not supported for gpushard arrays; use a function of gpushard.numpy, or gather "
        "the value yourself with numpy.asarray(x)",
        argument="func",
        name=name,
    )


def array_function(namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Make the implementation of `Array.__array_function__`."""
    on_host = [getattr(np, name) for name in _ON_HOST]
    host: _Table = {theirs: (functools.partial(_on_host, theirs), None) for theirs in on_host}
    table = functools.cache(lambda: _table(np, namespace) | host)

    def call(
        x: Any, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        if not all(issubclass(kind, Array | np.ndarray) for kind in types):
            return NotImplemented
        entry = table().get(func) or _extension(func.__module__).get(func)
        if entry is None:
            raise _unknown(f"{func.__module__}.{func.__name__}")
        ours, signature = entry
        named = {_NAMES.get(k, k): v for k, v in kwargs.items() if v is not np._NoValue}
        try:
            if signature is not None:
                signature.bind(*args, **named)
        except TypeError as error:
            raise ArgumentTypeError(
                f"{func.__module__}.{func.__name__} of gpushard arrays: {error}; see gpushard."
                f"{func.__module__}.{func.__name__}, or take numpy.asarray(x) for the host",
                argument="kwargs",
            ) from None
        return ours(*args, **named)

    return call


_Table: TypeAlias = dict[Any, tuple[Any, inspect.Signature | None]]
"""The function of gpushard, and its parameters, by the function of NumPy."""


def _table(module: ModuleType, namespace: Mapping[str, Any]) -> _Table:
    """Return the functions that a namespace and a module of NumPy both have."""
    functions: _Table = {}
    for name, ours in namespace.items():
        theirs = getattr(module, name, None)
        if inspect.isfunction(ours) and callable(theirs) and not isinstance(theirs, type):
            functions[theirs] = ours, inspect.signature(ours)
    return functions


@functools.lru_cache(maxsize=64)
def _extension(module: str) -> _Table:
    """Return the functions of an extension by its name in NumPy; none if it does not exist."""
    for name, ours in (_STRIDE_TRICKS, *EXTENSIONS.items()):
        if module.startswith(f"numpy.{name}"):
            theirs = operator.attrgetter(name)(np)
            return _table(theirs, vars(importlib.import_module(ours)))
    return {}


def _on_host(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of NumPy on the values of arrays."""
    return function(
        *(np.asarray(x) if isinstance(x, Array) else x for x in args),
        **{k: np.asarray(x) if isinstance(x, Array) else x for k, x in kwargs.items()},
    )
