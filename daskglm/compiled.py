"""Machine code of kernels on disk, made anew whenever a source that goes into it has changed.

numba keeps compiled functions on disk and compiles them again when the file that they are written in changes. But a
kernel inlines functions and constants of other modules too, and after an edit there old machine code would go on
working without a word. Here all sources of this package count that a kernel's module imports.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

IMPORT = re.compile(rb"^from (daskglm[\w.]*) import ", re.M)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel: `numba.njit` with these options, and its machine code on disk as long as its sources stay.

    RuntimeError where numba finds no folder that it may write to, as with `cache=True`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher._cache = SourcesCache(function)
        return dispatcher

    return decorate


class SourcesCache(FunctionCache):
    """numba's cache of one function, which is stale when any of its sources is another."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, digest(function.__module__))


def digest(module: str) -> str:
    """Checksum of the sources of a module and of all of this package that it imports, by way of others too."""
    sources = b"\0".join(_source(name) for name in sorted(_imported(module)))
    return hashlib.sha256(sources).hexdigest()


@functools.cache
def _imported(module: str) -> frozenset[str]:
    names = (name.decode() for name in IMPORT.findall(_source(module)))
    return frozenset([module]).union(*map(_imported, names))


@functools.cache
def _source(module: str) -> bytes:
    """The source of a module, which has been imported by now: imports come before kernels."""
    return Path(str(sys.modules[module].__file__)).read_bytes()
