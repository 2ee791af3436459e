"""Parameters that Python takes for equal and that are not: 0.0 and -0.0, 1, True and 1.0, NaN."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from tests.ops.cases import AXES, FORMS, Case, cases
from tests.share import some


def lookalikes(number: Any) -> list[Any]:
    """Return numbers of other types, or signs, that are equal to one."""
    if type(number) not in (bool, int, float) or not -99 < number < 99:
        return []
    kinds = some((int, float), (int, float, np.int64, np.float32))
    alike = [kind(number) for kind in kinds if kind(number) == number]
    alike += [bool(number)] * (number in (0, 1)) + [-0.0] * (number == 0)
    return [each for each in alike if repr(each) != repr(number)]


def variants(params: Any) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of parameters, equal to each other, that differ in one number."""
    for n, x in enumerate(params):
        if type(x) is tuple:
            inner = list(variants(x))
        else:
            inner = [(x, y) for y in lookalikes(x)]
            inner += [(0.0, -0.0), (1.0, True)] * (type(x) is float)
        for pair in inner:
            yield tuple((*params[:n], each, *params[n + 1 :]) for each in pair)  # type: ignore[misc]


def values(results: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]


def assert_same(results: list[np.ndarray], expected: list[np.ndarray], *, bits: bool) -> None:
    """Compare shapes, types and bits; of sums in another order, the bits of zeros and NaNs."""
    for x, y in zip(results, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if bits or x.dtype.kind not in "fc":
            assert x.tobytes() == y.tobytes()
        else:
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
            for part, other in ((x.real, y.real), (x.imag, y.imag)):
                signs = [np.signbit(each[other == 0]).tolist() for each in (part, other)]
                assert signs[0] == signs[1]


def call_of(case: Case, params: Any) -> Any:
    return lambda *arrays: bind(case.row, (*arrays, *case.form.scalars), params)


def fresh(case: Case, params: Any, arrays: Any) -> list[np.ndarray] | None:
    """Return the results of a runtime that made no program before."""
    gs.devices()[0].runtime.plans.clear()
    try:
        return values(call_of(case, params)(*arrays))
    except Exception:  # parameters that no public function passes
        return None


def check(case: Case, mesh: gs.Mesh) -> None:
    """Compare calls with parameters that look alike to those with none before them."""
    places = [gs.NamedSharding(mesh, spec) for spec in case.specs]
    arrays = [gs.device_put(x, place) for x, place in zip(case.arrays, places, strict=True)]
    plans = gs.devices()[0].runtime.plans
    with np.errstate(all="ignore"):
        for pair in variants(case.params):
            expected = [fresh(case, params, arrays) for params in pair]
            if expected[0] is None or expected[1] is None:
                continue
            for order in ((0, 1), (1, 0)):
                first, second = (call_of(case, pair[n]) for n in order)
                plans.clear()
                eager = [values(each(*arrays)) for each in (first, second)]
                for n, results in zip(order, eager, strict=True):
                    assert_same(results, expected[n], bits=True)
            plans.clear()
            both = gs.jit(lambda *xs, f=first, g=second: (f(*xs), g(*xs)))(*arrays)
            for n, results in zip(order, both, strict=True):
                assert_same(values(results), expected[n], bits=False)


NUMERIC = [
    row for row in FORMS if any(callable(f.params) or list(variants(f.params)) for f in FORMS[row])
]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("row", NUMERIC, ids=repr)
def test_programs_are_those_of_their_parameters(row: Row) -> None:
    with testing.runtime(host_devices=6, compiler=""):
        mesh = gs.Mesh(np.array(gs.devices()).reshape(tuple(AXES.values())), tuple(AXES))
        for _, group in itertools.groupby(cases(row), key=lambda case: id(case.form)):
            check(next(group), mesh)
