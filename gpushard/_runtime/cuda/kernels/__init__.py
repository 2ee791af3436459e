"""Kernels, their packed arguments, and NumPy's functions for GPUs."""
