"""The levels of x86-64 processors for which machine code is shipped.

A level is a set of instructions (psABI for x86-64, micro-architecture levels v3 and v4): code
compiled for it runs on every processor that has them all.
"""

from __future__ import annotations

import functools
import platform

import llvmlite.binding as llvm

# LLVM's names of the instructions of each level beyond those of every x86-64 processor, best first.
_V3 = (
    *("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
)
LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": _V3,
}


@functools.cache
def runs() -> tuple[str, ...]:
    """Return the levels that this processor has, best first; none but on x86-64."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    here = {name for name, there in llvm.get_host_cpu_features().items() if there}
    return tuple(level for level, wanted in LEVELS.items() if here.issuperset(wanted))


@functools.cache
def levels() -> tuple[str, ...]:
    """Return the levels whose machine code serves here: the best one that this processor has.

    None where it has a part of AVX-512 only: the layout of the kernels' sums follows AVX-512F
    (`kernels.simd`), so that code of the level below would not fit.
    """
    best = runs()[:1]
    partly = best == ("x86-64-v3",) and llvm.get_host_cpu_features().get("avx512f", False)
    return () if partly else best


def features(level: str) -> str:
    """Return the instructions of a level as LLVM takes them, for NUMBA_CPU_FEATURES."""
    return ",".join(f"+{name}" for name in LEVELS[level])
