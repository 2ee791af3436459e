"""The stages of a function that is compiled: traced, lowered, compiled; what can be asked of each.

Names are those of `jax.stages`. All of it is known before anything runs: shapes, types and
shardings of everything, what is moved, and how much memory it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gpushard import tree
from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KEY, KeyDType, ShapeDtypeStruct
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError
from gpushard.frozen import dataclass
from gpushard.geometry.format import Format, Layout
from gpushard.movement.buffer import devices_of
from gpushard.placement.device_put import implicitly_put
from gpushard.placement.donation import donated_arrays, give_up
from gpushard.transforms.graph.costs import costs
from gpushard.transforms.graph.graph import Graph, Var
from gpushard.transforms.graph.ops import Region
from gpushard.transforms.graph.propagate import optimized
from gpushard.transforms.jit.memory import CompiledMemoryStats, memory
from gpushard.transforms.regions.regions import fuse_regions
from gpushard.transforms.tracing.executable import Executable, array_of
from gpushard.transforms.tracing.fold import fold_constants
from gpushard.transforms.tracing.trace import tracing
from gpushard.transforms.values.frames import innermost

# fmt: off
__all__ = ["ArgInfo", "Compiled", "CompiledMemoryStats", "Lowered", "Traced"]
# fmt: on


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


_S = TypeVar("_S", bound="Stage")


class Stage:
    """What all stages say."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def _next(self, kind: type[_S], signature: Signature) -> _S:
        """Make the next stage; stages of other functions make theirs."""
        return kind(signature)

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
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._signature.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes, types and shardings of the results."""
        return self._outputs(_struct)

    @property
    def args_info(self) -> Any:
        """An `ArgInfo` for each argument."""
        return self._inputs(
            lambda var, key, donated: ArgInfo(var.shape, KEY if key else var.dtype, donated)
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
        var.shape, KEY if key else var.dtype, sharding=var.sharding, weak_type=var.weak
    )


class Traced(Stage):
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
        graph = fold_constants(optimized(self._signature.graph))
        return self._next(Lowered, dataclasses.replace(self._signature, graph=graph))


class Lowered(Stage):
    """A function whose operations are known, before kernels are made.

    Args:
      signature: the function.
    """

    @classmethod
    def from_flat_info(
        cls,
        lowering: Graph,
        in_tree: Any,
        in_avals: Sequence[Any],
        donate_argnums: Sequence[int],
        out_tree: Any,
        no_kwargs: bool = False,
    ) -> Lowered:
        """Return this stage of a graph.

        Args:
          lowering: the graph, as `compiler_ir` gives it.
          in_tree: structure of the arguments: positional and keyword ones.
          in_avals: shapes and types of the arguments, in order.
          donate_argnums: numbers of those that may be given up.
          out_tree: structure of the results. Those that are random keys come as their numbers.
          no_kwargs: has no meaning here: keyword arguments are those of `in_tree`.

        Raises:
          ArgumentTypeError: lowering is no graph.
          ArgumentError: it takes other arguments, gives other results, or lacks one to be donated.

        >>> import gpushard as gs
        >>> x = gs.numpy.ones(3)
        >>> old = gs.jit(lambda x: x * 2).lower(x)
        >>> leaves = gs.tree.leaves(old.in_avals)
        >>> new = gs.stages.Lowered.from_flat_info(
        ...     old.compiler_ir(), old.in_tree, leaves, (), old.out_tree
        ... )
        >>> new.compile()(x).tolist()
        [2.0, 2.0, 2.0]
        """
        if not isinstance(lowering, Graph):
            raise ArgumentTypeError(
                f"from_flat_info: lowering is a {type(lowering).__name__}; give what compiler_ir "
                "returns",
                argument="lowering",
                type=type(lowering),
            )
        keys = tuple(isinstance(x.dtype, KeyDType) for x in in_avals)
        own = [_struct(var, key) for var, key in zip(lowering.inputs, keys, strict=False)]
        taken = [(tuple(x.shape), x.dtype) for x in in_avals]
        counts = len(lowering.inputs), len(lowering.results)
        if (
            [(x.shape, x.dtype) for x in own] != taken
            or (in_tree.num_leaves, out_tree.num_leaves) != counts
            or len(in_avals) != counts[0]
        ):
            raise ArgumentError(
                f"from_flat_info: {lowering.name} takes {lowering.inputs} and has {counts[1]} "
                f"results; in_avals has {taken}, in_tree {in_tree.num_leaves} leaves and out_tree "
                f"{out_tree.num_leaves}; give those of the stage that the graph is of",
                argument="in_avals",
            )
        donated = tuple(n in donate_argnums for n in range(counts[0]))
        if sum(donated) != len(set(donate_argnums)):
            raise ArgumentError(
                f"from_flat_info: donate_argnums is {tuple(donate_argnums)}, and there are "
                f"{counts[0]} arguments; count them from 0",
                argument="donate_argnums",
                value=tuple(donate_argnums),
            )
        out_keys = (False,) * counts[1]
        return cls(
            Signature(f"jit({lowering.name})", lowering, in_tree, out_tree, keys, out_keys, donated)
        )

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
        return self._next(Compiled, self._signature)


class Compiled(Stage):
    """A function that is ready to run for arguments of one kind.

    Args:
      signature: the function.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        self._executable = Executable(signature.graph)

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

    def as_text(self, dialect: str | None = None) -> str:
        """Return what is run, a line each, then where, what moves, launches and memory.

        Operations that are one kernel are one line. Bytes received are those that devices get from
        others, as if each had memory of its own.

        Args:
          dialect: "gpushard", the only one there is.

        Raises:
          ArgumentError: the dialect is unknown.

        >>> import gpushard as gs
        >>> f = gs.jit(lambda x: x @ x.T).lower(gs.numpy.ones((4, 4))).compile()
        >>> f.as_text().splitlines()[-2:]
        ['# bytes received: 0', '# memory: 256 bytes, 128 of arguments, 128 of results']
        """
        _check_dialect(dialect)
        own, steps = self._signature, self._executable.steps
        moved = {n: int(of["bytes moved"]) for n, of in self.cost_analysis()["devices"].items()}
        values = [*own.graph.inputs, *(x for one in steps for x in (*one.arrays, *one.results))]
        devices = {x.id: x for value in values for x in devices_of(value.tiling)}
        kernels = sum(isinstance(step.op, Region) for step in steps)
        received = ", ".join(f"{n:,} by device {at}" for at, n in moved.items() if n)
        memory = self.memory_analysis()
        counts = [self._executable.launches(step) for step in steps]
        known, others = sum(filter(None, counts)), counts.count(None)
        lines = [
            f"devices: {', '.join(f'{x.platform} {n}' for n, x in sorted(devices.items()))}",
            f"operations: {len(steps)}"
            + (f", {kernels} of them kernels of several" if kernels else ""),
            f"bytes received: {sum(moved.values()):,}" + (f", {received}" if received else ""),
            f"memory: {memory.peak_memory_in_bytes:,} bytes, "
            f"{memory.argument_size_in_bytes:,} of arguments, "
            f"{memory.output_size_in_bytes:,} of results",
        ]
        if known or others:
            rest = f", and those of {others} other operations" if others else ""
            graphs = self._executable.graph_launches()
            if graphs:
                of, to = map(sum, zip(*graphs, strict=True))
                rest += f"; {of:,} of them, captured, are {to:,} of CUDA graphs"
            lines.insert(2, f"launches: {known:,}{rest}")
        return "\n".join([self._executable.text(), *(f"# {line}" for line in lines)])

    def cost_analysis(self) -> dict[str, Any]:
        """Return what `Lowered.cost_analysis` does, of kernels rather than operations.

        What is between the operations of a kernel is neither read nor written.
        """
        return costs(self._signature.graph, fuse_regions)

    def memory_analysis(self) -> CompiledMemoryStats:
        """Return how many bytes it takes."""
        return memory(self._executable, self._signature.donated)

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
        arrays = [x if isinstance(x, Array) else implicitly_put(x, own.what) for x in leaves]
        self._check(arrays)
        given_up = [x for x, donated in zip(arrays, own.donated, strict=True) if donated]
        given_up = donated_arrays(given_up, own.what)
        buffers = [x._live() for x in arrays]
        give_up(given_up)
        arrays.clear()  # copies elsewhere, which nobody else has
        made = self._executable.run(buffers)
        results = [
            array_of(buffer, var, self._executable.runtime, keys=key)
            for buffer, var, key in zip(made, own.graph.results, own.out_keys, strict=True)
        ]
        return tree.unflatten(own.out_tree, results)

    call = __call__

    def _check(self, arrays: list[Any]) -> None:
        own = self._signature
        paths = [tree.keystr(path) for path in own.in_tree.leaf_paths()]
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
