"""Modules of the package that need a library which is not installed have no doctests to run."""

from importlib.util import find_spec

_NEED = {
    "gpushard/interop/torch.py": "torch",
    "gpushard/runtime/cuda/cupy_driver.py": "cupy",
    "gpushard/runtime/cuda/special.py": "cupyx",
}

collect_ignore = [module for module, library in _NEED.items() if not find_spec(library)]
