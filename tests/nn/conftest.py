"""Runtimes for the tests of this folder."""

from tests.numpy.conftest import domains

__all__ = ["domains"]
