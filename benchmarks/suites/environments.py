"""Interpreters of the peers: each may have an environment of its own, made by `benchmarks/peers.sh
NAME`.

Peers want versions of their own, and two of them install a module of the same name. A peer without
an environment is looked for in the one that runs the benchmarks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("DASKGLM_PEERS") or Path(__file__).resolve().parents[1] / ".peers")


def interpreter(environment: str | None) -> str:
    """Return the Python of a contestant's environment if it has been made, else this one."""
    if environment is None or not (FOLDER / environment / ".done").exists():
        return sys.executable
    return str(FOLDER / environment / "bin" / "python")


def how_to_install(environment: str) -> str:
    """Return the command that makes an environment."""
    return f"benchmarks/peers.sh {environment}"
