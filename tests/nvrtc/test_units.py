"""The real compilers take kernels that move units, meet by shuffles, or keep rows in registers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels import elementwise, fused, reduction, thread_layout
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement
from gpushard._runtime.nests import Load
from tests.gpu import rows
from tests.nvrtc.compiler import Source, nvrtc
from tests.nvrtc.jobs import TARGETS, problem
from tests.nvrtc.toolkits import WHEELS, is_made
from tests.runtime.nests.dealt_nests import dealt, op, statements
from tests.share import some
from tests.softgpu.sources import ADDED

OPTIONS = ("-std=c++17", *ADDED)

pytestmark = pytest.mark.skipif(
    not all(map(is_made, WHEELS)), reason="`python -m tests.nvrtc.toolkits` brings the compilers"
)


def copied(letter: str, reduced: bool, length: int, wide: bool) -> str:
    """Return a kernel that adds a row to a block, or adds up its rows by the threads of a warp."""
    one = np.dtype(letter)
    loads = Load(0, one, (0, 1), (0, 0), (0, 0)), Load(1, one, (1,), (0,), (0,))
    if reduced:
        ops, results = [op("sum", (0,), (one,), one, {0}, (1,))], [(2, (0,))]
    else:
        ops, results = [op("add", (0, 1), (one, one), one, {0, 1})], [(2, (0, 1))]
    nest = dealt(loads, ops, results, 2, along={1} if reduced else ())
    way = thread_layout.threads(nest, [(64, length)])
    assert (way.each > 1) != reduced
    sums = statements(nest, "out0 = in0 + in1")
    text = fused.source(nest, nest.signature(8, wide=wide), sums, way)
    assert text is not None
    return text


def sources() -> Iterator[str]:
    """Yield kernels of each width, in 32 and in 64 bits."""
    for letters, wide in ("bbb", False), ("eee", True), ("bff", False), ("ddd", True):
        types = [*map(np.dtype, letters)]
        statement = Statement("out0 = in0 + in1", "", tuple(types[:2]), (types[2],))
        signature = Signature(tuple(types[:2]), (), (types[2],), 8, wide)
        yield elementwise.source(statement, signature)
    for name, letter in ("sum", "b"), ("amax", "e"), ("amin", "f"), ("prod", "D"):
        one = np.dtype(letter)
        text = reduction.source(name, Signature((one,), (), (one,), 8, False))
        assert text is not None
        yield text
    yield copied("b", False, 64, False)
    yield copied("e", False, 64, True)
    yield copied("f", True, 64, False)
    yield copied("d", True, 300, True)
    yield rows.softmax("b").text((64, 1024))
    yield rows.softmax("f", across=True).text((100, 64))
    yield rows.layer_norm("e").text((64, 8192), wide=True)
    yield rows.layer_norm("f").text((64, 8192))
    yield rows.layer_norm("D").text((64, 1000))
    for seed in range(some(2, 40)):
        kernel = rows.drawn(seed)
        yield kernel.text(rows.lengths_of(kernel, 5, 100))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_kernels_with_units_compile_for_every_architecture(target: tuple[str, int]) -> None:
    version, architecture = target
    for text in sources():
        found = nvrtc(version).compile(Source(text, OPTIONS), architecture)
        assert problem(found) is None and not found.spilled, text
