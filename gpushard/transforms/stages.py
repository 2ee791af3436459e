"""The stages of a function that is compiled: traced, lowered, compiled; what can be asked of each.

Names are those of `jax.stages`. All of it is known before anything runs: shapes, types and
shardings of everything, what is moved, and how much memory it takes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from gpushard import tree
from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KeyDType, ShapeDtypeStruct
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError
from gpushard.frozen import dataclass
from gpushard.geometry.format import Format, Layout
from gpushard.ops.programs.reduce import Reduce
from gpushard.placement.device_put import device_put
from gpushard.transforms.costs import costs
from gpushard.transforms.executable import Executable, array_of
from gpushard.transforms.fold import folded
from gpushard.transforms.graph import Graph, Step, Var
from gpushard.transforms.named_dims import innermost
from gpushard.transforms.propagate import optimized
from gpushard.transforms.regions import fused
from gpushard.transforms.scans import SEVERAL
from gpushard.transforms.segments import in_segments
from gpushard.transforms.trace import tracing

# fmt: off
__all__ = ["ArgInfo", "Compiled", "CompiledMemoryStats", "Lowered", "Traced"]
# fmt: on

_KEY: Any = KeyDType()

DIALECT = "gpushard"
"""How the text of a graph is called."""


@dataclass(frozen=True)
class ArgInfo:
    """What is known of an argument.

    Args:
      shape: sizes of the dims.
      dtype: type of the elements.
      donated: whether its memory may be given up.
    """

    shape: tuple[int, ...]
    dtype: Any
    donated: bool = False


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Bytes that a compiled function takes, of all devices together.

    Args:
      argument_size_in_bytes: of its arguments.
      output_size_in_bytes: of its results.
      alias_size_in_bytes: of arguments that are results, or that are given up.
      temp_size_in_bytes: of what is there beside arguments and results when most is.
      generated_code_size_in_bytes: 0: kernels are not counted.
      peak_memory_in_bytes: when most is there, arguments and results among it.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int
    peak_memory_in_bytes: int


@dataclass(frozen=True, eq=False)
class Signature:
    """A traced function, and what it is called with."""

    what: str  # what errors call it
    graph: Graph  # what it does
    in_tree: Any  # structure of the arguments: (positional ones, keyword ones)
    out_tree: Any  # structure of the results
    in_keys: tuple[bool, ...]  # which of the arguments are random keys
    out_keys: tuple[bool, ...]  # which of the results are
    donated: tuple[bool, ...]  # which of the arguments may be given up


class _Stage:
    """What all stages say."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._signature.what}>"

    @property
    def in_tree(self) -> Any:
        """The structure of the arguments: positional and keyword ones."""
        return self._signature.in_tree

    @property
    def in_avals(self) -> Any:
        """Shapes and types of the arguments."""
        return self._inputs(lambda var, key, donated: _struct(var, key))

    @property
    def args_info(self) -> Any:
        """An `ArgInfo` for each argument."""
        return self._inputs(
            lambda var, key, donated: ArgInfo(var.shape, _KEY if key else var.dtype, donated)
        )

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of arguments, counted leaf by leaf, that may be given up."""
        return tuple(n for n, donated in enumerate(self._signature.donated) if donated)

    def _inputs(self, of: Callable[[Var, bool, bool], Any]) -> Any:
        own = self._signature
        found = [of(*each) for each in zip(own.graph.inputs, own.in_keys, own.donated, strict=True)]
        return tree.unflatten(own.in_tree, found)

    def _outputs(self, of: Callable[[Var, bool], Any]) -> Any:
        own = self._signature
        found = [of(var, key) for var, key in zip(own.graph.results, own.out_keys, strict=True)]
        return tree.unflatten(own.out_tree, found)


def _struct(var: Var, key: bool) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(
        var.shape, _KEY if key else var.dtype, sharding=var.sharding, weak_type=var.weak
    )


class Traced(_Stage):
    """A function that was traced for arguments of a kind.

    Args:
      signature: the function.
    """

    @property
    def jaxpr(self) -> str:
        """The operations that it is made of, as text."""
        return self._signature.graph.text()

    @property
    def fun_name(self) -> str:
        """The name of the function."""
        return self._signature.graph.name

    @property
    def out_info(self) -> Any:
        """Shapes, types and shardings of the results."""
        return self._outputs(_struct)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Return the next stage.

        Args:
          lowering_platforms: must be None or name the platform of the devices.
        """
        if lowering_platforms is not None and set(lowering_platforms) - {"cpu", "gpu", "cuda"}:
            raise ArgumentError(
                f"lowering_platforms={lowering_platforms!r} has unknown platforms; use cpu or gpu",
                argument="lowering_platforms",
                value=lowering_platforms,
            )
        graph = folded(optimized(self._signature.graph))
        return Lowered(dataclasses.replace(self._signature, graph=graph))


class Lowered(_Stage):
    """A function whose operations are known, before kernels are made.

    Args:
      signature: the function.
    """

    @property
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._signature.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes, types and shardings of the results."""
        return self._outputs(_struct)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the operations, a line each.

        Args:
          dialect: "gpushard", the only one there is.
          debug_info: whether to say where values lie, too.

        Raises:
          ArgumentError: the dialect is unknown.
        """
        _check_dialect(dialect)
        return self._signature.graph.text(shardings=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Graph:
        """Return the graph that the text is of.

        Args:
          dialect: as for `as_text`.
        """
        _check_dialect(dialect)
        return self._signature.graph

    def cost_analysis(self) -> dict[str, Any]:
        """Return operations on numbers, and bytes read, written and moved between devices.

        "bytes accessed" are those read and written. What several devices do counts for each, and a
        loop once. Under "devices" is the same for each device, by its id. Bytes moved are those
        that a device receives from others, as if each had memory of its own.

        >>> import gpushard as gs
        >>> costs = gs.jit(lambda x: x @ x).lower(gs.numpy.ones((4, 4))).cost_analysis()
        >>> costs["flops"], costs["bytes read"], costs["devices"][0]["bytes written"]
        (128.0, 256.0, 128.0)
        """
        return costs(self._signature.graph)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Make kernels, and return the last stage.

        Args:
          compiler_options: must be empty: there are none.

        Raises:
          ArgumentError: an option is unknown.
        """
        if compiler_options:
            raise ArgumentError(
                f"compiler_options has {sorted(compiler_options)}, and there are no options; leave "
                "it out, and see gpushard.configure for settings",
                argument="compiler_options",
                options=sorted(compiler_options),
            )
        return Compiled(self._signature)


class Compiled(_Stage):
    """A function that is ready to run for arguments of one kind.

    Args:
      signature: the function.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        self._executable = Executable(signature.graph)

    @property
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._signature.out_tree

    @property
    def input_shardings(self) -> Any:
        """Where arguments have to lie: of positional and of keyword ones."""
        return self._inputs(lambda var, key, donated: var.sharding)

    @property
    def output_shardings(self) -> Any:
        """Where results lie."""
        return self._outputs(lambda var, key: var.sharding)

    @property
    def input_formats(self) -> Any:
        """Where and in which order arguments lie."""
        return self._inputs(lambda var, key, donated: _format(var))

    @property
    def output_formats(self) -> Any:
        """Where and in which order results lie."""
        return self._outputs(lambda var, key: _format(var))

    @property
    def input_layouts(self) -> Any:
        """The order of elements of arguments in memory."""
        return self._inputs(lambda var, key, donated: _format(var).layout)

    @property
    def output_layouts(self) -> Any:
        """The order of elements of results in memory."""
        return self._outputs(lambda var, key: _format(var).layout)

    def as_text(self) -> str:
        """Return what is run: operations, kernels of several of them, and what moves."""
        return self._executable.text()

    def cost_analysis(self) -> dict[str, Any]:
        """Return what `Lowered.cost_analysis` does, of kernels rather than operations.

        What is between the operations of a kernel is neither read nor written.
        """
        return costs(self._signature.graph, fused)

    def memory_analysis(self) -> CompiledMemoryStats:
        """Return how many bytes it takes."""
        return memory(self._signature.graph, self._executable.parts, self._signature.donated)

    def runtime_executable(self) -> Executable:
        """Return what runs it."""
        return self._executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it.

        Args:
          *args: those that are not static, as they were when it was lowered.
          **kwargs: likewise.

        Raises:
          ArgumentTypeError: arguments have another structure, other shapes or types.
          ShardingError: they lie elsewhere.
        """
        own = self._signature
        if innermost() is not None or tracing() is not None:
            raise ArgumentTypeError(
                f"the compiled {own.what} is called in a function that is traced or mapped itself; "
                "call the function that it was made of",
                argument="self",
            )
        leaves, structure = tree.flatten((args, kwargs))
        if structure != own.in_tree:
            raise ArgumentTypeError(
                f"the compiled {own.what} got arguments {_shown(structure)}, and was compiled for "
                f"{_shown(own.in_tree)}; call it as it was lowered",
                argument="args",
            )
        arrays = [x if isinstance(x, Array) else device_put(x) for x in leaves]
        self._check(arrays)
        buffers = [x._live() for x in arrays]
        for x, donated in zip(arrays, own.donated, strict=True):
            if donated:
                x.delete()
        made = self._executable.run(buffers)
        results = [
            array_of(buffer, var, keys=key)
            for buffer, var, key in zip(made, own.graph.results, own.out_keys, strict=True)
        ]
        return tree.unflatten(own.out_tree, results)

    call = __call__

    def _check(self, arrays: list[Any]) -> None:
        own = self._signature
        paths = ["".join(map(str, path)) for path in own.in_tree.leaf_paths()]
        wrong, apart = [], []
        for n, (x, var, key, path) in enumerate(
            zip(arrays, own.graph.inputs, own.in_keys, paths, strict=True)
        ):
            wanted = _struct(var, key)
            if (x.shape, x.dtype) != (wanted.shape, wanted.dtype):
                wrong.append(f"args{path} is {x.dtype}{list(x.shape)}, compiled for {var!r}")
            elif isinstance(x, ConcreteArray) and x._held().tiling is not var.tiling:
                if x.committed:
                    apart.append(f"args{path} lies as {x.sharding}, compiled for {var.sharding}")
                else:
                    arrays[n] = x._moved(var.sharding, "a compiled function")
        if wrong:
            raise ArgumentTypeError(
                f"the compiled {own.what} got other shapes or types: {'; '.join(wrong)}; lower it "
                "for these",
                argument="args",
            )
        if apart:
            raise ShardingError(
                f"the compiled {own.what} got arguments that lie elsewhere: {'; '.join(apart)}; "
                "move them with gpushard.reshard",
                argument="args",
            )


def _shown(structure: Any) -> str:
    """Return a structure as text: * for each leaf."""
    return repr(structure).removeprefix("TreeDef(").removesuffix(")")


def _check_dialect(dialect: str | None) -> None:
    if dialect not in (None, DIALECT):
        raise ArgumentError(
            f"dialect={dialect!r} is unknown; there is {DIALECT!r}",
            argument="dialect",
            value=dialect,
        )


def _format(var: Var) -> Format:
    return Format(Layout(tuple(range(len(var.shape)))), var.sharding)


def memory(
    graph: Graph, steps: Sequence[Step], donated: Sequence[bool] = ()
) -> CompiledMemoryStats:
    """Return how many bytes a graph takes whose operations run one after the other.

    Args:
      graph: the graph.
      steps: what is run of it.
      donated: which of its arguments are let go of as soon as nothing needs them; () for none.
    """
    inputs, results = dict.fromkeys(graph.inputs), dict.fromkeys(graph.results)
    given_up = {x for x, marked in zip(graph.inputs, donated, strict=False) if marked}
    taken, given = _bytes(inputs), _bytes(results)
    shared = _bytes(x for x in inputs if x in results or x in given_up)
    ahead = _bytes((*inputs, *graph.constants))
    peak = _peak(graph, steps, given_up)
    return CompiledMemoryStats(taken, given, shared, max(0, peak - ahead - given + shared), 0, peak)


def _bytes(values: Iterable[Var]) -> int:
    return sum(x.held_bytes for x in values)


def _peak(graph: Graph, steps: Sequence[Step], given_up: Collection[Var]) -> int:
    """Return the most bytes that are held at once; `given_up` are inputs that nobody else has."""
    root: dict[Any, Any] = {}  # of what is another value's memory, that value
    for step in steps:
        turned = step.row is not None and step.row.later
        same = turned and list(step.params[0]) == sorted(step.params[0])
        if same or (step.name in ("relabel", "reshard") and not step.moved):
            root[step.results[0]] = root.get(step.operands[0], step.operands[0])
    own = [x for x in graph.inputs if x not in given_up]
    kept = {root.get(x, x) for x in (*own, *graph.constants, *graph.results)}
    last = {
        root.get(x, x): n
        for n, step in enumerate(steps)
        for x in (*step.operands, *step.results)
        if isinstance(x, Var)
    }
    now = peak = _bytes(dict.fromkeys((*graph.inputs, *graph.constants)))
    for n, step in enumerate(steps):
        within, beside = _meanwhile(step)
        made = _bytes(x for x in step.results if x not in root)
        peak = max(peak, now + within, now + made + beside)
        now += made
        arrays = [x for x in (*step.operands, *step.results) if isinstance(x, Var)]
        ended = [x for x in dict.fromkeys(root.get(x, x) for x in arrays) if last[x] == n]
        now -= _bytes(x for x in ended if x not in kept)
    return peak


def _meanwhile(step: Step) -> tuple[int, int]:
    """Return bytes that an operation holds while it runs, and beside its results at its end."""
    if not step.bodies:
        program = getattr(step.run, "__self__", None)
        return 0, step.scratch + getattr(program, "scratch", 0) + _states(step)
    (body, *_), within = step.bodies, 0
    for own in step.bodies:
        carried = own.inputs[: len(own.inputs) - own.captured]
        outside = _bytes(own.inputs[len(carried) :])
        let_go = carried if step.name in ("for", "while") and own is step.bodies[-1] else ()
        within = max(within, _peak(own, in_segments(own, fused(own)), let_go) - outside)
    rows = beside = 0  # parts of results, and what putting them together takes beside these
    for x, one in zip(step.results[::-1], body.results[::-1], strict=False):
        if x.shape != one.shape:
            rows += x.held_bytes
            several = math.prod(x.shape) > SEVERAL * math.prod(one.shape)
            beside += x.held_bytes * (3 if several else 2)
    return within + rows, beside


def _states(step: Step) -> int:
    """Return bytes of what the devices of a split dim reduce, before that is merged."""
    row, (x, *_) = step.row, (*step.operands, None)
    if row is None or not isinstance(x, Var) or type(row.strategies[0]) is not Reduce:
        return 0
    rule, sizes = row.rule_for(step.avals(), step.params), x.tiling.stops - x.tiling.starts
    gone = [sizes[dim] for dim, own in enumerate(rule.operands[0]) if own in rule.reduced]
    wholes = [x.shape[dim] for dim, own in enumerate(rule.operands[0]) if own in rule.reduced]
    if all((own == n).all() for own, n in zip(gone, wholes, strict=True)):
        return 0  # no device has a part only
    if all((own == 1).all() for own in gone):
        return 0  # what devices have is what is merged
    one = sum(math.prod(result.shape) * result.dtype.itemsize for result in step.results)
    return one * len(x.tiling.devices)
