"""Older types of JAX and XLA that describe shardings. The rest of `geometry` does not use them."""
