"""`gpushard demo`: its figures, its files and its errors."""

import contextlib
import importlib.util
import io
import itertools
import math
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpushard as gs
from gpushard._cli import demo, measure
from gpushard._cli.main import main
from gpushard._cli.measure import Measurement, format_bytes, format_seconds, measure_reshard
from gpushard.testing import runtime
from tests.share import examples

STEP = re.compile(r"^(P\(.*?\))\s+(shared, nothing moved|\S.*)$", re.MULTILINE)

TOTALS = re.compile(r"^moved +([\d,]+) bytes in all; the bound is ([\d,]+)$", re.MULTILINE)


def run_demo(*arguments: Any, domains: int = 1, mesh: str = "4x2") -> list[str]:
    """Run the demo in this process, expect success, and return what it prints."""
    output = io.StringIO()
    devices = math.prod(map(int, mesh.split("x")))
    with runtime(host_devices=devices, host_domains=domains), contextlib.redirect_stdout(output):
        assert main(["demo", "--mesh", mesh, *map(str, arguments)]) == 0
    return output.getvalue().splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small array as a file."""
    np.save(tmp_path / "in.npy", np.arange(60, dtype=np.float32).reshape(10, 6))
    return tmp_path / "in.npy"


def test_the_digits_are_the_default() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[test]'")
    lines = run_demo()
    assert lines[:4] == [
        "data      the digits of scikit-learn",
        "array     shape (1797, 64), float64, 920.1 kB",
        "mesh      x: 4, y: 2 over 8 devices of the host backend",
        "memory    1 domain",
    ]
    assert any(line.startswith(" 450 ├") for line in lines)
    steps = STEP.findall("\n".join(lines))
    assert [spec for spec, _ in steps] == [
        "P('y', 'x')",
        "P('x')",
        "P(None, 'y')",
        "P()",
        "P(('x', 'y'))",
        "P(None, ('x', 'y'))",
        "P('x', 'y')",
    ]
    assert [spec for spec, rest in steps if rest == "shared, nothing moved"] == ["P(('x', 'y'))"]
    assert "moved     5,520,384 bytes in all; the bound is 5,520,384" in lines
    assert "explained 14.9%, 13.6%, 11.8%, 8.4% of the variance by 4 of 64 components" in lines
    assert [line.split(":")[0].strip() for line in lines[-3:-1]] == [
        "equal to NumPy's SVD",
        "equal to scikit-learn's PCA on the same sharded array",
    ]
    assert lines[-1] == (
        "OK: all 920,064 bytes came back, bit for bit as in the digits of scikit-learn"
    )


bits = hnp.arrays(
    st.sampled_from(["?", "<i2", ">i4", "<f2", ">f8", "<c8", ">c16"]).map(np.dtype),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
)


@examples(60)
@given(bits, st.booleans(), st.sampled_from(["4x2", "3", "2x2x2", "1x1"]), st.booleans())
def test_the_output_holds_the_bits_of_the_input(
    data: np.ndarray[Any, Any], fortran: bool, mesh: str, separate: bool
) -> None:
    devices = math.prod(map(int, mesh.split("x")))
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "in.npy", Path(name) / "out.npy"
        np.save(source, np.asfortranarray(data) if fortran and data.ndim else data)
        lines = run_demo(
            "--input", source, "--output", target, mesh=mesh, domains=devices if separate else 1
        )
        result = np.load(target)
        assert sorted(path.name for path in Path(name).iterdir()) == ["in.npy", "out.npy"]
    assert (result.shape, result.dtype) == (data.shape, data.dtype.newbyteorder("="))
    assert result.tobytes() == data.astype(result.dtype).tobytes()
    assert lines[-2:] == [
        f"written   {target}",
        f"OK: all {data.nbytes:,} bytes came back, bit for bit as in {source}",
    ]
    assert max(len(line) for line in lines if name not in line) <= 80
    totals = TOTALS.findall("\n".join(lines))
    assert len(totals) == (data.ndim > 0)
    assert all(moved == bound for moved, bound in totals)


def test_the_output_may_replace_the_input(file: Path) -> None:
    before = file.read_bytes()
    run_demo("--input", file, "--output", file)
    assert file.read_bytes() == before


def test_the_file_is_read_block_by_block(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes: list[Any] = []

    def recording(shape: Any, sharding: gs.Sharding, callback: Callable[[Any], Any]) -> gs.Array:
        def read(index: Any) -> Any:
            boxes.append(index)
            block = callback(index)
            assert isinstance(block, np.memmap)
            return block

        return make_array(shape, sharding, read)

    make_array = gs.make_array_from_callback
    monkeypatch.setattr(gs, "make_array_from_callback", recording)
    run_demo("--input", file)
    rows, columns = [(0, 3), (3, 6), (6, 9), (9, 10)], [(0, 3), (3, 6)]
    assert [tuple((part.start, part.stop) for part in box) for box in boxes] == [
        (row, column) for row in rows for column in columns
    ]


def test_a_terminal_sees_the_blocks_arrive(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    with runtime(host_devices=2):
        assert main(["demo", "--mesh", "2x1", "--input", str(file)]) == 0
        printed = sys.stdout.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"\n\rplacing +0%\rplacing +50%\r +\rplaced +240 B in ", printed)


def test_a_file_sees_plain_lines_only(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runtime(host_devices=2):
        assert main(["demo", "--mesh", "2x1", "--input", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "placed    240 B in " in printed
    assert "\r" not in printed and "placing" not in printed


@pytest.mark.parametrize("domains", [1, 2, 4])
def test_a_step_is_measured_in_the_bytes_that_it_must_move(domains: int) -> None:
    with runtime(host_devices=4, host_domains=domains):
        mesh = gs.make_mesh((4,), "x")
        data = np.arange(4096.0).reshape(64, 64)
        x = gs.device_put(data, gs.NamedSharding(mesh, gs.P("x")))
        everywhere, step = measure_reshard(x, gs.NamedSharding(mesh, gs.P()))
        assert (step.moved, step.moved_bound) == (domains * 32768, domains * 32768)
        assert (step.received, step.received_bound) == ((domains - 1) * 32768,) * 2
        assert 0 < step.seconds < math.inf and 0 < step.plain_seconds < math.inf
        again, step = measure_reshard(everywhere, gs.NamedSharding(mesh, gs.P()))
        assert (step.moved, step.moved_bound, step.received, step.received_bound) == (0, 0, 0, 0)
        assert step.line(True).strip() == "shared, nothing moved"
        np.testing.assert_array_equal(np.asarray(again), data)


def test_a_step_holds_one_result_at_a_time() -> None:
    with runtime(host_devices=2, host_domains=2, memory_limit=3 * 64 * 1024):
        mesh = gs.make_mesh((2,), "x")
        data = np.arange(16 * 1024.0)
        x = gs.device_put(data, gs.NamedSharding(mesh, gs.P("x")))
        result, _ = measure_reshard(x, gs.NamedSharding(mesh, gs.P()))
        used = [device.memory_stats()["bytes_in_use"] for device in gs.devices()]
        assert used == [3 * 64 * 1024] * 2
        np.testing.assert_array_equal(np.asarray(result), data)


def test_bytes_beyond_the_bound_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def wasteful(x: gs.Array, sharding: gs.Sharding) -> gs.Array:
        reshard(x, everywhere).block_until_ready()
        return reshard(x, sharding)

    reshard = gs.reshard
    with runtime(host_devices=4, host_domains=4):
        mesh = gs.make_mesh((4,), "x")
        rows, columns, everywhere = (
            gs.NamedSharding(mesh, spec) for spec in (gs.P("x"), gs.P(None, "x"), gs.P())
        )
        x = gs.device_put(np.zeros((4, 4)), rows)
        monkeypatch.setattr(gs, "reshard", wasteful)
        _, step = measure_reshard(x, columns)
    assert (step.moved, step.moved_bound) == (5 * 128, 128)
    assert (step.received, step.received_bound) == (3 * 128 + 96, 96)


def test_a_line_shows_the_figures_beside_their_bounds() -> None:
    step = Measurement(2_000_000, 1_000_000, 4_000, 3_000, seconds=0.001, plain_seconds=0.0005)
    assert Measurement.header(False).split() == ["moved", "bound", "time", "GB/s", "(copy)"]
    assert step.line(False).strip() == "2.0 MB   1.0 MB   1.0 ms   2.00   4.00"
    assert "2.0 MB   1.0 MB   4.0 kB   3.0 kB   1.0 ms   2.00   4.00" in step.line(True)
    assert len(Measurement.header(True)) == len(step.line(True)) <= 59
    hidden = Measurement(5, 0, 0, 0, seconds=0.001, plain_seconds=0.001)
    assert "5 B      0 B" in hidden.line(False)


@given(st.integers(0, 10**15))
def test_bytes_are_rounded_to_a_tenth_of_their_unit(nbytes: int) -> None:
    number, unit = format_bytes(nbytes).split()
    size = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}[unit]
    assert abs(float(number) * size - nbytes) <= size * 0.0501
    assert unit == "B" or nbytes >= size


def test_bytes_take_the_unit_that_fits() -> None:
    sizes = [999, 10**3, 999_900, 10**6, 10**9 - 10**8, 10**9, 10**12 - 10**11, 10**12]
    texts = ["999 B", "1.0 kB", "999.9 kB", "1.0 MB", "900.0 MB", "1.0 GB", "900.0 GB", "1.0 TB"]
    assert [format_bytes(size) for size in sizes] == texts


def test_seconds_take_the_unit_that_fits() -> None:
    times = [0, 9.99e-4, 1e-3, 0.5, 1, 100]
    texts = ["0 us", "999 us", "1.0 ms", "500.0 ms", "1.0 s", "100.0 s"]
    assert [format_seconds(time) for time in times] == texts


@given(st.integers(1, 4), st.integers(0, 5))
def test_the_layouts_fit_any_mesh_and_rank(axes: int, ndim: int) -> None:
    names = tuple("xyza"[:axes])
    mesh = gs.AbstractMesh((2,) * axes, names)
    specs = demo.layouts(names, ndim)
    assert all(len(gs.NamedSharding(mesh, spec).spec) <= ndim for spec in specs)
    assert specs[0] == specs[-1]
    assert all(one != next for one, next in itertools.pairwise(specs))
    if ndim:
        assert set(specs[0].all_axes()) == set(names)
        assert gs.P() in specs and gs.P(names) in specs
        assert any(set(spec.axes(ndim - 1)) == set(names) for spec in specs)


@given(st.integers(1, 4096))
def test_the_default_mesh_is_as_square_as_it_can_be(devices: int) -> None:
    long, short = demo.default_mesh(devices)
    assert long * short == devices and long >= short
    assert not any(devices % n == 0 for n in range(short + 1, math.isqrt(devices) + 1))


def test_bits_are_compared_not_values() -> None:
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64)
    data = nans.view(np.float64)
    assert demo.same_bytes(data, data.copy())
    assert demo.same_bytes(data, data.astype(">f8"))
    assert not demo.same_bytes(data, data[[1, 1, 2]])
    assert not demo.same_bytes(np.zeros(1), -np.zeros(1))
    assert not demo.same_bytes(np.zeros(2), np.zeros(1))
    assert not demo.same_bytes(np.zeros(2), np.zeros(2, np.int64))
    assert demo.same_bytes(np.zeros((0, 3)), np.zeros((0, 3)))


@pytest.mark.parametrize("order", ["C", "F"])
def test_bits_are_compared_to_the_last_element(order: Any) -> None:
    data = np.zeros((3, 200_003), np.int16, order)
    value = np.zeros((3, 200_003), np.int16)
    assert demo.same_bytes(value, data)
    for at in [(0, 0), (1, 100_000), (2, 200_002)]:
        value[at] = 1
        assert not demo.same_bytes(value, data)
        value[at] = 0


def test_a_wrong_result_is_reported_and_not_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def corrupting(x: gs.Array, sharding: gs.Sharding) -> gs.Array:
        value = np.array(x)
        value[-1, -1] += 1
        return gs.device_put(value, sharding)

    monkeypatch.setattr(gs, "reshard", corrupting)
    with runtime():
        assert main(["demo", "--input", str(file), "--output", f"{file}.out"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("MISMATCH: ")
    assert [path.name for path in file.parent.iterdir()] == ["in.npy"]


def test_an_interrupt_is_quiet_and_writes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(x: gs.Array, sharding: gs.Sharding) -> gs.Array:
        raise KeyboardInterrupt

    monkeypatch.setattr(gs, "reshard", interrupted)
    with runtime():
        assert main(["demo", "--input", str(file), "--output", f"{file}.out"]) == 130
    assert capsys.readouterr().err == ""
    assert [path.name for path in file.parent.iterdir()] == ["in.npy"]


def test_without_scikit_learn_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with runtime():
        assert main(["demo"]) == 2
    error = capsys.readouterr().err
    assert "pip install 'gpushard[demo]'" in error and "--input FILE.npy" in error
    assert error.count("\n") == 1


def write_bad_files(folder: Path) -> None:
    np.save(folder / "good.npy", np.arange(12.0).reshape(3, 4))
    np.save(folder / "objects.npy", np.array([{}], object), allow_pickle=True)
    np.save(folder / "text.npy", np.array(["a", "b"]))
    whole = (folder / "good.npy").read_bytes()
    (folder / "truncated.npy").write_bytes(whole[:-1])
    (folder / "header.npy").write_bytes(whole[:40])
    (folder / "nothing.npy").write_bytes(b"")
    (folder / "noise.npy").write_bytes(bytes(range(200)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--input missing.npy", ["missing.npy", "No such file"]),
        ("--input .", ["cannot be read"]),
        ("--input objects.npy", ["objects.npy", "objects"]),
        ("--input text.npy", ["text.npy", "<U1", "numbers"]),
        ("--input truncated.npy", ["truncated.npy", "cannot be read"]),
        ("--input header.npy", ["header.npy", "cannot be read"]),
        ("--input nothing.npy", ["nothing.npy", "cannot be read"]),
        ("--input noise.npy", ["noise.npy", "cannot be read"]),
        ("--output no/where.npy", ["--output no/where.npy", "no folder no"]),
        ("--output .", ["--output .", "folder"]),
        ("--mesh 4by2", ["--mesh", "'4by2'", "4x2", "demo --help"]),
        ("--mesh 4x", ["--mesh", "'4x'", "4x2"]),
        ("--mesh 0x8", ["--mesh", "'0x8'"]),
        ("--mesh -8", ["--mesh"]),
        ("--mesh 3x2 --devices 8", ["--mesh 3x2 needs 6 devices", "--devices is 8"]),
        ("--mesh 99999x99999", ["9999800001 devices", "4096"]),
        ("--devices 0", ["--devices", "'0'", "at least 1"]),
        ("--devices two", ["--devices", "'two'"]),
        ("--devices 5000", ["5000 devices", "4096"]),
        ("--domains 0", ["--domains", "'0'"]),
        ("--colour red", ["--colour red"]),
    ],
)
def test_each_error_is_one_line_and_writes_nothing(
    arguments: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bad_files(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    defaults = " --input good.npy" * ("--input" not in arguments)
    defaults += " --output out.npy" * ("--output" not in arguments)
    with runtime():
        assert main(["demo", *f"{arguments}{defaults}".split()]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"gpushard: error: .*\n", output.err)
    assert [word for word in words if word not in output.err] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_quota_that_is_too_small_is_an_error(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with runtime(memory_limit=10):
        assert main(["demo", "--input", str(file)]) == 2
    assert re.fullmatch(r"gpushard: error: .*quota of 10.*\n", capsys.readouterr().err)


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo as people do, who have not asked SciPy for anything."""
    return subprocess.run(
        [sys.executable, "-m", "gpushard", "demo", *arguments],
        env={name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_devices_and_domains_come_from_the_arguments(file: Path) -> None:
    target = file.parent / "out.npy"
    done = run_module(*f"--input {file} --devices 6 --domains 3 --output {target}".split())
    assert (done.returncode, done.stderr) == (0, "")
    assert "mesh      x: 3, y: 2 over 6 devices of the host backend" in done.stdout
    assert "memory    3 domains" in done.stdout
    if importlib.util.find_spec("sklearn") is not None:
        assert "equal to scikit-learn's PCA on the same sharded array: within" in done.stdout
    assert target.read_bytes() == file.read_bytes()


def test_a_mesh_brings_its_devices_and_domains_must_divide_them(file: Path) -> None:
    done = run_module("--input", str(file), "--mesh", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "mesh      x: 5 over 5 devices of the host backend" in done.stdout
    done = run_module("--input", str(file), "--mesh", "5", "--domains", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"gpushard: error: .*=2 does not divide .*5.*\n", done.stderr)


BLOCKS = """\
data      FILE
array     shape (10, 6), float32, 240 B
mesh      x: 4, y: 2 over 8 devices of the host backend
memory    {domains}
placed    240 B in TIME

P('x', 'y'), which devices hold which block:
   0         3         6
 0 ┌─────────┬─────────┐
   │         │         │
   │  CPU 0  │  CPU 1  │
   │         │         │
 3 ├─────────┼─────────┤
   │         │         │
   │  CPU 2  │  CPU 3  │
   │         │         │
 6 ├─────────┼─────────┤
   │         │         │
   │  CPU 4  │  CPU 5  │
   │         │         │
 9 ├─────────┼─────────┤
   │  CPU 6  │  CPU 7  │
10 └─────────┴─────────┘

"""
IN_ONE_DOMAIN = """\
reshard to              moved    bound     time   GB/s (copy)
P('y', 'x')             240 B    240 B TIME
P('x')                  240 B    240 B TIME
P(None, 'y')            240 B    240 B TIME
P()                     240 B    240 B TIME
P(('x', 'y'))          shared, nothing moved
P(None, ('x', 'y'))     240 B    240 B TIME
P('x', 'y')             240 B    240 B TIME

moved     1,440 bytes in all; the bound is 1,440

Principal components of the array, computed where it lies

step                result      layout                 moved     time
mean of the rows    6           P('y')                   0 B TIME
rows - mean         10 x 6      P('x', 'y')              0 B TIME
products of columns 6 x 6       P('y')                 480 B TIME
their eigenvectors  6 x 6       P('y')                 312 B TIME
rows x components   10 x 4      P('x')                   0 B TIME
"""
IN_EIGHT_DOMAINS = """\
reshard to              moved    bound received    bound     time   GB/s (copy)
P('y', 'x')             240 B    240 B    180 B    180 B TIME
P('x')                  480 B    480 B    408 B    408 B TIME
P(None, 'y')            960 B    960 B    720 B    720 B TIME
P()                    1.9 kB   1.9 kB    960 B    960 B TIME
P(('x', 'y'))           240 B    240 B      0 B      0 B TIME
P(None, ('x', 'y'))     240 B    240 B    200 B    200 B TIME
P('x', 'y')             240 B    240 B    192 B    192 B TIME

moved     4,320 bytes in all; the bound is 4,320

Principal components of the array, computed where it lies

step                result      layout                 moved received     time
mean of the rows    6           P('y')                 384 B    288 B TIME
rows - mean         10 x 6      P('x', 'y')              0 B      0 B TIME
products of columns 6 x 6       P('y')                3.3 kB   2.2 kB TIME
their eigenvectors  6 x 6       P('y')                2.4 kB   1.2 kB TIME
rows x components   10 x 4      P('x')                1.3 kB    640 B TIME
"""
EVERYTHING = {
    1: BLOCKS.format(domains="1 domain") + IN_ONE_DOMAIN,
    8: BLOCKS.format(domains="8 domains") + IN_EIGHT_DOMAINS,
}


@pytest.mark.parametrize("domains", [1, 8])
def test_everything_that_is_printed(tmp_path: Path, domains: int) -> None:
    """But for times, and what follows them."""
    file = tmp_path / "in.npy"
    np.save(file, np.arange(60, dtype=np.float32).reshape(10, 6) ** 2 % 17)
    text = "\n".join(run_demo("--input", file, domains=domains)).replace(str(file), "FILE")
    found, rest = re.sub(r" +[\d.]+ (?:[mun]?s)\b.*", " TIME", text).split("explained ")
    assert found == EVERYTHING[domains]
    assert rest.startswith("35.3%, 27.7%, 18.7%, 12.5% of the variance by 4 of 6 components\n")
    assert rest.endswith("OK: all 240 bytes came back, bit for bit as in FILE")


def test_times_are_between_two_looks_at_the_clock(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.perf_counter", itertools.count(1e6).__next__)
    (placed,) = (line for line in run_demo("--input", file) if line.startswith("placed"))
    assert re.fullmatch(r"placed    240 B in \d{1,4}\.0 s", placed)


def test_a_plain_copy_takes_as_long_as_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def copy(target: np.ndarray, source: np.ndarray) -> None:
        clock[0] += source.nbytes

    monkeypatch.setattr(measure, "_LARGEST_COPY", 256)
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(measure.np, "copyto", copy)
    assert measure._plain_seconds(640) == 640
    assert measure._plain_seconds(64) == 64


def test_the_fastest_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([5.0, 2.0, 4.0, 7.0, 3.0, 8.0])  # of three reshards, and of three plain copies
    clock = itertools.chain.from_iterable((10.0 * n, 10.0 * n + x) for n, x in enumerate(seconds))
    with runtime(host_devices=2):
        mesh = gs.make_mesh((2,), "x")
        x = gs.device_put(np.ones(8), gs.NamedSharding(mesh, gs.P("x")))
        monkeypatch.setattr(measure, "time", types.SimpleNamespace(perf_counter=clock.__next__))
        _, step = measure_reshard(x, gs.NamedSharding(mesh, gs.P()))
    assert (step.seconds, step.plain_seconds) == (2, 3)


def test_two_domains_receive_from_each_other(file: Path) -> None:
    heads = [line for line in run_demo("--input", file, domains=2) if " received " in line]
    assert [line.split()[0] for line in heads] == ["reshard", "step"]


def test_the_demo_takes_as_many_devices_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_MOST_DEVICES", 8)
    assert any("over 8 devices" in line for line in run_demo())
    monkeypatch.setattr(demo, "_MOST_DEVICES", 7)
    assert main(["demo", "--mesh", "4x2"]) != 0
