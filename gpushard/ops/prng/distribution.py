"""Rows of distributions: one number for each element, of its position, a key and parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError
from gpushard.frozen import dataclass
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.prng.blocks import each_block, even, words_of
from gpushard.ops.prng.stream import Stream
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Kernel, Params, Row, Site, Stack
from gpushard.ops.rule import Dims, Rule, aligned
from gpushard.runtime.namespace import own_kernels
from gpushard.typing import Shape

DOUBLE, INT, WORD, PAIR = map(np.dtype, (np.float64, np.int64, np.uint32, np.uint64))


@dataclass(frozen=True)
class Domain:
    """Which numbers a parameter of a distribution may be."""

    # Takes numbers; says which of them are possible. None where all are.
    contains: Callable[[Any], Any] | None
    text: str = ""  # the same in words


@dataclass(frozen=True, eq=False)
class Distribution(Row):
    """The row of a distribution, and what its arguments may be; parameters: (shape, dtype).

    The row's operands are keys of 64 bits, and then the distribution's parameters. Dims of the keys
    come before the shape in the result: every key counts on its own.
    """

    # Name and domain of each parameter. Numbers on devices are not checked: where they are
    # impossible the result is NaN, -1 for integers.
    parameters: tuple[tuple[str, Domain], ...] = ()
    title: str = ""  # what users call it
    kinds: str = "f"  # which kinds of types the result may have
    # The type of the result where users give none: of the first of these kinds.
    default: Dtype = DOUBLE
    __repr__ = Row.__repr__


def floats(dtype: Dtype) -> Dtype:
    """Return the type that floats are worked out in: narrow ones in single precision."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def doubles(dtype: Dtype) -> Dtype:
    """Return float64, whatever the result is."""
    return DOUBLE


def distribution(
    name: str,
    draw: Callable[..., Any],
    code: str,
    work: Callable[[Dtype], Dtype] = floats,
    kinds: str = "f",
    *,
    bounded: bool = False,
    last: Callable[..., Any] | None = None,
    extra: tuple[int, ...] = (),
    **domains: Domain,
) -> Distribution:
    """Return the row of a distribution.

    Args:
      name: what users call it.
      draw: takes a stream, the type to work in, and the parameters; gives a number for each
        element.
      code: the same for GPUs: a function of `kernels/random.cuh`, which the
        backend's `draw` calls.
      work: the type to work in, which parameters are converted to, from that of the result.
      kinds: which kinds of types the result may have.
      bounded: whether `draw` takes the type of the result too, to stay within bounds when rounded
        to it.
      last: takes the namespace, the local array of drawn numbers, and the last of the parameters
        as they are, one for each entry of `extra`; gives the result. Where there is one the last
        dim is not split.
      extra: dims that these parameters have beyond those that broadcast with the result; they are
        not split.
      **domains: of the parameters, by name.
    """
    sampler = _Sampler(name, draw, code, work, bounded, last, extra)
    return Distribution(
        f"random.{name}",
        sampler.infer,
        sampler.rule,
        sampler.kernel,
        (Local("the result is made of all that is drawn along the last dim" if last else ""),),
        positional=True,
        stacked=sampler.stacked,
        # The types that Python numbers get; the kernel knows more of them.
        loop=lambda avals: tuple(aval.dtype for aval in avals),
        parameters=tuple(domains.items()),
        title=name,
        kinds=kinds,
        default={"f": DOUBLE, "u": PAIR, "b": np.dtype(bool)}.get(kinds[0], INT),
    )


@dataclass(frozen=True, eq=False)
class _Sampler:
    """What the row of a distribution does; fields as for `distribution`."""

    name: str
    draw: Callable[..., Any]
    code: str
    work: Callable[[Dtype], Dtype]
    bounded: bool
    last: Callable[..., Any] | None
    extra: tuple[int, ...]

    def broadcasting(self, shapes: Sequence[Shape]) -> list[tuple[Shape, Shape]]:
        """Return of each parameter the dims that broadcast with the result, and the others."""
        more = (0,) * (len(shapes) - len(self.extra)) + self.extra
        ends = [len(shape) - n for shape, n in zip(shapes, more, strict=True)]
        return [(shape[:end], shape[end:]) for shape, end in zip(shapes, ends, strict=True)]

    def infer(self, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        """Check that everything fits, and say what the result is."""
        shape, dtype = params
        whole = (*avals[0].shape, *shape)
        shapes = [own for own, _ in self.broadcasting([aval.shape for aval in avals[1:]])]
        try:
            fits = np.broadcast_shapes(whole, *shapes) == whole
        except ValueError:
            fits = False
        if not fits:
            raise ArgumentError(
                f"{self.name}: parameters of shapes {', '.join(map(str, shapes))} do not broadcast "
                f"to shape={shape}; leave shape out, or give one that they fit",
                argument="shape",
                shape=shape,
                shapes=tuple(shapes),
            )
        return (Aval(whole, dtype),)

    def rule(self, avals: Sequence[Aval], params: Params) -> Rule:
        """Return which dims belong together."""
        whole = (*avals[0].shape, *params[0])
        sizes = [*whole]
        operands: list[Dims] = [tuple(range(len(avals[0].shape)))]
        for own, more in self.broadcasting([aval.shape for aval in avals[1:]]):
            operands.append((*aligned(own, whole), *range(len(sizes), len(sizes) + len(more))))
            sizes += more
        kept = range(len(whole) - (self.last is not None), len(sizes))
        return Rule(tuple(operands), (tuple(range(len(whole))),), tuple(sizes), frozenset(kept))

    def stacked(
        self, params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
    ) -> Stack:
        """Say that dims in front are those of keys: a key that lacks some is drawn from again."""
        ndim = len(shapes[0]) + len(params[0])
        between = [ndim - len(own) for own, _ in self.broadcasting(shapes[1:])]
        return Stack(params, (0, *between), frozenset([0]))

    def kernel(self, xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        """Make the kernel."""
        shape, dtype = params
        whole = (*avals[0].shape, *shape)
        work, last = self.work(dtype), self.last
        draw = functools.partial(self.draw, into=dtype) if self.bounded else self.draw
        own = own_kernels(xp) if dtype.isbuiltin == 1 else None

        def drawn(site: Site, keys: Any, parameters: Sequence[Any], out: Any) -> Any:
            if own is not None:
                own.draw(self.code, work, words_of(keys), parameters, out, site.result, whole)
                return out
            flats = [_flat(xp, p, site.shape, work) for p in parameters]
            flat = out.ravel()

            def fill(first: int, stop: int, stream: Stream) -> None:
                parts = [even(xp, p[first:stop]) if p.ndim else p for p in flats]
                flat[first:stop] = draw(stream, work, *parts)[: stop - first]

            each_block(xp, words_of(keys), site.result, site.shape, whole, fill)
            return out

        def sample(site: Site, keys: Any, *parameters: Any, out: Any = None) -> Any:
            out = xp.empty(site.shape, dtype) if out is None else out
            if last is None:
                return drawn(site, keys, parameters, out)
            count = len(parameters) - len(self.extra)
            numbers = drawn(site, keys, parameters[:count], xp.empty(site.shape, work))
            out[...] = last(xp, numbers, *[xp.asarray(p, work) for p in parameters[count:]])
            return out

        return sample


def _flat(xp: Any, parameter: Any, shape: Shape, work: Dtype) -> Any:
    """Return a parameter with an element for each of a block; one without dims stays as it is."""
    if not np.ndim(parameter):
        return parameter.astype(work)
    cast = parameter.astype(work, copy=False)
    return xp.broadcast_to(cast, shape).ravel()
