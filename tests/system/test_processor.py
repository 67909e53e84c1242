"""Levels of processors for which machine code is shipped."""

import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from daskglm.kernels import simd
from daskglm.system import processor

V3 = dict.fromkeys(processor.LEVELS["x86-64-v3"], True)
V4 = dict.fromkeys(processor.LEVELS["x86-64-v4"], True)


@pytest.fixture
def a_processor(monkeypatch):
    def with_features(found, machine="x86_64"):
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: found)
        monkeypatch.setattr(processor.platform, "machine", lambda: machine)
        processor.runs.cache_clear()
        processor.levels.cache_clear()
        return processor.levels()

    yield with_features
    processor.runs.cache_clear()
    processor.levels.cache_clear()


@pytest.mark.parametrize(
    ("found", "machine", "levels"),
    [
        (V4, "x86_64", ("x86-64-v4",)),
        (V3, "x86_64", ("x86-64-v3",)),
        (V3, "AMD64", ("x86-64-v3",)),
        ({**V3, "avx2": False}, "x86_64", ()),
        (V4, "aarch64", ()),
        # the layout of sums would be that of AVX-512
        ({**V3, "avx512f": True}, "x86_64", ()),
        ({**V4, "avx512vl": False}, "x86_64", ()),
    ],
)
def test_the_level_of_a_processor(a_processor, found, machine, levels):
    assert a_processor(found, machine) == levels


def test_a_level_has_the_registers_that_kernels_expect():
    if not processor.levels():
        pytest.skip("this processor is of no level for which machine code is shipped")
    assert ("avx512f" in processor.LEVELS[processor.levels()[0]]) == simd.WIDE_REGISTERS


@pytest.mark.parametrize("level", processor.LEVELS)
def test_llvm_knows_a_level_by_the_same_instructions(level):
    """What a level is to LLVM must be enabled by the list, and the other way round."""
    code = f"""
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
target.create_target_machine(cpu={level!r}, features={processor.features(level)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "not a recognized" not in done.stderr
