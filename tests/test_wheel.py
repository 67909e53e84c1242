"""The wheel: what it contains, and that its fits compile nothing. At night: kernels are compiled.

Where no machine code is shipped, as on Macs, it is one for any Python, whose first fits compile.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from daskglm.system import processor

ROOT = Path(__file__).resolve().parents[1]
# all kernels are compiled for two levels of processors
pytestmark = pytest.mark.timeout(1200)
FIRST_FITS = """
import time
import numpy as np
import scipy.sparse as sp
import daskglm
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 30))
z = X @ rng.normal(size=30)
print(daskglm.__file__)
for rows in (X, X.astype("float32"), sp.csr_matrix(X), sp.csr_matrix(X.astype("float32"))):
    daskglm.LogisticRegression().fit(rows, z > 0)
    daskglm.Ridge().fit(rows, z)
    daskglm.LinearSVC(loss="hinge").fit(rows, z > 0)
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built as `make wheel` does, from a copy of what git knows."""
    folder = tmp_path_factory.mktemp("wheel")
    names = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith(("tests/", "benchmarks/", "docs/")):
            (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "src" / name).write_bytes((ROOT / name).read_bytes())
    env = os.environ | {"PYTHONPATH": str(folder / "src")}
    if processor.runs():
        run(sys.executable, "deploy/wheel/machine_code.py", cwd=folder / "src", env=env)
    build = [sys.executable, "-m", "build", "--sdist", "--wheel", "--outdir", str(folder / "dist")]
    run(*build, cwd=folder / "src")
    return next((folder / "dist").glob("*.whl"))


@pytest.mark.nightly
def test_it_has_code_for_every_level_of_this_processor(wheel):
    if not processor.runs():
        assert wheel.name.endswith("-py3-none-any.whl")
        return
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    system = {"linux": "manylinux2014_x86_64", "win32": "win_amd64"}[sys.platform]
    assert wheel.name.endswith(f"-{python}-none-{system}.whl")
    assert wheel.stat().st_size < 30e6
    names = zipfile.ZipFile(wheel).namelist()
    for level in processor.runs():
        assert sum(name.startswith(f"daskglm/machine_code/{level}/") for name in names) > 100
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


@pytest.mark.nightly
def test_first_fits_compile_nothing(wheel, tmp_path):
    """Installed away from the checkout, with no cache of this machine."""
    target = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel)
    env = os.environ | {"PYTHONPATH": str(target), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    done = run(sys.executable, "-c", FIRST_FITS, cwd=tmp_path, env=env)
    assert done.stdout.startswith(str(target))
    compiled = [path for path in (tmp_path / "numba").rglob("*") if path.is_file()]
    assert bool(compiled) == ("compiling" in done.stderr) == (not processor.runs())


@pytest.mark.nightly
def test_the_source_distribution_builds_a_wheel_for_any_python(wheel, tmp_path):
    sdist = next(wheel.parent.glob("*.tar.gz"))
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, sdist)
    assert next(tmp_path.glob("*.whl")).name.endswith("-py3-none-any.whl")
