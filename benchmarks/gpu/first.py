"""The first minutes on a GPU: what is there, whether kernels are right, what they and fits cost.

usage: python3 benchmarks/gpu/first.py FOLDER [--stages=env,right,...] [--quick]

Runs from a checkout, nothing of it installed. Every result is a line of JSON, in FOLDER/first.jsonl
before the next one is measured; SIGINT ends the program with a line that names the stage.

\b
Stages, in the order to run them:
env      versions, device, copies on it and to it, page-locking, what a launch costs the host
right    every kernel that reads rows, at sizes that fill the device, beside NumPy, and twice
ball     conjugate gradients in the ball: by the host, on the device, as a graph
times    each pass on the device, beside the host's time to enqueue it
solves   whole fits from rows on the device, judged in float64
tables   whole fits of tables with text, beside the same fits on the host
stream   fits of rows of which a third may stay on the device
cluster  LocalCUDACluster, and two workers of Dask on one device
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# as a script the folder of this file comes first on the path, and the checkout is missing
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import click

from benchmarks.gpu.lines import Lines
from benchmarks.gpu.stages import STAGES

INTERRUPTED = 130  # exit status of programs that SIGINT ends


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--stages", default=",".join(STAGES), show_default=True, help="Which, in order.")
@click.option("--quick", is_flag=True, help="Tiny sizes: to see that all of it runs.")
def main(folder: Path, stages: str, quick: bool) -> None:
    asked = stages.split(",")
    unknown = [stage for stage in asked if stage not in STAGES]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is not one of {', '.join(STAGES)}", param_hint="--stages"
        )
    lines, failed = Lines(folder / "first.jsonl"), []
    lines.add("begin", stages=asked, quick=quick)
    for stage in asked:
        try:
            getattr(importlib.import_module(f"benchmarks.gpu.stages.{STAGES[stage]}"), stage)(
                lines, quick
            )
        except KeyboardInterrupt:
            lines.add(stage, interrupted=True)
            raise SystemExit(INTERRUPTED) from None
        except Exception:
            failed.append(stage)
            lines.failed(stage)
    lines.add("end", failed=failed)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
