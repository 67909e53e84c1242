"""Results as two files, JSON and Markdown, rewritten whole after every line, so that an
interruption loses none.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "daskglm",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "numpy",
    "scipy",
    "numba",
    "dask",
    "distributed",
    "dask-cuda",
    "torch",
)


class Results:
    """What was found so far.

    Parameters
    ----------
    folder : Path
        Of gpu.json and gpu.md.
    about : dict
        Device, driver and versions.
    quick : bool
        Whether sizes are tiny.
    tests : list of str, optional
        Closing lines of the tests.
    """

    def __init__(
        self, folder: Path, about: dict[str, Any], *, quick: bool, tests: list[str] | None = None
    ) -> None:
        self.folder = folder
        self.found: dict[str, Any] = {
            "about": about,
            "quick": quick,
            "interrupted": None,
            "not run": {},
            "tables": {},
        }
        if tests is not None:
            self.found["tests"] = tests
        folder.mkdir(parents=True, exist_ok=True)
        self.write()

    def begin(self, case: str, what: str) -> None:
        """Begin a table; until `end` the case counts as interrupted."""
        self.found["interrupted"] = case
        self.found["tables"][case] = {"what": what, "lines": []}
        self.write()

    def add(self, case: str, line: dict[str, Any]) -> None:
        """Add a line to a table."""
        self.found["tables"][case]["lines"].append(line)
        self.write()

    def end(self, case: str, error: str | None = None) -> None:
        """End a table; `error` tells why it is not complete."""
        self.found["interrupted"] = None
        if error is not None:
            self.leave_out(case, error)
        self.write()

    def leave_out(self, case: str, why: str) -> None:
        """Note that a case did not run, or not to its end."""
        self.found["not run"][case] = why
        self.write()

    def write(self) -> None:
        """Write both files, each in one step: a reader finds the old or the new one."""
        for name, text in (
            ("gpu.json", json.dumps(self.found, indent=1, default=float)),
            ("gpu.md", self._markdown()),
        ):
            scratch = self.folder / f"{name}.{os.getpid()}.tmp"
            scratch.write_text(text)
            scratch.replace(self.folder / name)

    def _markdown(self) -> str:
        found = self.found
        lines = [f"# On a GPU: {found['about']['device']}", ""]
        lines += [f"- {key}: {value}" for key, value in found["about"].items()]
        if found["quick"]:
            lines += ["", "Tiny sizes: these figures only show that the measurements run."]
        if found["interrupted"]:
            lines += ["", f"Interrupted in {found['interrupted']}, whose finished lines are below."]
        for name, table in found["tables"].items():
            lines += ["", f"## {name}", "", table["what"], ""]
            keys = list(dict.fromkeys(key for line in table["lines"] for key in line))
            if keys:
                lines += ["| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
            lines += [
                "| " + " | ".join(_cell(line.get(key)) for key in keys) + " |"
                for line in table["lines"]
            ]
        for name, reason in found["not run"].items():
            lines += ["", f"## {name}: not run", "", "```", reason.strip(), "```"]
        if "tests" in found:
            lines += ["", "## Tests", "", "```", *found["tests"], "```"]
        return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def about_this_device() -> dict[str, Any]:
    """Device, driver, runtime and versions of packages."""
    import cupy as cp

    properties = cp.cuda.runtime.getDeviceProperties(0)
    return {
        "date": date.today().isoformat(),
        "device": properties["name"].decode(),
        "driver": cp.cuda.runtime.driverGetVersion(),
        "runtime": cp.cuda.runtime.runtimeGetVersion(),
        "cupy": cp.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seed": 0,
        "versions": {name: version(name) for name in PACKAGES if version(name)},
    }


def version(name: str) -> str | None:
    """Return the version of an installed distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
