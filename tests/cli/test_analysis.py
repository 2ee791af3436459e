"""The principal components of the demo: against NumPy, step by step, and what is left out."""

import dataclasses
import importlib.util
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._cli import analysis
from gpushard._cli.main import main
from gpushard.testing import runtime

RANDOM = np.random.default_rng(11)


def placed(data: np.ndarray[Any, Any], sizes: tuple[int, int] = (3, 2)) -> gs.Array:
    mesh = gs.make_mesh(sizes, ("x", "y"))
    return gs.device_put(data, gs.NamedSharding(mesh, gs.P("x", "y") if data.ndim > 1 else gs.P()))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("domains", [1, 6])
@pytest.mark.parametrize("shape", [(40, 7), (5, 9), (30, 2, 3), (17,), (2, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_components_are_those_of_numpy(
    shape: tuple[int, ...], dtype: str, domains: int, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (RANDOM.standard_normal(shape) * 50).astype(dtype)
    with runtime(host_devices=6, host_domains=domains):
        assert analysis.run(placed(data))
    printed = capsys.readouterr().out
    assert "equal to NumPy's SVD" in printed and "MISMATCH" not in printed
    rows = data.astype("f8").reshape(len(data), -1)
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows, rowvar=False)))[::-1]
    shares = ", ".join(f"{v / values.sum():.1%}" for v in values[: min(4, *rows.shape)])
    assert f"explained {shares} of" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_small_numbers_have_components_too(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(4):  # whose signs are others
        assert analysis.run(placed(RANDOM.standard_normal((40, 7)) * 1e-3))
    assert "MISMATCH" not in capsys.readouterr().out


def test_the_bytes_of_a_step_are_those_that_moved(capsys: pytest.CaptureFixture[str]) -> None:
    with runtime(host_devices=4, host_domains=4):
        mesh = gs.make_mesh((4,), "x")
        data = RANDOM.standard_normal((64, 8))
        analysis.run(gs.device_put(data, gs.NamedSharding(mesh, gs.P("x"))))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rows - ")]
    assert lines[0].split()[-6:-2] == ["0", "B", "0", "B"]


@pytest.mark.parametrize("wrong", ["variances", "scores"])
def test_a_wrong_analysis_is_seen(
    wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    right = analysis.principal_components

    def broken(*args: Any) -> analysis.Components:
        found = right(*args)
        return dataclasses.replace(found, **{wrong: getattr(found, wrong) * 1.001})

    monkeypatch.setattr(analysis, "principal_components", broken)
    np.save(tmp_path / "x.npy", RANDOM.standard_normal((20, 5)))
    with runtime(host_devices=6):
        assert main(["demo", "--mesh", "3x2", "--input", str(tmp_path / "x.npy")]) == 1
    printed = capsys.readouterr().out
    assert "MISMATCH with NumPy's SVD" in printed and "please report" in printed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (np.ones((4, 2), "c8"), "need real numbers, not complex64"),
        (np.ones((1, 2)), "need two rows or more, not (1, 2)"),
        (np.ones((4, 0)), "need two rows or more, not (4, 0)"),
        (np.ones((2, analysis.MOST_COLUMNS + 1)), "shown for 2048 columns at most"),
        (np.array([[1.0, np.inf], [2.0, 3.0]]), "need finite numbers"),
        (np.array([[1.0, 1e200], [2.0, -1e200]]), "need numbers with squares that do not overflow"),
    ],
)
def test_what_cannot_be_analysed_is_left_out(
    data: np.ndarray[Any, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with runtime(host_devices=6):
        assert analysis.run(placed(data))
    assert reason in capsys.readouterr().out


def test_scikit_learn_may_be_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with runtime(host_devices=6):
        assert analysis.run(placed(np.eye(4)))
    assert "left out: it is not installed" in capsys.readouterr().out


def test_what_is_just_small_enough_is_analysed() -> None:
    with runtime(host_devices=6):
        for data in (np.ones((2, analysis.MOST_COLUMNS)), np.full((2, 3), -1e150)):
            assert isinstance(analysis.as_rows(placed(data)), gs.Array)


def test_a_layout_has_spaces_where_they_fit() -> None:
    with runtime(host_devices=6):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        specs = [gs.P("x"), gs.P(None, ("x", "y")), gs.P(None, None, ("x", "y"))]
        found = [
            analysis._layout(gs.device_put(np.ones((6, 6, 6)), gs.NamedSharding(mesh, spec)))
            for spec in specs
        ]
    assert found == ["P('x')", "P(None, ('x', 'y'))", "P(None,None,('x','y'))"]
    assert analysis._layout(gs.numpy.ones(3)) == "one device"
