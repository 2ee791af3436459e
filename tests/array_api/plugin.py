"""A pytest plugin for the public conformance suite: a default mesh, and what became of arrays.

`suite` loads it in every process; it writes what it has seen to a file of its own.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import uuid
from typing import Any

import numpy as np

import gpushard as gs
from gpushard._array import array as array_module
from gpushard._ops import dispatch
from gpushard._ops.row import Case
from tests.array_api.runs import RUNS

_seen: collections.Counter[str] = collections.Counter()
_whole: collections.Counter[str] = collections.Counter()
_outcomes: dict[str, str] = {}
_stack = contextlib.ExitStack()


def pytest_configure(config: Any) -> None:
    mesh = RUNS[os.environ["SUITE_RUN"]]
    if mesh:
        _stack.enter_context(gs.use_mesh(gs.make_mesh(*mesh), "auto"))
    _count_arrays()
    _note_whole_dims()


def _count_arrays() -> None:
    """Count the arrays of 8 elements or more, and those that are split."""
    made, handle = array_module.ConcreteArray.__init__, array_module.ConcreteArray._handle

    def count(x: Any) -> None:
        if x.size >= 8:
            _seen["arrays"] += 1
            tiling = x._data.tiling
            blocks = tiling.assignment.flat[np.asarray(tiling.volumes) > 0]
            _seen["split"] += bool((blocks != blocks[0]).any())

    def counted_init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        count(self)

    def counted_handle(self: Any, *args: Any, **kwargs: Any) -> Any:
        array = handle(self, *args, **kwargs)
        count(array)
        return array

    array_module.ConcreteArray.__init__ = counted_init  # type: ignore[method-assign]
    array_module.ConcreteArray._handle = counted_handle  # type: ignore[method-assign]


def _note_whole_dims() -> None:
    """Note the operations for which a split dim was made whole."""
    choose = dispatch.sharded_call

    def note(case: Case) -> Any:
        call = choose(case)  # checks the operands first
        for dims, x in zip(case.rule.operands, case.operands, strict=True):
            spec = getattr(getattr(x, "sharding", None), "spec", None)
            if spec is not None and any(
                spec.axes(dim) and factor in case.rule.whole for dim, factor in enumerate(dims)
            ):
                _whole[case.row.name] += 1
                break
        return call

    dispatch.sharded_call = note


def pytest_runtest_logreport(report: Any) -> None:
    known = _outcomes.get(report.nodeid, "passed")
    if report.outcome != "passed" and known != "failed":
        _outcomes[report.nodeid] = report.outcome
    else:
        _outcomes.setdefault(report.nodeid, known)


def pytest_sessionfinish(session: Any) -> None:
    is_worker = hasattr(session.config, "workerinput")
    found: dict[str, Any] = {"seen": _seen, "whole": _whole}
    if not is_worker:
        found["outcomes"] = _outcomes
    folder = pathlib.Path(os.environ["SUITE_OUT"])
    (folder / f"{uuid.uuid4()}.json").write_text(json.dumps(found))
    _stack.close()
