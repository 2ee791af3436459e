"""scikit-learn's estimators and metrics on sharded arrays give what they give for NumPy's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpushard as gs

sklearn = pytest.importorskip(
    "sklearn", reason="scikit-learn is not installed: pip install 'gpushard[test]'"
)
from sklearn import (  # noqa: E402
    decomposition,
    discriminant_analysis,
    kernel_approximation,
    linear_model,
    metrics,
    mixture,
    naive_bayes,
    preprocessing,
)
from sklearn.metrics import pairwise  # noqa: E402

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((90, 6)) @ RANDOM.standard_normal((6, 6)) + 1.5
Y = (X @ np.arange(1.0, 7.0) + RANDOM.standard_normal(90)).round(6)
GROUPS = (np.quantile(Y, 0.3) < Y).astype(np.int64) + (np.quantile(Y, 0.7) < Y)
BINARY = (GROUPS > 0).astype(np.int64)
GUESS = np.where(RANDOM.random(90) < 0.8, BINARY, 1 - BINARY)
GUESSES = np.where(RANDOM.random(90) < 0.8, GROUPS, (GROUPS + 1) % 3)
COUNTS = RANDOM.poisson(3, 90).astype(float)

Work = Callable[..., Any]


def transform(make: Callable[[], Any], *attributes: str) -> Work:
    """Fit and transform, and look at what was learnt."""

    def work(x: Any, y: Any = None) -> list[Any]:
        model = make().fit(x)
        return [model.transform(x), *(getattr(model, name) for name in attributes)]

    return work


def predict(make: Callable[[], Any], *methods: str) -> Work:
    """Fit with labels and predict."""

    def work(x: Any, y: Any) -> list[Any]:
        model = make().fit(x, y)
        return [getattr(model, name)(x) for name in methods or ("predict",)]

    return work


def partial(function: Work, *args: Any, **kwargs: Any) -> Work:
    return lambda *xs: [functools.partial(function, **kwargs)(*xs, *args)]


ESTIMATORS: dict[str, tuple[Work, tuple[Any, ...]]] = {
    "Binarizer": (transform(lambda: preprocessing.Binarizer(threshold=0.5)), (X,)),
    "KernelCenterer": (transform(preprocessing.KernelCenterer), (X @ X.T,)),
    "MaxAbsScaler": (transform(preprocessing.MaxAbsScaler, "max_abs_"), (X,)),
    "MinMaxScaler": (transform(preprocessing.MinMaxScaler, "data_min_", "data_range_"), (X,)),
    "Normalizer l2": (transform(preprocessing.Normalizer), (X,)),
    "Normalizer max": (transform(lambda: preprocessing.Normalizer("max")), (X,)),
    "StandardScaler": (transform(preprocessing.StandardScaler, "mean_", "var_"), (X,)),
    "PolynomialFeatures": (transform(lambda: preprocessing.PolynomialFeatures(2)), (X,)),
    "LabelEncoder": (transform(preprocessing.LabelEncoder, "classes_"), (GROUPS,)),
    "PCA full": (
        transform(
            lambda: decomposition.PCA(3, svd_solver="full"), "explained_variance_", "components_"
        ),
        (X,),
    ),
    "PCA covariance": (
        transform(
            lambda: decomposition.PCA(3, svd_solver="covariance_eigh"), "explained_variance_"
        ),
        (X,),
    ),
    "PCA randomized": (
        transform(
            lambda: decomposition.PCA(
                3, svd_solver="randomized", random_state=0, power_iteration_normalizer="QR"
            ),
            "explained_variance_",
        ),
        (X,),
    ),
    "Nystroem": (
        transform(lambda: kernel_approximation.Nystroem(n_components=9, random_state=0)),
        (X,),
    ),
    "GaussianNB": (predict(naive_bayes.GaussianNB, "predict", "predict_proba"), (X, GROUPS)),
    "LinearDiscriminantAnalysis": (
        predict(discriminant_analysis.LinearDiscriminantAnalysis, "predict", "predict_proba"),
        (X, GROUPS),
    ),
    "Ridge": (predict(lambda: linear_model.Ridge(solver="svd")), (X, Y)),
    "RidgeCV": (predict(linear_model.RidgeCV), (X, Y)),
    "RidgeClassifierCV": (predict(linear_model.RidgeClassifierCV), (X, GROUPS)),
    "LogisticRegression": (
        predict(linear_model.LogisticRegression, "predict", "predict_proba"),
        (X, GROUPS),
    ),
    "PoissonRegressor": (predict(linear_model.PoissonRegressor), (X / 10, COUNTS)),
    "GaussianMixture": (
        predict(
            lambda: mixture.GaussianMixture(3, random_state=0, init_params="random_from_data"),
            "predict",
        ),
        (X, GROUPS),
    ),
    "GaussianMixture of diagonals": (
        predict(
            lambda: mixture.GaussianMixture(
                3, covariance_type="diag", random_state=0, init_params="random_from_data"
            ),
            "predict",
        ),
        (X, GROUPS),
    ),
}
METRICS: dict[str, tuple[Work, tuple[Any, ...]]] = {
    "accuracy_score": (partial(metrics.accuracy_score), (GROUPS, GUESSES)),
    "balanced_accuracy_score": (partial(metrics.balanced_accuracy_score), (GROUPS, GUESSES)),
    "brier_score_loss": (partial(metrics.brier_score_loss), (BINARY, GUESS * 0.8 + 0.1)),
    "confusion_matrix": (partial(metrics.confusion_matrix), (GROUPS, GUESSES)),
    "cohen_kappa_score": (partial(metrics.cohen_kappa_score), (GROUPS, GUESSES)),
    "d2_absolute_error_score": (partial(metrics.d2_absolute_error_score), (Y, Y + 0.3)),
    "explained_variance_score": (partial(metrics.explained_variance_score), (Y, Y * 0.9 + 1)),
    "f1_score": (partial(metrics.f1_score, average="macro"), (GROUPS, GUESSES)),
    "fbeta_score": (partial(metrics.fbeta_score, beta=2.0), (BINARY, GUESS)),
    "hamming_loss": (partial(metrics.hamming_loss), (GROUPS, GUESSES)),
    "jaccard_score": (partial(metrics.jaccard_score), (BINARY, GUESS)),
    "log_loss": (partial(metrics.log_loss), (BINARY, GUESS * 0.8 + 0.1)),
    "max_error": (partial(metrics.max_error), (Y, Y * 0.9)),
    "mean_absolute_error": (partial(metrics.mean_absolute_error), (Y, Y * 0.9)),
    "mean_gamma_deviance": (partial(metrics.mean_gamma_deviance), (abs(Y) + 1, abs(Y) + 2)),
    "mean_pinball_loss": (partial(metrics.mean_pinball_loss), (Y, Y * 0.9)),
    "mean_poisson_deviance": (partial(metrics.mean_poisson_deviance), (COUNTS, COUNTS + 0.5)),
    "mean_squared_error": (partial(metrics.mean_squared_error), (Y, Y * 0.9)),
    "mean_squared_log_error": (partial(metrics.mean_squared_log_error), (COUNTS, COUNTS + 0.5)),
    "median_absolute_error": (partial(metrics.median_absolute_error), (Y, Y * 0.9)),
    "multilabel_confusion_matrix": (
        partial(metrics.multilabel_confusion_matrix),
        (GROUPS, GUESSES),
    ),
    "precision_score": (partial(metrics.precision_score, average="micro"), (GROUPS, GUESSES)),
    "r2_score": (partial(metrics.r2_score), (Y, Y * 0.9)),
    "recall_score": (partial(metrics.recall_score), (BINARY, GUESS)),
    "roc_auc_score": (partial(metrics.roc_auc_score), (BINARY, GUESS * 0.8 + Y * 0.001)),
    "root_mean_squared_error": (partial(metrics.root_mean_squared_error), (Y, Y * 0.9)),
    "zero_one_loss": (partial(metrics.zero_one_loss), (GROUPS, GUESSES)),
    "additive_chi2_kernel": (partial(pairwise.additive_chi2_kernel), (abs(X), abs(X))),
    "chi2_kernel": (partial(pairwise.chi2_kernel), (abs(X), abs(X))),
    "cosine_distances": (partial(pairwise.cosine_distances), (X, X)),
    "cosine_similarity": (partial(pairwise.cosine_similarity), (X, X)),
    "euclidean_distances": (partial(pairwise.euclidean_distances), (X, X + 1)),
    "laplacian_kernel": (partial(pairwise.laplacian_kernel), (X, X + 1)),
    "linear_kernel": (partial(pairwise.linear_kernel), (X, X)),
    "manhattan_distances": (partial(pairwise.manhattan_distances), (X, X + 1)),
    "paired_cosine_distances": (partial(pairwise.paired_cosine_distances), (X, X + 1)),
    "paired_euclidean_distances": (partial(pairwise.paired_euclidean_distances), (X, X + 1)),
    "polynomial_kernel": (partial(pairwise.polynomial_kernel), (X, X)),
    "rbf_kernel": (partial(pairwise.rbf_kernel), (X, X)),
    "sigmoid_kernel": (partial(pairwise.sigmoid_kernel), (X, X)),
    "pairwise_distances": (partial(metrics.pairwise_distances), (X, X)),
}


@pytest.fixture(params=[(4, 2), (3, 2)], ids=["even", "uneven"])
def mesh(request: pytest.FixtureRequest) -> Iterator[gs.Mesh]:
    mesh = gs.make_mesh(request.param, ("x", "y"), devices=gs.devices()[: np.prod(request.param)])
    with gs.use_mesh(mesh, "auto"):
        yield mesh


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", [*ESTIMATORS, *METRICS])
def test_results_are_those_for_numpy_arrays(name: str, mesh: gs.Mesh) -> None:
    work, data = {**ESTIMATORS, **METRICS}[name]
    want = work(*data)
    placed = [gs.device_put(x, gs.NamedSharding(mesh, gs.P("x"))) for x in data]
    with sklearn.config_context(array_api_dispatch=True):
        got = work(*placed)
    if name in ESTIMATORS:
        assert any(isinstance(x, gs.Array) for x in got)
    for mine, theirs in zip(got, want, strict=True):
        value = np.asarray(mine)
        if name.startswith("PCA") and value.ndim == 2:  # the signs of components are free
            value, theirs = abs(value), abs(theirs)
        assert value.shape == np.shape(theirs)
        assert_allclose(value, theirs, rtol=1e-6, atol=1e-6)
