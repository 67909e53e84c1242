"""Whether the kernels are compiled for this machine, without a fit that would tell."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import numba
from numba.core.registry import cpu_target

from daskglm.system.compiled import PACKAGE, cache_folder
from daskglm.system.files import replace_file

NAME = "warm_up.json"


class Record:
    """What a warm-up leaves on disk: the files of machine code that its fits used.

    It holds as long as no source of the package, Python, numba or the processor is another, and all
    files are as they were. A copy of the folders elsewhere is as good.
    """

    def __init__(self) -> None:
        self.folder = cache_folder()
        self.key = _key()

    def holds(self) -> bool:
        """Return whether nothing is to be compiled."""
        if self.folder is None:
            return False
        try:
            told = json.loads((self.folder / NAME).read_text())
            return told["key"] == self.key and all(
                (self.folder / name).stat().st_size == size for name, size in told["files"].items()
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or damaged
            return False

    def write(self, files: Iterable[Path]) -> None:
        """Record the files; where that cannot be written, the next warm-up looks again."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            sizes = {os.path.relpath(path, self.folder): path.stat().st_size for path in files}
            told = {"key": self.key, "files": dict(sorted(sizes.items()))}
            replace_file(self.folder / NAME, json.dumps(told, indent=0).encode())


def target() -> dict[str, str]:
    """Return the processor, as LLVM sees it, and versions that machine code depends on."""
    return {
        "processor": " ".join(map(str, cpu_target.target_context.codegen().magic_tuple())),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numba": numba.__version__,
    }


def _key() -> str:
    """Return a checksum of all sources, and of what else machine code depends on."""
    checksum = hashlib.sha256(repr((sys.version, target())).encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        checksum.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return checksum.hexdigest()
