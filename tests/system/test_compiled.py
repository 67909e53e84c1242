"""Kernels' machine code on disk is that of the sources as they are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskglm
from daskglm.kernels import sweep
from daskglm.losses import conjugates as conjugates  # one of the modules that are looked at
from daskglm.system import compiled, processor

PACKAGE = Path(daskglm.__file__).parent
LOSSES = """
import numpy as np
from daskglm.kernels.margins import curvatures
from daskglm.losses import table
from daskglm.losses.conjugates import losses
law = table.law_of(table.LOSSES["squared"].ref)
(tile,) = [made for (row, *_), made in table._compiled.items() if row is table.LOSSES["squared"].row]
out = np.zeros(3)
curvatures(law, np.ones(3), np.ones(3), np.empty(0), np.zeros(3), 0, 3, out)
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


@pytest.mark.nightly
def test_an_edit_in_another_file_is_seen(tmp_path):
    """Before: the kernel's own file had not changed, and numba went on with machine code of the old loss."""
    copy = tmp_path / "daskglm"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "machine_code"))
    assert squared_loss(tmp_path) == (1.0, 1.0, 0, 0, 0)
    assert squared_loss(tmp_path) == (1.0, 1.0, 1, 1, 1)
    losses = copy / "losses" / "squared.py"
    text = losses.read_text()
    changed = text.replace("return 0.5 * r * r, r, 1.0\n", "return 25.0 * r * r, r, 50.0\n")
    assert changed != text
    losses.write_text(changed)
    assert squared_loss(tmp_path) == (50.0, 50.0, 0, 1, 0)


TWO_CONSTANTS = """
import sys
from numba import njit
from daskglm.system.compiled import compiled

def times(factor):
    @njit
    def power(x):
        total = 0.0
        for i in range(int(x)):
            total += factor * i**x
        return total
    return power

of_first, of_second = times(3.0), times(200.0)

@compiled()
def first(x):
    return of_first(x) + of_first(x + 1) + of_first(x + 2) + of_first(x + 3) + of_first(x + 4)

@compiled()
def second(x):
    return of_second(x) + of_second(x + 1) + of_second(x + 2) + of_second(x + 3) + of_second(x + 4)

def show(*kernels):
    print(*(kernel(7.0) for kernel in kernels))
    print(*(sum(kernel.stats.cache_hits.values()) for kernel in kernels))
"""


@pytest.mark.slow
def test_machine_code_of_two_processes_does_not_mix(tmp_path):
    """Before: the second kernel called the first one's function, which had the same name and number."""
    (tmp_path / "two_constants.py").write_text(TWO_CONSTANTS)
    env = {**os.environ, "PYTHONPATH": f"{PACKAGE.parent}{os.pathsep}{tmp_path}"}

    def run(kernels):
        command = f"from two_constants import *; show({kernels})"
        done = subprocess.run(
            [sys.executable, "-c", command], capture_output=True, text=True, cwd=tmp_path, env=env
        )
        assert done.returncode == 0, done.stderr
        values, hits = done.stdout.splitlines()
        return [float(value) for value in values.split()], hits

    (first,), _ = run("first")
    (second,), _ = run("second")
    assert second == pytest.approx(first * 200 / 3)
    assert run("first, second") == ([first, second], "1 1")
    assert run("second, first") == ([second, first], "1 1")


def test_a_module_counts_with_all_that_it_imports():
    def names(module):
        return {name.removeprefix("daskglm.") for name in compiled._imported(f"daskglm.{module}")}

    assert names("kernels.sweep") >= {
        *("kernels.sweep", "kernels.dense", "kernels.gram", "kernels.simd_columns", "kernels.simd"),
        *("losses.dispatch", "core.summation"),
    }
    assert not names("kernels.dense") & {"kernels.csr", "losses.squared"}
    assert names("losses.conjugates") >= {"losses.builtin", "losses.squared", "losses.vector_math"}
    assert names("losses.vector_math") == {"losses.vector_math"}
    assert names("losses.hinge") >= {"losses.hinge", "losses.base"}
    assert "losses.squared" not in names("losses.hinge")
    assert compiled.digest("daskglm.losses.conjugates") != compiled.digest("daskglm.losses.base")


KEY = compiled.Key("(float64,)", "x86_64-unknown-linux-gnu", "here", "+avx2")


@pytest.mark.slow
def test_kernels_are_kept_on_disk():
    X, z = np.ones((4, 3)), np.zeros(4)
    sweep.margins(X, np.ones(3), 0.0, 0, 4, z)
    stats = sweep.margins.stats
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) >= 1
    assert list(Path(stats.cache_path).glob("kernels.sweep.margins.*"))


REFUSING = """
import sys
import numpy as np
from daskglm.system.compiled import compiled

@compiled()
def refusing(x):
    if x[0] < 0.0:
        raise ValueError("below zero")
    return x + 1.0

if __name__ == "__main__":
    from refusing import refusing as kernel
    found = kernel(np.array([3.0, 2.0])).tolist()
    compiler = "numba.np.arrayobj" in sys.modules
    try:
        kernel(np.array([-1.0]))
    except ValueError as error:
        print(found, error, sum(kernel.stats.cache_hits.values()), compiler)
    if len(sys.argv) > 1:
        print(kernel(np.ones(2, np.float32)).tolist())
"""


def test_code_from_disk_does_without_what_compiles_it(tmp_path):
    """It makes arrays and raises its errors, and another signature is compiled as ever."""
    (tmp_path / "refusing.py").write_text(REFUSING)
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    said = []
    for arguments in ([], ["float32"]):
        done = subprocess.run(
            [sys.executable, tmp_path / "refusing.py", *arguments],
            capture_output=True,
            text=True,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    assert said[0] == ["[4.0, 3.0] below zero 0 True"]
    assert said[1] == ["[4.0, 3.0] below zero 1 False", "[2.0, 2.0]"]


def test_files_of_one_function(tmp_path):
    """numba's index of them was written whole by each process, and lost what another had added."""
    first = compiled.MachineCode(str(tmp_path), "dense.margins", "", "sources")
    second = compiled.MachineCode(str(tmp_path), "dense.margins", "", "sources")
    other = KEY._replace(signature="(float32,)")
    assert first.load(KEY) is None
    assert second.load(other) is None
    first.save(KEY, "float64")
    second.save(other, "float32")
    for each in (first, second):
        assert (each.load(KEY), each.load(other)) == ("float64", "float32")
        assert each.load(KEY._replace(processor="there")) is None
        assert each.load(KEY._replace(features="")) is None
    assert compiled.MachineCode(str(tmp_path), "dense.margins", "of", "sources").load(KEY) is None
    assert len(list(tmp_path.glob("*.py*[0-9]"))) == 2
    first.flush()
    assert not list(tmp_path.iterdir())


IN_TURN = """
import sys, time
from numba.core import event
from daskglm.system import compiled

class Times(event.Listener):
    count = 0
    def on_start(self, event):
        Times.count += event.data["dispatcher"] is kernel
        if sys.argv[1] == "stop":
            print("compiling", flush=True)
            time.sleep(1000.0)
    def on_end(self, event):
        pass

@compiled.compiled()
def kernel(x):
    return x + 2.0

event.register("numba:compile", Times())
if sys.argv[1] == "wrong":
    try:
        kernel("a")
    except Exception as error:
        assert "TypingError" in type(error).__name__
    assert not compiled.HELD
print(kernel(1.0), Times.count, flush=True)
"""


def in_turn(folder, *words):
    """Start a process that compiles a kernel, and says how often it did."""
    (folder / "in_turn.py").write_text(IN_TURN)
    env = {**os.environ, "PYTHONPATH": f"{PACKAGE.parent}"}
    command = [sys.executable, "in_turn.py", *words]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_one_of_several_processes_compiles(tmp_path):
    """Before: each worker of a machine compiled all kernels, on the same processors."""
    processes = [in_turn(tmp_path, "go") for _ in range(4)]
    said = [(each.communicate()[0].split(), each.returncode) for each in processes]
    assert sorted(said) == [(["3.0", "0"], 0)] * 3 + [(["3.0", "1"], 0)]
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.slow
def test_a_process_that_was_killed_keeps_none_waiting(tmp_path):
    first = in_turn(tmp_path, "stop")
    assert first.stdout.readline() == "compiling\n"
    second = in_turn(tmp_path, "go")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(4.0)
    first.kill()
    assert second.communicate()[0].split() == ["3.0", "1"]
    first.communicate()


@pytest.mark.slow
def test_what_cannot_be_compiled_keeps_none_waiting(tmp_path):
    assert in_turn(tmp_path, "wrong").communicate()[0].split() == ["3.0", "2"]


def test_files_of_changed_sources_are_overwritten(tmp_path):
    old = compiled.MachineCode(str(tmp_path), "dense.margins", "", "old")
    new = compiled.MachineCode(str(tmp_path), "dense.margins", "", "new")
    old.save(KEY, "old")
    assert new.load(KEY) is None
    new.save(KEY, "new")
    assert new.load(KEY) == "new"
    assert old.load(KEY) is None
    assert len(list(tmp_path.glob("*.py*[0-9]"))) == 1


@pytest.mark.parametrize("damage", [b"", b"sources", None, "cut"])
def test_a_damaged_file_is_compiled_again(tmp_path, damage):
    files = compiled.MachineCode(str(tmp_path), "dense.margins", "", "sources")
    files.save(KEY, list(range(100)))
    path = next(tmp_path.iterdir())
    whole = path.read_bytes()
    path.write_bytes({None: whole[:-9] + b"?" * 9, "cut": whole[:-30]}.get(damage, damage))
    assert files.load(KEY) is None
    files.save(KEY, "again")
    assert files.load(KEY) == "again"


def test_shipped_code_is_that_of_a_level(tmp_path, monkeypatch):
    """A wheel's files are named for a level, not for the processor that looks for them."""
    monkeypatch.setattr(compiled, "SHIPPED", tmp_path)
    monkeypatch.setattr(compiled, "levels", lambda: ("x86-64-v3",))
    here = compiled.MachineCode("", "dense.margins", "", "sources")
    assert here.load(KEY) is None
    level = KEY._replace(processor="x86-64-v3", features=processor.features("x86-64-v3"))
    compiled.MachineCode(str(tmp_path / "x86-64-v3"), "dense.margins", "", "sources").save(
        level, "shipped"
    )
    assert here.load(KEY) == "shipped"
    # where numba is told what to compile for, nothing else will do
    monkeypatch.setattr(compiled.numba.config, "CPU_NAME", "generic")
    assert here.load(KEY) is None


@pytest.mark.slow
def test_without_a_folder_to_write_to(tmp_path):
    """numba raises where a function is decorated; then the package could not even be imported."""
    copy = tmp_path / "daskglm"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "machine_code"))
    code = """
import numba.core.caching as caching
caching.CompileResultCacheImpl._locator_classes[:] = []
import numpy as np
from daskglm.kernels.margins import _dot
print(_dot(np.ones(3), np.ones(3)), _dot.stats.cache_path == "")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3.0", "True"]
    assert done.stderr.count("compiling kernels (once per machine)") == 1


def test_a_full_disk_does_not_end_a_fit(tmp_path, monkeypatch, caplog):
    def once(x):
        return x + 1.0

    once.__module__ = "daskglm.system.topology"
    once = compiled.compiled()(once)

    def full(key, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(once._cache._cache_file, "save", full)
    with caplog.at_level("INFO", logger="daskglm"):
        assert once(1.0) == 2.0
    assert "No space left" in caplog.text


def test_machine_code_of_another_numba_is_not_taken(tmp_path, monkeypatch):
    def files():
        return compiled.MachineCode(str(tmp_path), "dense.margins", "", "sources")

    files().save(KEY, "code")
    assert files().load(KEY) == "code"
    monkeypatch.setattr(compiled.numba, "__version__", "0.1")
    assert files().load(KEY) is None
