"""Histograms and counts against NumPy's."""

import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.searchsorted import search
from gpushard._ops.table import histograms
from gpushard.errors import ArgumentError
from gpushard.numpy.histograms import RULES
from tests.numpy.calls import Call, alike, everywhere
from tests.numpy.compare import LAYOUTS, memory_of, placed, put, same
from tests.traffic import received

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")

EDGES: list[Any] = [[-2, 0, 0.5, 3], np.array([-1.0, 0, 0, 2, 2]), [-3, 4], [5, 6, 7]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    data, x = placed(layout)
    weights = np.arange(data.size).reshape(data.shape) * 0.5
    calls: list[Call] = [
        lambda ns, x: ns.histogram(x, 7),
        lambda ns, x: ns.histogram(x, 4, range=(-1, 2)),
        lambda ns, x: ns.histogram(x, weights=weights),
        lambda ns, x: ns.histogram(x, 3, weights=weights * 1j),
        lambda ns, x: ns.histogram_bin_edges(x, 5),
        *(lambda ns, x, e=e: ns.histogram(x, e) for e in EDGES),  # type: ignore[misc]
    ]
    if data.size:
        calls += [
            lambda ns, x: ns.histogram(x, 7, density=True),
            lambda ns, x: ns.histogram(x, [-3, 0, 1, 3], density=True, weights=weights),
        ]
    for call in calls:
        alike(call, data, x)


@pytest.mark.parametrize("dtype", ["?", "b", "B", "l", "f", "e"])
def test_types(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    weights = np.arange(15).reshape(5, 3)
    calls: list[Call] = [
        lambda ns, x: ns.histogram(x, 4, range=(0, 3)),
        lambda ns, x: ns.histogram(x, [0, 1, 2]),
        lambda ns, x: ns.histogram(x, [1]),
        lambda ns, x: ns.histogram(x, 5, weights=weights),
    ]
    if dtype != "?":  # NumPy warns of booleans
        calls.append(lambda ns, x: ns.histogram(x, 5))
        for call in calls:
            alike(call, data, x)
    else:
        same(gnp.histogram(x, 2), np.histogram(data.astype("B"), 2))
        for edges in ([False, True], [True], [0, 1, 2]):
            same(gnp.histogram(x, edges), np.histogram(data.astype("B"), edges))


def test_one_value_and_what_is_no_number() -> None:
    everywhere(lambda ns, x: ns.histogram(x, 3), np.full((4,), 2.0))
    holes = np.array([0.5, np.nan, 1.5, np.inf, -np.inf, 2.0])
    everywhere(lambda ns, x: ns.histogram(x, [0, 1, 2]), holes)
    everywhere(lambda ns, x: ns.histogram(x, 4, range=(0, 2)), holes)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str) -> None:
    rng = np.random.default_rng(7)
    warnings.simplefilter("ignore")  # NumPy's of the most bins that a rule tries
    several = [rng.standard_normal((30, 5)), rng.integers(0, 9, 40), np.ones(3), np.zeros(0)]
    for data in several[1:] if rule == "stone" else several:  # stone counts a hundred times
        alike(lambda ns, x: ns.histogram(x, rule), data, put(data, "x"))
        alike(lambda ns, x: ns.histogram_bin_edges(x, rule, range=(-9, 9)), data, put(data, "y"))


@pytest.mark.parametrize(
    ("data", "bins"), [([0.0, 1.0] * 5, 100), ([0.0, 1.0], 1), ([0.0, 1.0, 1.0, 6.0], 5)]
)
def test_stones_rule_tries_from_one_to_a_hundred_bins(data: list[float], bins: int) -> None:
    x = put(np.array(data), "x")
    wanted = np.histogram_bin_edges(data, "stone")
    assert len(gnp.histogram_bin_edges(x, "stone")) == len(wanted) == bins + 1


@pytest.mark.one_of(2)
@pytest.mark.parametrize("rule", sorted({*RULES} - {"stone"}))
@pytest.mark.parametrize("dtype", ["d", "f", "b", "B"])
def test_rules_for_few_elements(rule: str, dtype: str) -> None:
    """One, two, equal ones, and ranges that begin or end at an element."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(3)
    several = [np.arange(1), np.arange(2), np.array([3, 3, 3, 3]), rng.integers(0, 60, 17)]
    for data in (each.astype(dtype) for each in several):
        least, most = float(data.min()), float(data.max())
        x = put(data, "x")
        for limits in (None, (least, most), (least - 2, most), (least, most + 1.5)):
            want = np.histogram_bin_edges(data, rule, limits)
            got = gnp.histogram_bin_edges(x, rule, limits)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "f" else 1e-14)


@pytest.mark.parametrize("rule", ["scott", "fd", "rice", "sturges", "doane"])
def test_rules_for_every_small_size(rule: str) -> None:
    rng = np.random.default_rng(5)
    for n in range(1, 25):
        data = rng.exponential(size=n) ** 2
        want = np.histogram_bin_edges(data, rule)
        assert len(gnp.histogram_bin_edges(put(data, "x"), rule)) == len(want), (n, data)


def test_few_elements_afar_get_no_more_bins_than_twice_the_root() -> None:
    data = np.concatenate((np.random.default_rng(8).normal(0, 1e-3, 60), [-5.0, 5.0]))
    edges = gnp.histogram_bin_edges(put(data, "x"), "auto")
    assert len(edges) - 1 == math.ceil(2 * math.sqrt(len(data)))


@pytest.mark.parametrize("limits", [(1, 9), (0, 5)])
def test_rules_leave_no_element_out(limits: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match="would leave out elements, which are from 0 to 9"):
        gnp.histogram(put(np.arange(10), "x"), "sqrt", limits)


def test_rules_do_not_count_what_is_no_number() -> None:
    data = put(np.array([0.5, np.nan, 1]), "x")
    with pytest.raises(ArgumentError, match="would leave out elements, which are from nan to nan"):
        gnp.histogram(data, "sqrt", (0, 5))


def test_grids() -> None:
    rng = np.random.default_rng(5)
    points, weights = rng.standard_normal((23, 3)), rng.random(23)
    limits = [(-1, 1), None, (0, 2)]
    calls: list[Call] = [
        lambda ns, x: ns.histogramdd(x, 3),
        lambda ns, x: ns.histogramdd(x, [2, 3, 4], density=True),
        lambda ns, x: ns.histogramdd(x[:, :1], 4, weights=weights),
        lambda ns, x: ns.histogramdd(x, [[-1, 0, 2], 3, [-9, 9]], weights=weights, range=limits),
    ]
    for call in calls:
        everywhere(lambda ns, x: _flat(call(ns, x)), points)  # noqa: B023
    flat: list[Call] = [
        lambda ns, x: ns.histogram2d(x[:, 0], x[:, 1], 4),
        lambda ns, x: ns.histogram2d(x[:, 0], x[:, 1], [-1, 0, 1], weights=weights),
        lambda ns, x: ns.histogram2d(x[:, 0], x[:, 1], [2, [0, 1]], density=True),
    ]
    for call in flat:
        everywhere(call, points)


def _flat(found: Any) -> tuple[Any, ...]:
    return (found[0], *found[1])


@pytest.mark.parametrize("dtype", ["?", "b", "H", "l"])
def test_counts(dtype: str) -> None:
    data = (np.arange(11) * 5 % 7).astype(dtype)
    weights = np.arange(11) * 0.25
    calls: list[Call] = [
        lambda ns, x: ns.bincount(x),
        lambda ns, x: ns.bincount(x, minlength=12),
        lambda ns, x: ns.bincount(x, weights),
    ]
    for call in calls:
        everywhere(call, data)
    x = put(data, "x")
    same(gnp.bincount(x, length=3), np.bincount(data, minlength=3)[:3])
    same(gnp.bincount(gs.device_put(np.array([-1, 5, 1])), length=3), [0, 1, 0])
    same(gnp.bincount(put(np.zeros(0, int), "x")), np.bincount(np.zeros(0, int)))
    same(gnp.bincount(x, put(weights, "x")), np.bincount(data, weights))
    with pytest.raises(ArgumentError, match="element -1"):
        gnp.bincount(put(np.array([3, -1]), "x"))


@pytest.mark.parametrize("length", [1, 2, 4])
def test_counts_for_each_row(length: int) -> None:
    data = np.array([[0, 1, 3, 0], [2, 0, 0, 0], [3, 3, 5, 4]])
    for x in (put(data, "x"), put(data)):
        counts = gs.vmap(lambda row: gnp.bincount(row, length=length))(x)
        same(counts, np.stack([np.bincount(row, minlength=length)[:length] for row in data]))
        bins = gs.vmap(lambda row: gnp.histogram(row, length, (0, 4))[0])(x)
        same(bins, np.stack([np.histogram(row, length, (0, 4))[0] for row in data]))


def test_only_counts_move() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh((8,), "x")
        value = np.arange(8000) % 5
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        with gs.transfer_guard("disallow_explicit"):
            before = received(runtime)
            made = gnp.bincount(x, length=5)
            assert received(runtime) - before <= 14 * 5 * 8
        with gs.transfer_guard("disallow"):
            counts, edges = gnp.histogram(x, 5)
        np.testing.assert_array_equal(np.asarray(made), np.bincount(value))
        np.testing.assert_array_equal(np.asarray(counts), np.bincount(value))
        assert edges.dtype == np.float64


@pytest.mark.parametrize("dtype", ["b", "B", "l", "f", "d"])
@pytest.mark.parametrize("even", [True, False])
def test_many_elements_in_bins_of_any_width(
    dtype: str, even: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bins are guessed as if they were of one width; only wrong guesses are searched for."""
    rng = np.random.default_rng(0)
    data = (rng.standard_normal(70_000) * 20).astype(np.int64 if dtype in "bBl" else dtype)
    data = data.astype(dtype)
    if dtype in "fd":
        data[:6] = [np.nan, np.inf, -np.inf, -0.0, 30, -30]
    edges: Any = np.linspace(-30, 30, 14) if even else np.sort(rng.standard_normal(14) * 20)
    edges[5] = edges[6]
    wanted = np.histogram(data, edges)[0]
    searched = [0]

    def recorded(xp: Any, x1: Any, x2: Any, side: str) -> Any:
        searched[0] += x2.size
        return search(xp, x1, x2, side)

    monkeypatch.setattr(histograms, "search", recorded)
    same(gnp.histogram(put(data, ("x", "y")), edges)[0], wanted)
    if gs.default_backend() == "gpu":
        return  # these have a kernel for it
    assert 0 < searched[0] < data.size
    if even:
        assert searched[0] < data.size / 5


def test_counts_of_what_is_in_range_are_not_masked() -> None:
    data = np.random.default_rng(0).integers(0, 9, 50_000)
    for length in (8, 9, 10):
        kernel = histograms.BINCOUNT.kernel(np, (), (length, data.dtype))
        np.testing.assert_array_equal(kernel(data), np.bincount(data, minlength=length)[:length])
        assert (memory_of(kernel, data) < data.nbytes) is (length > 8)


def test_bins_are_found_alike_on_the_host_and_elsewhere() -> None:
    """On edges, between them, beyond them, and where there is no number."""
    edges = np.array([-1.0, 0.0, 0.5, 0.75, 3.0])
    x = np.array([*edges, -1.5, -0.5, 0.25, 0.6, 1.0, 2.999, 3.5, np.inf, -np.inf, np.nan])
    elsewhere: Any = types.SimpleNamespace(minimum=np.minimum, searchsorted=np.searchsorted)
    number, inside = histograms._bin_numbers(elsewhere, x, edges)
    with np.errstate(invalid="ignore"):
        wanted, there = histograms._bin_numbers(np, x, edges)
    assert inside.tolist() == there.tolist() == [*[True] * 5, False, *[True] * 5, *[False] * 4]
    assert number[inside].tolist() == wanted[inside].tolist() == [0, 1, 2, 3, 3, 0, 1, 2, 3, 3]


LINE = np.arange(3.0)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no edges": (lambda: gnp.histogram(LINE, []), r"bins of shape \(0,\) must be a vector"),
    "edges in rows": (lambda: gnp.histogram(LINE, [[1, 2]]), r"\(1, 2\) must be a vector"),
    "a range without an end": (lambda: gnp.histogram(LINE, 3, (0, np.inf)), "two finite numbers"),
    "a range without a start": (lambda: gnp.histogram(LINE, 3, (-np.inf, 0)), "two finite numbers"),
    "a range to what is no number": (lambda: gnp.histogram(LINE, 3, (0, np.nan)), "two finite"),
    "one number for a range": (lambda: gnp.histogramdd([LINE], 3, range=5), "0 entries for 1 dim"),
    "bins of one dim of two": (lambda: gnp.histogram2d(LINE, LINE, [3]), "1 entries for 2 dim"),
    "matrices": (
        lambda: gnp.histogram2d(LINE[None], LINE[None], 3), "give vectors of one length",
    ),
    "vectors of two lengths": (
        lambda: gnp.histogram2d(LINE, LINE[1:], 3), "give vectors of one length",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start", [0.0, -3.3, 1e3, 1e6])
@pytest.mark.parametrize("bins", [1, 10, 999])
@pytest.mark.parametrize("moved", [0.0, 1e-12, 1e-3, 0.4])
def test_elements_at_edges_are_in_the_bins_that_begin_there(
    dtype: Any, start: float, bins: int, moved: float
) -> None:
    """Edges have nearly equal distances, or not; elements are at edges and next to them."""
    edges = np.linspace(start, start + 7, bins + 1)
    edges[1:-1] += moved * np.random.default_rng(0).uniform(-1, 1, bins - 1) * 7 / bins
    edges = np.unique(edges.astype(dtype))
    ends = [np.nextafter(edges, dtype(end)) for end in (-np.inf, np.inf)]
    x = np.concatenate([edges, *ends, (edges[1:] + edges[:-1]) / 2, [np.nan, np.inf, -np.inf]])
    number = np.minimum(edges.searchsorted(x, "right") - 1, len(edges) - 2)
    inside = (x >= edges[0]) & (x <= edges[-1])
    wanted = np.bincount(number[inside], minlength=len(edges) - 1)
    counts, _ = gs.numpy.histogram(gs.device_put(x), edges)
    np.testing.assert_array_equal(np.asarray(counts), wanted)
