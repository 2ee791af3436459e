"""Subscripts of Einstein sums. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from gpushard._ops.table.contractions import LETTERS
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError

_DOTS = "..."


def from_lists(lists: Sequence[Any], output: Any) -> str:
    """Return subscripts as a string, from lists of integers and `...`.

    >>> from_lists([[0, 1], [1, ...]], [0, ...])
    'ab,b...->a...'
    """
    left = ",".join(map(_letters, lists))
    return left if output is None else f"{left}->{_letters(output)}"


def _letters(entries: Any) -> str:
    try:
        return "".join(_DOTS if entry is Ellipsis else _letter(entry) for entry in entries)
    except TypeError:
        raise ArgumentTypeError(
            f"einsum: subscripts {entries!r} must be a list of integers and ...",
            argument="subscripts",
            subscripts=entries,
        ) from None


def _letter(entry: Any) -> str:
    number = entry.__index__() if hasattr(entry, "__index__") else None
    if number is None:
        raise TypeError
    if not 0 <= number < len(LETTERS):
        raise ArgumentError(
            f"einsum: subscript {number} is out of range; use 0 to {len(LETTERS) - 1}",
            argument="subscripts",
            subscripts=number,
        )
    return LETTERS[number]


@functools.lru_cache(maxsize=1024)
def parse(subscripts: str, shapes: tuple[Shape, ...]) -> str:
    """Return subscripts with a letter for every dim, and the result's after "->".

    Dims of an ellipsis get letters that are not used, counted from the last; without "->" the
    result has these, then the letters that occur once, in alphabetical order.

    >>> parse("ij,jk", ((2, 3), (3, 4))), parse("...i->...", ((2, 3, 4),))
    ('ij,jk->ik', 'abi->ab')
    """
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    names = left.split(",")
    if len(names) != len(shapes):
        raise _bad(subscripts, f"names {len(names)} operands, there are {len(shapes)}")
    for name in [*names, right]:
        _check(subscripts, name)
    free = [letter for letter in LETTERS if letter not in text]
    extra = max(
        len(shape) - len(name) + 3 if _DOTS in name else 0
        for name, shape in zip(names, shapes, strict=True)
    )
    dots = "".join(free[: max(extra, 0)])
    full = [
        _filled(subscripts, name, shape, dots) for name, shape in zip(names, shapes, strict=True)
    ]
    if not arrow:
        letters = left.replace(_DOTS, "").replace(",", "")
        right = dots + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    elif _DOTS in right:
        right = right.replace(_DOTS, dots)
    elif dots:
        raise _bad(subscripts, 'has axes of "..." that the result does not name; add "..." to it')
    _check_result(subscripts, right, "".join(full))
    return f"{','.join(full)}->{right}"


def _check(subscripts: str, name: str) -> None:
    letters = name.replace(_DOTS, "", 1)
    wrong = [letter for letter in letters if letter not in LETTERS]
    if wrong:
        raise _bad(subscripts, f'has {wrong[0]!r}; use letters, ",", "..." and one "->"')


def _filled(subscripts: str, name: str, shape: Shape, dots: str) -> str:
    """Return the letters of an operand's dims."""
    if _DOTS in name:
        extra = len(shape) - len(name) + 3
        if extra >= 0:
            name = name.replace(_DOTS, dots[len(dots) - extra :])
    if len(name) != len(shape):
        raise _bad(
            subscripts, f"has {len(name)} letters for an operand of shape {shape}; use one per axis"
        )
    sizes: dict[str, int] = {}
    for letter, n in zip(name, shape, strict=True):
        if sizes.setdefault(letter, n) != n:
            raise _bad(
                subscripts,
                f"takes the diagonal over {letter!r} of an operand of shape {shape}, where the "
                f"axes have lengths {sizes[letter]} and {n}; they must be equal",
            )
    return name


def _check_result(subscripts: str, right: str, letters: str) -> None:
    for letter in right:
        if letter not in letters:
            raise _bad(subscripts, f"has {letter!r} in the result and in no operand")
        if right.count(letter) > 1:
            raise _bad(subscripts, f"has {letter!r} more than once in the result")


def _bad(subscripts: str, what: str) -> ArgumentError:
    return ArgumentError(
        f"einsum: subscripts={subscripts!r} {what}", argument="subscripts", subscripts=subscripts
    )
