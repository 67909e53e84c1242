"""Compiled kernels on disk, compiled again whenever a source that they depend on has changed.

numba keeps compiled functions on disk, and compiles a function again when its own file changes. But
a kernel also inlines functions and constants of other modules, and after an edit there numba would
silently run the old machine code. The cache here depends on all modules of this package that the
kernel's module imports, directly or not. And it keeps a file for each signature: numba's index of
them loses entries where processes compile the same kernel at the same time.

Wheels contain such files too, in `machine_code/`, for levels of processors (`processor`). They are
used where numba, Python and the sources are those that they were compiled with.

numba tells functions of one name apart, such as the steps of two losses, by a number that it counts
from 1 in every process. Where files of two processes met, the linker took two functions of one
number for the same, and one loss ran the steps of another (numba issue 10486). So each process
counts from a random number here.

Processes that want the same machine code at the same time, as the workers of one machine do at a
first fit, take turns: one compiles it, the others read what that has written.

To load what is on disk, numba first sets up all that it needs to compile, and imports extensions
of other packages: most of a first fit. Here that is left to the first function that is compiled.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import itertools
import logging
import os
import pickle
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import locket
import numba
from numba import types
from numba.core import sigutils
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.environment import Environment, _rebuild_env, lookup_environment
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from daskglm.system.files import replace_file
from daskglm.system.processor import features, levels

PACKAGE = Path(__file__).parents[1]
SHIPPED = PACKAGE / "machine_code"
# Files of machine code that this process has read or written.
USED: set[Path] = set()

# Locks of this process, by file: on what it compiles now.
HELD: dict[Path, Any] = {}
# Seconds to wait at most for another process that compiles the same. The longest kernel took 35 on
# two cores that three processes shared (2026-11-29).
LONGEST_WAIT = 120.0

# Imports of this package at the top of a module, without comments: where from, and what; and names
# in the latter, which may have others after "as".
IMPORTS = re.compile(r"^from (daskglm[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
NAMES = re.compile(r"(?:^|[(,])\s*(\w+)")
COMMENTS = re.compile(r"#.*")

logger = logging.getLogger("daskglm")


def _count_from_a_random_number() -> None:
    """Number the functions that numba compiles in this process as in no other."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


_count_from_a_random_number()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_from_a_random_number)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel: compile it by `numba.njit` with these options, and cache it on disk.

    Where numba finds no folder to which it can write, each process compiles what was not shipped.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        # kernels are not passed to compiled code as values, for which there is a second wrapper
        dispatcher = numba.njit(no_cfunc_wrapper=True, **options)(function)
        dispatcher._cache = SourcesCache(function)
        dispatcher._compilation_chain_init_hook = _no_extensions
        compiler = dispatcher._compiler
        compiler.compile = dispatcher._cache.ending_turns(compiler.compile)
        return dispatcher

    return decorate


def _no_extensions() -> None:
    """Do nothing in place of the import of extensions, which kernels' arguments have no types of.

    numba imports them before it compiles.
    """


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
        cache = callback._cache = SourcesCache(function, of)  # type: ignore[attr-defined]
        cache.ending_turns(callback.compile)()
    else:
        callback.compile()
    return callback


class _Nowhere(_CacheLocator):
    """Locator of functions for which there is no folder to write to."""

    def ensure_cache_path(self) -> None:
        """Do nothing."""

    def get_cache_path(self) -> str:
        """Return no path."""
        return ""

    def get_source_stamp(self) -> str:
        """Return nothing: the sources' checksum is in the files."""
        return ""

    def get_disambiguator(self) -> str:
        """Return nothing: qualified names are unique in the modules here."""
        return ""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Nowhere:
        """Return a locator."""
        return cls()


class _Impl(CompileResultCacheImpl):
    """numba's way to write a compiled function, which goes without a folder if there is none."""

    _locator_classes = (*CompileResultCacheImpl._locator_classes, _Nowhere)


def cache_folder() -> Path | None:
    """Return the folder of this module's machine code; None where numba finds none to write to."""
    folder = _Impl(cache_folder).locator.get_cache_path()
    return Path(folder) if folder else None


class SourcesCache(FunctionCache):
    """numba's cache of one function, which is stale when one of its sources has changed.

    A closure over the function `of` has an entry for each of them.
    """

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any], of: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        module = function.__module__.removeprefix("daskglm.")
        about, sources = "", digest(function.__module__)
        if of is not None:
            about = f"{of.__module__}.{of.__qualname__}"
            sources = f"{sources} {digest(of.__module__)}"
        qualified = function.__qualname__.replace("<locals>.", "")
        self._cache_file = MachineCode(self.cache_path, f"{module}.{qualified}", about, sources)

    def _index_key(self, sig: Any, codegen: Any) -> Key:
        """Return what tells machine code from that of other signatures and processors.

        numba's own key pickles the values that a closure holds, which differ between processes.
        """
        kinds = list(_types_in(sigutils.normalize_signature(sig)[0]))
        outside = [known for takes, known in OUTSIDE if any(map(takes, kinds))]
        return Key(" ".join([str(sig), *outside]), *codegen.magic_tuple())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load machine code, for which numba's runtime suffices; None where none is on disk."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code; where that fails, this process still has it."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            logger.info("machine code of %s is not cached: %s", self._name, error)
        finally:
            self._cache_file.end_turns()

    def ending_turns(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        """Let other processes compile this function where `compile` fails."""

        def ending(*arguments: Any) -> Any:
            try:
                return compile(*arguments)
            except BaseException:
                self._cache_file.end_turns()
                raise

        return ending


# Types for which kernels call functions from outside of the package, and checksums of these.
OUTSIDE: list[tuple[Callable[[Any], bool], str]] = []


def watch(module: ModuleType, takes: Callable[[Any], bool]) -> None:
    """Compile kernels for some types anew where a module from outside of the package has changed.

    `takes` tells whether a numba type is one of them, which may be a part of a tuple.
    """
    OUTSIDE.append((takes, hashlib.sha256(inspect.getsource(module).encode()).hexdigest()))


def _types_in(kinds: Any) -> Iterator[Any]:
    """Return types, and those that tuples among them are made of."""
    for kind in kinds:
        yield kind
        if isinstance(kind, types.BaseTuple):
            yield from _types_in(kind)


class Key(NamedTuple):
    """What tells the files of one function apart, as numba and LLVM name it."""

    signature: str
    system: str
    processor: str
    features: str


class MachineCode:
    """Files of one function: one for each signature and processor, or level of processors.

    Parameters
    ----------
    folder : str
        "" for none.
    name : str
        Of the function.
    about : str
        Tells closures of one function apart.
    sources : str
        Checksum of the sources. It stands in the files, not in their names, so that a file of
        changed sources is overwritten.
    """

    def __init__(self, folder: str, name: str, about: str, sources: str) -> None:
        self.folder = Path(folder) if folder else None
        self.name, self.about = name, about
        self.turns: list[Path] = []
        self.stamp = f"{sources} {numba.__version__}\n".encode()

    def file(self, key: Key) -> str:
        """Return the name of the file for a signature and a processor."""
        checksum = hashlib.sha256("\0".join([self.about, *key]).encode()).hexdigest()
        python = f"py{sys.version_info[0]}{sys.version_info[1]}"
        return f"{self.name}.{checksum[:20]}.{python}"

    def load(self, key: Key) -> Any:
        """Return what was saved under a key, or shipped for a level.

        If nothing was, wait for a process that compiles it; None if it is this one's turn to do so.
        """
        found = self._read(self.folder, key)
        if numba.config.CPU_NAME is None:
            for level in levels():
                of_level = key._replace(processor=level, features=features(level))
                found = found or self._read(SHIPPED / level, of_level)
        if found is None:
            _say_compiling()
            self._take_turn(key)
            found = self._read(self.folder, key)
            if found is not None:
                self.end_turns()
        return found

    def _take_turn(self, key: Key) -> None:
        """Wait until no other process compiles what is under a key; have others wait for this one.

        Where files cannot be locked, or that takes too long, all compile.
        """
        if self.folder is None:
            return
        path = self.folder / f"{self.file(key)}.lock"
        if path in HELD:
            return
        lock = locket.lock_file(str(path), timeout=LONGEST_WAIT)
        with suppress(OSError, locket.LockError):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            HELD[path] = lock
            self.turns.append(path)

    def end_turns(self) -> None:
        """Let other processes compile this function, or read what was written."""
        while self.turns:
            path = self.turns.pop()
            with suppress(OSError):
                path.unlink()  # of processes that wait for it and of later ones, one each goes on
            HELD.pop(path).release()

    def _read(self, folder: Path | None, key: Key) -> Any:
        if folder is None:
            return None
        path = folder / self.file(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if not content.startswith(self.stamp):
            return None
        try:
            found = _Unpickler(io.BytesIO(content[len(self.stamp) :])).load()
        except Exception:  # a damaged file says nothing; it will be overwritten
            return None
        USED.add(path)
        return found

    def save(self, key: Key, data: Any) -> None:
        """Write what numba compiled under a key."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / self.file(key)
            replace_file(path, self.stamp + dumps(data))
            USED.add(path)

    def flush(self) -> None:
        """Delete all files of this function in the folder of this machine."""
        if self.folder is not None:
            for path in self.folder.glob(f"{self.name}.*"):
                path.unlink(missing_ok=True)


class _Unpickler(pickle.Unpickler):
    """Reads machine code without the modules that are only imported to compile it."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a file names."""
        found = super().find_class(module, name)
        return _environment if found is _rebuild_env else found


def _environment(module: str, constants: list[Any], name: str) -> Environment:
    """Return the environment of a compiled function: its constants, such as errors it raises.

    Only code that goes on in the interpreter, as no kernel's does, reads the names of its module.
    """
    found = lookup_environment(name)
    if found is None:
        found = Environment({"__name__": module})
        found.consts[:] = constants
        found.env_name = name
        Environment._memo[name] = found
    return found


@functools.cache
def _say_compiling() -> None:
    """Say once in a process why its first fit takes so long."""
    logger.warning(
        "compiling kernels (once per machine); `daskglm warm-up` compiles them all beforehand"
    )


@functools.cache
def digest(module: str) -> str:
    """Return a checksum of a module's source and of all modules of this package it depends on."""
    sources = b"\0".join(_source(name) for name in sorted(_imported(module)))
    return hashlib.sha256(sources).hexdigest()


def _imported(module: str) -> frozenset[str]:
    """Return a module and all modules of this package that it imports, directly or not."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _names(name)
    return frozenset(found)


@functools.cache
def _names(module: str) -> tuple[str, ...]:
    """Return the modules of this package that a module imports at its top, and their packages.

    Found by their text: to parse a hundred modules takes a third of a first fit.
    """
    found: list[str] = []
    for package, names in IMPORTS.findall(COMMENTS.sub("", _source(module).decode())):
        parts = (f"{package}.{name}" for name in NAMES.findall(names))
        found += [name for name in (package, *parts) if name in sys.modules]
    return tuple(found)


@functools.cache
def _source(module: str) -> bytes:
    """Return the source of a module. It is imported already: imports come before kernels."""
    return Path(str(sys.modules[module].__file__)).read_bytes()
