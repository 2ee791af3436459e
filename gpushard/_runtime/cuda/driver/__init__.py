"""What is asked of CUDA, and CuPy, which does it."""
