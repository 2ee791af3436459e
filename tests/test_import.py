"""What `import gpushard` loads, starts and reads, each in a fresh interpreter."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gpushard

FORBIDDEN = [
    "cupy",
    "cupyx",
    "pynvml",
    "cuda",
    "jax",
    "jaxlib",
    "sklearn",
    "scipy",
    "torch",
    "pytest",
]


def run(program: str, **environment: str) -> Any:
    """Run a program in a fresh interpreter and return what it prints, as JSON."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUSHARD_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_only_numpy_and_the_standard_library_are_imported() -> None:
    loaded = set(
        run(
            "import sys, json, numpy; before = set(sys.modules)\n"
            "import gpushard, gpushard.testing\n"
            "print(json.dumps(sorted(set(sys.modules) - before)))"
        )
    )
    tops = {name.partition(".")[0] for name in loaded}
    assert "gpushard" in tops
    assert tops - {"gpushard", "numpy"} - set(sys.stdlib_module_names) == set()
    assert not tops.intersection(FORBIDDEN)


SPECIAL = {
    "__array_namespace__": "x.__array_namespace__()",
    "__array_ufunc__": "np.add(x, x)",
    "__array_function__": "np.sort(x)",
    "__dlpack__": "np.from_dlpack(x)",
    "__dlpack_device__": "x.__dlpack_device__()",
    "_repr_html_": "x._repr_html_()",
}


@pytest.mark.parametrize("method", SPECIAL)
def test_special_methods_import_what_they_need(method: str) -> None:
    program = "import json, numpy as np, gpushard as gs; x = gs.device_put(np.ones(3)); "
    assert run(f"{program}{SPECIAL[method]}; print(json.dumps(True))", GPUSHARD_BACKEND="host")


def test_extensions_are_imported_when_they_are_asked_for() -> None:
    before, after = run(
        "import sys, json, gpushard as gs\n"
        "names = ('gpushard.numpy.linalg', 'gpushard.numpy.fft', 'gpushard.special')\n"
        "before = [n for n in names if n in sys.modules]\n"
        "gs.numpy.linalg.inv, gs.numpy.fft.fft\n"
        "print(json.dumps([before, [n for n in names if n in sys.modules]]))"
    )
    assert before == [] and after == ["gpushard.numpy.linalg", "gpushard.numpy.fft"]


UNUSED = [
    "gpushard.interop",
    "gpushard._ops.prng",
    "gpushard._placement.npy",
    "gpushard._placement.prefetch",
    "gpushard._runtime.checking.checker",
    "gpushard.sharding",
    "gpushard.tree_util",
    "logging",
    "string",
    "urllib",
]
"""What a program pays for when it uses it."""


def test_what_few_programs_use_is_imported_when_they_do() -> None:
    before, after = run(
        "import sys, json, numpy\n"
        f"names = {UNUSED}\n"
        "for name in names:\n    sys.modules.pop(name, None)\n"
        "import gpushard as gs\n"
        "before = [n for n in names if n in sys.modules]\n"
        "gs.configure(check=True)\n"
        "gs.save, gs.map_shards, gs.prefetch, gs.from_dlpack\n"
        "gs.random, gs.sharding, gs.tree_util\n"
        "assert numpy.from_dlpack(gs.device_put(1.0, gs.devices()[0])) == 1\n"
        "print(json.dumps([before, [n for n in names if n in sys.modules]]))"
    )
    assert before == []
    assert {name for name in UNUSED if name.startswith("gpushard")} <= set(after)


def test_importing_compiles_little() -> None:
    # A frozen dataclass of the standard library has up to seven functions compiled for it.
    classes, compiled = run(
        "import builtins, dataclasses, json, numpy\n"
        "classes, execute, compiled = [], builtins.exec, []\n"
        "def counted(source, *args):\n"
        "    if isinstance(source, str):\n"
        "        compiled.append(source)\n"
        "    return execute(source, *args)\n"
        "builtins.exec = counted\n"
        "import gpushard, sys, gc\n"
        "classes = [c for c in gc.get_objects() if isinstance(c, type)\n"
        "           and c.__module__.startswith('gpushard') and dataclasses.is_dataclass(c)]\n"
        "print(json.dumps([len(classes), len(compiled)]))"
    )
    assert classes > 40 and compiled < 2 * classes, (classes, compiled)


def test_the_command_line_imports_no_more() -> None:
    loaded = run(
        "import sys, json, gpushard._cli.main\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    assert not set(loaded).intersection(FORBIDDEN)


def test_importing_starts_nothing() -> None:
    threads, runtime = run(
        "import json, threading, gpushard\n"
        "from gpushard._runtime import current_runtime\n"
        "print(json.dumps([threading.active_count(), repr(current_runtime._runtime)]))"
    )
    assert (threads, runtime) == (1, "None")


def test_importing_reads_no_setting() -> None:
    # A mistake in a variable is told to whoever uses devices, not to whoever imports.
    message = run(
        "import json, gpushard\n"
        "try:\n    gpushard.devices()\n"
        "except gpushard.errors.ConfigurationError as error:\n    print(json.dumps(str(error)))",
        GPUSHARD_HOST_DEVICES="many",
    )
    assert "GPUSHARD_HOST_DEVICES='many'" in message


def imported(module: Path) -> set[str]:
    """Return the modules that one imports, for types alone, too."""
    nodes = ast.walk(ast.parse(module.read_text()))
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_two_modules_of_arrays_import_each_other() -> None:
    # But what names `Array` for types alone.
    package = Path(gpushard.__file__).parent / "_array"
    imports = {f"gpushard._array.{path.stem}": imported(path) for path in package.glob("*.py")}
    del imports["gpushard._array.array"]
    pairs = {
        (one, other)
        for one, others in imports.items()
        for other in others
        if one in imports.get(other, ())
    }
    assert pairs == set()


@pytest.mark.parametrize("work", ["pass", "gs.device_put(1.0)", "gs.devices()"])
def test_the_interpreter_ends(work: str) -> None:
    assert run(f"import gpushard as gs\n{work}\nprint('true')") is True


def test_the_interpreter_ends_with_work_that_is_held() -> None:
    program = (
        "import gpushard as gs, numpy as np\n"
        "from gpushard.testing import gated\n"
        "x, gate = gated(gs.device_put(np.ones(8)))\n"
        "y = gs.reshard(x, gs.SingleDeviceSharding(gs.devices()[1]))\n"
        "gate.open()\n"
        "print('true')"
    )
    assert run(program) is True
