"""Structures of trees, and the walk that computes the leaves and the structure of a tree."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from types import NoneType
from typing import Any, TypeAlias

from gpushard._cache import exact_key, has_lookalikes
from gpushard.errors import ArgumentTypeError, TreeError
from gpushard.tree.node import NODES, KeyPath, Node, keystr, known_node, namedtuple_node

__all__ = ["IsLeaf", "TreeDef"]

MAX_DEPTH = 10_000  # a tree with more levels counts as endless
_CYCLE_CHECK = 25  # levels between two checks for a container that contains itself
_SHOWN = 200  # characters of a structure that fit into an error message
IsLeaf: TypeAlias = Callable[[Any], bool]
IsLeafAt: TypeAlias = Callable[[KeyPath, Any], bool]

_Entry: TypeAlias = tuple[type, Any, int]
"""A node: (class, aux, number of children)."""

_Spec: TypeAlias = tuple[_Entry | None, ...]
"""Nodes, and None for each leaf, in the order of a depth-first walk, parents first."""

_Combine: TypeAlias = Callable[[type, Any, list[Any]], Any]
_shower: Callable[[Node], _Combine] = operator.attrgetter("show")
_unflattener: Callable[[Node], _Combine] = operator.attrgetter("unflatten")


class TreeDef:
    """The structure of a tree: everything except its leaves. Immutable, hashable and comparable.

    >>> from gpushard import tree
    >>> tree.structure({"b": 1, "a": (2, None)})
    TreeDef({'a': (*, None), 'b': *})
    """

    __slots__ = ("_hash", "_num_leaves", "_spec")

    def __init__(self, spec: _Spec, num_leaves: int) -> None:
        # Flat, so hashing and comparing are fast and need no recursion.
        self._spec = spec
        self._num_leaves = num_leaves
        self._hash = 0  # what `hash` gave; 0 if nobody asked

    def __eq__(self, other: object) -> bool:
        return self._spec == other._spec if isinstance(other, TreeDef) else NotImplemented

    def __hash__(self) -> int:
        known = self._hash
        if not known:
            known = self._hash = hash(self._spec)
        return known

    def __reduce__(self) -> Any:
        return TreeDef, (self._spec, self._num_leaves)  # another process has other hashes

    def __repr__(self) -> str:
        return f"TreeDef({self._text()})"

    @property
    def num_leaves(self) -> int:
        """The number of leaves of a tree of this structure."""
        return self._num_leaves

    @property
    def num_nodes(self) -> int:
        """The number of leaves and containers of a tree of this structure; None is a container."""
        return len(self._spec)

    def node_data(self) -> tuple[type, Any] | None:
        """Return the class of the root and its auxiliary data; None for a leaf.

        >>> from gpushard import tree
        >>> tree.structure({"b": 0, "a": 0}).node_data()
        (<class 'dict'>, ('a', 'b'))
        """
        root = self._spec[0]
        return None if root is None else (root[0], known_node(root[0]).data(root[1]))

    def compose(self, inner: TreeDef) -> TreeDef:
        """Replace each leaf of this structure by another structure.

        Args:
          inner: the other structure.

        Raises:
          ArgumentTypeError: `inner` is not a structure.

        >>> from gpushard import tree
        >>> tree.structure([0, 0]).compose(tree.structure((0, None)))
        TreeDef([(*, None), (*, None)])
        """
        if not isinstance(inner, TreeDef):
            raise ArgumentTypeError.refusing(
                "inner", inner, "must be a structure, such as tree.structure(x) gives", "compose"
            )
        spec = [x for entry in self._spec for x in (inner._spec if entry is None else (entry,))]
        return TreeDef(tuple(spec), self._num_leaves * inner._num_leaves)

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Combine leaves into one value, children before parents and from left to right.

        Args:
          f_node: a function that is called for each container, with the values of its children and
            its auxiliary data. It returns the value of the container.
          f_leaf: a function that is called for each leaf and returns its value. None means that the
            value of a leaf is the leaf.
          leaves: the leaves, as many as the structure has.

        Returns:
          The value of the root.

        Raises:
          TreeError: there are too few or too many leaves.

        >>> from gpushard import tree
        >>> tree.structure([0, (0, 0)]).walk(lambda children, _: sum(children), None, [1, 2, 3])
        6
        """
        values = iter(self._check_count(leaves))
        above: list[tuple[_Entry, list[Any]]] = []
        for entry in self._spec:
            if entry is None:
                leaf = next(values)
                value = leaf if f_leaf is None else f_leaf(leaf)
            elif entry[2]:
                above.append((entry, []))
                continue
            else:
                value = f_node((), known_node(entry[0]).data(entry[1]))
            while above:
                parent, children = above[-1]
                children.append(value)
                if len(children) < parent[2]:
                    break
                above.pop()
                value = f_node(tuple(children), known_node(parent[0]).data(parent[1]))
        return value

    def children(self) -> list[TreeDef]:
        """Return the structures of the children of the root; a leaf has none.

        >>> from gpushard import tree
        >>> tree.structure([0, (1, 2)]).children()
        [TreeDef(*), TreeDef((*, *))]
        """
        result: list[TreeDef] = []
        start = 1
        while start < len(self._spec):
            result.append(self._subtree(start))
            start += len(result[-1]._spec)
        return result

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build a tree of this structure from leaves.

        Args:
          leaves: a value for each leaf; values may be trees themselves.

        Raises:
          TreeError: there are too few or too many leaves, or a class is not registered.

        >>> from gpushard import tree
        >>> tree.structure({"b": 1, "a": (2, None)}).unflatten("xy")
        {'a': ('x', None), 'b': 'y'}
        """
        return self._fold(self._check_count(leaves), _unflattener)

    def flatten_up_to(
        self, tree: Any, *, names: tuple[str, str] = ("structure", "tree")
    ) -> list[Any]:
        """List the subtrees of a tree at the leaves of this structure.

        Args:
          tree: the tree; this structure must be a prefix of it.
          names: the names of the structure and the tree in the messages of errors.

        Raises:
          TreeError: this structure is not a prefix of the tree.

        >>> from gpushard import tree
        >>> tree.structure([0, 0]).flatten_up_to([1, (2, 3)])
        [1, (2, 3)]
        """
        pending, result = [tree], []
        for position, entry in enumerate(self._spec):
            subtree = pending.pop()
            if entry is None:
                result.append(subtree)
                continue
            cls, aux, size = entry
            if type(subtree) is not cls:
                raise self._mismatch(position, subtree, names)
            children, other_aux = known_node(cls).flatten(subtree)
            if len(children) != size or other_aux != aux:
                raise self._mismatch(position, subtree, names)
            pending.extend(reversed(children))
        return result

    def leaf_paths(self) -> list[KeyPath]:
        """List the key paths of all leaves.

        >>> from gpushard import tree
        >>> [tree.keystr(path) for path in tree.structure([0, {"a": 0}]).leaf_paths()]
        ['[0]', "[1]['a']"]
        """
        entries = zip(self._paths(), self._spec, strict=True)
        return [path for path, entry in entries if entry is None]

    def _check_count(self, leaves: Iterable[Any]) -> list[Any]:
        """Check that there is a value for each leaf, and return the values as a list."""
        values = list(leaves)
        if len(values) != self._num_leaves:
            raise TreeError(
                f"the structure has {self._num_leaves} leaves and {len(values)} were given; give "
                f"one for each * of {_shorten(self._text())}",
                expected=self._num_leaves,
                given=len(values),
            )
        return values

    def _paths(self) -> Iterator[KeyPath]:
        pending: list[KeyPath] = [()]
        for entry in self._spec:
            path = pending.pop()
            yield path
            if entry is not None:
                keys = known_node(entry[0]).keys(*entry)
                pending.extend((*path, key) for key in reversed(keys))

    def _text(self) -> str:
        text: str = self._fold(["*"] * self._num_leaves, _shower)
        return text

    def _fold(self, leaves: list[Any], combiner: Callable[[Node], _Combine]) -> Any:
        """Combine children into parents up to the root; empties `leaves`."""
        stack: list[Any] = []
        for entry in reversed(self._spec):
            if entry is None:
                stack.append(leaves.pop())
                continue
            cls, aux, size = entry
            # Walked backwards, the first child is on top.
            children = stack[: -size - 1 : -1]
            del stack[len(stack) - size :]
            node = NODES.get(cls) or known_node(cls)
            stack.append(combiner(node)(cls, aux, children))
        return stack[0]

    def _subtree(self, start: int) -> TreeDef:
        missing, stop, num_leaves = 1, start, 0
        while missing:
            entry = self._spec[stop]
            stop += 1
            num_leaves += entry is None
            missing += -1 if entry is None else entry[2] - 1
        return TreeDef(self._spec[start:stop], num_leaves)

    def _mismatch(self, position: int, subtree: Any, names: tuple[str, str]) -> TreeError:
        path = keystr(list(self._paths())[position])
        prefix, full = self._subtree(position), walk(subtree, None)[1]
        mine, theirs = names[0] + path, names[1] + path
        return TreeError(
            f"{names[0]} is not a prefix of {names[1]}: {mine} is {_describe(prefix)} but {theirs} "
            f"is {_describe(full, subtree)}{_key_difference(prefix, full, names)}; give {mine} "
            "that structure, or one leaf in place of all of it",
            argument=names[0],
            path=path,
            prefix=prefix,
            full=full,
        )


def exact_structure(treedef: TreeDef) -> Any:
    """Make a key for a structure that distinguishes 1 from True and 0.0 from -0.0.

    Such values can be keys of dicts, and aux data of registered classes; the equality of structures
    takes them as equal.

    Returns:
      The key; the structure itself if it has no such values.

    >>> from gpushard import tree
    >>> one, true = tree.structure({1: 0}), tree.structure({True: 0})
    >>> one == true, exact_structure(one) == exact_structure(true)
    (True, False)
    """
    spec = treedef._spec
    if not any(entry is not None and has_lookalikes(entry[1]) for entry in spec):
        return treedef
    return tuple([entry and (entry[0], exact_key(entry[1]), entry[2]) for entry in spec])


LEAF = TreeDef((None,), 1)  # the structure of a leaf


def walk(tree: Any, is_leaf: IsLeaf | None) -> tuple[list[Any], TreeDef]:
    """Compute the leaves and the structure of a tree, without recursion."""
    leaves: list[Any] = []
    spec: list[_Entry | None] = []
    siblings = iter((tree,))
    above: list[tuple[Iterator[Any], Any]] = []
    while True:
        for child in siblings:
            cls = type(child)
            node = NODES.get(cls)
            if node is None and issubclass(cls, tuple):
                node = namedtuple_node(cls)
            if node is None or (is_leaf is not None and is_leaf(child)):
                leaves.append(child)
                spec.append(None)
                continue
            children, aux = node.flatten(child)
            spec.append((cls, aux, len(children)))
            if children:
                above.append((siblings, child))
                siblings = iter(children)
                if not len(above) % _CYCLE_CHECK:
                    _check_finite([parent for _, parent in above])
                break
        else:
            if not above:
                return leaves, TreeDef(tuple(spec), len(leaves))
            siblings, _ = above.pop()


def walk_paths(tree: Any, is_leaf: IsLeafAt) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Compute the leaves of a tree with their key paths, and the structure, without recursion."""
    leaves: list[tuple[KeyPath, Any]] = []
    spec: list[_Entry | None] = []
    pending: list[tuple[KeyPath, tuple[Any, ...], Any]] = [((), (), tree)]
    while pending:
        path, parents, child = pending.pop()
        cls = type(child)
        node = NODES.get(cls) or namedtuple_node(cls)
        if node is None or is_leaf(path, child):
            leaves.append((path, child))
            spec.append(None)
            continue
        children, aux = node.flatten(child)
        spec.append((cls, aux, len(children)))
        parents += (child,)
        if not len(parents) % _CYCLE_CHECK:
            _check_finite(list(parents))
        keys = node.keys(cls, aux, len(children))
        below = [((*path, k), parents, x) for k, x in zip(keys, children, strict=True)]
        pending.extend(reversed(below))
    return leaves, TreeDef(tuple(spec), len(leaves))


def _check_finite(parents: list[Any]) -> None:
    depth, kind = len(parents), type(parents[-1]).__name__
    if len({id(parent) for parent in parents}) < depth:
        problem = f"a container contains itself (through a {kind}); break the cycle"
    elif depth >= MAX_DEPTH:
        problem = f"the tree has more than {MAX_DEPTH} levels (at a {kind}); make it flatter"
    else:
        return
    raise TreeError(f"{problem}, or pass an is_leaf that stops above it", depth=depth)


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _describe(treedef: TreeDef, tree: Any = None) -> str:
    root = treedef._spec[0]
    if root is None:
        return f"a leaf ({type(tree).__name__})"
    if root[0] is NoneType:
        return "None (a node without leaves)"
    return f"{_shorten(treedef._text())} ({root[0].__name__} of size {root[2]})"


def _key_difference(prefix: TreeDef, full: TreeDef, names: tuple[str, str]) -> str:
    mine, theirs = prefix._spec[0], full._spec[0]
    if mine is None or theirs is None:
        return ""
    my_keys = [str(key) for key in known_node(mine[0]).keys(*mine)]
    their_keys = [str(key) for key in known_node(theirs[0]).keys(*theirs)]
    lost = " ".join(text for text in my_keys if text not in their_keys)
    extra = " ".join(text for text in their_keys if text not in my_keys)
    if not lost and not extra:
        return ""
    return (
        f" (only {names[0]} has: {_shorten(lost) or 'none'}; "
        f"only {names[1]} has: {_shorten(extra) or 'none'})"
    )
