"""Principal components of a sharded array, step by step, and by scikit-learn."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpushard as gs
from gpushard._cli.measure import format_bytes, format_seconds, traffic
from gpushard._typing import HostArray

MOST_COLUMNS = 2048
"""With more columns the covariances, which every device gets, need too much memory for a demo."""

_COMPONENTS = 4
_CLOSE = 1e-9
_LARGEST = 1e150
_LAYOUT = 19  # characters


@dataclasses.dataclass(frozen=True)
class Components:
    """Principal components of rows."""

    variances: gs.Array  # the variance along each component, descending, shape (k,)
    scores: gs.Array  # the rows in terms of the components, shape (rows, k)
    total: float  # the variance along all components


def as_rows(x: gs.Array) -> gs.Array | str:
    """Return an array as rows, with later dims joined to the second, or why it cannot be."""
    if x.dtype.kind not in "iuf":
        return f"they need real numbers, not {x.dtype.name}"
    if x.ndim == 0 or x.shape[0] < 2 or x.size == 0:
        return f"they need two rows or more, not {x.shape}"
    rows: gs.Array = x.astype(np.float64).reshape(x.shape[0], -1)
    if rows.shape[1] > MOST_COLUMNS:
        return f"shown for {MOST_COLUMNS} columns at most, not {rows.shape[1]}"
    if not bool(gs.numpy.isfinite(rows).all()):
        return "they need finite numbers"
    if float(gs.numpy.abs(rows).max()) > _LARGEST:
        return "they need numbers with squares that do not overflow"
    return rows


def principal_components(rows: gs.Array, count: int, report: Callable[..., Any]) -> Components:
    """Compute principal components from the covariances of the columns."""
    gnp = gs.numpy
    mean = report("mean of the rows", lambda: rows.mean(axis=0))
    centered = report("rows - mean", lambda: rows - mean)
    products = report("products of columns", lambda: centered.T @ centered)
    values, vectors = report(
        "their eigenvectors", lambda: gnp.linalg.eigh(products / (rows.shape[0] - 1))
    )
    leading = vectors[:, ::-1][:, :count]
    scores = report("rows x components", lambda: centered @ leading)
    variances = gnp.clip(values[::-1], 0, None)
    return Components(variances[:count], scores, float(variances.sum()))


def let_scipy_take_arrays() -> None:
    """Turn on SciPy's dispatch to arrays for scikit-learn; SciPy reads it when imported."""
    if "scipy" not in sys.modules:
        os.environ.setdefault("SCIPY_ARRAY_API", "1")


def run(x: gs.Array) -> bool:
    """Analyse an array, print every step, and compare the results with NumPy and scikit-learn."""
    rows = as_rows(x)
    if isinstance(rows, str):
        print(f"\nNo principal components: {rows}.")
        return True
    print("\nPrincipal components of the array, computed where it lies")
    across = len({device.memory_domain for device in x.devices()}) > 1
    report = _Report(rows, across)
    count = min(_COMPONENTS, *rows.shape)
    components = principal_components(rows, count, report)
    shares = ", ".join(f"{share:.1%}" for share in _shares(components))
    print(f"explained {shares} of the variance by {count} of {rows.shape[1]} components")
    agree = _agrees("NumPy's SVD", components, _by_numpy(np.asarray(rows), count))
    theirs = _by_sklearn(rows, count)
    if isinstance(theirs, str):
        print(f"          scikit-learn's own PCA is left out: {theirs}")
        return agree
    return _agrees("scikit-learn's PCA on the same sharded array", components, theirs) and agree


class _Report:
    """Prints the result of each step, its layout, and the bytes that moved."""

    def __init__(self, x: gs.Array, across: bool) -> None:
        self._backend = next(iter(x.devices())).runtime.backend
        self._across = across
        received = ["received"] if across else []
        print("\n" + _line("step", "result", "layout", "moved", *received, "time"))

    def __call__(self, title: str, work: Callable[[], Any]) -> Any:
        """Run a step and print its line; the line shows the last of several results."""
        before = traffic(self._backend)
        started = time.perf_counter()
        result = gs.block_until_ready(work())
        seconds = time.perf_counter() - started
        now = traffic(self._backend)
        moved, received = (b - a for a, b in zip(before, now, strict=True))
        last = result[-1] if isinstance(result, tuple) else result
        layout = _layout(last)
        shape = " x ".join(map(str, last.shape))
        figures = [moved, received] if self._across else [moved]
        cells = [*map(format_bytes, figures), format_seconds(seconds)]
        print(_line(title, shape, layout, *cells), flush=True)
        return result


def _line(title: str, shape: str, layout: str, *figures: str) -> str:
    return f"{title:<19} {shape:<11} {layout:<{_LAYOUT}} " + " ".join(
        f"{text:>8}" for text in figures
    )


def _layout(x: gs.Array) -> str:
    spec = getattr(x.sharding, "spec", None)
    text = "one device" if spec is None else f"P({', '.join(map(repr, spec))})"
    return text if len(text) <= _LAYOUT else text.replace(", ", ",")


def _shares(of: Components) -> list[float]:
    return [float(v) / of.total if of.total else 0.0 for v in np.asarray(of.variances)]


def _by_numpy(rows: HostArray, count: int) -> tuple[HostArray, HostArray]:
    left, singular, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    variances = singular**2 / (len(rows) - 1)
    return variances[:count], (left * singular)[:, :count]


def _by_sklearn(rows: gs.Array, count: int) -> tuple[HostArray, HostArray] | str:
    """Compute components by scikit-learn on the sharded array, or return why that cannot run."""
    if importlib.util.find_spec("sklearn") is None:
        return "it is not installed; run pip install 'gpushard[demo]'"
    if os.environ.get("SCIPY_ARRAY_API") != "1":
        return "it needs SCIPY_ARRAY_API=1 in the environment"
    sklearn: Any = importlib.import_module("sklearn")
    decomposition: Any = importlib.import_module("sklearn.decomposition")
    with sklearn.config_context(array_api_dispatch=True):
        model = decomposition.PCA(count, svd_solver="covariance_eigh").fit(rows)
        scores = model.transform(rows)
    return np.asarray(model.explained_variance_), np.asarray(scores)


def _agrees(owner: str, components: Components, theirs: tuple[HostArray, HostArray]) -> bool:
    """Compare variances, and the scores of components with a variance of their own."""
    variances, scores = np.asarray(components.variances), np.asarray(components.scores)
    largest = max(float(variances.max()), np.finfo(np.float64).tiny)
    apart = float(np.abs(variances - theirs[0]).max()) / largest
    gaps = np.abs(np.diff(variances)) / largest
    alone = np.ones(len(variances), bool)
    alone[1:] &= gaps > _CLOSE * 1e4
    alone[:-1] &= gaps > _CLOSE * 1e4
    alone &= variances > largest * 1e-6
    alone[-1] = False  # the next component is unknown
    signs = np.where((scores * theirs[1]).sum(axis=0) < 0, -1, 1)
    off = np.abs(scores - theirs[1] * signs)[:, alone]
    scores_apart = float(off.max(initial=0)) / max(float(np.abs(scores).max()), 1e-300)
    same = apart < _CLOSE and scores_apart < _CLOSE * 1e3
    verdict = "equal to" if same else "MISMATCH with"
    print(f"          {verdict} {owner}: within {max(apart, scores_apart):.0e}")
    return same
