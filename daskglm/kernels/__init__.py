"""Kernels by the kind of rows: modules with the same function names, chosen by the type of a
block's X.

`host` and `cuda` are the two backends: namespaces with the same names, of which `cuda` is
imported when first needed, since it needs CuPy.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from daskglm.core.device import gpu, on_device
from daskglm.kernels import cpu as host
from daskglm.kernels.pattern import Pattern

__all__ = ["Pattern", "backend_of", "for_rows", "gram_side"]


def backend_of(X: Any) -> Any:
    """Return the backend of rows: `host` or `cuda`."""
    return gpu() if on_device(X) else host


def for_rows(X: Any) -> tuple[ModuleType, Any]:
    """Return the kernel module for the rows X and X in the form its functions take."""
    found: tuple[ModuleType, Any] = backend_of(X).for_rows(X)
    return found


def gram_side(n_features: int) -> int:
    """Return the side of the square array in which `evaluate` puts a Gram.

    It is d + 1, rounded up to whole register blocks of 4.
    """
    return (n_features + 4) // 4 * 4
