"""Our solvers behind scikit-learn's names.

`python -m daskglm.accel script.py` runs a program so, and `install()` does it from within.
"""

from daskglm.accel.switch import install, report, uninstall

__all__ = ["install", "report", "uninstall"]
