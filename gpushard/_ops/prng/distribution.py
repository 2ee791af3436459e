"""Rows of distributions: each element depends on its position, a key and parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.prng.blocks import each_block, even, words_of
from gpushard._ops.prng.stream import Stream
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, Site, Stack
from gpushard._ops.rule import Dims, Rule, aligned
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import Shape
from gpushard.errors import ArgumentError

DOUBLE, INT, WORD, PAIR = map(np.dtype, (np.float64, np.int64, np.uint32, np.uint64))


@dataclass(frozen=True)
class Domain:
    """The valid numbers of a parameter of a distribution."""

    # Takes numbers, and returns whether each is valid. None if all are.
    contains: Callable[[Any], Any] | None
    text: str = ""  # a description of the valid numbers


@dataclass(frozen=True, eq=False)
class Distribution(Row):
    """The row of a distribution with the domains of its arguments; parameters: (shape, dtype).

    The row's operands are keys of 64 bits, and then the distribution's parameters. In the result,
    dims of the keys come before the shape. Each key counts its elements separately.
    """

    # Name and domain of each parameter. Numbers on devices are not checked. Most functions return
    # NaN for invalid ones, or -1 for integers.
    parameters: tuple[tuple[str, Domain], ...] = ()
    title: str = ""  # the name for users
    kinds: str = "f"  # the kinds of types of the result
    # The default type of the result: of the first kind.
    default: Dtype = DOUBLE
    __repr__ = Row.__repr__


def floats(dtype: Dtype) -> Dtype:
    """Return the type to compute floats in: single precision for narrow floats."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def doubles(dtype: Dtype) -> Dtype:
    """Return float64, for every type of the result."""
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
    """Make the row of a distribution.

    Args:
      name: the name for users.
      draw: takes a stream, the working type, and the parameters; returns a number for each element.
      code: the function of `kernels/random.cuh` that the backend's `draw` calls on GPUs.
      work: returns the working type for the type of the result; parameters are converted to it.
      kinds: the kinds of types of the result.
      bounded: whether `draw` also takes the type of the result, to stay within bounds after
        rounding.
      last: takes the namespace, the local array of drawn numbers, and the last parameters
        unchanged, one for each entry of `extra`; returns the result. With it, the last dim is not
        split.
      extra: the number of dims of these parameters that do not broadcast with the result; they are
        not split.
      **domains: domains of the parameters, by name.
    """
    sampler = _Sampler(name, draw, code, work, bounded, last, extra)
    return Distribution(
        f"random.{name}",
        sampler.infer,
        sampler.rule,
        sampler.kernel,
        (Local("each result needs all numbers drawn along the last axis" if last else ""),),
        positional=True,
        stacked=sampler.stacked,
        # The types that Python numbers get.
        loop=lambda avals: tuple(aval.dtype for aval in avals),
        parameters=tuple(domains.items()),
        title=name,
        kinds=kinds,
        default={"f": DOUBLE, "u": PAIR, "b": np.dtype(bool)}.get(kinds[0], INT),
    )


@dataclass(frozen=True, eq=False)
class _Sampler:
    """The functions of the row of a distribution; for the fields see `distribution`."""

    name: str
    draw: Callable[..., Any]
    code: str
    work: Callable[[Dtype], Dtype]
    bounded: bool
    last: Callable[..., Any] | None
    extra: tuple[int, ...]

    def broadcasting(self, shapes: Sequence[Shape]) -> list[tuple[Shape, Shape]]:
        """Split the dims of parameters into those that broadcast with the result, and others."""
        more = (0,) * (len(shapes) - len(self.extra)) + self.extra
        ends = [len(shape) - n for shape, n in zip(shapes, more, strict=True)]
        return [(shape[:end], shape[end:]) for shape, end in zip(shapes, ends, strict=True)]

    def infer(self, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        """Check that parameters and shape fit, and infer the result."""
        shape, dtype = params
        whole = (*avals[0].shape, *shape)
        shapes = [dims for dims, _ in self.broadcasting([aval.shape for aval in avals[1:]])]
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
        """Return the factor rule."""
        whole = (*avals[0].shape, *params[0])
        sizes = [*whole]
        operands: list[Dims] = [tuple(range(len(avals[0].shape)))]
        for dims, more in self.broadcasting([aval.shape for aval in avals[1:]]):
            operands.append((*aligned(dims, whole), *range(len(sizes), len(sizes) + len(more))))
            sizes += more
        unsplit = range(len(whole) - (self.last is not None), len(sizes))
        return Rule(tuple(operands), (tuple(range(len(whole))),), tuple(sizes), frozenset(unsplit))

    def stacked(
        self, params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
    ) -> Stack:
        """Use dims in front as dims of keys; a key that lacks some is used for each element."""
        ndim = len(shapes[0]) + len(params[0])
        between = [ndim - len(broadcast) for broadcast, _ in self.broadcasting(shapes[1:])]
        return Stack(params, (0, *between), frozenset([0]))

    def kernel(self, xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        """Make the kernel."""
        shape, dtype = params
        whole = (*avals[0].shape, *shape)
        work, last = self.work(dtype), self.last
        draw = functools.partial(self.draw, into=dtype) if self.bounded else self.draw
        kernels = own_kernels(xp) if dtype.isbuiltin == 1 else None

        def drawn(site: Site, keys: Any, parameters: Sequence[Any], out: Any) -> Any:
            if kernels is not None:
                kernels.draw(self.code, work, words_of(keys), parameters, out, site.result, whole)
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
    """Expand a parameter to an element for each of a block; one without dims does not change."""
    if not np.ndim(parameter):
        return parameter.astype(work)
    cast = parameter.astype(work, copy=False)
    return xp.broadcast_to(cast, shape).ravel()
