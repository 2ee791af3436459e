"""Private names of CuPy are in one module, which refuses a CuPy that lacks one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpushard
from gpushard._runtime.cuda.driver.cupy_private import NAMES, private
from gpushard.errors import MissingLibraryError
from tests.runtime.cuda.fakes import cupy

PACKAGE = Path(gpushard.__file__).parent
OWNER = PACKAGE / "_runtime" / "cuda" / "driver" / "cupy_private.py"
ATTRIBUTES = {
    part for name in NAMES.values() for part in name.path.split(".") if part.startswith("_")
}
"""Private attributes of CuPy's modules and ufuncs."""


def private_names(text: str) -> Iterator[str]:
    """Yield the private names of CuPy in a module, as far as its text shows them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            modules = [ast.unparse(node)]
            if node.attr in ATTRIBUTES and ast.unparse(node.value) != "self":
                yield node.attr
        else:
            continue
        for module in modules:
            root, *parts = module.split(".")
            private_part = any(re.match("_[^_]", part) for part in parts)
            if root == "cupy_backends" or (root in ("cupy", "cupyx") and private_part):
                yield module


def test_no_other_module_uses_private_names() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        if path != OWNER
        for name in private_names(path.read_text(encoding="utf-8"))
    }
    assert not found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import cupy._core", {"cupy._core"}),
        ("from cupy_backends.cuda.libs import cublas", {"cupy_backends.cuda.libs.cublas"}),
        ("from cupy.cuda.memory import _set_thread_local_allocator as s",
         {"cupy.cuda.memory._set_thread_local_allocator"}),
        ("cupy._core.create_ufunc()", {"cupy._core", "_core", "cupy._core.create_ufunc"}),
        ("f(x)._preamble + self._preamble", {"_preamble"}),
        ("cupy.__version__, cupy.cuda.runtime, self._core_of", set()),
    ],
)  # fmt: skip
def test_private_names_are_seen(text: str, names: set[str]) -> None:
    assert {*private_names(text)} == names


@pytest.mark.parametrize("name", NAMES)
def test_a_cupy_that_lacks_a_name_is_refused(name: str) -> None:
    if NAMES[name].optional:
        assert getattr(private(cupy(lacks=name)), name) is None
        return
    with pytest.raises(MissingLibraryError, match=f"has no cupy.{NAMES[name].path}, .* one of 14"):
        private(cupy(lacks=name))
