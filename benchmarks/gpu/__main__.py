"""Run all measurements on a GPU and write one JSON and one Markdown file."""

from __future__ import annotations

import json
import platform
import time
import traceback
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import click

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


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the two files.")
@click.option("--minutes", type=float, default=6.0, show_default=True, help="After so many no case is begun.")
@click.option("--quick", is_flag=True, help="Tiny sizes: to see that all of it runs.")
@click.option("--tests", type=click.Path(path_type=Path, exists=True), help="Log of the tests, quoted in the report.")
def main(out: Path, minutes: float, quick: bool, tests: Path | None) -> None:
    """Measure and write; a case that fails is a line of the report, and the exit status tells."""
    from daskglm.kernels import gpu

    try:
        gpu()
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None
    from benchmarks.gpu import cases, peers

    start = time.monotonic()
    found: dict[str, Any] = {"about": _about(), "quick": quick, "not run": {}, "tables": {}}
    for case in (
        cases.bandwidth, cases.passes, cases.solves, cases.hiding, cases.streaming, peers.peers,
    ):  # fmt: skip
        if time.monotonic() - start > 60 * minutes:
            found["not run"][case.__name__] = f"no time left after {minutes:g} minutes"
            continue
        try:
            found["tables"][case.__name__] = {"what": (case.__doc__ or "").strip(), "lines": case(quick)}
        except Exception:
            found["not run"][case.__name__] = traceback.format_exc()
            click.echo(found["not run"][case.__name__], err=True)
    if tests is not None:
        found["tests"] = [line for line in tests.read_text().splitlines() if line.strip()][-15:]
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu.json").write_text(json.dumps(found, indent=1, default=float))
    (out / "gpu.md").write_text(_markdown(found))
    click.echo(f"wrote {out / 'gpu.json'} and {out / 'gpu.md'}")
    raise SystemExit(1 if found["not run"] else 0)


def _about() -> dict[str, Any]:
    import cupy as cp

    def version(name: str) -> str | None:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

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


def _markdown(found: dict[str, Any]) -> str:
    lines = [f"# On a GPU: {found['about']['device']}", ""]
    lines += [f"- {key}: {value}" for key, value in found["about"].items()]
    if found["quick"]:
        lines += ["", "Tiny sizes: these figures only show that the measurements run."]
    for name, table in found["tables"].items():
        lines += ["", f"## {name}", "", table["what"], ""]
        keys = list(dict.fromkeys(key for line in table["lines"] for key in line))
        lines += ["| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
        lines += ["| " + " | ".join(_cell(line.get(key)) for key in keys) + " |" for line in table["lines"]]
    for name, reason in found["not run"].items():
        lines += ["", f"## {name}: not run", "", "```", reason.strip(), "```"]
    if "tests" in found:
        lines += ["", "## Tests", "", "```", *found["tests"], "```"]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
