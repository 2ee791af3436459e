"""Random functions of random graphs: transformed, they do what plain calls do."""

import copy
import random
from typing import Any

import pytest

import gpushard as gs
from gpushard import nnx
from tests.nnx.graphs import Plain, difference, graph, objects_of, program, static
from tests.share import some

P = gs.P
BLOCKS = 20


def arguments(source: random.Random, *, arrays: bool = True) -> tuple[Any, dict[str, Any]]:
    """Return one or two graphs, which may share objects, and maybe one by name."""
    args = [graph(source, arrays=arrays) for _ in range(source.randrange(1, 3))]
    if len(args) == 2 and source.random() < 0.5:
        args[1].shared = source.choice(objects_of(args[0]))
    if source.random() < 0.1:
        args.append(args[0])
    kwargs = {"k": graph(source, size=3, arrays=arrays)} if source.random() < 0.3 else {}
    return args, kwargs


def check(transform: Any, seed: int, *, blocks: bool = False, named: bool = True) -> None:
    source = random.Random(seed)
    args, kwargs = arguments(source)
    kwargs = kwargs if named else {}
    args2, kwargs2 = copy.deepcopy((args, kwargs))
    same = list(zip(objects_of([args, kwargs]), objects_of([args2, kwargs2]), strict=True))[1:]
    same = [(x, y) for x, y in same if x is not kwargs]
    f = program(seed, blocks=blocks)
    out2 = f(*args2, **kwargs2)
    called = transform(f)
    out = called(*args, **kwargs)
    assert difference((args, kwargs, out), (args2, kwargs2, out2), same) == "", seed
    # What was traced is used again, for what another call of the same kind gets.
    again = copy.deepcopy((args, kwargs))
    other = copy.deepcopy(again)
    out2, out = f(*other[0], **other[1]), called(*again[0], **again[1])
    assert difference((*again, out), (*other, out2)) == "", seed


@pytest.mark.one_of(2)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_jit_equals_the_plain_call(block: int) -> None:
    for seed in range(some(12, 75)):
        check(nnx.jit, 1000 * block + seed)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_shard_map_equals_the_plain_call(block: int) -> None:
    mesh = gs.make_mesh((2,), "x")
    for seed in range(some(6, 25)):
        spec = [P(), P("x"), None][seed % 3]
        if spec == P("x"):  # a keyword argument comes whole
            transform = lambda f: nnx.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))  # noqa: E731
            check(transform, 1000 * block + seed, blocks=True, named=False)
        else:
            transform = lambda f, spec=spec: nnx.shard_map(  # noqa: E731
                f, mesh=mesh, in_specs=spec, out_specs=spec
            )
            check(transform, 1000 * block + seed)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_function_that_raises_has_changed_nothing(block: int) -> None:
    mesh = gs.make_mesh((2,), "x")
    for seed in range(some(3, 10)):
        source = random.Random(1000 * block + seed)
        args, kwargs = arguments(source)
        before = copy.deepcopy((args, kwargs))
        same = list(zip(objects_of([args, kwargs]), objects_of(list(before)), strict=True))[1:]

        def f(*args: Any, **kwargs: Any) -> None:
            program(seed)(*args, **kwargs)  # noqa: B023
            raise ArithmeticError

        whole = nnx.shard_map(mesh=mesh, in_specs=P(), out_specs=P())
        for transform in (nnx.jit, whole):
            with pytest.raises(ArithmeticError):
                transform(f)(*args, **kwargs)
            same = [(x, y) for x, y in same if x is not kwargs]
            assert difference((args, kwargs), before, same) == ""


def test_the_comparison_finds_differences() -> None:
    a, b = Plain(), Plain()
    a.x = a.y = nnx.Param(gs.numpy.ones(2))
    b.x, b.y = nnx.Param(gs.numpy.ones(2)), nnx.Param(gs.numpy.ones(2))
    assert "shared" in difference(a, b)
    b.y = b.x
    assert difference(a, b) == ""
    assert difference(a, b, [(a, Plain())]) != ""
    b.x.value = gs.numpy.zeros(2)
    assert "value" in difference(a, b)
    assert {repr(static(random.Random(n))) for n in range(40)} >= {"None", "True", "-0.0"}
