"""Tables of what the races found."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

TARGETS = (1e-3, 1e-6)

# What a process printed: a line for each fit that it came to.
Run = list[dict[str, Any]]


def best_values(runs: dict[str, list[Run]]) -> list[float] | None:
    """Return the least objective at each alpha over all fits; None for races that judge gaps."""
    found = [fit["values"] for name in runs for run in runs[name] for fit in run if "values" in fit]
    return np.min(found, axis=0).tolist() if found else None


def excess(fit: dict[str, Any], best: list[float] | None) -> float:
    """Return the relative excess of a fit, the largest over its alphas."""
    if "gap" in fit:
        return float(fit["gap"])
    return float(np.max(np.array(fit["values"]) / best - 1.0))


def reached(runs: list[Run], best: list[float] | None, target: float) -> dict[str, Any] | None:
    """Return the fastest tolerance that reached a target in all runs that tried it; None if none.

    Its seconds are the median of these runs.
    """
    found = []
    for tol in {fit["tol"] for run in runs for fit in run}:
        fits = [fit for run in runs for fit in run if fit["tol"] == tol]
        if all(excess(fit, best) <= target for fit in fits):
            seconds = statistics.median(fit["seconds"] for fit in fits)
            found.append(fits[0] | {"seconds": seconds, "runs": len(fits)})
    # a tolerance that was tried once, in the first round, only wins where no other was repeated
    most = max((fit["runs"] for fit in found), default=0)
    return min(
        (fit for fit in found if fit["runs"] == most), key=lambda fit: fit["seconds"], default=None
    )


def table(title: str, megabytes: float, runs: dict[str, list[Run]], reasons: dict[str, str]) -> str:
    """Return a table in Markdown: seconds to each target, memory, and what a package says."""
    best = best_values(runs)
    lines = [
        f"\n## {title}\n",
        "| contestant | s to 1e-3 | s to 1e-6 | times ours at 1e-6 | least excess | "
        "memory beyond the data | said at 1e-6 |",
        "|---|---|---|---|---|---|---|",
    ]
    ours = reached(runs.get("daskglm", []), best, TARGETS[1])
    for name, of_name in runs.items():
        fits = [fit for run in of_name for fit in run]
        if not fits:
            lines.append(f"| {name} | - | - | | | | {reasons.get(name, 'no fit ended in time')} |")
            continue
        loose, tight = (reached(of_name, best, target) for target in TARGETS)
        shown = tight or loose or fits[-1]
        times = f"{tight['seconds'] / ours['seconds']:.1f}" if tight and ours else ""
        said = tight["said"] if tight else reasons.get(name, "not reached")
        lines.append(
            f"| {name} | {_seconds(loose)} | {_seconds(tight)} | {times} | "
            f"{min(excess(fit, best) for fit in fits):.1e} | {shown['beyond_mb']:.0f} MB "
            f"({shown['beyond_mb'] / megabytes:.0%}) | {said} |"
        )
    return "\n".join(lines + _choices(runs))


def _seconds(fit: dict[str, Any] | None) -> str:
    return "-" if fit is None else f"{fit['seconds']:.3f}"


def _choices(runs: dict[str, list[Run]]) -> list[str]:
    """Say which alpha each contestant chose by folds, and how its errors differ from ours."""
    last = {name: of_name[0][-1] for name, of_name in runs.items() if of_name and of_name[0]}
    if not any("chosen" in fit for fit in last.values()):
        return []
    ours = last.get("daskglm", {}).get("errors")
    said = []
    for name, fit in last.items():
        apart = ""
        if ours and fit["errors"] and name != "daskglm":
            largest = np.max(np.abs(np.array(fit["errors"]) / ours - 1.0))
            apart = f" (errors at most {largest:.1e} from ours, relative)"
        said.append(f"{name} number {fit['chosen']}{apart}")
    return ["\nChosen alpha, from the largest: " + "; ".join(said) + "."]
