"""Random graphs of Modules, what is done to them, and whether two are isomorphic."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import gpushard as gs
from gpushard import nnx


class Plain(nnx.Module):
    """A Module."""


class Other(nnx.Module):
    """A Module of another type."""

    kind = "other"


KINDS = [nnx.Param, nnx.BatchStat, nnx.Cache, nnx.Variable]
NAMES = list("abcdef")
SHAPE = (4, 2)


def array(source: random.Random) -> Any:
    return gs.numpy.asarray(
        np.array([source.randrange(1, 9) for _ in range(8)], float).reshape(SHAPE)
    )


def static(source: random.Random) -> Any:
    return source.choice([None, 1, True, 2.5, "text", len, (1, "two"), -0.0])


def variable(source: random.Random) -> nnx.Variable:
    more = source.choice([{}, {"tag": "t"}, {"sharding": ("x", None)}])
    return source.choice(KINDS)(array(source), **more)


def graph(source: random.Random, *, size: int = 6, arrays: bool = True) -> Any:
    """Return a Module in which objects are shared, refer to each other in circles, and are deep."""
    objects: list[Any] = [source.choice([Plain, Other])() for _ in range(source.randrange(1, size))]
    objects += [variable(source) for _ in range(source.randrange(1, size))]
    objects += [[] for _ in range(source.randrange(2))] + [{} for _ in range(source.randrange(2))]

    def part(depth: int = 0) -> Any:
        choice = source.random()
        if choice < 0.55:
            return source.choice(objects)
        if choice < 0.65:
            return variable(source)
        if choice < 0.72 and arrays:
            return array(source)
        if choice < 0.8 or depth > 2:
            return static(source)
        if choice < 0.87:
            return tuple(part(depth + 1) for _ in range(source.randrange(3)))
        if choice < 0.94:
            return [part(depth + 1) for _ in range(source.randrange(3))]
        return {name: part(depth + 1) for name in source.sample(NAMES, source.randrange(3))}

    for x in objects:
        if isinstance(x, nnx.Module):
            for name in source.sample(NAMES, source.randrange(1, 4)):
                setattr(x, name, part())
        elif type(x) is list:
            x += [part() for _ in range(source.randrange(3))]
        elif type(x) is dict:
            x.update({name: part() for name in source.sample(NAMES, source.randrange(3))})
    return objects[0]


def parts(x: Any) -> list[tuple[Any, Any]] | None:
    """Return keys and children of a node; None for a leaf."""
    if isinstance(x, nnx.Module):
        return sorted(vars(x).items())
    if type(x) is dict:
        return list(x.items())
    if type(x) in (list, tuple):
        return list(enumerate(x))
    return None


def is_object(x: Any) -> bool:
    return isinstance(x, nnx.Module | nnx.Variable | list | dict)


def objects_of(x: Any) -> list[Any]:
    """Return the objects of a graph that may be shared, in an order that its form decides."""
    found: list[Any] = []
    seen: set[int] = set()
    pending = [x]
    while pending:
        x = pending.pop()
        if is_object(x):
            if id(x) in seen:
                continue
            seen.add(id(x))
            found.append(x)
        pending += [child for _, child in reversed(parts(x) or [])]
    return found


def difference(a: Any, b: Any, same: list[tuple[Any, Any]] = ()) -> str:  # type: ignore[assignment]
    """Return where two graphs are not isomorphic, or "".

    Args:
      a: a graph.
      b: another.
      same: objects of both that have to stand for each other.
    """
    there = {id(x): y for x, y in same}
    back = {id(y): x for x, y in same}
    keep = [*same]
    done: set[int] = set()
    pending = [("", a, b)]
    while pending:
        path, x, y = pending.pop()
        if type(x) is not type(y) and not (isinstance(x, gs.Array) and isinstance(y, gs.Array)):
            return f"{path}: {type(x)} and {type(y)}"
        if is_object(x):
            if there.setdefault(id(x), y) is not y or back.setdefault(id(y), x) is not x:
                return f"{path}: shared otherwise"
            if id(x) in done:
                continue
            done.add(id(x))
            keep.append((x, y))
        if isinstance(x, nnx.Variable):
            if x.get_metadata() != y.get_metadata():
                return f"{path}: {x.get_metadata()} and {y.get_metadata()}"
            pending.append((path + ".value", x.value, y.value))
        elif isinstance(x, gs.Array | np.ndarray):
            if x.shape != y.shape or x.dtype != y.dtype or not np.array_equal(x, y):
                return f"{path}: {x} and {y}"
        elif parts(x) is None:
            if repr(x) != repr(y):
                return f"{path}: {x!r} and {y!r}"
        else:
            own, other = parts(x), parts(y)
            if [key for key, _ in own] != [key for key, _ in other]:
                return f"{path}: {[k for k, _ in own]} and {[k for k, _ in other]}"
            pending += [(f"{path}.{k}", v, w) for (k, v), (_, w) in zip(own, other, strict=True)]
    return ""


def program(seed: int, *, blocks: bool = False) -> Any:
    """Return a function of graphs that changes them at random, and returns parts of them.

    Args:
      seed: decides what it does.
      blocks: whether only what is the same for blocks as for all.
    """

    def f(*roots: Any, **named: Any) -> Any:
        source = random.Random(seed)
        every = [*roots, *[named[name] for name in sorted(named)]]
        objects = [x for root in every for x in objects_of(root)]
        boxes = [x for x in objects if isinstance(x, nnx.Variable)]
        modules = [x for x in objects if isinstance(x, nnx.Module)]
        for _ in range(source.randrange(6)):
            step = source.randrange(12)
            module = source.choice(modules)
            names = sorted(vars(module))
            if step < 3 and boxes:
                box = source.choice(boxes)
                box.value = box.value * 2 + source.choice(boxes).value
            elif step == 3 and boxes:
                source.choice(boxes)[...] += 1
            elif step == 4 and boxes:
                source.choice(boxes).mark = source.randrange(3)
            elif step == 5:
                x = source.choice(boxes).value + 1 if boxes else None
                setattr(module, source.choice(NAMES), nnx.Param(x) if boxes else 7)
            elif step == 6 and names:
                delattr(module, source.choice(names))
            elif step == 7:
                setattr(module, source.choice(NAMES), source.choice(objects))
            elif step == 8:
                other = source.choice(modules)
                vars(module).update(dict(vars(other)))
            elif step == 9:
                new = Plain()
                new.a, new.b = source.choice(objects), source.choice([1, "x", None])
                setattr(module, source.choice(NAMES), [new, (new, 5)])
            elif step == 10:
                lists = [x for x in objects if type(x) is list]
                if lists:
                    source.choice(lists).append(source.choice(objects))
            else:
                dicts = [x for x in objects if type(x) is dict]
                if dicts:
                    source.choice(dicts)["f"] = source.choice(objects)
        if not boxes:
            return source.choice(modules)
        total = boxes[0].value * 2
        if not blocks:
            total = sum((x.value.sum() for x in boxes), total)
        choice = source.randrange(5)
        if choice == 0:
            return total
        if choice == 1:
            return total, source.choice(modules)
        if choice == 2 and boxes:
            return {"box": source.choice(boxes), "total": total}
        if choice == 3:
            new = Other()
            new.part = source.choice(modules)
            return new, (new.part, [total])
        return None

    return f
