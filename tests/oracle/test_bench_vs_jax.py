"""The benchmarks run JAX beside gpushard, and both give the same values. No figure is judged."""

from types import ModuleType

from bench.__main__ import run
from bench.case import FLOOR, JAX, OURS, Config
from bench.peers import Jax


def test_jax_takes_part(jax: ModuleType) -> None:
    report = run(["transfer"], Config(quick=True, jax=Jax(jax)))
    assert report["machine"]["jax"] == jax.__version__
    cases = report["groups"]["transfer"]["cases"]
    assert cases
    for case in cases:
        assert case["checked"] is True
        assert all(case["seconds"][column]["median"] > 0 for column in (OURS, JAX, FLOOR))
        assert case["ratios"][f"{JAX}/{OURS}"] > 0


def test_jax_figures_are_shown_with_eight_domains_too(jax: ModuleType) -> None:
    name = "P('x') -> P(('x', 'y'))"
    report = run(["reshard"], Config(quick=True, jax=Jax(jax)), only=name)
    one, eight = report["groups"]["reshard"]["cases"]
    assert eight["peers_borrowed"] and not one["peers_borrowed"]
    assert one["seconds"][JAX]["median"] == eight["seconds"][JAX]["median"] > 0
