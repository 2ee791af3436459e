"""Numbers in the place of NaNs and infinities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.ops import rule
from gpushard.ops.aval import Aval
from gpushard.ops.narrow import in_single
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Kernel, Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.runtime.namespace import own_kernels


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    return (avals[0],)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    return rule.elementwise([avals[0].shape], avals[0].shape)


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    own = own_kernels(xp)
    if own is not None and avals[0].dtype.kind == "f":
        return lambda x, out=None: own.finite(x, params, out)
    return writing(lambda x: xp.nan_to_num(x, True, *params))


NAN_TO_NUM = in_single(Row("nan_to_num", _infer, _rule, _kernel, (Local(),)))
"""Parameters: what replaces NaN, infinity and minus infinity."""
