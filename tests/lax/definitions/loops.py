"""Definitions of the functions that call others: branches and loops of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.lax.definitions.registry import axis_of, defines, need


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """Call a function with the leaves of trees: tuples, lists, dicts and None."""
    first = trees[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: mapped(function, *(each[key] for each in trees)) for key in first}
    if isinstance(first, tuple | list):
        return type(first)(mapped(function, *each) for each in zip(*trees, strict=True))
    return function(*trees)


def leaves_of(x: Any) -> list[Any]:
    leaves: list[Any] = []
    mapped(leaves.append, x)
    return leaves


@defines("cond")
def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = ...) -> Any:
    need(np.ndim(pred) == 0, "ArgumentTypeError")
    operands = operands if operand is ... else (operand,)
    return true_fun(*operands) if pred else false_fun(*operands)


@defines("switch")
def switch(index: Any, branches: Any, *operands: Any) -> Any:
    need(branches)
    need(np.ndim(index) == 0 and np.asarray(index).dtype.kind in "iu", "ArgumentTypeError")
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


@defines("while_loop")
def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    value = init_val
    while cond_fun(value):
        value = body_fun(value)
    return value


@defines("fori_loop")
def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any, unroll: Any = None) -> Any:
    value = init_val
    for number in range(int(lower), int(upper)):
        value = body_fun(np.int64(number), value)
    return value


@defines("scan")
def scan(
    f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: Any = 1
) -> Any:
    lengths = {len(x) if np.ndim(x) else None for x in leaves_of(xs)}
    lengths |= set() if length is None else {length}
    need(len(lengths) == 1 and None not in lengths)
    (count,) = lengths
    need(count >= 0)
    if not count:  # the shapes of results come from elements that are not there
        _, one = f(init, mapped(lambda x: np.zeros(x.shape[1:], x.dtype), xs))
        return init, mapped(lambda y: np.zeros((0, *np.shape(y)), np.asarray(y).dtype), one)
    rows, carry = [], init
    for number in reversed(range(count)) if reverse else range(count):
        carry, row = f(carry, mapped(lambda x, number=number: x[number], xs))
        rows.append(row)
    rows = rows[::-1] if reverse else rows
    return carry, mapped(lambda *each: np.stack(each), *rows)


@defines("map")
def map(f: Any, xs: Any, batch_size: Any = None) -> Any:
    need(batch_size is None or batch_size >= 1)
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


@defines("associative_scan")
def associative_scan(fn: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    leaves = leaves_of(elems)
    need(all(-x.ndim <= axis < x.ndim for x in leaves))
    places = [axis_of(axis, x.ndim) for x in leaves]
    need(len({x.shape[at] for x, at in zip(leaves, places, strict=True)}) == 1)
    count = leaves[0].shape[places[0]]
    totals: list[Any] = []
    for number in reversed(range(count)) if reverse else range(count):
        part = mapped(lambda x, n=number: np.take(x, [n], axis), elems)
        totals.append(fn(totals[-1], part) if totals else part)
    if not totals:
        return elems
    return mapped(
        lambda *parts: np.concatenate(parts, axis), *(totals[::-1] if reverse else totals)
    )


@defines("with_sharding_constraint")
def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    return x
