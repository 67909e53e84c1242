"""Kernels for processors with narrower registers."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="compiles for an x86 processor"
)
def test_kernels_for_a_processor_with_narrow_registers(tmp_path):
    features = "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2"
    narrow = {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    which = "value_gradient or widths or numpys or extreme"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-k",
        which,
        "tests/kernels/test_dense.py",
        "tests/kernels/test_gram.py",
        "tests/kernels/test_sweep_many.py",
        "tests/losses/test_dispatch.py",
    ]
    done = subprocess.run(
        command, env={**os.environ, **narrow}, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    code = "from daskglm.kernels.simd import LANES; print(LANES)"
    lanes = subprocess.run(
        [*command[:1], "-c", code], env={**os.environ, **narrow}, capture_output=True, text=True
    )
    assert lanes.stdout.strip() == "4"
