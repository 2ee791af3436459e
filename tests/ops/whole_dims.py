"""The rows that need dims of their operands whole, in one list, which the test run prints.

Dispatch moves such an operand so that the dims are whole, never through the host and never by
collecting it on one device. Distributed algorithms take rows off `MOVED`.
"""

from __future__ import annotations

MOVED: dict[str, tuple[int, ...]] = {
    # along an axis
    **dict.fromkeys(("cumsum", "cumprod"), (0,)),
    **dict.fromkeys(("maximum.accumulate", "minimum.accumulate"), (0,)),
    **dict.fromkeys(("logical_and.accumulate", "logical_or.accumulate"), (0,)),
    **dict.fromkeys(("sort", "argsort", "partition", "argpartition", "topk"), (0,)),
    "lexsort": (0, 1, 2),
    **dict.fromkeys(("median", "nanmedian", "quantile", "nanquantile"), (0,)),
    **dict.fromkeys(("quantile with weights", "nanquantile with weights"), (0, 1)),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), (0,)),
    "repeat": (0, 1),
    "view": (0,),  # only with elements of another size
    "random.permutation": (1,),
    "random.choice": (0, 1),
    # vectors
    "unique": (0, 1),
    "searchsorted": (0, 2),  # only with a sorter
    **dict.fromkeys(("convolve", "correlate"), (0, 1)),
    # masks, of a byte for each element
    "nonzero": (0,),
    # matrices
    **dict.fromkeys(("cholesky", "inv", "det", "slogdet", "qr", "svd"), (0,)),
    **dict.fromkeys(("eigh", "eigvalsh", "eig", "eigvals"), (0,)),
    "solve": (0, 1),
    "einsum": (0, 1),  # only a letter that an operand has twice
}
"""Which operands of a row, by its name."""

SMALL: dict[str, tuple[int, ...]] = {
    "bincount": (),
    "histogram": (1, 2, 3),
    "interp": (1, 2),
    "indexed update": (1, 2, 3),
    **dict.fromkeys(("quantile", "nanquantile"), (1,)),
    **dict.fromkeys(("quantile with weights", "nanquantile with weights"), (2,)),
    "poly": (0,),
    "polydiv": (0, 1),
    "random.dirichlet": (1,),
    "random.multivariate_normal": (1, 2),
}
"""Operands that are whole by their nature, beside what is large: bins, knots, positions of updates,
parameters of vectors, coefficients. The words of random keys are left out."""
