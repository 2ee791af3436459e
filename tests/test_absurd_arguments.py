"""Give every parameter of every public function integers that no array, axis or count can have.

A call must give a result or one of gpushard's errors, not one of NumPy's or Python's. It must also
end: the test counts the calls of Python functions and limits the address space.
"""

import inspect
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.special  # noqa: F401 -- as its import takes many calls, when a function needs it

import gpushard as gs
from gpushard import lax, nn, random, special
from gpushard.errors import GpushardError, OutOfMemoryError
from gpushard.testing import runtime
from tests.share import some

MODULES = {
    "numpy": gs.numpy,
    "linalg": gs.numpy.linalg,
    "fft": gs.numpy.fft,
    "lax": lax,
    "nn": nn,
    "random": random,
    "special": special,
    "tree": gs.tree,
    "gpushard": gs,
}

VALUES: tuple[Any, ...] = (
    2**40,
    2**62,
    2**63,
    -(2**63),
    2**70,
    -(2**70),
    (2**62,),
    (2**40, 2**40),
    [(2**40, 2**40)],
    (2**70,),
)

EXCEPT = {
    "numpy.array2string": "NumPy's own function",
    "numpy.array_repr": "NumPy's own function",
    "numpy.array_str": "NumPy's own function",
    "numpy.iterable": "NumPy's own function",
    "numpy.printoptions": "NumPy's own function",
    "numpy.set_printoptions": "NumPy's own function",
    "gpushard.configure": "changes settings of the process",
    "special.hyp1f1": "the time that SciPy takes for its series grows with the greatest element",
    "tree.all": "asks each leaf whether it is true, which arrays of several elements refuse",
}
"""Functions that are left out, and why."""

CALLS = 300_000
"""So many calls of functions are enough for each call here; more count as work without end."""

ROOM = 3 << 30
"""So many bytes a call may ask for beyond what the process has."""


class Work(BaseException):
    """More calls of functions than any call here needs."""


@contextmanager
def limited() -> Iterator[list[int]]:
    """Limit memory and calls of functions; yield a list that holds the number of calls left."""
    left = [CALLS]

    def count(frame: Any, event: str, function: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Work(f"more than {CALLS:,} calls of functions")

    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, limits[1]))
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield left
    finally:
        sys.setprofile(before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def kinds_of_arrays() -> list[Any]:
    """Return the arrays to call functions with, one at a time."""
    return [
        gs.numpy.arange(6.0),
        gs.numpy.arange(6),
        gs.numpy.ones((3, 3)),
    ]


def first(*args: Any) -> Any:
    """Return the first argument; stands for any function that a parameter wants."""
    return args[0] if args else 0


FUNCTIONS = (
    "body_fun", "callback", "cond_fun", "convert", "data_callback", "f", "false_fun",
    "flatten_func", "flatten_with_keys", "fn", "fun", "func", "func1d", "function", "mask_func",
    "operation", "pyfunc", "true_fun", "unflatten_func",
)  # fmt: skip
"""Parameters that are functions."""

OTHERS: dict[str, Any] = {
    "M": 3, "N": 3, "arrays": "several", "axes": (0,), "axis": 0, "axis1": 0, "axis2": 1,
    "axis_names": ("x",), "axis_shapes": (1,), "axis_size": 2, "branches": [first, first],
    "broadcast_dimensions": (0,), "choicelist": "several", "choices": "several",
    "computation": lax.add, "d": 2, "deg": 1, "destination": 0, "dimension": 0, "dimensions": (0,),
    "dims": (6,), "dtype": float, "exponent_bits": 5, "fft_lengths": (6,), "fill_value": 1,
    "filt": "array", "index": 1, "index_dtype": int, "indices_or_sections": 3, "init_value": 0.0,
    "int_type": "int32", "k": 1, "kth": 1, "lhs_shape": (1, 1, 3), "lower": 0, "mantissa_bits": 5,
    "mesh_shape": (1,), "mode": 1.0, "multi_index": "several", "n": 3, "name": "a name",
    "new_dtype": float, "new_shape": (2, 3), "num_classes": 3, "operands": "several", "ord": 1,
    "pad_width": 1, "padding": "SAME", "padding_value": 0.0, "permutation": (0,), "q": 0.5,
    "rank": 2, "repeats": 2, "reps": (2,), "rhs_shape": (1, 1, 3), "seed": 0, "shape": (6,),
    "shift": 1, "size": 6, "sizes": (2,), "slice_size": 2, "slice_sizes": (2,), "source": 0,
    "split_axis": 0, "start": 0, "start_dimension": 0, "start_index": 1, "start_indices": (1,),
    "stop": 4, "subscripts": "i->i", "tup": "several", "upper": 2, "window_dimensions": (2,),
    "window_strides": (1,),
}  # fmt: skip
"""Other parameters that have to be given and are no arrays."""


def function_named(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(MODULES[module], name)
    return function


def has_signature(function: Any) -> bool:
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


NAMES = [
    (module, name)
    for module, namespace in MODULES.items()
    for name in sorted(dir(namespace))
    if not name.startswith("_")
    and callable(function := getattr(namespace, name))
    and not isinstance(function, type)
    and has_signature(function)
    and f"{module}.{name}" not in EXCEPT
]


def usual(parameter: inspect.Parameter, x: Any, *, arrays: bool) -> Any:
    """Return a value that suits most parameters of this name."""
    name = parameter.name
    if name == "key":
        return random.key(0)
    if name in FUNCTIONS:
        return first
    if arrays or (known := OTHERS.get(name, "array")) == "array":
        return x
    return [x, x] if known == "several" else known


def calls_of(
    function: Callable[..., Any], value: Any, x: Any, *, arrays: bool
) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Yield for each parameter its name, and the arguments of a call that gives it the value."""
    parameters = inspect.signature(function).parameters.values()
    for absurd in parameters:
        if absurd.kind is absurd.VAR_KEYWORD:
            continue
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in parameters:
            if each is absurd:
                given = value
            elif each.kind is each.VAR_POSITIONAL and not args:
                given = x
            elif each.default is each.empty and each.kind not in (
                each.VAR_KEYWORD,
                each.VAR_POSITIONAL,
            ):
                given = usual(each, x, arrays=arrays)
            else:
                continue
            if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL) or (
                each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty
            ):
                args.append(given)
            else:
                kwargs[each.name] = given
        yield absurd.name, args, kwargs


def said(function: Callable[..., Any], value: Any, x: Any, *, arrays: bool) -> Iterator[str]:
    """Yield a line for each call that gives neither a result nor one of gpushard's errors."""
    for parameter, args, kwargs in calls_of(function, value, x, arrays=arrays):
        wrong = ""
        with limited() as left:
            try:
                function(*args, **kwargs)
            except GpushardError:
                pass
            except Exception as error:
                wrong = repr(error)[:150]
            except Work as error:
                wrong = repr(error)
        if left[0] < 0:
            wrong = f"more than {CALLS:,} calls of functions"
        if wrong:
            yield f"{parameter}={value!r} with {x.dtype}{list(x.shape)}: {wrong}"


@pytest.mark.one_of(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "name"), NAMES)
def test_absurd_values_give_results_or_typed_errors(module: str, name: str) -> None:
    function = function_named(module, name)
    number = NAMES.index((module, name))
    values = some((VALUES[number % len(VALUES)],), VALUES)
    with runtime():
        arrays = kinds_of_arrays()
        arrays = some(arrays[number % len(arrays) :][:1], arrays)
        wrong = [
            text
            for value in values
            for x in arrays
            for own in (True, False)
            for text in said(function, value, x, arrays=own)
        ]
    assert not wrong, "\n".join(wrong)


HUGE = 1 << 62

X = np.arange(6.0)

AS_NUMPY: dict[str, Callable[[Any], Any]] = {
    "diff": lambda xp: xp.diff(xp.asarray(X[:3]), n=4),
    "diff of booleans": lambda xp: xp.diff(xp.asarray(X > 2), n=9),
    "polyder": lambda xp: xp.polyder(xp.asarray(X), 9),
    "polyder of no terms": lambda xp: xp.polyder(xp.asarray(X[:0]), 9),
    "array_split": lambda xp: xp.array_split(xp.asarray(X), 9)[8],
    "tril_indices": lambda xp: xp.tril_indices(3, 99),
    "triu_indices": lambda xp: xp.triu_indices(3, -99, 2),
    "matrix_rank": lambda xp: xp.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]),
    "matrix_rank of several": lambda xp: xp.linalg.matrix_rank([[[1.0, 2.0]]] * 2, tol=[0.5, 9.0]),
    "compress of a number": lambda xp: xp.compress(xp.asarray([True]), 5),
    "extract of a number": lambda xp: xp.extract([True], 5),
    "extract of rows": lambda xp: xp.extract([True, False, True], [[1, 2], [3, 4]]),
    "fromiter": lambda xp: xp.fromiter(iter(range(5)), int, 3),
    "fromiter of nothing": lambda xp: xp.fromiter(iter(range(5)), int, -3),
}


@pytest.mark.parametrize("call", AS_NUMPY.values(), ids=AS_NUMPY)
def test_arguments_that_numpy_takes_give_its_results(call: Callable[[Any], Any]) -> None:
    with runtime():
        own, expected = np.asarray(call(gs.numpy)), np.asarray(call(np))
    assert own.dtype == expected.dtype
    assert own.shape == expected.shape
    assert np.array_equal(own, expected)


def test_turns_without_effect_are_left_out() -> None:
    with runtime(), limited() as left:
        assert gs.numpy.diff(gs.numpy.asarray(X), n=HUGE).shape == (0,)
        assert gs.numpy.polyder(gs.numpy.asarray(X), HUGE).shape == (0,)
        assert len(gs.numpy.tril_indices(3, HUGE)[0]) == 9
    assert left[0] > 0


def test_windows_may_be_longer_than_all_memory() -> None:
    def total(x: Any) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, (HUGE,), (1,), "SAME")

    with runtime(), limited() as left:
        x = gs.numpy.asarray(X)
        assert total(x).tolist() == gs.jit(total)(x).tolist() == [15.0] * 6
        far = lax.reduce_window(x, 1.0, lax.add, (2,), (1,), [(9, -6)])
        assert far.tolist() == [1.0] * 8
    assert left[0] > 0


def test_kernels_without_memory_name_the_operation() -> None:
    def spread(x: Any) -> Any:
        how: dict[str, Any] = {"base_dilation": (1 << 52,)}
        return lax.reduce_window(x, 0.0, lax.add, (1,), (1 << 53,), **how)

    with runtime():
        x = gs.numpy.asarray(X)
        for call in (spread, gs.jit(spread)):
            with pytest.raises(OutOfMemoryError, match=r"reduce_window.*no room.*Try: ") as caught:
                call(x)
            assert caught.value.operation == "reduce_window"


def test_what_an_iterator_raises_comes_through() -> None:
    def entries() -> Iterator[int]:
        yield 1
        raise ValueError("mine")

    with runtime(), pytest.raises(ValueError, match=r"^mine$"):
        gs.numpy.fromiter(entries(), int)
