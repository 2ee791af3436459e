"""Derive rows with named dims in front of operands and results.

A mapped value is an array with more dims in front, each with a name, which mapped functions do not
see. The derived row asks the original row for the results and the factors of operands without these
dims. Then it adds a factor for each named dim. So axes and shapes in the parameters of the original
row keep their meaning.

Most kernels take more dims in front and get all elements at once, as `Row.stacked` says. Other
kernels work on views without named dims, if a device has one element of each. If it has more, they
are called for each element.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.row import Kernel, KernelMaker, Params, Row, Site, Stack
from gpushard._ops.rule import Dims, Rule
from gpushard._typing import Shape
from gpushard.errors import NamedDimsError

Places: TypeAlias = tuple[tuple[str, ...] | None, ...]
"""For each named dim the mesh axes of more than one device that it lives on; None if it is split
like any dim."""


@functools.lru_cache(maxsize=4096)
def derived(row: Row, dims: tuple[tuple[int, ...], ...], places: Places) -> Row:
    """Derive a row with named dims in front of its results.

    Args:
      row: the row of operands without named dims.
      dims: for each operand the numbers of the named dims that it has in front, ascending.
      places: the mesh axes of each named dim.

    Raises:
      NamedDimsError: the row takes no operands that could have named dims. A row that only moves
        elements raises it when it is bound, if an array among its operands lacks dims.
    """
    if row.creates or not any(dims):
        raise NamedDimsError(
            f"{row.name} takes no mapped operands; call it outside of the mapped function"
        )
    adapter = _InFront(row, dims, places)
    return dataclasses.replace(
        row,
        infer=adapter.infer,
        rule=adapter.rule,
        kernel=adapter.kernel(row.kernel),
        strategies=tuple(strategy.adapted(adapter) for strategy in row.strategies),
        loop=None if row.loop is None else adapter.loop,
        turned=None,
        later=False,
        within=row,
    )


class _InFront:
    """Derives the functions of a row with named dims: an `Adapter`."""

    def __init__(self, row: Row, dims: tuple[tuple[int, ...], ...], places: Places) -> None:
        self._row = row
        self._dims = dims
        self._places = places
        self.lead = len(places)
        self.complete = dims.count(tuple(range(self.lead)))

    def avals(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        return tuple(
            dataclasses.replace(aval, shape=aval.shape[len(dims) :])
            for aval, dims in zip(avals, self._dims, strict=True)
        )

    def params(self, params: Params) -> Params:
        return params

    def loop(self, avals: Sequence[Aval]) -> tuple[Any, ...]:
        assert self._row.loop is not None
        return self._row.loop(self.avals(avals))

    def infer(self, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        sizes = self._sizes([aval.shape for aval in avals])
        return tuple(
            dataclasses.replace(aval, shape=sizes + aval.shape)
            for aval in self._row.infer(self.avals(avals), params)
        )

    def rule(self, avals: Sequence[Aval], params: Params) -> Rule:
        body, lead = self._row.rule_for(self.avals(avals), params), self.lead

        def up(dims: Dims) -> Dims:
            return tuple(None if factor is None else lead + factor for factor in dims)

        named = enumerate(self._places)
        pinned = [(factor, place) for factor, place in named if place is not None]
        return Rule(
            tuple(named + up(of) for named, of in zip(self._dims, body.operands, strict=True)),
            tuple((*range(lead), *up(of)) for of in body.results),
            self._sizes([aval.shape for aval in avals]) + body.sizes,
            frozenset(lead + factor for factor in body.whole),
            (*pinned, *((lead + factor, axes) for factor, axes in body.pinned)),
        )

    def kernel(self, make: KernelMaker) -> KernelMaker:
        def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
            inside = self.avals(avals)
            stack = None
            if self._row.stacked is not None:
                shapes = tuple([aval.shape for aval in inside])
                stack = self._row.stacked(params, shapes, self._dims, self.lead)
            if stack is not None:
                return self._at_once(make, xp, avals, stack)
            ranks = [len(aval.shape) for aval in avals]
            return functools.partial(self._call, xp, make(xp, inside, params), ranks)

        return kernel

    local = kernel

    def finish(self, make: Any) -> Any:
        return lambda xp, avals, params: make(xp, self.avals(avals), params)

    def _at_once(self, make: KernelMaker, xp: Any, avals: Sequence[Aval], stack: Stack) -> Kernel:
        """Make a kernel that takes all elements of named dims at once."""
        fronts = [
            _front(dims, self.lead, between)
            if between is not None and (aval.shape or number in stack.whole)
            else None
            for number, (dims, aval, between) in enumerate(
                zip(self._dims, avals, stack.between, strict=True)
            )
        ]
        if not any(fronts):
            return make(xp, avals, stack.params)
        whole = [number for number in stack.whole if fronts[number]]
        shapes = self._shapes(fronts, whole, [aval.shape for aval in avals])
        aligned = [
            dataclasses.replace(aval, shape=shape)
            for aval, shape in zip(avals, shapes, strict=True)
        ]
        body = make(xp, aligned, stack.params)
        indices = [None if front is None else _index(front) for front in fronts]

        def views(operands: Sequence[Any]) -> list[Any]:
            viewed = [
                x if index is None else x[index] for x, index in zip(operands, indices, strict=True)
            ]
            if whole:
                shapes = self._shapes(fronts, whole, [np.shape(x) for x in operands])
                for number in whole:
                    viewed[number] = xp.broadcast_to(viewed[number], shapes[number])
            return viewed

        def of_two(x: Any, y: Any, **out: Any) -> Any:  # most kernels; takes half the time
            return body(x if first is None else x[first], y if second is None else y[second], **out)

        if len(indices) == 2 and not (whole or self._row.positional):
            first, second = indices
            return of_two
        if not self._row.positional:
            return lambda *operands, **out: body(*views(operands), **out)
        ranked = [front for front, aval in zip(fronts, avals, strict=True) if aval.shape]

        def with_site(site: Site, *operands: Any, **out: Any) -> Any:
            of = iter(ranked)
            starts = tuple([start and _in_front(next(of), start, 0) for start in site.operands])
            return body(Site(starts, site.result, site.shape), *views(operands), **out)

        return with_site

    def _shapes(
        self, fronts: Sequence[_Front | None], whole: Sequence[int], shapes: Sequence[Shape]
    ) -> list[Shape]:
        """Return the shapes of operands inside the kernel."""
        sizes = self._sizes(shapes)
        inner_shapes = [
            _in_front(front, shape, 1) for front, shape in zip(fronts, shapes, strict=True)
        ]
        for number in whole:
            inner_shapes[number] = sizes + inner_shapes[number][self.lead :]
        return inner_shapes

    def _sizes(self, shapes: Sequence[Shape]) -> Shape:
        """Return the length of each named dim in operands, or in their blocks."""
        sizes = [1] * self.lead
        for dims, shape in zip(self._dims, shapes, strict=True):
            for dim, n in zip(dims, shape, strict=False):
                sizes[dim] = n
        return tuple(sizes)

    def _call(
        self, xp: Any, body: Kernel, ranks: Sequence[int], *operands: Any, out: Any = None
    ) -> Any:
        """Call the kernel of the body for each element of the named dims."""
        site: tuple[Site, ...] = ()
        if self._row.positional:
            site, operands = (self._inside(operands[0], ranks),), operands[1:]
        extent = self._sizes([np.shape(x) for x in operands])
        outs = () if out is None else out if isinstance(out, tuple) else (out,)
        if math.prod(extent) == 1:
            blocks = [
                x.reshape(x.shape[len(dims) :]) if dims else x
                for x, dims in zip(operands, self._dims, strict=True)
            ]
            targets = [target.reshape(target.shape[self.lead :]) for target in outs]
            if outs:
                body(*site, *blocks, out=_one_or_all(targets))
                return out
            results = _each(body(*site, *blocks))
            return _one_or_all([xp.asarray(x).reshape(extent + np.shape(x)) for x in results])
        rows = []
        for at in np.ndindex(*extent):
            blocks = [
                x[(*(at[dim] for dim in dims), ...)] if dims else x
                for x, dims in zip(operands, self._dims, strict=True)
            ]
            if outs:
                body(*site, *blocks, out=_one_or_all([target[(*at, ...)] for target in outs]))
            else:
                rows.append([xp.asarray(x) for x in _each(body(*site, *blocks))])
        if outs:
            return out
        columns = zip(*rows, strict=True)
        return _one_or_all([xp.stack(of).reshape(extent + of[0].shape) for of in columns])

    def _inside(self, site: Site, ranks: Sequence[int]) -> Site:
        """Return the site of blocks in operands and results without named dims."""
        arrays = iter([len(dims) for dims, rank in zip(self._dims, ranks, strict=True) if rank])
        starts = tuple(start[next(arrays) :] if start else start for start in site.operands)
        return Site(starts, site.result[self.lead :], site.shape[self.lead :])


_Front: TypeAlias = "tuple[tuple[int | None, ...], int]"
"""The dims of an operand that come in front, None for a new dim of length 1; and how many dims of
the operand they replace."""


def _front(dims: tuple[int, ...], lead: int, more: int) -> _Front | None:
    """Return the dims in front of an operand with some named dims; None for an unchanged operand.

    >>> _front((1,), 2, 1), _front((0, 1), 2, 0)
    (((None, 0, None), 1), None)
    """
    if len(dims) == lead and not more:
        return None
    places = [dims.index(dim) if dim in dims else None for dim in range(lead)]
    return (*places, *(None,) * more), len(dims)


def _in_front(front: _Front | None, shape: Shape, other: int) -> Shape:
    """Put lengths, or starts, of other dims in front of those of an operand."""
    if front is None:
        return shape
    places, count = front
    return (*[other if place is None else shape[place] for place in places], *shape[count:])


def _index(front: _Front) -> tuple[Any, ...]:
    """Return the index of a view with these dims in front; blocks may differ in shape."""
    places, _ = front
    return (*[None if place is None else slice(None) for place in places], ...)


def _each(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _one_or_all(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
