"""Einstein sums over named dims: subscripts such as "a{i,j},a{j}->{i}"."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._ops.table.contractions import LETTERS
from gpushard._transforms.values.frames import find_names
from gpushard._transforms.values.mapped import Mapped, check_has, expose_names
from gpushard.errors import ArgumentError

_TERM = re.compile(r"([^{}]*)(?:\{([^{}]*)\})?")


@dataclass(frozen=True)
class Term:
    """The subscripts of one operand, or of the result."""

    letters: str
    names: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def parse_names(subscripts: str, operands: int) -> tuple[tuple[Term, ...], Term]:
    """Split subscripts with names into the terms of the operands and the term of the result. Pure.

    Raises:
      ArgumentError: subscripts are malformed, or the result has a name that no operand has.

    >>> parse_names("a{i, j},{j}->a{i}", 2)[1]
    Term(letters='a', names=('i',))
    """
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    terms = tuple(_term(subscripts, part) for part in re.split(r",(?![^{]*\})", left))
    if len(terms) != operands:
        raise _bad(subscripts, f"names {len(terms)} operands, there are {operands}")
    if not arrow:
        raise _bad(subscripts, "names axes, and has no result. Try: write after -> which axes stay")
    result = _term(subscripts, right)
    known = {name for term in terms for name in term.names}
    for name in result.names:
        if name not in known:
            raise _bad(subscripts, f"has {name!r} in the result, and in no operand")
    return terms, result


def _term(subscripts: str, text: str) -> Term:
    match = _TERM.fullmatch(text)
    if match is None:
        raise _bad(subscripts, f"has {text!r}. Try: write letters, and then names as {{i,j}}")
    letters, listed = match.groups()
    names = tuple(listed.split(",")) if listed else ()
    if "" in names or len(set(names)) != len(names):
        raise _bad(subscripts, f"has {text!r}. Try: give each name once, between commas")
    return Term(letters, names)


def _bad(subscripts: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"einsum: subscripts={subscripts!r} {why}", argument="subscripts", subscripts=subscripts
    )


def replace_names(subscripts: str, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Replace names in subscripts by letters, and expose the named dims that are summed over.

    Args:
      subscripts: the subscripts, with names.
      operands: the operands.

    Returns:
      Subscripts without names, and operands to which they apply.

    Raises:
      ArgumentError: subscripts are malformed, or an operand lacks a name of its term. Or a name is
        summed over that an operand has and its term lacks.
      UnboundAxisError: no enclosing call maps over a name.
    """
    terms, result = parse_names(subscripts, len(operands))
    summed = [name for term in terms for name in term.names if name not in result.names]
    free = iter([letter for letter in LETTERS if letter not in subscripts])
    letters = {name: next(free) for name in dict.fromkeys(summed)}
    dims = {name: find_names(name, "einsum") for name in letters}
    texts, exposed = [], []
    for number, (x, term) in enumerate(zip(operands, terms, strict=True)):
        if not isinstance(x, Mapped):
            if term.names:
                raise _bad(subscripts, f"has {term.names} for operand {number}, which has no names")
            texts.append(term.letters)
            exposed.append(x)
            continue
        for name in term.names:
            if name in letters:
                check_has(x, dims[name], "einsum")
            elif name not in (known := [dim.name for dim in x._names]):
                raise _bad(
                    subscripts,
                    f"has {name!r} for operand {number}, which has {known}. Try: name only these",
                )
        for name in letters:
            if name not in term.names and set(dims[name]) & set(x._names):
                raise _bad(
                    subscripts,
                    f"sums over {name!r}, which operand {number} has, too. Try: name it for that "
                    "operand, or keep it in the result",
                )
        gone = [name for name in term.names if name in letters]
        if any(len(dims[name]) > 1 for name in gone):
            raise _bad(
                subscripts,
                "sums over a named axis that lies on devices in chunks. Try: use gpushard.lax.psum",
            )
        exposed.append(expose_names(x, tuple([dims[name][0] for name in gone])))
        texts.append("".join([letters[name] for name in gone]) + term.letters)
    return f"{','.join(texts)}->{result.letters}", exposed
