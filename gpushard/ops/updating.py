"""Operations that replace a part of an array, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import run
from gpushard.movement.planning.dims import Piece
from gpushard.movement.planning.update import Touched
from gpushard.movement.planning.windows import started
from gpushard.movement.reshard import plan_for
from gpushard.movement.update import Overlay, overlay_of, overlay_of_single, rewrite, touched_by
from gpushard.ops.layout import in_sharding
from gpushard.ops.operand import Operand, Scalar, Sharded
from gpushard.ops.placing import placed
from gpushard.ops.row import Params, Row
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray


class Update:
    """One row that replaces a part, for operands of particular shapes, types and layouts.

    The result is laid out like the first operand, and shares with it what the part does not touch.

    Args:
      row: the operation.
      operands: what is known of its operands.
      params: its parameters.
      runtime: of the devices.
      out: how the result is to be laid out; None for like the first operand.
    """

    nbytes = 2000
    """Bytes that this program takes, about."""

    def __init__(
        self,
        row: Row,
        operands: Sequence[Operand],
        params: Params,
        runtime: Runtime,
        out: Sharding | None = None,
    ) -> None:
        x = operands[0]
        if not isinstance(x, Sharded):
            raise ArgumentTypeError(
                f"{row.name} of an array on the host; place it with device_put first", argument="x"
            )
        assert row.moves is not None and row.moves.starts is not None
        (aval,) = row.infer([operand.aval for operand in operands], params)
        self.name = row.name
        self.results = (in_sharding(aval, out or x.sharding),)
        self.committed = x.committed
        piece = row.moves.how((), params)
        assert isinstance(piece, Piece)
        self._piece, self._starts = piece, row.moves.starts(params)
        self._of_element = isinstance(operands[1], Scalar)
        self._element = aval.dtype.type

    def run(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> list[ShardedBuffer]:
        """Make the array with the part replaced.

        Args:
          operands: the buffer, and new values unless they are a number.
          numbers: the element if that is what replaces the part, then the starts of the part.

        Raises:
          OutOfMemoryError: a device has no room.
        """
        base = operands[0]
        value = self._element(numbers[0]) if self._of_element else operands[1]
        starts = tuple(numbers[self._of_element :])
        piece = started(self._piece, starts, self._starts) if starts else self._piece
        touched = touched_by(base, piece)
        overlay = overlay_for(base, touched, value, self.name)
        result, tiling = rewrite(base, overlay, self.name), self.results[0].tiling
        if tiling is not result.tiling:
            result = run(plan_for(result, tiling), (result,), self.name)
        return [result]


def overlay_for(
    base: ShardedBuffer, touched: Touched, value: np.generic | HostArray | ShardedBuffer, name: str
) -> Overlay:
    """Return new values of a part where they can be written from.

    Args:
      base: what they are for; only how it is laid out matters.
      touched: the blocks that the part touches.
      value: an element, data of the part's shape, or an array of size 1; of the dtype of `base`.
      name: of the operation, for errors.

    Raises:
      OutOfMemoryError: a device has no room.
      ExecutionError: some value is not there; only by the host, who waits for it.
    """
    if isinstance(value, np.generic):
        return Overlay(touched, constant=value)
    if not touched.blocks:
        return Overlay(touched)
    if not isinstance(value, ShardedBuffer):
        assert touched.part is not None
        value = placed(base.runtime, value, touched.part)
    elif value.tiling.shape != touched.piece.shape:
        return overlay_of_single(base, touched, value, name)
    return overlay_of(base, value, touched)
