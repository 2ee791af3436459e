"""Compute values again in each region that reads them, rather than write and read them.

An example: a softmax over the first axis of `x`, of 4096 x 4096 numbers split by rows.

    m = max(x, 0)             no region; the parts of the devices are merged
    e = exp(x - m)            region 1: it writes `e`, 64 MB, and ...
    s = sum(e, 0)             ... the parts of `s`, which are then merged. So it ends there.
    y = e / s                 region 2 reads `e`

Region 2 can compute `e` again from `x` and `m`: it then reads 64 MB of `x`, where it read 64 MB of
`e`. Region 1 no longer writes `e`. So 64 MB less pass memory, for one `exp` more per element.

A value is computed again only if all its readers can do so, since it is written otherwise. That
may leave more kernels: on GPUs it has to save more bytes than pass memory during a launch.
"""

from __future__ import annotations

from gpushard._transforms.fusion.forms import Form
from gpushard._transforms.fusion.region import Region
from gpushard._transforms.fusion.views import RegionView
from gpushard._transforms.graph.graph import Graph, Operation, Var

_MOST = 12
"""Most operations that are done again, where one that calls a function counts as several.

To write and read an element of 4 bytes takes about as long as two functions such as `exp`.
"""

_LAUNCH_BYTES = 16 << 20
"""Bytes that pass the memory of a GPU in the 3 microseconds that it takes to launch a kernel."""

_MOST_READERS = 8
"""Most regions that compute a value again."""

Groups = list[Region | Operation]


def recompute(groups: Groups, views: dict[Var, RegionView], graph: Graph) -> None:
    """Replace regions by others that compute again what they read, where that saves bytes.

    Args:
      groups: the regions and other operations, in order; regions are replaced.
      views: the views among the values.
      graph: the graph of the operations.
    """
    order = {step: number for number, step in enumerate(graph.needed())}
    written = {views[x].base if x in views else x for x in graph.results}  # in any case
    readers: dict[Var, set[int]] = {}
    for number, group in enumerate(groups):
        if isinstance(group, Region):
            for x in group.read:
                readers.setdefault(x, set()).add(number)
        elif views.keys().isdisjoint(group.results):
            written.update(views[x].base if x in views else x for x in group.arrays)
    for group in groups:
        if not isinstance(group, Region):
            continue
        for form in group.forms:
            x = form.step.results[0]
            if x in written or form.step in group.again:
                continue
            if not 1 <= len(readers.get(x, ())) <= _MOST_READERS:
                continue
            chain, leaves = _chain(x, group)
            regions = {at: region for at in readers[x] if isinstance(region := groups[at], Region)}
            read = sum(_nbytes(y) for of in regions.values() for y in leaves if y not in of.read)
            least = 0 if form.serves is None else _LAUNCH_BYTES
            if not chain or _nbytes(x) * (1 + len(regions)) - read <= least:
                continue
            extended = [(at, region.preceded(chain, order)) for at, region in regions.items()]
            fitting = [(at, region) for at, region in extended if region is not None]
            if len(fitting) < len(extended):
                continue
            for at, region in fitting:
                groups[at] = region
            for y in leaves:
                readers.setdefault(y, set()).update(regions)


def _chain(x: Var, region: Region) -> tuple[list[Form], set[Var]]:
    """Return the elementwise operations of a region that compute a value, and what they read.

    There are none if an operation has operands that are moved, or if these are too many.
    """
    form_of = {form.step.results[0]: form for form in region.forms}
    needed, leaves, chain = {x}, set[Var](), list[Form]()
    for form in reversed(region.forms):
        value = form.step.results[0]
        if value not in needed:
            continue
        if form.reduced or form.name:
            leaves.add(value)
            continue
        if form.step.moved or any(view.moved for view in form.views):
            return [], set()
        chain.insert(0, form)
        for view in form.views:
            (needed if view.base in form_of else leaves).add(view.base)
    few = x not in leaves and sum(form.weight for form in chain) <= _MOST
    return (chain if few else []), leaves


def _nbytes(x: Var) -> int:
    """Count the bytes of a value on all devices."""
    return int(x.tiling.volumes.sum()) * x.dtype.itemsize
