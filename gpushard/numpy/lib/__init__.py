"""What NumPy keeps in `numpy.lib`, where libraries look for it.

stride_tricks  `sliding_window_view`
"""

from gpushard.numpy.lib import stride_tricks

__all__ = ["stride_tricks"]
