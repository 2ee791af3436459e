"""The stages of a compiled function, with the names of `jax.stages`: traced, lowered, compiled.

`jit(f).trace(x)` records the operations, `lower()` optimizes them and chooses all layouts, and
`compile()` makes kernels. Shapes, shardings, costs and memory are known before anything runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._array.shape_dtype import KEY, KeyDType, ShapeDtypeStruct
from gpushard._frozen import dataclass
from gpushard._geometry.memory_layout import Format, Layout
from gpushard._movement.sharding_devices import devices_of
from gpushard._placement.device_put import implicitly_put
from gpushard._placement.donation import donated_arrays, give_up
from gpushard._transforms.fusion.fuse import fuse_regions
from gpushard._transforms.graph.costs import costs
from gpushard._transforms.graph.graph import Graph, Var
from gpushard._transforms.graph.layout_search import optimized
from gpushard._transforms.graph.ops import Region
from gpushard._transforms.jit.memory import CompiledMemoryStats, memory
from gpushard._transforms.tracing.executable import Executable, array_of
from gpushard._transforms.tracing.fold import fold_constants
from gpushard._transforms.tracing.trace import tracing
from gpushard._transforms.values.frames import innermost
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError

# fmt: off
__all__ = ["ArgInfo", "Compiled", "CompiledMemoryStats", "Lowered", "Traced"]
# fmt: on


DIALECT = "gpushard"
"""The name of the text form of a graph."""


@dataclass(frozen=True)
class ArgInfo:
    """The shape and the type of an argument, and whether it is donated.

    Args:
      shape: the size of each axis.
      dtype: the type of the elements.
      donated: whether a call deletes the array, so that results can take its memory.
    """

    shape: tuple[int, ...]
    dtype: Any
    donated: bool = False


@dataclass(frozen=True, eq=False)
class Signature:
    """A traced function: its graph, and the structures of its arguments and results."""

    what: str  # the function, for errors
    graph: Graph  # its operations
    in_tree: Any  # the structure of (positional arguments, keyword arguments)
    out_tree: Any  # the structure of the results
    in_keys: tuple[bool, ...]  # which of the arguments are random keys
    out_keys: tuple[bool, ...]  # which of the results are random keys
    donated: tuple[bool, ...]  # which of the arguments are donated


_S = TypeVar("_S", bound="Stage")


class Stage:
    """The properties that all stages have."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def _next(self, kind: type[_S], signature: Signature) -> _S:
        """Make the next stage. Subclasses make stages of their own kind."""
        return kind(signature)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._signature.what}>"

    @property
    def in_tree(self) -> Any:
        """The structure of the pair of positional and keyword arguments."""
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
        """The numbers of donated leaves of the arguments."""
        return tuple(n for n, donated in enumerate(self._signature.donated) if donated)

    def _inputs(self, of: Callable[[Var, bool, bool], Any]) -> Any:
        signature = self._signature
        leaves = [
            of(*each)
            for each in zip(
                signature.graph.inputs, signature.in_keys, signature.donated, strict=True
            )
        ]
        return tree.unflatten(signature.in_tree, leaves)

    def _outputs(self, of: Callable[[Var, bool], Any]) -> Any:
        signature = self._signature
        leaves = [
            of(var, key)
            for var, key in zip(signature.graph.results, signature.out_keys, strict=True)
        ]
        return tree.unflatten(signature.out_tree, leaves)


def _struct(var: Var, key: bool) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(
        var.shape, KEY if key else var.dtype, sharding=var.sharding, weak_type=var.weak
    )


class Traced(Stage):
    """A function that was traced for arguments of one kind: its operations as recorded.

    `jit(f).trace(*args)` makes one.

    Args:
      signature: the traced function.
    """

    @property
    def jaxpr(self) -> str:
        """The recorded operations, as text."""
        return self._signature.graph.text()

    @property
    def fun_name(self) -> str:
        """The name of the function."""
        return self._signature.graph.name

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Optimize the operations and choose all layouts.

        Args:
          lowering_platforms: None, or a list of "cpu", "gpu" and "cuda". The platform is in any
            case that of the devices.

        Raises:
          ArgumentError: a platform is unknown.
        """
        if lowering_platforms is not None and set(lowering_platforms) - {"cpu", "gpu", "cuda"}:
            raise ArgumentError(
                f"lowering_platforms={lowering_platforms!r} has unknown platforms. Try: use cpu "
                "or gpu",
                argument="lowering_platforms",
                value=lowering_platforms,
            )
        graph = fold_constants(optimized(self._signature.graph, results_follow=True))
        return self._next(Lowered, dataclasses.replace(self._signature, graph=graph))


class Lowered(Stage):
    """A function with chosen operations and layouts, and without kernels.

    `jit(f).lower(*args)` makes one.

    Args:
      signature: the lowered function.
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
        """Make this stage from a graph.

        Args:
          lowering: the graph, as `compiler_ir` returns it.
          in_tree: the structure of the pair of positional and keyword arguments.
          in_avals: the shape and type of each leaf of the arguments.
          donate_argnums: the numbers of donated leaves.
          out_tree: the structure of the results. Results that are random keys come as plain arrays
            of their numbers.
          no_kwargs: ignored: `in_tree` has the keyword arguments.

        Raises:
          ArgumentTypeError: lowering is no graph.
          ArgumentError: the graph has other arguments or another number of results, or it has no
            argument of a number in `donate_argnums`.

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
                f"from_flat_info: lowering is a {type(lowering).__name__}, and must be a graph. "
                "Try: lowered.compiler_ir()",
                argument="lowering",
                type=type(lowering),
            )
        keys = tuple(isinstance(x.dtype, KeyDType) for x in in_avals)
        expected = [_struct(var, key) for var, key in zip(lowering.inputs, keys, strict=False)]
        taken = [(tuple(x.shape), x.dtype) for x in in_avals]
        counts = len(lowering.inputs), len(lowering.results)
        if (
            [(x.shape, x.dtype) for x in expected] != taken
            or (in_tree.num_leaves, out_tree.num_leaves) != counts
            or len(in_avals) != counts[0]
        ):
            raise ArgumentError(
                f"from_flat_info: {lowering.name} takes {lowering.inputs} and has {counts[1]} "
                f"results; in_avals has {taken}, in_tree {in_tree.num_leaves} leaves and out_tree "
                f"{out_tree.num_leaves}. Try: take all of them from the stage with that graph",
                argument="in_avals",
            )
        donated = tuple(n in donate_argnums for n in range(counts[0]))
        if sum(donated) != len(set(donate_argnums)):
            raise ArgumentError(
                f"from_flat_info: donate_argnums is {tuple(donate_argnums)}, and there are "
                f"{counts[0]} arguments. Try: count them from 0",
                argument="donate_argnums",
                value=tuple(donate_argnums),
            )
        out_keys = (False,) * counts[1]
        return cls(
            Signature(f"jit({lowering.name})", lowering, in_tree, out_tree, keys, out_keys, donated)
        )

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Write the operations as text, a line each.

        Args:
          dialect: "gpushard", the only dialect.
          debug_info: whether to add the sharding of each value.

        Raises:
          ArgumentError: the dialect is unknown.
        """
        _check_dialect(dialect)
        return self._signature.graph.text(shardings=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Graph:
        """Return the graph of the operations.

        Args:
          dialect: as for `as_text`.
        """
        _check_dialect(dialect)
        return self._signature.graph

    def cost_analysis(self) -> dict[str, Any]:
        """Count arithmetic operations, and bytes read, written and moved between devices.

        All devices count, and the body of a loop counts once. "bytes accessed" is the sum of bytes
        read and written. "devices" has the same counts for each device, by its id. Bytes moved are
        those that a device receives from others, as if no two devices shared memory.

        >>> import gpushard as gs
        >>> costs = gs.jit(lambda x: x @ x).lower(gs.numpy.ones((4, 4))).cost_analysis()
        >>> costs["flops"], costs["bytes read"], costs["devices"][0]["bytes written"]
        (128.0, 256.0, 128.0)
        """
        return costs(self._signature.graph)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile the operations to kernels.

        Args:
          compiler_options: must be empty, as there are no options.

        Raises:
          ArgumentError: there is an option.
        """
        if compiler_options:
            raise ArgumentError(
                f"compiler_options has {sorted(compiler_options)}, and there are no options. Try: "
                "leave it out, and use gpushard.configure for settings",
                argument="compiler_options",
                options=sorted(compiler_options),
            )
        return self._next(Compiled, self._signature)


class Compiled(Stage):
    """A compiled function, ready to run for arguments of one kind.

    `jit(f).lower(*args).compile()` makes one. Unlike `jit(f)`, it refuses other arguments.

    Args:
      signature: the lowered function.
    """

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        self._executable = Executable(signature.graph)

    @property
    def input_shardings(self) -> Any:
        """The sharding that each argument must have."""
        return self._inputs(lambda var, key, donated: var.sharding)

    @property
    def output_shardings(self) -> Any:
        """The sharding of each result."""
        return self._outputs(lambda var, key: var.sharding)

    @property
    def input_formats(self) -> Any:
        """The sharding and the memory layout of each argument."""
        return self._inputs(lambda var, key, donated: _format(var))

    @property
    def output_formats(self) -> Any:
        """The sharding and the memory layout of each result."""
        return self._outputs(lambda var, key: _format(var))

    @property
    def input_layouts(self) -> Any:
        """The memory layout of each argument."""
        return self._inputs(lambda var, key, donated: _format(var).layout)

    @property
    def output_layouts(self) -> Any:
        """The memory layout of each result."""
        return self._outputs(lambda var, key: _format(var).layout)

    def as_text(self, dialect: str | None = None) -> str:
        """Write the operations as text, then the devices, bytes received, launches and memory.

        A fused kernel is one line. Bytes received are those that devices get from others, as if no
        two devices shared memory.

        Args:
          dialect: "gpushard", the only dialect.

        Raises:
          ArgumentError: the dialect is unknown.

        >>> import gpushard as gs
        >>> f = gs.jit(lambda x: x @ x.T).lower(gs.numpy.ones((4, 4))).compile()
        >>> f.as_text().splitlines()[-2:]
        ['# bytes received: 0', '# memory: 256 bytes, 128 of arguments, 128 of results']
        """
        _check_dialect(dialect)
        signature, steps = self._signature, self._executable.steps
        moved = {n: int(of["bytes moved"]) for n, of in self.cost_analysis()["devices"].items()}
        values = [
            *signature.graph.inputs,
            *(x for step in steps for x in (*step.arrays, *step.results)),
        ]
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
        """Count like `Lowered.cost_analysis`, with a fused kernel as one operation.

        Values within a fused kernel are neither read from memory nor written to it.
        """
        return costs(self._signature.graph, fuse_regions)

    def memory_analysis(self) -> CompiledMemoryStats:
        """Estimate the bytes of arguments, results, and temporary values."""
        return memory(self._executable, self._signature.donated)

    def runtime_executable(self) -> Executable:
        """Return the executable, which runs the graph on buffers."""
        return self._executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function.

        Args:
          *args: the positional arguments that are not static, of the kind that it was lowered for.
          **kwargs: the keyword arguments that are not static.

        Raises:
          ArgumentTypeError: arguments have another structure, other shapes or types, or the call is
            within a traced or mapped function.
          ShardingError: a committed argument has another sharding.
        """
        signature = self._signature
        if innermost() is not None or tracing() is not None:
            raise ArgumentTypeError(
                f"the compiled {signature.what} is called within a traced or mapped function. Try: "
                "call the function that it was compiled from",
                argument="self",
            )
        leaves, structure = tree.flatten((args, kwargs))
        if structure != signature.in_tree:
            raise ArgumentTypeError(
                f"the compiled {signature.what} got arguments {_shown(structure)}, and was "
                f"compiled for {_shown(signature.in_tree)}. Try: call it as it was lowered",
                argument="args",
            )
        arrays = [x if isinstance(x, Array) else implicitly_put(x, signature.what) for x in leaves]
        self._check(arrays)
        given_up = [x for x, donated in zip(arrays, signature.donated, strict=True) if donated]
        given_up = donated_arrays(given_up, signature.what)
        buffers = [x._live() for x in arrays]
        give_up(given_up)
        arrays.clear()  # frees copies of donated arrays on other devices
        outputs = self._executable.run(buffers)
        results = [
            array_of(buffer, var, self._executable.runtime, keys=key)
            for buffer, var, key in zip(
                outputs, signature.graph.results, signature.out_keys, strict=True
            )
        ]
        return tree.unflatten(signature.out_tree, results)

    call = __call__

    def _check(self, arrays: list[Any]) -> None:
        signature = self._signature
        paths = [tree.keystr(path) for path in signature.in_tree.leaf_paths()]
        wrong, apart = [], []
        for n, (x, var, key, path) in enumerate(
            zip(arrays, signature.graph.inputs, signature.in_keys, paths, strict=True)
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
                f"the compiled {signature.what} got other shapes or types: {'; '.join(wrong)}. "
                "Try: lower it for these",
                argument="args",
            )
        if apart:
            raise ShardingError(
                f"the compiled {signature.what} got arguments that lie elsewhere: "
                f"{'; '.join(apart)}. Try: move them with gpushard.reshard",
                argument="args",
            )


def _shown(structure: Any) -> str:
    """Write a structure as text, with * for each leaf."""
    return repr(structure).removeprefix("TreeDef(").removesuffix(")")


def _check_dialect(dialect: str | None) -> None:
    if dialect not in (None, DIALECT):
        raise ArgumentError(
            f"dialect={dialect!r} is unknown. Try: use {DIALECT!r}",
            argument="dialect",
            value=dialect,
        )


def _format(var: Var) -> Format:
    return Format(Layout(tuple(range(len(var.shape)))), var.sharding)
