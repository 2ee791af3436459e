"""`gpushard demo`: place real data on a mesh, reshard it through several layouts, analyse it."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpushard as gs
from gpushard._cli import analysis
from gpushard._cli.measure import Measurement, format_bytes, format_seconds, measure_reshard
from gpushard._placement.npy import open_npy
from gpushard._runtime import current_runtime
from gpushard._typing import HostArray, Index, Shape
from gpushard.errors import ArgumentError, MeshError

SUMMARY = "reshard real data through several layouts, and find its principal components"
DESCRIPTION = (
    "Place an array on a mesh of devices, draw how it lies there, reshard it through several "
    "layouts, bring it back and check it bit for bit. Each step shows the bytes that it moved "
    "beside the least that any plan could move, and its speed beside that of a plain NumPy copy "
    "of as many bytes, in brackets; the fastest of three runs counts, for both. Then find the "
    "principal components of the rows where they lie, and compare them with NumPy's, and with "
    "those that scikit-learn finds on the same sharded array."
)

_AXIS_NAMES = "xyzabcdefghijklmnopqrstuvw"
_COMPARED_AT_ONCE = 1 << 18
_MOST_DEVICES = 4096
_SPEC_WIDTH = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--input",
        metavar="FILE.npy",
        help="the data, read shard by shard; the handwritten digits of scikit-learn by default",
    )
    parser.add_argument("--output", metavar="FILE.npy", help="write the checked result to a file")
    parser.add_argument(
        "--devices",
        metavar="N",
        type=_positive,
        help="how many virtual devices; by default as many as --mesh needs, or "
        "GPUSHARD_HOST_DEVICES, or 8",
    )
    parser.add_argument(
        "--mesh",
        metavar="AxB",
        type=_mesh_sizes,
        help="sizes of the axes of the mesh, such as 4x2; by default two, as equal as possible",
    )
    parser.add_argument(
        "--domains",
        metavar="K",
        type=_positive,
        help="how many memory domains the devices fall into; between them data is copied, "
        "within one it can be shared (default: GPUSHARD_HOST_DOMAINS, or 1)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the demo and print every step.

    Returns:
      0 if the data came back bit for bit and the analysis agrees with NumPy's, else 1.

    Raises:
      GpushardError: the arguments, the settings or a file are invalid; nothing was written.
    """
    if options.output is not None:
        _check_output(Path(options.output))
    mesh = _make_mesh(options.mesh, options.devices, options.domains)
    analysis.let_scipy_take_arrays()
    name, data = _open_data(options.input)
    first, *others = [gs.NamedSharding(mesh, s) for s in layouts(mesh.axis_names, data.ndim)]
    _print_facts(name, data, mesh)
    x = _place(data, first)
    print(f"\n{format_spec(first.spec)}, which devices hold which block:")
    gs.debug.visualize_sharding(data.shape, first)
    x = _reshard_through(x, others)
    value = gs.device_get(x)
    if not same_bytes(value, data):
        print("MISMATCH: what came back differs from the input; please report this as a bug")
        return 1
    if not analysis.run(x):
        print("MISMATCH: the analysis differs from NumPy's; please report this as a bug")
        return 1
    if options.output is not None:
        gs.save(options.output, x)
        print(f"written   {options.output}")
    print(f"OK: all {data.nbytes:,} bytes came back, bit for bit as in {name}")
    return 0


def layouts(axes: Sequence[str], ndim: int) -> list[gs.P]:
    """Return the layouts of the demo, in order, for the axes of a mesh and the rank of an array.

    The last equals the first; no two consecutive ones are equal.

    >>> layouts("xy", 2)[1:4]
    [PartitionSpec('y', 'x'), PartitionSpec('x'), PartitionSpec(None, 'y')]
    >>> layouts("x", 3)
    [PartitionSpec('x'), PartitionSpec(None, 'x'), PartitionSpec(), PartitionSpec('x'),
     PartitionSpec(None, None, 'x'), PartitionSpec('x')]
    """
    if ndim == 0:
        return [gs.P()]
    whole = tuple(axes)
    specs = [
        _one_axis_per_dim(whole, ndim),
        _one_axis_per_dim(whole[::-1], ndim),
        gs.P(whole[0]),
        gs.P(*[None] * min(ndim - 1, 1), whole[-1]),
        gs.P(),
        gs.P(whole),
        gs.P(*[None] * (ndim - 1), whole),
        _one_axis_per_dim(whole, ndim),
    ]
    return [spec for i, spec in enumerate(specs) if i == 0 or spec != specs[i - 1]]


def default_mesh(devices: int) -> Shape:
    """Return the two factors of a number of devices that are closest to each other.

    >>> default_mesh(8), default_mesh(16), default_mesh(7)
    ((4, 2), (4, 4), (7, 1))
    """
    short = next(n for n in range(math.isqrt(devices), 0, -1) if devices % n == 0)
    return devices // short, short


def same_bytes(value: HostArray, data: HostArray) -> bool:
    """Test whether two arrays have equal bits, piece by piece; only their byte order may differ."""
    if value.shape != data.shape or value.dtype != data.dtype.newbyteorder("="):
        return False
    pieces = np.nditer(
        [value, data],
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[["readonly"], ["readonly"]],
        op_dtypes=[value.dtype, value.dtype],
        casting="equiv",
        buffersize=_COMPARED_AT_ONCE,
    )
    return all(a.tobytes() == b.tobytes() for a, b in pieces)


def format_spec(spec: gs.P) -> str:
    """Write a spec as users type it.

    >>> format_spec(gs.P("x", None))
    "P('x', None)"
    """
    return f"P({', '.join(map(repr, spec))})"


def _one_axis_per_dim(axes: tuple[str, ...], ndim: int) -> gs.P:
    """Give each dim an axis, and the last dim all remaining axes."""
    return gs.P(*axes[: ndim - 1], *([axes[ndim - 1 :]] if len(axes) >= ndim else []))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def _mesh_sizes(text: str) -> Shape:
    try:
        return tuple(_positive(size) for size in text.split("x"))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be whole numbers with x between them, such as 4x2"
        ) from None


def _check_output(output: Path) -> None:
    """Reject a file that cannot be written before any work is done."""
    reason = None
    if output.is_dir():
        reason = "is a folder; name a file in it"
    elif not output.parent.is_dir():
        reason = f"cannot be written, because there is no folder {output.parent}; create it first"
    if reason is not None:
        raise ArgumentError(f"--output {output} {reason}", argument="output", file=str(output))


def _make_mesh(sizes: Shape | None, devices: int | None, domains: int | None) -> gs.Mesh:
    """Configure devices as the arguments say, and arrange them in a mesh."""
    needed = None if sizes is None else math.prod(sizes)
    if needed is not None and devices not in (None, needed):
        raise MeshError(
            f"--mesh {'x'.join(map(str, sizes or ()))} needs {needed} devices, --devices is "
            f"{devices}; leave out one of them or make them agree",
            argument="mesh",
            sizes=sizes,
            devices=devices,
        )
    count = devices or needed
    if count is not None and count > _MOST_DEVICES:
        raise ArgumentError(
            f"{count} devices are too many for the demo; use at most {_MOST_DEVICES}",
            argument="devices",
            devices=count,
        )
    wanted = {"host_devices": count, "host_domains": domains}
    before = current_runtime.settings()
    changes = {k: v for k, v in wanted.items() if v not in (None, getattr(before, k))}
    if changes:
        gs.configure(**changes)
    sizes = sizes or default_mesh(gs.device_count())
    return gs.make_mesh(sizes, tuple(_AXIS_NAMES[: len(sizes)]))


def _open_data(file: str | None) -> tuple[str, HostArray]:
    """Return a readable name of the data, and the data; a file is not read yet."""
    if file is not None:
        return file, open_npy(file)
    try:
        datasets: Any = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise ArgumentError(
            f"the default data comes with scikit-learn, which cannot be imported ({error}); run "
            "pip install 'gpushard[demo]', or name your own data with --input FILE.npy",
            argument="input",
        ) from None
    return "the digits of scikit-learn", datasets.load_digits().data


def _place(data: HostArray, sharding: gs.Sharding) -> gs.Array:
    """Put the data on devices, block by block, and print the time."""
    live = sys.stdout.isatty()
    started, progress = time.perf_counter(), 0

    def read(index: Index) -> HostArray:
        nonlocal progress
        if live:
            share = progress / max(data.nbytes, 1)
            print(f"\rplacing   {share:4.0%}", end="", flush=True)
        block = data[index]
        progress += block.nbytes
        return block

    try:
        x = gs.make_array_from_callback(data.shape, sharding, read)
        x.block_until_ready()
    finally:
        if live:
            print(f"\r{'':<14}\r", end="")
    seconds = time.perf_counter() - started
    print(f"placed    {format_bytes(data.nbytes)} in {format_seconds(seconds)}", flush=True)
    return x


def _print_facts(name: str, data: HostArray, mesh: gs.Mesh) -> None:
    axes = ", ".join(f"{axis}: {size}" for axis, size in mesh.shape.items())
    domains = len({device.memory_domain for device in gs.devices()})
    backend = gs.devices()[0].runtime.backend.name
    print(f"data      {name}")
    print(f"array     shape {data.shape}, {data.dtype.name}, {format_bytes(data.nbytes)}")
    print(f"mesh      {axes} over {mesh.size} devices of the {backend} backend")
    print(f"memory    {domains} domain{'s' if domains > 1 else ''}")


def _reshard_through(x: gs.Array, shardings: Sequence[gs.NamedSharding]) -> gs.Array:
    """Reshard step by step, printing a line for each."""
    if not shardings:
        print("\nAn array without axes has one layout only: there is nothing to reshard.")
        return x
    across = len({device.memory_domain for device in x.devices()}) > 1
    print(f"\n{'reshard to':<{_SPEC_WIDTH}} {Measurement.header(across)}")
    steps = []
    for sharding in shardings:
        x, step = measure_reshard(x, sharding)
        steps.append(step)
        text = format_spec(sharding.spec)
        wrap = "\n" + " " * _SPEC_WIDTH if len(text) > _SPEC_WIDTH else ""
        print(f"{text:<{_SPEC_WIDTH}}{wrap} {step.line(across)}", flush=True)
    moved, bound = (sum(n) for n in zip(*((s.moved, s.moved_bound) for s in steps), strict=True))
    print(f"\nmoved     {moved:,} bytes in all; the bound is {bound:,}")
    return x
