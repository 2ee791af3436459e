"""Kernels, what is packed for them, and NumPy's functions made of them."""
