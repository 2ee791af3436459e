"""Older types of JAX and XLA that say where blocks lie. The rest of `geometry` reads none."""
