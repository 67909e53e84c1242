"""A plugin of pytest that runs tests under `daskglm.accel`, and writes its report where DASKGLM_ACCEL_REPORT says."""

import os
from pathlib import Path

import daskglm.accel

daskglm.accel.install()


def pytest_sessionfinish() -> None:
    """Write what was taken and what fell back."""
    if path := os.environ.get("DASKGLM_ACCEL_REPORT"):
        Path(path).write_text(daskglm.accel.report() + "\n")
