"""Definitions of reductions, running ones, and sorting: one element after the other."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.lax.definitions.registry import (
    axes_of,
    axis_of,
    defines,
    kind_of,
    lines,
    need,
    need_kind,
    one_dtype,
    wrapped,
)

ACCEPTS: dict[str, str] = {}
"""The kinds that each function takes."""


def groups_of(x: Any, axes: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Give each index of a result, and the elements that are reduced to it."""
    rest = [at for at in range(x.ndim) if at not in axes]
    lined = x.transpose((*rest, *axes))
    for index in np.ndindex(*[x.shape[at] for at in rest]):
        yield index, lined[index].ravel()


def _define_reduction(
    name: str, kinds: str, combine: Callable[[Any, Any], Any], start: Any
) -> None:
    def reduction(x: Any, axes: Any) -> Any:
        need_kind(x, kinds)
        places = axes_of(axes, x.ndim)
        made = np.zeros([n for at, n in enumerate(x.shape) if at not in places], x.dtype)
        for index, elements in groups_of(x, places):
            numbers = [each.item() for each in elements]
            total = functools.reduce(combine, numbers, start(x.dtype))
            made[index] = wrapped(total, x.dtype)
        return made

    ACCEPTS[name] = kinds
    defines(name)(reduction)


def _least(dtype: Any) -> Any:
    kind = kind_of(np.empty(0, dtype))
    return False if kind == "b" else -math.inf if kind == "f" else int(np.iinfo(dtype).min)


def _most(dtype: Any) -> Any:
    kind = kind_of(np.empty(0, dtype))
    return True if kind == "b" else math.inf if kind == "f" else int(np.iinfo(dtype).max)


def greater(a: Any, b: Any) -> Any:
    """Return the greater of two numbers; NaN if one is, and complex ones by their real part."""
    if a != a or b != b:
        return a if a != a else b
    keys = [(each.real, each.imag) for each in (a, b)]
    return a if keys[0] >= keys[1] else b


def lesser(a: Any, b: Any) -> Any:
    return -greater(-a, -b) if not isinstance(a, bool | np.bool_) else a and b


_define_reduction("reduce_sum", "iufc", lambda a, b: a + b, lambda _: 0)
_define_reduction("reduce_prod", "iufc", lambda a, b: a * b, lambda _: 1)
_define_reduction("reduce_max", "biuf", greater, _least)
_define_reduction("reduce_min", "biuf", lesser, _most)
_define_reduction(
    "reduce_and", "biu", lambda a, b: a & b, lambda dtype: True if dtype == "?" else -1
)
_define_reduction("reduce_or", "biu", lambda a, b: a | b, lambda dtype: dtype != "?" and 0)
_define_reduction("reduce_xor", "biu", lambda a, b: a ^ b, lambda dtype: dtype != "?" and 0)


@defines("reduce")
def reduce(operands: Any, init_values: Any, computation: Any, dimensions: Any) -> Any:
    several = isinstance(operands, tuple | list)
    xs, inits = (
        [*each] if isinstance(each, tuple | list) else [each] for each in (operands, init_values)
    )
    need(xs and len(xs) == len(inits))
    pairs = [one_dtype(x, init) for x, init in zip(xs, inits, strict=True)]
    need(all(init.shape == () and x.shape == pairs[0][0].shape for x, init in pairs))
    axes = axes_of(dimensions, xs[0].ndim)
    columns = [[*groups_of(x, axes)] for x in xs]
    shape = [n for at, n in enumerate(xs[0].shape) if at not in axes]
    made = [np.zeros(shape, x.dtype) for x in xs]
    for row in zip(*columns, strict=True):
        value = [init[()] for _, init in pairs]
        for elements in zip(*(each for _, each in row), strict=True):
            both = (
                computation(value, [*elements]) if several else computation(value[0], elements[0])
            )
            value = [*both] if several else [both]
        for result, number in zip(made, value, strict=True):
            result[row[0][0]] = number
    return type(operands)(made) if several else made[0]


def _define_running(name: str, kinds: str, step: Callable[[Any, Any], Any]) -> None:
    def running(x: Any, axis: int = 0, reverse: bool = False) -> Any:
        need_kind(x, kinds)
        made = np.zeros_like(x)
        for at in lines(x, axis_of(axis, x.ndim)):
            numbers = [each.item() for each in x[at]]
            totals: list[Any] = []
            for number in reversed(numbers) if reverse else numbers:
                totals.append(step(totals[-1], number) if totals else number)
            made[at] = [wrapped(each, x.dtype) for each in (totals[::-1] if reverse else totals)]
        return made

    ACCEPTS[name] = kinds
    defines(name)(running)


_define_running("cumsum", "iufc", lambda a, b: a + b)
_define_running("cumprod", "iufc", lambda a, b: a * b)
_define_running("cummax", "iufc", greater)
_define_running("cummin", "iufc", lesser)
_define_running("cumlogsumexp", "f", lambda a, b: math.log(math.exp(a) + math.exp(b)))


def _define_place(name: str, before: Callable[[Any, Any], bool]) -> None:
    def place(x: Any, axis: int, index_dtype: Any) -> Any:
        at = axis_of(axis, x.ndim)
        need(x.shape[at])
        made = np.zeros([n for i, n in enumerate(x.shape) if i != at], index_dtype)
        for index, elements in groups_of(x, [at]):
            best = 0
            for number, each in enumerate(elements):
                if elements[best] == elements[best] and (
                    each != each or before(each, elements[best])
                ):
                    best = number
            made[index] = best
        return made

    defines(name)(place)


_define_place("argmax", lambda a, b: bool(a > b))
_define_place("argmin", lambda a, b: bool(a < b))


def _key(number: Any) -> Any:
    """Return what numbers are ordered by: NaNs last, and complex ones by their parts."""
    if isinstance(number, complex):
        return _key(number.real), _key(number.imag)
    return number != number, 0 if number != number else number


@defines("sort")
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    several = isinstance(operand, tuple | list)
    xs = operand if several else (operand,)
    need(1 <= num_keys <= len(xs))
    need(all(x.shape == xs[0].shape for x in xs))
    made = [np.zeros_like(x) for x in xs]
    for at in lines(xs[0], axis_of(dimension, xs[0].ndim)):
        rows = [[each.item() for each in x[at]] for x in xs]
        order = sorted(
            range(len(rows[0])), key=lambda i, rows=rows: [_key(row[i]) for row in rows[:num_keys]]
        )
        for result, x in zip(made, xs, strict=True):
            result[at] = x[at][order]
    return tuple(made) if several else made[0]


@defines("sort_key_val")
def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
    return sort((keys, values), dimension)


@defines("top_k")
def top_k(x: Any, k: int, *, axis: int = -1) -> Any:
    need_kind(x, "biuf")
    at = axis_of(axis, x.ndim)
    need(0 <= k <= x.shape[at])
    shape = [*x.shape]
    shape[at] = k
    values, places = np.zeros(shape, x.dtype), np.zeros(shape, "i4")
    for line in lines(x, at):
        row = [each.item() for each in x[line]]
        order = sorted(range(len(row)), key=lambda i, row=row: _key(row[i]), reverse=True)
        values[line], places[line] = x[line][order[:k]], order[:k]
    return values, places


ACCEPTS["top_k"] = "biuf"
