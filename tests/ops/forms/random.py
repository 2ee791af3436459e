"""Forms of the rows of random numbers; a key is an operand of 64 bits, or several in front."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.row import Row
from gpushard._ops.table import packed_keys, random, random_keys, random_order
from tests.ops.forms.form import Form


def _made(dtype: str) -> Any:
    """A result of two dims for each of several keys."""
    return lambda shapes: ((3, 5), np.dtype(dtype))


def _beside(dtype: str, operand: int = 1) -> Any:
    """A result of the shape of an operand."""
    return lambda shapes: (shapes[operand], np.dtype(dtype))


def _of_keys(*dtypes: str) -> list[Form]:
    return [Form(("i",), _made(dtype), "Q") for dtype in dtypes]


def _of(dtype: str, *more: str) -> list[Form]:
    """Parameters that are split as the result is, or broadcast."""
    return [Form(("", "ij", *more), _beside(dtype), "Qd", positive=True)]


FORMS: dict[Row, list[Form]] = {
    random.BITS: _of_keys("u1", "u8"),
    random.UNIFORM: [
        *_of_keys("f2"),
        *_of("f4", "j"),
        Form(("i", "1j", "j"), lambda shapes: ((4, shapes[1][1]), np.dtype("f8")), "Qd"),
    ],
    random.NORMAL: _of_keys("f8"),
    random.COMPLEX_NORMAL: _of_keys("c16"),
    random.TRUNCATED_NORMAL: _of("f8", "j"),
    random.EXPONENTIAL: _of_keys("f8"),
    random.GUMBEL: _of("f4"),
    random.LAPLACE: _of_keys("f8"),
    random.LOGISTIC: _of_keys("f8"),
    random.CAUCHY: _of_keys("f8"),
    random.RAYLEIGH: _of("f8"),
    random.PARETO: _of("f8"),
    random.WEIBULL_MIN: _of("f8", "j"),
    random.LOGNORMAL: _of("f8"),
    random.GAMMA: _of("f8"),
    random.LOG_GAMMA: _of("f4"),
    random.CHISQUARE: _of("f8"),
    random.BETA: _of("f8", "j"),
    random.T: _of("f8"),
    random.F: _of("f8", "j"),
    random.WALD: _of("f8"),
    random.MAXWELL: _of_keys("f8"),
    random.DOUBLE_SIDED_MAXWELL: _of("f4", "j"),
    random.GENERALIZED_NORMAL: _of("f8"),
    random.TRIANGULAR: [Form(("", "1", "ij", "1"), _beside("f8", 2), "Qd", positive=True)],
    random.GUMBEL_HIGH: _of("f8"),
    random.MULTIVARIATE_NORMAL_OF_FACTOR: [
        Form(("", "ij", "jj"), _beside("f8"), "Qd", positive=True)
    ],
    random.DIRICHLET: _of("f8"),
    random.MULTIVARIATE_NORMAL: [
        Form(("", "ij", "jj"), _beside("f8"), "Qd", positive=True),
        Form(("", "i3", "i33"), _beside("f8"), "Qd", positive=True),
    ],
    random.RANDINT: [Form(("", "ij", "j"), _beside("i4"), "Qi")],
    random.BERNOULLI: [Form(("", "ij"), _beside("?"), "Q?")],
    random.BERNOULLI_SINGLE: [Form(("", "ij"), _beside("?"), "Qf")],
    random.BERNOULLI_HIGH: [Form(("", "ij"), _beside("?"), "Q?")],
    random.BERNOULLI_HIGH_SINGLE: [Form(("", "ij"), _beside("?"), "Qf")],
    random.RADEMACHER: _of_keys("i1"),
    random.GEOMETRIC: [Form(("", "ij"), _beside("i8"), "Qd")],
    random.POISSON: _of("i8"),
    random.BINOMIAL: [Form(("", "ij", "j"), _beside("f8"), "Qid")],
    random.BINOMIAL_COUNTS: [Form(("", "ij", "j"), _beside("i8"), "Qi?")],
    random_keys.SPLIT: [Form(("i",), ((3, 5),), "Q")],
    packed_keys.PACK: [Form(("ij2",), (), "I")],
    packed_keys.UNPACK: [Form(("ij",), (), "Q")],
    random_keys.FOLD_IN: [Form(("i", "ji"), (), "QI"), Form(("i", "j1"), (), "QI")],
    random_order.ORDER: [Form(("i",), (9,), "Q")],
    random_order.SHUFFLE: [
        Form(("", "ij"), (-1, False), "Qd"),
        Form(("", "ij"), (-2, True), "Qd"),
        Form(("", "i"), (-1, True), "Qi"),
    ],
    random_order.TAKE: [Form(("ij", "kl"), (-1,), "d?"), Form(("ij", "k"), (-2,), "b?")],
    random_order.WEIGHTED: [Form(("j", "i"), ((40, 3),), "Qd", positive=True)],
    random_order.TOP: [Form(("ij",), (2,))],
}
