"""Tag a wheel that contains machine code for the Python and the system it was compiled on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Tags of the systems whose wheels have machine code, by `sys.platform`: x86-64 in all. Kernels call
# nothing of the C library that manylinux2014 lacks.
SYSTEMS = {"linux": "manylinux2014_x86_64", "win32": "win_amd64"}


class MachineCodeTag(BuildHookInterface):
    """Machine code of `deploy/wheel/machine_code.py` is of one Python and one kind of processor."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the tag; KeyError on systems for which no machine code is shipped."""
        if version == "editable" or not any(Path(self.root, "daskglm/machine_code").glob("*/*")):
            return
        build_data["pure_python"] = False
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        build_data["tag"] = f"{python}-none-{SYSTEMS[sys.platform]}"
