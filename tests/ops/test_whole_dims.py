"""The list of rows that need whole dims is complete, and holds nothing that needs none."""

from __future__ import annotations

import collections

from tests.ops.cases import FORMS
from tests.ops.test_rules import rules_of
from tests.ops.whole_dims import MOVED, SMALL


def test_the_list_is_exact() -> None:
    found: dict[str, set[int]] = collections.defaultdict(set)
    for row in FORMS:
        for rule in rules_of(row):
            if rule.whole:
                found[row.name] |= {
                    n for n, dims in enumerate(rule.operands) if rule.whole.intersection(dims)
                }
    listed = {name: {*MOVED.get(name, ()), *SMALL.get(name, ())} for name in {**MOVED, **SMALL}}
    for name, numbers in found.items():
        if name.startswith("random.") and name != "random.choice":
            numbers.discard(0)  # the key
    assert {name: numbers for name, numbers in found.items() if numbers or name in listed} == listed
