"""What can be asked of the stages of a compiled function, and of which."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import stages, tree

STAGES = (stages.Traced, stages.Lowered, stages.Compiled)

ATTRIBUTES = {
    # attribute: whether Traced, Lowered and Compiled have it
    "args_info": (True, True, True),
    "donate_argnums": (True, True, True),
    "in_avals": (True, True, True),
    "in_tree": (True, True, True),
    "out_info": (True, True, True),
    "out_tree": (True, True, True),
    "fun_name": (True, False, False),
    "jaxpr": (True, False, False),
    "lower": (True, False, False),
    "compile": (False, True, False),
    "compiler_ir": (False, True, False),
    "from_flat_info": (False, True, False),
    "as_text": (False, True, True),
    "cost_analysis": (False, True, True),
    "call": (False, False, True),
    "input_formats": (False, False, True),
    "input_layouts": (False, False, True),
    "input_shardings": (False, False, True),
    "memory_analysis": (False, False, True),
    "output_formats": (False, False, True),
    "output_layouts": (False, False, True),
    "output_shardings": (False, False, True),
    "runtime_executable": (False, False, True),
}

NOT_HERE = {"lojax", "out_avals"}
"""What JAX's have of their own insides."""


def test_each_stage_has_its_attributes() -> None:
    public = [{name for name in dir(stage) if not name.startswith("_")} for stage in STAGES]
    for name in sorted({*ATTRIBUTES, *set.union(*public)}):
        assert tuple(name in own for own in public) == ATTRIBUTES[name], name


def test_those_of_jax_are_there(jax: ModuleType) -> None:
    theirs = jax.stages
    for mine in STAGES:
        own = {name for name in dir(getattr(theirs, mine.__name__)) if not name.startswith("_")}
        assert own - NOT_HERE <= set(dir(mine))


def test_results_are_known_at_each_stage() -> None:
    def f(x: Any, *, y: Any) -> Any:
        return {"sum": x + y, "key": gs.random.key(0), "none": None}

    traced = gs.jit(f).trace(gs.numpy.ones((2, 3)), y=1)
    lowered = traced.lower()
    for stage in (traced, lowered, lowered.compile()):
        assert stage.out_tree == tree.structure({"sum": 0, "key": 0, "none": None})
        made = stage.out_info
        assert (made["sum"].shape, made["sum"].dtype) == ((2, 3), np.float64)
        assert made["none"] is None and made["key"].shape == ()
        assert made["sum"].sharding == gs.numpy.ones((2, 3)).sharding
        assert stage.args_info[1]["y"].shape == ()


def flat(**changes: Any) -> Any:
    old = gs.jit(lambda x, y: (x * y, x.sum(), y.max()), donate_argnums=1).lower(
        gs.numpy.ones(3), gs.numpy.ones(3)
    )
    given = {
        "lowering": old.compiler_ir(),
        "in_tree": old.in_tree,
        "in_avals": tree.leaves(old.in_avals),
        "donate_argnums": (1,),
        "out_tree": old.out_tree,
    }
    return stages.Lowered.from_flat_info(**{**given, **changes})


def test_a_stage_is_made_of_a_graph() -> None:
    made = flat()
    x, y = gs.numpy.ones(3), gs.numpy.full(3, 2.0)
    first, second, third = made.compile()(x, y)
    assert (first.tolist(), float(second), float(third)) == ([2, 2, 2], 3, 2) and y.is_deleted()
    assert made.donate_argnums == (1,) and not x.is_deleted()


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no graph": (lambda: flat(lowering="x"), TypeError, "lowering is a str"),
    "arguments": (lambda: flat(in_avals=[]), ValueError, "takes .* float64"),
    "shapes": (
        lambda: flat(in_avals=[gs.ShapeDtypeStruct((4,), "f8")] * 2), ValueError, r"\(4,\)",
    ),
    "results": (lambda: flat(out_tree=tree.structure(0)), ValueError, "out_tree 1"),
    "donated": (lambda: flat(donate_argnums=(2,)), ValueError, "there are 2 arguments"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    call, builtin, message = REFUSED[name]
    with pytest.raises(builtin, match=message):
        call()


def test_every_value_of_a_long_text_has_a_name_of_its_own() -> None:
    count = 26 + 26**2 + 26**3 + 5
    text = gs.make_jaxpr(lambda x: [x + float(n) for n in range(count)])(gs.numpy.zeros(2))
    lines = str(text).splitlines()[1:-1]
    assert len({line.split(":")[0] for line in lines}) == count
