"""The stages of a function of graphs that is compiled; each stands before that of its arrays."""

from __future__ import annotations

from typing import Any, NoReturn

from gpushard import tree
from gpushard.errors import ArgumentTypeError, UnsupportedError
from gpushard.nnx.boundary import Outside, is_states
from gpushard.nnx.graphdef import shown_path
from gpushard.transforms.jit import stages

__all__ = ["Compiled", "Lowered", "Traced"]


class _Stage:
    """What all stages say."""

    inner: Any

    def __init__(self, inner: Any, wrapped: Any) -> None:
        self.inner = inner
        self.wrapped = wrapped

    def __repr__(self) -> str:
        return f"<nnx.{repr(self.inner)[1:]}"

    @property
    def in_tree(self) -> Any:
        """The structure of the arguments: positional and keyword ones."""
        return self.inner.in_tree

    @property
    def in_avals(self) -> Any:
        """Shapes and types of the arguments."""
        return self.inner.in_avals

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of arguments, counted leaf by leaf, that may be given up."""
        numbers: tuple[int, ...] = self.inner.donate_argnums
        return numbers

    @property
    def args_info(self) -> Any:
        """An `ArgInfo` for each argument."""
        return self.inner.args_info


class Compiled(_Stage):
    """A function that is ready to run for arguments of one kind.

    Args:
      inner: the function of arrays.
      wrapped: the function that it was made of.
    """

    inner: stages.Compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, and bring Modules among the arguments up to date.

        Args:
          *args: those that are not static, as they were when it was lowered.
          **kwargs: likewise.
        """
        outside = Outside()
        args, kwargs = self.wrapped.pure(outside, args, kwargs, whole=False)
        self._check(args, kwargs)
        return outside.done(self.inner(*args, **kwargs))

    def _check(self, args: Any, kwargs: Any) -> None:
        """Check that graphs are made up as they were when it was lowered."""
        wanted = self.inner.in_tree
        if tree.structure((args, kwargs)) == wanted:
            return
        now, structure = tree.flatten((args, kwargs), is_states)
        then, _ = tree.flatten(wanted.unflatten(range(wanted.num_leaves)), is_states)
        for path, x, y in zip(structure.leaf_paths(), now, then, strict=False):
            if is_states(x) and is_states(y) and x.graphdef != y.graphdef:
                inner, own, before = x.graphdef.difference(y.graphdef)
                kind = ("args", "kwargs")[path[0].idx]
                where = kind + tree.keystr(path[1:]) + shown_path(inner)
                raise ArgumentTypeError(
                    f"the compiled {self.wrapped.what}: {where} is {own}, and was {before} when it "
                    "was lowered; lower it for this, too",
                    argument="args",
                    path=where,
                )

    @staticmethod
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        """Raise: it is called itself."""
        raise UnsupportedError("call is not there for functions of Modules; call the stage itself")

    @property
    def out_tree(self) -> Any:
        """The structure of the results: arguments, keyword arguments, and what is returned."""
        return self.inner.out_tree

    def as_text(self) -> str:
        """Return what is run: operations, kernels of several of them, and what moves."""
        return self.inner.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """Return operations on numbers, and bytes read, written and moved between devices."""
        return self.inner.cost_analysis()

    def memory_analysis(self) -> stages.CompiledMemoryStats:
        """Return how many bytes it takes."""
        return self.inner.memory_analysis()

    def runtime_executable(self) -> Any:
        """Return what runs it."""
        return self.inner.runtime_executable()

    @property
    def input_shardings(self) -> Any:
        """Where arguments have to lie: of positional and of keyword ones."""
        return self.inner.input_shardings

    @property
    def output_shardings(self) -> Any:
        """Where results lie."""
        return self.inner.output_shardings

    @property
    def input_layouts(self) -> Any:
        """Where and in which order of elements arguments lie."""
        return self.inner.input_formats


class Lowered(_Stage):
    """A function whose operations are known, before kernels are made.

    Args:
      inner: the function of arrays.
      wrapped: the function that it was made of.
    """

    inner: stages.Lowered

    @classmethod
    def from_flat_info(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: stages come of functions alone."""
        raise UnsupportedError("from_flat_info is not there; call lower of a function")

    @property
    def out_tree(self) -> Any:
        """The structure of the results: arguments, keyword arguments, and what is returned."""
        return self.inner.out_tree

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Make kernels, and return the last stage.

        Args:
          compiler_options: must be empty: there are none.
        """
        return Compiled(self.inner.compile(compiler_options), self.wrapped)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the operations, a line each.

        Args:
          dialect: "gpushard", the only one there is.
          debug_info: whether to say where values lie, too.
        """
        return self.inner.as_text(dialect, debug_info=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Return the graph that the text is of.

        Args:
          dialect: as for `as_text`.
        """
        return self.inner.compiler_ir(dialect)

    def cost_analysis(self) -> dict[str, float]:
        """Return operations on numbers, and bytes read, written and moved between devices."""
        return self.inner.cost_analysis()


class Traced(_Stage):
    """A function that was traced for arguments of a kind.

    Args:
      inner: the function of arrays.
      wrapped: the function that it was made of.
    """

    inner: stages.Traced

    @property
    def out_info(self) -> Any:
        """Shapes, types and shardings of the results: arguments among them."""
        return self.inner.out_info

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None) -> Lowered:
        """Return the next stage.

        Args:
          lowering_platforms: must be None or name the platform of the devices.
        """
        return Lowered(self.inner.lower(lowering_platforms=lowering_platforms), self.wrapped)
