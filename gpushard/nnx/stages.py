"""The stages of a compiled function of Modules: stages of its arrays, called with Modules."""

from __future__ import annotations

from typing import Any, NoReturn

from gpushard import tree
from gpushard._transforms.jit import stages
from gpushard.errors import ArgumentTypeError, UnsupportedError
from gpushard.nnx.graphdef import path_text
from gpushard.nnx.module_arguments import Outside, is_states

__all__ = ["Compiled", "Lowered", "Traced"]


class _OfGraphs(stages.Stage):
    """A stage of a function of arrays that stands for a function of Modules.

    Its results are the positional arguments, the keyword arguments and the result of the function.

    Args:
      signature: the function of arrays.
      wrapped: the function of Modules.
    """

    def __init__(self, signature: stages.Signature, wrapped: Any) -> None:
        super().__init__(signature)
        self.wrapped = wrapped

    def __repr__(self) -> str:
        return f"<nnx.{super().__repr__()[1:]}"

    def _next(self, kind: Any, signature: stages.Signature) -> Any:
        return _NEXT[kind](signature, self.wrapped)


class Traced(_OfGraphs, stages.Traced):
    """A function of Modules that was traced for arguments of one kind."""


class Lowered(_OfGraphs, stages.Lowered):
    """A function of Modules with chosen operations and layouts, and without kernels."""

    @classmethod
    def from_flat_info(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: a stage of a function of Modules comes from `nnx.jit` only."""
        raise UnsupportedError("from_flat_info is not supported. Try: nnx.jit(f).lower(*args)")


class Compiled(_OfGraphs, stages.Compiled):
    """A compiled function of Modules, ready to run for arguments of one kind."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled function, and update the Modules among the arguments.

        Args:
          *args: the positional arguments that are not static, of the kind that it was lowered for.
          **kwargs: the keyword arguments that are not static.

        Raises:
          ArgumentTypeError: a Module has other types, names or static values.
        """
        outside = Outside()
        args, kwargs = self.wrapped.pure(outside, args, kwargs, whole=False)
        self._check_graphs(args, kwargs)
        return outside.update(super().__call__(*args, **kwargs))

    def _check_graphs(self, args: Any, kwargs: Any) -> None:
        """Check that Modules have the GraphDefs that the function was lowered for."""
        wanted = self.in_tree
        if tree.structure((args, kwargs)) == wanted:
            return
        now, structure = tree.flatten((args, kwargs), is_states)
        then, _ = tree.flatten(wanted.unflatten(range(wanted.num_leaves)), is_states)
        for path, x, y in zip(structure.leaf_paths(), now, then, strict=False):
            if is_states(x) and is_states(y) and x.graphdef != y.graphdef:
                inner, entry, before = x.graphdef.difference(y.graphdef)
                kind = ("args", "kwargs")[path[0].idx]
                where = kind + tree.keystr(path[1:]) + path_text(inner)
                raise ArgumentTypeError(
                    f"the compiled {self.wrapped.what}: {where} is {entry}, and was {before} when "
                    "it was lowered. Try: lower it for this, too",
                    argument="args",
                    path=where,
                )

    @staticmethod
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        """Raise: users call the stage itself."""
        raise UnsupportedError(
            "call is not supported for functions of Modules. Try: compiled(*args)"
        )


_NEXT = {stages.Lowered: Lowered, stages.Compiled: Compiled}
