"""Two checkouts can be set side by side."""

from pathlib import Path

from bench.compare import PROBES, compare


def test_a_checkout_can_be_compared_with_itself() -> None:
    figures = compare(Path(__file__).parents[2], rounds=1, turns=2, calls=1)
    assert set(figures) == set(PROBES)
    for found in figures.values():
        assert found["rounds"] == 1
        assert found["low"] <= found["ratio"] <= found["high"]
        assert found["base_us"] > 0 and found["this_us"] > 0
