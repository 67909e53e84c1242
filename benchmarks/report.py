"""Tables and plots of recorded runs. Reads JSON lines, runs nothing."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.evaluate import suboptimality

TARGETS = (1e-3, 1e-6)
FLOOR = 1e-16  # where suboptimalities of 0 are drawn
Record = dict[str, Any]


class Setting(NamedTuple):
    """The repeats of one contestant at one tolerance on one problem."""

    contestant: str
    tol: float
    ours: bool
    seconds: list[float]
    suboptimality: float  # the worst
    first: Record

    @property
    def median(self) -> float:
        return median(self.seconds)


def write(files: Iterable[Path], out: Path) -> Path:
    """Write report.md and one PNG per problem into `out`; return the report's path."""
    records = [json.loads(line) for path in files for line in path.read_text().splitlines() if line.strip()]
    out.mkdir(parents=True, exist_ok=True)
    parts = ["# Benchmarks", HOW_TO_READ, _machines(records)]
    number = 0
    for name, group in _grouped(records, title).items():
        _same_data(name, group)
        best = best_known(group)
        runs = [record for record in group if record["kind"] == "run" and record["status"] == "ok"]
        proof = [record["decrement"] for record in group if record["kind"] == "reference" and record["status"] == "ok"]
        if not runs:
            parts += [f"## {name}", "No run succeeded."]
        for place, some in _grouped(runs, _place).items():  # seconds of two machines are never in one table
            number += 1
            heading = f"{name} ({place})"
            plot = out / f"{number:02d}-{_file_name(name)}.png"
            found = settings(some, best)
            _plot(f"{name}\n{place}", found, plot)
            parts += [f"## {heading}", _facts(some[0], best, proof), f"![seconds against suboptimality]({plot.name})"]
            parts += [_targets(found), _all_settings(found)]
    parts += ["## Not run", _not_run(_grouped(records, title))]
    path = out / "report.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def _grouped(records: Iterable[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return groups


HOW_TO_READ = """\
Seconds are of the fit alone: median (least - most) over the repeats, each in a fresh process, contestants interleaved,
data in memory in the form the contestant wants, kernels and imports warm. *Suboptimality* is (f - f*) / f* of the
returned coefficients, worst of the repeats, f computed in float64 by `evaluate.py`, f* the least of all runs and of a
Newton reference; the tolerance is each contestant's own. *Time to* a target is the fastest setting of the contestant
that reaches it in all repeats. *Ratio* compares with the fastest rival: below 1 is faster than it."""


def title(record: Record) -> str:
    """What names a problem; records with the same title share one optimum."""
    rows = f" {record['rows']:,} rows" if record["rows"] else ""
    more = ([f"seed {record['seed']}"] if record["seed"] else []) + ([record["dtype"]] if record["dtype"] else [])
    bias = "with intercept" if record["fit_intercept"] else "no intercept"
    return ", ".join([f"{record['data']}{rows}", record["loss"], f"C = {record['C']:g}", bias, *more])


def _place(record: Record) -> str:
    machine = record["machine"]
    return f"{record['threads']} threads, {machine['cpu']}, {machine['cores']} cores"


def best_known(group: Sequence[Record]) -> float:
    """The least objective of all runs and references of one problem."""
    values = [record["objective"] for record in group if record["status"] == "ok"]
    return min((value for value in values if math.isfinite(value)), default=math.nan)


# ---------------------------------------------------------------------------- one problem
def settings(runs: Sequence[Record], best: float) -> list[Setting]:
    """Runs by contestant and tolerance; ours also by commit, where there are several."""
    commits = {run.get("commit") for run in runs if run["ours"]}
    by: dict[tuple[str, float], list[Record]] = defaultdict(list)
    for run in runs:
        commit = f" @{run['commit']}" if run["ours"] and len(commits) > 1 else ""
        by[run["contestant"] + commit, run["tol"]].append(run)
    return [
        Setting(
            contestant,
            tol,
            same[0]["ours"],
            [run["seconds"] for run in same],
            max(suboptimality(run["objective"], best) for run in same),
            same[0],
        )
        for (contestant, tol), same in sorted(by.items(), key=lambda item: (item[0][0], -item[0][1]))
    ]


def time_to(found: Sequence[Setting], target: float) -> dict[str, Setting]:
    """Per contestant the fastest setting, by its median, that reaches the target in all repeats."""
    fastest: dict[str, Setting] = {}
    for setting in found:
        if setting.suboptimality <= target:
            had = fastest.get(setting.contestant)
            if had is None or setting.median < had.median:
                fastest[setting.contestant] = setting
    return fastest


def _facts(run: Record, best: float, proof: Sequence[float]) -> str:
    kind = "CSR" if run["sparse"] else "dense"
    size = f"{run['n']:,} x {run['d']:,} {kind} {run['stored_dtype']}, {run['nnz']:,} nonzeros"
    doubt = (
        f"half the squared Newton decrement of the reference is {min(proof):.0e} f*" if proof else "no reference run"
    )
    return f"{size}; f* = {best:.12g} ({doubt})."


def _targets(found: Sequence[Setting]) -> str:
    columns = [time_to(found, target) for target in TARGETS]
    rivals = [min((s.median for s in column.values() if not s.ours), default=math.nan) for column in columns]
    rows = []
    for contestant in dict.fromkeys(setting.contestant for setting in found):
        cells = [contestant]
        for column, rival in zip(columns, rivals, strict=True):
            setting = column.get(contestant)
            cells += [_seconds(setting), _ratio(setting.median / rival)] if setting else ["not reached", ""]
        rows.append(cells)
    head = ["contestant", *(cell for target in TARGETS for cell in (f"time to {target:.0e}", "ratio"))]
    return table(head, rows)


def _all_settings(found: Sequence[Setting]) -> str:
    head = ["contestant", "tol", "seconds", "runs", "suboptimality", "passes", "rounds", "iterations", "bound", "MB"]
    rows = []
    for setting in found:
        first = setting.first
        counts = [
            f"{first[key]:.4g}" if first.get(key) is not None else "" for key in ("passes", "rounds", "iterations")
        ]
        bound = f"{first['relative_gap']:.1e}" if first.get("relative_gap") is not None else ""
        known = first.get("peak_rss_mb") is not None and first.get("peak_is_of_fit")
        memory = f"{first['rss_before_mb']:.0f} + {first['peak_rss_mb'] - first['rss_before_mb']:.0f}" if known else ""
        runs, reached = str(len(setting.seconds)), f"{setting.suboptimality:.1e}"
        what = [setting.contestant, f"{setting.tol:g}", _seconds(setting), runs, reached]
        rows.append([*what, *counts, bound, memory])
    return table(head, rows)


def _plot(name: str, found: Sequence[Setting], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for number, contestant in enumerate(dict.fromkeys(setting.contestant for setting in found)):
        line = sorted((s for s in found if s.contestant == contestant), key=lambda s: -s.tol)
        x, y = [s.median for s in line], [max(s.suboptimality, FLOOR) for s in line]
        marker, style = "osv^D*<>pX"[number % 10], "-" if line[0].ours else "--"
        axes.plot(x, y, style, marker=marker, label=contestant, color=f"C{number % 10}")
    axes.set(xscale="log", yscale="log", xlabel="seconds (fit, median)", ylabel="relative suboptimality", title=name)
    axes.title.set_fontsize("medium")
    for target in TARGETS:
        axes.axhline(target, color="0.8", linewidth=0.8, zorder=0)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


# ---------------------------------------------------------------------------- all problems
def _not_run(groups: dict[str, list[Record]]) -> str:
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, group in groups.items():
        for record in group:
            if record["status"] != "ok":
                who = record.get("contestant", "the reference")
                status = "" if record["status"] == "skipped" else f"{record['status']}: "  # its reason was given before
                rows.setdefault((name, who, status + record["reason"]), []).append(f"{record.get('tol', 0):g}")
    if not rows:
        return "Everything that was asked for was run."
    cells = [[*key, ", ".join(dict.fromkeys(tols))] for key, tols in rows.items()]
    return table(["problem", "contestant", "why", "at tol"], cells)


def _machines(records: Sequence[Record]) -> str:
    rows: dict[tuple[str, ...], int] = {}
    for record in records:
        if record["kind"] == "run" and record["status"] == "ok":
            machine, versions = record["machine"], record["versions"]
            what = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"
            names = ", ".join(f"{name} {version}" for name, version in versions.items() if version != "absent")
            key = (what, str(record["threads"]), record.get("commit", ""), names, record["date"][:10])
            rows[key] = rows.get(key, 0) + 1
    loads = [r["load"] for r in records if r.get("load") is not None]
    busy = f"\n\nLoad average at the start of runs: median {median(loads):.1f}, most {max(loads):.1f}." if loads else ""
    head = ["machine", "threads", "commit", "versions", "date", "runs"]
    return table(head, [[*key, str(count)] for key, count in rows.items()]) + busy


def _same_data(name: str, group: Sequence[Record]) -> None:
    """Objectives are compared only on the same data: refuse files that mix them up."""
    sizes = {(record["n"], record["d"], record["nnz"]) for record in group if "n" in record}
    if len(sizes) > 1:
        raise ValueError(f"{name}: the files hold runs on different data of this name: {sorted(sizes)}")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _seconds(setting: Setting) -> str:
    least, most = min(setting.seconds), max(setting.seconds)
    spread = f" ({least:.3g} - {most:.3g})" if len(setting.seconds) > 1 else ""
    return f"{setting.median:.3g}{spread}"


def _ratio(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _file_name(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
