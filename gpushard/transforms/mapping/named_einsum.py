"""Einstein sums over named dims: subscripts such as "a{i,j},a{j}->{i}"."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from gpushard.errors import ArgumentError
from gpushard.frozen import dataclass
from gpushard.ops.table.contractions import LETTERS
from gpushard.transforms.values.frames import find
from gpushard.transforms.values.mapped import Mapped, check_has, exposed

_TERM = re.compile(r"([^{}]*)(?:\{([^{}]*)\})?")


@dataclass(frozen=True)
class Term:
    """The subscripts of one operand, or of the result."""

    letters: str
    names: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def parse_names(subscripts: str, operands: int) -> tuple[tuple[Term, ...], Term]:
    """Return the terms of subscripts with names: those of operands, and the result's. Pure.

    Raises:
      ArgumentError: they are malformed, or have a name in the result that no operand has.

    >>> parse_names("a{i, j},{j}->a{i}", 2)[1]
    Term(letters='a', names=('i',))
    """
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    terms = tuple(_term(subscripts, part) for part in re.split(r",(?![^{]*\})", left))
    if len(terms) != operands:
        raise _bad(subscripts, f"names {len(terms)} operands, there are {operands}")
    if not arrow:
        raise _bad(subscripts, "names dims, and has no result; write which ones stay after ->")
    result = _term(subscripts, right)
    known = {name for term in terms for name in term.names}
    for name in result.names:
        if name not in known:
            raise _bad(subscripts, f"has {name!r} in the result, and in no operand")
    return terms, result


def _term(subscripts: str, text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        raise _bad(subscripts, f"has {text!r}; write letters, and then names as {{i,j}}")
    letters, listed = found.groups()
    names = tuple(listed.split(",")) if listed else ()
    if "" in names or len(set(names)) != len(names):
        raise _bad(subscripts, f"has {text!r}; give each name once, between commas")
    return Term(letters, names)


def _bad(subscripts: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"einsum: subscripts={subscripts!r} {why}", argument="subscripts", subscripts=subscripts
    )


def lettered(subscripts: str, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return subscripts without names, for operands that have those as dims which are summed over.

    Args:
      subscripts: with names.
      operands: as many values.

    Raises:
      ArgumentError: subscripts are malformed, or an operand lacks a dim, or has one more that is
        summed over in another.
      UnboundAxisError: no function around maps over a name.
    """
    terms, result = parse_names(subscripts, len(operands))
    summed = [name for term in terms for name in term.names if name not in result.names]
    free = iter([letter for letter in LETTERS if letter not in subscripts])
    letters = {name: next(free) for name in dict.fromkeys(summed)}
    dims = {name: find(name, "einsum") for name in letters}
    texts, found = [], []
    for number, (x, term) in enumerate(zip(operands, terms, strict=True)):
        if not isinstance(x, Mapped):
            if term.names:
                raise _bad(subscripts, f"has {term.names} for operand {number}, which has no names")
            texts.append(term.letters)
            found.append(x)
            continue
        for name in term.names:
            if name in letters:
                check_has(x, dims[name], "einsum")
            elif name not in (known := [own.name for own in x._names]):
                raise _bad(
                    subscripts,
                    f"has {name!r} for operand {number}, which has {known}; name no other",
                )
        for name in letters:
            if name not in term.names and set(dims[name]) & set(x._names):
                raise _bad(
                    subscripts,
                    f"sums over {name!r}, which operand {number} has, too; name it for that one, "
                    "or keep it in the result",
                )
        gone = [name for name in term.names if name in letters]
        if any(len(dims[name]) > 1 for name in gone):
            raise _bad(subscripts, "sums over a dim that lives on devices in chunks; use psum")
        found.append(exposed(x, tuple([dims[name][0] for name in gone])))
        texts.append("".join([letters[name] for name in gone]) + term.letters)
    return f"{','.join(texts)}->{result.letters}", found
