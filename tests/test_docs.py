"""The examples in the documentation run."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pictures_are_what_the_script_makes() -> None:
    for name, text in runpy.run_path(str(ROOT / "docs" / "pictures.py"))["page"]().items():
        assert (ROOT / "docs" / name).read_text() == text, "run: python docs/pictures.py"
