"""Kernels as they are made for GPUs: the same results, and nothing that waits for the stream."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from gpushard._ops.aval import Aval
from gpushard._ops.row import Row, Site
from tests.ops.cases import FORMS, Case, cases
from tests.share import some


class WaitsError(Exception):
    """The host would have to wait for a value on a GPU."""


def _refused(*_: Any) -> Any:
    raise WaitsError


class OnCard(np.ndarray):
    """An array whose value the host cannot ask for."""

    __bool__ = __int__ = __float__ = __complex__ = __index__ = item = tolist = _refused


def on_card(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(on_card, value))
    return value.view(OnCard) if type(value) is np.ndarray else value


def off_card(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(off_card, value))
    return value.view(np.ndarray) if isinstance(value, OnCard) else value


class Card:
    """NumPy under another name, as CuPy is, whose arrays are on a card."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found

        def called(*args: Any, **named: Any) -> Any:
            return on_card(
                found(*map(off_card, args), **{k: off_card(v) for k, v in named.items()})
            )

        return functools.wraps(found)(called)


def made_on_card(case: Case) -> tuple[np.ndarray, ...]:
    scalars = [np.asarray(s) for s in case.form.scalars]
    avals = [Aval(a.shape, a.dtype) for a in (*case.arrays, *scalars)]
    kernel = case.row.kernel(Card(), avals, case.params)
    site = ()
    if case.row.positional:
        zeros = tuple((0,) * a.ndim for a in case.arrays)
        shape = case.row.infer(avals, case.params)[0].shape
        site = (Site(zeros, (0,) * len(shape), shape),)
    with np.errstate(all="ignore"):
        made = kernel(*site, *map(on_card, case.arrays), *case.form.scalars)
    return tuple(np.asarray(one) for one in (made if isinstance(made, tuple) else (made,)))


@pytest.mark.parametrize("row", FORMS, ids=repr)
def test_kernels_for_cards(row: Row) -> None:
    for case in list(cases(row))[:: some(7, 1)]:
        for want, got in zip(case.expected(), made_on_card(case), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype and got.flags.c_contiguous
            if want.dtype.kind in "fc":
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
            else:
                np.testing.assert_array_equal(got, want)
