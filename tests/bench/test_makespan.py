"""The simulated makespans: every pair, never below the bound, and a page that keeps its text."""

import json
import pathlib

import pytest

from bench.makespan import BEGIN, END, QUICK, TOPOLOGIES, Row, main, rows, write_into
from bench.what_if import nearest, shared
from gpushard.testing import Needs, lower_bound, nvlink, two_hosts


@pytest.fixture(scope="module")
def quick() -> list[Row]:
    return list(rows(QUICK))


def test_all_pairs_are_there(quick: list[Row]) -> None:
    tables: dict[str, set[str]] = {}
    for row in quick:
        tables.setdefault(row.table, set()).add(row.name)
        assert set(row.figures) == set(TOPOLOGIES)
    assert [len(names) for names in tables.values()] == [42, 16, 5]
    assert len(quick) == 63


def test_nothing_is_below_the_bound(quick: list[Row]) -> None:
    for row in quick:
        for figures in row.figures.values():
            times = (figures.time, figures.near, figures.shared)
            assert all(time >= figures.bound * (1 - 1e-6) for time in times), row.name
            assert figures.bound * (1 - 1e-6) <= figures.load <= figures.time * (1 + 1e-6)
            assert (figures.bound == 0) == (figures.time == 0)


def test_one_host_is_at_the_bound(quick: list[Row]) -> None:
    pairs = [row.figures["NVLink"] for row in quick if "spreading" not in row.table]
    assert all(figures.time < 1.01 * figures.bound for figures in pairs if figures.bound)


def test_neighbours_fetch_once_what_all_of_them_lack() -> None:
    """One half holds all, the other wants it: nearest holders send it twice, shared once."""
    halves, all_of_it = [((0, 1),), ((1, 2),)], ((0, 2),)
    held = [(0, halves[0]), (1, halves[1])]
    size = 1 << 27
    wanted = [(2, all_of_it), (3, all_of_it)]
    needs = Needs.of_boxes(held, wanted, size, [0, 0, 2 * size, 2 * size])
    bound, near = lower_bound(needs, two_hosts(4)), nearest(needs, two_hosts(4))
    assert near == pytest.approx(2 * bound, rel=0.01)
    assert bound <= shared(needs, two_hosts(4)) < 1.1 * bound
    assert shared(needs, nvlink(4)) == nearest(needs, nvlink(4))  # nobody has a neighbour to ask


def test_the_command_line_writes_both_files(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\nlast words\n", encoding="utf-8")
    assert main(["--quick", "--json", str(figures), "--markdown", str(page)]) == 0
    assert len(json.loads(figures.read_text(encoding="utf-8"))["rows"]) == 63
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Title\n") and text.endswith("last words\n") and "old" not in text
    assert "| `P('x') -> P()` |" in text and text.count("|---") > 7
    assert "P('x') -> P()" in capsys.readouterr().out


def test_a_page_without_marks_is_replaced() -> None:
    assert write_into("anything", "tables") == "tables\n"
