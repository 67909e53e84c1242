"""Compile all kernels into the package, for the wheel: `python deploy/wheel/machine_code.py`.

For each level of x86-64 processors that this machine can run, `daskglm warm-up` compiles into an
empty folder, as if this were a processor of that level; its files are what the package looks for.
`make wheel` runs this and then builds the wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from daskglm.system.compiled import SHIPPED
from daskglm.system.processor import features, runs


def compile_for(level: str, folder: Path) -> int:
    """Compile all kernels for a level into a folder; return the number of files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as caches:
        env = os.environ | {
            "NUMBA_CPU_NAME": level,
            "NUMBA_CPU_FEATURES": features(level),
            "NUMBA_CACHE_DIR": caches,
        }
        subprocess.run([sys.executable, "-m", "daskglm", "warm-up"], env=env, check=True)
        files = [path for path in Path(caches).rglob("*.py[0-9]*") if path.is_file()]
        for path in files:
            shutil.copy(path, folder / path.name)
    return len(files)


def main() -> None:
    """Compile for each level; end with 1 if this machine can run none."""
    levels = runs()
    for level in levels:
        files = compile_for(level, SHIPPED / level)
        size = sum(path.stat().st_size for path in (SHIPPED / level).iterdir())
        print(f"{level}: {files} files, {size / 1e6:.1f} MB")
    if not levels:
        sys.exit("this processor is of no x86-64 level for which machine code is shipped")


if __name__ == "__main__":
    main()
