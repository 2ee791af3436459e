"""docs/coming-from-jax.md is what its script makes, and names only what there is."""

import functools
import re
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any

import gpushard as gs

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "coming-from-jax.md").read_text()
SCRIPT = runpy.run_path(str(DOCS / "coming_from_jax.py"))
ROW = re.compile(r"^\| `(\w+)` \| (same|differs|missing) \| (.*) \|$", re.MULTILINE)


def sections() -> dict[str, list[tuple[str, str, str]]]:
    """Return the rows of each module."""
    parts = re.split(r"^## `jax\.?(\w*)`$", PAGE, flags=re.MULTILINE)[1:]
    return {name: ROW.findall(rows) for name, rows in zip(parts[::2], parts[1::2], strict=True)}


def test_what_is_there_is_there() -> None:
    tables = sections()
    assert tuple(tables) == SCRIPT["MODULES"]
    assert sum(map(len, tables.values())) == PAGE.count("\n| `") > 700
    for module, rows in tables.items():
        for name, how, note in rows:
            if how != "missing":
                assert hasattr(SCRIPT["namespace"](module), name), (module, name)
            assert (how == "differs") <= bool(note), (module, name)


def test_what_notes_name_is_there() -> None:
    for path in re.findall(r"\bgs\.([a-zA-Z_][\w.]*\w)", PAGE):
        if not path.startswith(("lax", "vmap")) or hasattr(gs, path.partition(".")[0]):
            functools.reduce(getattr, path.split("."), gs)


def test_notes_are_of_names_that_jax_has(jax: ModuleType) -> None:
    for table in (SCRIPT["DIFFERS"], SCRIPT["NEAREST"]):
        for module, notes in table.items():
            theirs: Any = getattr(jax, module) if module else jax
            names = SCRIPT["public_names"](theirs)
            assert set(notes) <= set(names), set(notes) - set(names)


def test_the_page_is_what_the_script_makes(jax: ModuleType) -> None:
    made = SCRIPT["tables"](jax)
    if f"JAX {jax.__version__}," in PAGE:  # another JAX has other names
        assert made == PAGE, "run: python docs/coming_from_jax.py"
