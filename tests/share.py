"""How much of a test runs: the share that finds most in a second, and everything with `--all`."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

SHARE = 13
"""Of how many examples and seeds one is taken."""

_everything = False
_every_case = False


def take(everything: bool) -> None:
    """Say, before tests are collected, whether all of them run in full."""
    global _everything
    _everything = everything
    settings.register_profile("suite", examples(100), deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("suite")


def take_every_case() -> None:
    """Leave out no case of `one_of`: somebody chooses which of them run."""
    global _every_case
    _every_case = True


def some(few: T, every: T) -> T:
    """Return the cases or counts of a test: few, or every one with `--all`."""
    return every if _everything else few


def seeds(count: int) -> range:
    """Return as many seeds with `--all`, and a share of them without."""
    return range(some(-(-count // SHARE), count))


def examples(count: int) -> settings:
    """Return settings for as many examples with `--all`, and for a share of them without."""
    return settings(max_examples=len(seeds(count)))


def out_of_turn(tests: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that don't run of tests marked `one_of(n)`: all but one of n, in turns.

    Where cases are rows by n columns, a row runs with another column than its neighbours. Tests of
    the same cases begin with different ones.
    """
    seen: Counter[object] = Counter()
    left = []
    for test in tests:
        mark = test.get_closest_marker("one_of")
        everything = _everything or _every_case
        if mark is not None and isinstance(test, pytest.Function) and not everything:
            number, n = seen[test.function], mark.args[0]
            seen[test.function] += 1
            number += zlib.crc32(test.originalname.encode())
            if (number + number // n) % n:
                left.append(test)
    return left
