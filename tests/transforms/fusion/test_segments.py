"""Operations that are given to a GPU together as one."""

from __future__ import annotations

from unittest import mock

import pytest

import gpushard as gs
from gpushard._transforms.fusion import segments


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (1, "sin"),
        (3, "sin, cos, tan"),
        (4, "sin, cos, tan and 1 more"),
        (6, "sin, cos, tan and 3 more"),
    ],
)
def test_a_segment_is_called_by_its_first_operations(count: int, name: str) -> None:
    def f(x: gs.Array) -> gs.Array:
        for row in ("sin", "cos", "tan", "sinh", "cosh", "tanh")[:count]:
            x = getattr(gs.numpy, row)(getattr(gs.numpy, row)(x))
        return x

    steps = gs.jit(f).lower(gs.numpy.ones(3)).compiler_ir().needed()
    with mock.patch.object(segments, "segment_of") as made:
        made.return_value.operands = made.return_value.results = ()
        one = segments._merge_run([(step, mock.Mock()) for step in steps], set())
        assert one is not None and one.name == made.call_args.args[2] == name
        made.return_value = None
        assert segments._merge_run([(steps[0], mock.Mock())], set()) is None
