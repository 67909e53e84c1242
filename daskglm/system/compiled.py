"""Compiled kernels on disk, compiled again whenever a source that they depend on has changed.

numba keeps compiled functions on disk, and compiles a function again when its own file changes. But
a kernel also inlines functions and constants of other modules, and after an edit there numba would
silently run the old machine code. The cache here depends on all modules of this package that the
kernel's module imports, directly or not.
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
from numba.core import sigutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel: compile it by `numba.njit` with these options, and cache it on disk.

    Raises
    ------
    RuntimeError
        If numba finds no folder to which it can write, as with `cache=True`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher._cache = SourcesCache(function)
        return dispatcher

    return decorate


def compiled_callback(
    function: Callable[..., Any], signature: Any, of: Callable[..., Any], **options: Any
) -> CFunc:
    """Compile a function that other compiled code calls by its `address`.

    Parameters
    ----------
    function : callable
        May be a closure over the function `of`, one for each of them.
    signature : numba signature
    of : callable
        It is cached on disk if `of` is a function of this package.
    **options
        As for `numba.cfunc`.
    """
    callback = CFunc(function, sigutils.normalize_signature(signature), {}, options)
    if of.__module__.split(".")[0] == "daskglm":
        callback._cache = SourcesCache(function, of)  # type: ignore[attr-defined]
    callback.compile()
    return callback


class SourcesCache(FunctionCache):
    """numba's cache of one function, which is stale when one of its sources has changed.

    A closure over the function `of` has an entry for each of them.
    """

    def __init__(self, function: Callable[..., Any], of: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(
            self.cache_path, self._impl.filename_base, digest(function.__module__)
        )
        self._of = (
            "" if of is None else f"{of.__module__}.{of.__qualname__} {digest(of.__module__)}"
        )

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """Return what tells machine code from that of other signatures and processors.

        numba's own key pickles the values that a closure holds, which differ between processes.
        """
        return sig, codegen.magic_tuple(), self._of


def digest(module: str) -> str:
    """Return a checksum of a module's source and of all modules of this package it depends on."""
    sources = b"\0".join(_source(name) for name in sorted(_imported(module)))
    return hashlib.sha256(sources).hexdigest()


@functools.cache
def _imported(module: str) -> frozenset[str]:
    return frozenset([module]).union(*map(_imported, _names(_source(module))))


def _names(source: bytes) -> Iterator[str]:
    """Yield the modules of this package that a source imports at its top, and their packages."""
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
    """Return the source of a module. It is imported already: imports come before kernels."""
    return Path(str(sys.modules[module].__file__)).read_bytes()
