"""Rows of distributions: one number for each element, of its position, a key and parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError
from gpushard.frozen import dataclass
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.random.blocks import each_block, even
from gpushard.ops.random.stream import Stream
from gpushard.ops.row import Kernel, Params, Row, Site
from gpushard.ops.rule import Dims, Rule
from gpushard.runtime.own import own_kernels
from gpushard.typing import Shape

_WORD = np.dtype(np.uint32)


@dataclass(frozen=True, eq=False)
class Sampler:
    """What makes the row of a distribution; parameters of the row: (shape, dtype).

    The row's operands are a key, uint32 of shape (..., 2), and then the distribution's parameters.
    Leading dims of the key come before the shape in the result: every key counts on its own.
    """

    name: str
    """What users call it."""

    draw: Callable[..., Any]
    """Takes a stream, the type to work in, and the parameters; gives a number for each element."""

    work: Callable[[Dtype], Dtype]
    """The type to work in, which parameters are converted to, from that of the result."""

    code: str
    """The same for GPUs: a function of `kernels/random.cuh`, which the backend's `draw` calls."""

    bounded: bool = False
    """Whether `draw` takes the type of the result too, to stay within bounds when rounded to it."""

    last: Callable[..., Any] | None = None
    """Takes the namespace, the local array of drawn numbers and the `rows` as they are; gives the
    result. Where there is one the last dim is not split."""

    rows: int = 0
    """How many parameters go to `last`; they come after those of `draw`, and have one more dim
    for each that is named in `extra`."""

    extra: tuple[int, ...] = ()
    """Dims of each of `rows` beyond those that broadcast with the result; not split."""

    def infer(self, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        """Check that everything fits, and say what the result is."""
        shape, dtype = params
        whole = (*avals[0].shape[:-1], *shape)
        own = [aval.shape for aval in avals[1:]]
        for n, more in zip(range(len(own) - self.rows, len(own)), self.extra, strict=True):
            own[n] = own[n][: len(own[n]) - more]
        try:
            fits = np.broadcast_shapes(whole, *own) == whole
        except ValueError:
            fits = False
        if not fits:
            raise ArgumentError(
                f"{self.name}: parameters of shapes {', '.join(map(str, own))} do not broadcast to "
                f"shape={shape}; leave shape out, or give one that they fit",
                argument="shape",
                shape=shape,
                shapes=tuple(own),
            )
        return (Aval(whole, dtype),)

    def rule(self, avals: Sequence[Aval], params: Params) -> Rule:
        """Return which dims belong together: the words of a key are not split."""
        batch, shape = avals[0].shape[:-1], params[0]
        whole = (*batch, *shape)
        sizes = [*whole, 2]
        operands: list[Dims] = [(*range(len(batch)), len(whole))]
        more = (0,) * (len(avals) - 1 - self.rows) + self.extra
        for aval, beyond in zip(avals[1:], more, strict=True):
            dims = _aligned(aval.shape[: len(aval.shape) - beyond], whole)
            for n in aval.shape[len(aval.shape) - beyond :]:
                dims = (*dims, len(sizes))
                sizes.append(n)
            operands.append(dims)
        kept = range(len(whole) - (self.last is not None), len(sizes))
        result = tuple(range(len(whole)))
        return Rule(tuple(operands), (result,), tuple(sizes), frozenset(kept))

    def kernel(self, xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        """Make the kernel."""
        shape, dtype = params
        whole = (*avals[0].shape[:-1], *shape)
        work = self.work(dtype)
        draw = functools.partial(self.draw, into=dtype) if self.bounded else self.draw
        own = own_kernels(xp) if dtype.isbuiltin == 1 else None

        def sample(site: Site, key: Any, *parameters: Any, out: Any = None) -> Any:
            made = xp.empty(site.shape, dtype) if out is None else out
            drawn = made if self.last is None else xp.empty(site.shape, work)
            count = len(parameters) - self.rows
            if own is not None:
                own.draw(self.code, work, key, parameters[:count], drawn, site.result, whole)
                return made if self.last is None else finish(made, drawn, parameters[count:])
            flats = [_flat(xp, p, site.shape, work) for p in parameters[:count]]
            flat = drawn.ravel()

            def fill(first: int, stop: int, stream: Stream) -> None:
                own = [even(xp, p[first:stop]) if p.ndim else p for p in flats]
                flat[first:stop] = draw(stream, work, *own)[: stop - first]

            each_block(xp, key, site.result, site.shape, whole, fill)
            return made if self.last is None else finish(made, drawn, parameters[count:])

        def finish(made: Any, drawn: Any, parameters: Sequence[Any]) -> Any:
            assert self.last is not None
            made[...] = self.last(xp, drawn, *[xp.asarray(p, work) for p in parameters])
            return made

        return sample

    def loop(self, avals: Sequence[Aval]) -> tuple[Dtype, ...]:
        """Return the types that Python numbers get; the kernel knows more of them."""
        return (_WORD, *(aval.dtype for aval in avals[1:]))

    def row(self) -> Row:
        """Return the row."""
        return Row(
            f"random.{self.name}",
            self.infer,
            self.rule,
            self.kernel,
            positional=True,
            loop=self.loop,
        )


def _aligned(own: Shape, whole: Shape) -> Dims:
    lead = len(whole) - len(own)
    return tuple(
        None if n == 1 and whole[lead + dim] != 1 else lead + dim for dim, n in enumerate(own)
    )


def _flat(xp: Any, parameter: Any, shape: Shape, work: Dtype) -> Any:
    """Return a parameter with an element for each of a block; one without dims stays as it is."""
    if not np.ndim(parameter):
        return parameter.astype(work)
    cast = parameter.astype(work, copy=False)
    return xp.broadcast_to(cast, shape).ravel()


def floats(dtype: Dtype) -> Dtype:
    """Return the type that floats are worked out in: narrow ones in single precision."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def doubles(dtype: Dtype) -> Dtype:
    """Return float64, whatever the result is."""
    return np.dtype(np.float64)
