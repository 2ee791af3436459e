"""PartitionSpec: one form for each meaning, a tuple otherwise."""

import pickle
from copy import deepcopy
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._geometry.partition_spec import UNCONSTRAINED, P, PartitionSpec
from gpushard.errors import ArgumentError, ArgumentTypeError

names = st.sampled_from("xyz")
groups = st.lists(names, max_size=3)
entries = st.lists(
    names | st.none() | st.just(UNCONSTRAINED) | groups | groups.map(tuple), max_size=4
)


def meaning(entry: Any) -> list[str] | None:
    """Model: the axes that an entry names; None where the choice is left open."""
    return None if entry is UNCONSTRAINED else list(entry or ())


@given(entries)
def test_axes_are_those_of_the_entries(written: list[Any]) -> None:
    spec = P(*written)
    meanings = [meaning(entry) or [] for entry in written]
    assert [list(spec.axes(dim)) for dim in range(len(written))] == meanings
    assert spec.axes(len(written)) == spec.axes(len(written) + 3) == ()
    assert list(spec.all_axes()) == list(chain.from_iterable(meanings))


@given(entries, entries)
def test_equal_when_every_entry_means_the_same(one: list[Any], two: list[Any]) -> None:
    alike = list(map(meaning, one)) == list(map(meaning, two))
    assert (P(*one) == P(*two)) == alike
    respelt = [entry if entry is UNCONSTRAINED else tuple(entry or ()) for entry in one]
    assert P(*one) == P(*respelt)
    assert hash(P(*one)) == hash(P(*respelt))


@given(entries)
def test_copies_are_equal(written: list[Any]) -> None:
    spec = P(*written)
    copies = [pickle.loads(pickle.dumps(spec)), deepcopy(spec), eval(repr(spec))]
    assert copies == [spec] * 3
    assert {type(copy) for copy in copies} == {PartitionSpec}
    assert all(
        mine is theirs
        for copy in copies
        for mine, theirs in zip(spec, copy, strict=True)
        if mine is UNCONSTRAINED
    )


def test_is_a_tuple_of_entries_in_one_form() -> None:
    assert P("x", ["y"], (), ["y", "z"], None) == ("x", "y", None, ("y", "z"), None)
    assert P("x") != P("x", None)
    assert P.UNCONSTRAINED is UNCONSTRAINED


@pytest.mark.parametrize("bad", [1, 2.5, {"x"}, ("x", None), [("x",)], ("x", 0)])
def test_an_entry_of_another_type_is_named(bad: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="entry 1 ") as caught:
        P("x", bad)
    assert (caught.value.position, caught.value.entry) == (1, bad)


def test_marked_specs_are_equal_with_the_same_marks() -> None:
    specs = [
        P("x"),
        P("x", unreduced={"y"}),
        P("x", reduced={"y"}),
        P("x", unreduced={"y", "z"}),
        P("x", unreduced={"y"}, reduced={"z"}),
        P(None, unreduced={"y"}),
    ]
    for number, spec in enumerate(specs):
        twin = eval(repr(spec))
        for copy in (twin, pickle.loads(pickle.dumps(spec)), deepcopy(spec)):
            assert [copy == other for other in specs] == [n == number for n in range(len(specs))]
            assert [copy != other for other in specs] == [n != number for n in range(len(specs))]
            assert hash(copy) == hash(spec)
            assert (copy.partitions, copy.unreduced, copy.reduced) == (
                spec.partitions,
                spec.unreduced,
                spec.reduced,
            )
    assert specs[1] != ("x",) and specs[1] != "x"


@pytest.mark.parametrize("mark", ["unreduced", "reduced"])
def test_marks_are_sets_of_names_that_mark_nothing_else(mark: str) -> None:
    for bad in ({1}, {"x", 1}, ["x"]):
        with pytest.raises(ArgumentTypeError, match=f"{mark}=.* must be a set of names"):
            P(**{mark: bad})
    for spec in ((P("x"), {mark}), (P(("y", "x")), {mark}), (P(), {"unreduced", "reduced"})):
        with pytest.raises(ArgumentError, match=r"names the mesh axis 'x' in .* name it in one"):
            P(*spec[0], **{name: {"x"} for name in spec[1]})
