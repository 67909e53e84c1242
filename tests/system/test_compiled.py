"""Kernels' machine code on disk is that of the sources as they are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import daskglm
from daskglm.kernels import dense
from daskglm.system import compiled

PACKAGE = Path(daskglm.__file__).parent
LOSSES = """
import numpy as np
from daskglm.kernels.margins import curvatures
from daskglm.losses import table
from daskglm.losses.conjugates import losses
law = table.law_of(table.LOSSES["squared"].ref)
tile = table._compiled[table.LOSSES["squared"].row]
out = np.zeros(3)
curvatures(law, np.ones(3), np.ones(3), np.zeros(3), 0, 3, out)
inlined = losses(law, np.ones(3), np.full(3, 2.0), np.ones(3)) / 3
hits = [sum(kernel.stats.cache_hits.values()) for kernel in (curvatures, losses)]
print(out[0], 2 * inlined, tile.cache_hits, *hits)
"""


def squared_loss(folder):
    """Its curvature, by a kernel that calls it, and value, by one that inlines it; who was on disk.

    Those are the loss over rows, the kernel that calls it and that which inlines it.
    """
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | {
        "PYTHONPATH": str(folder)
    }
    done = subprocess.run(
        [sys.executable, "-c", LOSSES], capture_output=True, text=True, cwd=folder, env=env
    )
    assert done.returncode == 0, done.stderr
    curvature, value, *hits = done.stdout.split()
    return float(curvature), float(value), *map(int, hits)


def test_an_edit_in_another_file_is_seen(tmp_path):
    """Before: the kernel's own file had not changed, and numba went on with machine code of the old loss."""
    copy = tmp_path / "daskglm"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert squared_loss(tmp_path) == (1.0, 1.0, 0, 0, 0)
    assert squared_loss(tmp_path) == (1.0, 1.0, 1, 1, 1)
    losses = copy / "losses" / "squared.py"
    text = losses.read_text()
    changed = text.replace("return 0.5 * r * r, r, 1.0\n", "return 25.0 * r * r, r, 50.0\n")
    assert changed != text
    losses.write_text(changed)
    assert squared_loss(tmp_path) == (50.0, 50.0, 0, 1, 0)


def test_a_module_counts_with_all_that_it_imports():
    def names(module):
        return {name.removeprefix("daskglm.") for name in compiled._imported(f"daskglm.{module}")}

    assert names("kernels.dense") >= {
        *("kernels.dense", "kernels.gram", "kernels.simd_columns", "kernels.simd"),
        *("losses.dispatch", "core.summation"),
    }
    assert not names("kernels.dense") & {"kernels.csr", "losses.squared"}
    assert names("losses.conjugates") >= {"losses.builtin", "losses.squared", "losses.vector_math"}
    assert names("losses.vector_math") == {"losses.vector_math"}
    assert names("losses.hinge") >= {"losses.hinge", "losses.base"}
    assert "losses.squared" not in names("losses.hinge")
    assert compiled.digest("daskglm.losses.conjugates") != compiled.digest("daskglm.losses.base")


def test_kernels_are_kept_on_disk():
    X, z = np.ones((4, 3)), np.zeros(4)
    dense.margins(X, np.ones(3), 0.0, 0, 4, z)
    stats = dense.margins.stats
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) >= 1
    assert list(Path(stats.cache_path).glob("dense.margins*.nbi"))
