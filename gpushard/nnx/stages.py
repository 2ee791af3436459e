"""The stages of a function of graphs that is compiled: those of its arrays, called with graphs."""

from __future__ import annotations

from typing import Any, NoReturn

from gpushard import tree
from gpushard.errors import ArgumentTypeError, UnsupportedError
from gpushard.nnx.boundary import Outside, is_states
from gpushard.nnx.graphdef import path_text
from gpushard.transforms.jit import stages

__all__ = ["Compiled", "Lowered", "Traced"]


class _OfGraphs(stages.Stage):
    """A stage of a function of arrays that stands for one of graphs.

    Its results are arguments, keyword arguments and what the function returns.

    Args:
      signature: the function of arrays.
      wrapped: the function of graphs.
    """

    def __init__(self, signature: stages.Signature, wrapped: Any) -> None:
        super().__init__(signature)
        self.wrapped = wrapped

    def __repr__(self) -> str:
        return f"<nnx.{super().__repr__()[1:]}"

    def _next(self, kind: Any, signature: stages.Signature) -> Any:
        return _NEXT[kind](signature, self.wrapped)


class Traced(_OfGraphs, stages.Traced):
    """A function that was traced for arguments of a kind."""


class Lowered(_OfGraphs, stages.Lowered):
    """A function whose operations are known, before kernels are made."""

    @classmethod
    def from_flat_info(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: stages come of functions alone."""
        raise UnsupportedError("from_flat_info is not there; call lower of a function")


class Compiled(_OfGraphs, stages.Compiled):
    """A function that is ready to run for arguments of one kind."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, and bring Modules among the arguments up to date.

        Args:
          *args: those that are not static, as they were when it was lowered.
          **kwargs: likewise.
        """
        outside = Outside()
        args, kwargs = self.wrapped.pure(outside, args, kwargs, whole=False)
        self._check_graphs(args, kwargs)
        return outside.update(super().__call__(*args, **kwargs))

    def _check_graphs(self, args: Any, kwargs: Any) -> None:
        """Check that graphs are made up as they were when it was lowered."""
        wanted = self.in_tree
        if tree.structure((args, kwargs)) == wanted:
            return
        now, structure = tree.flatten((args, kwargs), is_states)
        then, _ = tree.flatten(wanted.unflatten(range(wanted.num_leaves)), is_states)
        for path, x, y in zip(structure.leaf_paths(), now, then, strict=False):
            if is_states(x) and is_states(y) and x.graphdef != y.graphdef:
                inner, own, before = x.graphdef.difference(y.graphdef)
                kind = ("args", "kwargs")[path[0].idx]
                where = kind + tree.keystr(path[1:]) + path_text(inner)
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


_NEXT = {stages.Lowered: Lowered, stages.Compiled: Compiled}
