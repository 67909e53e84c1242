"""Machine code of kernels on disk, made anew whenever a source that goes into it has changed.

numba keeps compiled functions on disk and compiles them again when the file that they are written
in changes. But a kernel inlines functions and constants of other modules too, and after an edit
there old machine code would go on working without a word. Here all sources of this package count
that a kernel's module imports.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel: `numba.njit` with these options, and its machine code on disk as long as
    its sources stay.

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
        self._cache_file = IndexDataCacheFile(
            self.cache_path, self._impl.filename_base, digest(function.__module__)
        )


def digest(module: str) -> str:
    """Checksum of the sources of a module and of all of this package that it imports, by way of
    others too.
    """
    sources = b"\0".join(_source(name) for name in sorted(_imported(module)))
    return hashlib.sha256(sources).hexdigest()


@functools.cache
def _imported(module: str) -> frozenset[str]:
    return frozenset([module]).union(*map(_imported, _names(_source(module))))


def _names(source: bytes) -> Iterator[str]:
    """Modules of this package that a source imports at its top, each with the package that it lies
    in.
    """
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "daskglm"
        ):
            yield node.module
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name for name in names if name in sys.modules)


@functools.cache
def _source(module: str) -> bytes:
    """The source of a module, which has been imported by now: imports come before kernels."""
    return Path(str(sys.modules[module].__file__)).read_bytes()
