"""Pictures of shardings, spans of traces, and what a report of an error needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, debug, profiler


@pytest.fixture
def x() -> gs.Array:
    """An array over a grid of devices."""
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    return gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, P("x", "y")))


def test_visualize_array_sharding_draws_every_device(x: gs.Array, capsys: Any) -> None:
    debug.visualize_array_sharding(x)
    text = capsys.readouterr().out
    assert all(str(n) in text for n in range(8))


def test_visualize_sharding_takes_a_shape_and_options(x: gs.Array, capsys: Any) -> None:
    debug.visualize_sharding(
        (8, 6), x.sharding, use_color=False, scale=1.0, min_width=9, max_width=80
    )
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("shape", [(16,), (8, 6), (8, 2, 2), (4, 2, 2, 2)])
def test_visualize_sharding_takes_any_rank(shape: tuple[int, ...], capsys: Any) -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    spec = P("x", *["y"] * (len(shape) > 1))
    debug.visualize_sharding(shape, gs.NamedSharding(mesh, spec))
    assert capsys.readouterr().out


def test_visualize_draws_uneven_blocks(capsys: Any) -> None:
    debug.visualize_sharding((9,), gs.NamedSharding(gs.make_mesh((4,), "x"), P("x")))
    assert capsys.readouterr().out


def test_a_color_map_colours_devices(x: gs.Array, capsys: Any) -> None:
    debug.visualize_sharding((8, 6), x.sharding, color_map={d: "red" for d in gs.devices()})
    assert capsys.readouterr().out


def test_pictures_of_pmap_shardings(capsys: Any) -> None:
    debug.visualize_array_sharding(gs.pmap(lambda x: x)(np.ones((8, 2))))
    assert capsys.readouterr().out


def test_inspect_array_sharding_calls_with_the_sharding(x: gs.Array) -> None:
    seen: list[Any] = []
    debug.inspect_array_sharding(x, callback=seen.append)
    assert seen == [x.sharding]


def test_inspect_array_sharding_works_in_traced_and_mapped_functions(x: gs.Array) -> None:
    seen: list[Any] = []

    def f(v: Any) -> Any:
        debug.inspect_array_sharding(v, callback=seen.append)
        return v * 2

    gs.jit(f)(x)
    spec = P("x", "y")
    gs.shard_map(f, x.sharding.mesh, spec, spec)(x)
    gs.effects_barrier()
    assert len(seen) >= 2 and seen[0].is_equivalent_to(x.sharding, 2)


def test_notebooks_get_a_picture_without_data(x: gs.Array) -> None:
    with gs.transfer_guard("disallow"):
        assert "<svg" in x._repr_html_()  # type: ignore[attr-defined]


def test_annotate_function_is_a_decorator() -> None:
    @profiler.annotate_function
    def f(n: int) -> int:
        return n + 1

    assert f(1) == 2 and f.__name__ == "f"
    assert profiler.annotate_function(f, name="named", why=3)(2) == 3


def test_annotations_take_more_than_a_name() -> None:
    with profiler.TraceAnnotation("load", file=3), profiler.StepTraceAnnotation("s", step_num=1):
        pass


def test_a_trace_holds_reads_of_values(x: gs.Array, tmp_path: Path) -> None:
    with profiler.trace(tmp_path):
        (x + 1).copy_to_host_async()
        np.asarray(x + 2)
    events = json.loads((tmp_path / "gpushard.trace.json").read_text())["traceEvents"]
    assert {"copy_to_host_async", "Array._value"} <= {event["name"] for event in events}


def test_show_config_prints_versions_devices_and_settings(capsys: Any) -> None:
    gs.show_config()
    text = capsys.readouterr().out
    assert all(word in text for word in ("numpy", "devices", "settings", "host_devices"))
