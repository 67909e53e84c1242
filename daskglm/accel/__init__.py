"""Our solvers behind scikit-learn's names.

`python -m daskglm.accel script.py` runs a program so, `%load_ext daskglm.accel` a notebook, and
`install()` does it from within.
"""

from __future__ import annotations

from typing import Any

from daskglm.accel.switch import install, report, uninstall

__all__ = ["install", "report", "uninstall"]


def load_ipython_extension(shell: Any) -> None:
    """Install, for `%load_ext daskglm.accel`."""
    install()


def unload_ipython_extension(shell: Any) -> None:
    """Uninstall, for `%unload_ext daskglm.accel`."""
    uninstall()
