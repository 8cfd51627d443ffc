"""Fast inference for dynamic neural networks, whose graph differs from input to input."""

from ._native import __version__

__all__ = ["__version__"]
