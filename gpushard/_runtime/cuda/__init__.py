"""The CUDA backend: GPUs, and parts of GPUs, as devices. The only package that imports CuPy."""
