"""The package is put together as its documentation says."""

import re
from collections import Counter
from pathlib import Path

import gpushard as gs
from tests import structure

PAGES = Path(gs.__file__).parents[1]
MOST_WORDS = {"empty name": 99, "archaism": 97, "long sentence": 90, "no object": 38}
"""How many words there may be to mend, by kind: lower a number once there are fewer."""

MODULES = {name.split(".")[1] for name in structure.modules() if "." in name}


def test_no_modules_import_each_other_not_even_for_types() -> None:
    assert structure.circles() == []


def test_the_glossary_has_every_public_name() -> None:
    text = (PAGES / "docs" / "glossary.md").read_text(encoding="utf-8")
    first = text.partition("## Words of the source")[0]
    quoted = set(re.findall(r"`(\w+)`", first))
    assert set(gs.__all__) - quoted == set()


def test_a_word_stands_once_and_in_order_in_a_table_of_the_glossary() -> None:
    text = (PAGES / "docs" / "glossary.md").read_text(encoding="utf-8")
    for table in text.split("## ")[1:]:
        words = re.findall(r"^\| ([\w -]+) \| (?!meaning)", table, re.MULTILINE)
        assert words
        assert words == sorted(set(words), key=str.lower)


def test_the_map_names_what_there_is() -> None:
    packages = {path.parent.name for path in Path(gs.__file__).parent.glob("*/__init__.py")}
    table = (PAGES / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", table, re.MULTILINE)
    listed = {word for row in rows for word in re.findall(r"\w+", row)}
    assert packages - listed == set()
    assert listed <= MODULES


def test_help_names_what_is_public() -> None:
    named = re.findall(r"`(\w+)`", str(gs.__doc__))
    assert named and set(named) <= set(dir(gs))


def test_the_page_of_walks_is_the_one_that_is_walked() -> None:
    text = structure.PAGE.read_text(encoding="utf-8")
    assert structure.written(text) == structure.page(), (
        "python -m tests.structure --write brings CONTRIBUTING.md up to date"
    )


def test_values_go_back_and_forth_between_packages_no_more_than_they_must() -> None:
    most = {
        "x + y": 8, "device_put": 23, "reshard": 15, "x.sum()": 12, "x[idx]": 24, "jit": 15,
        "random.normal": 20, "np.asarray": 2, "vmap": 14, "shard_map": 55, "nnx.jit": 30,
    }  # fmt: skip
    _, warm = structure.walks()
    assert {name: n for name, n in most.items() if warm[name].changes > n} == {}


def test_words_to_mend_become_fewer() -> None:
    counts = Counter(kind for kind, *_ in structure.words_to_mend())
    assert {kind: n for kind, n in counts.items() if n > MOST_WORDS[kind]} == {}, (
        "python -m tests.structure --words FOLDER lists them"
    )


def test_a_word_to_mend_is_found_where_it_stands() -> None:
    texts = structure.docstrings(structure.ast.parse('"""A."""\nx = 1\n"""B."""\ny = "C"\n'))
    assert [text for _, text in texts] == ["A.", "B."]
    assert list(structure.sentences("One. Two\nlines.\n\nname   what\n\n>>> 1\n1")) == [
        "One.", "Two lines.",
    ]  # fmt: skip
    names = structure.names_bound(structure.ast.parse("def f(own): x.made = own; found = 1"))
    assert sorted(name for _, name in names) == ["found", "made", "own"]
    assert structure.ARCHAISMS.search("of which") and structure.NO_OBJECT.match("Return what is")
    assert not structure.NO_OBJECT.match("Return whatever")
