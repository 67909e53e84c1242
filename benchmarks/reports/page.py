"""Tables and plots of recorded runs. Reads JSON lines, runs nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.contestants import CONTESTANTS
from benchmarks.reports import goals
from benchmarks.reports.outcomes import (
    Record,
    Setting,
    best_known,
    grouped,
    place,
    settings,
    succeeded,
    time_to,
    title,
)
from benchmarks.reports.tabular import table

TARGETS = (1e-3, 1e-6)
FLOOR = 1e-16  # where suboptimalities of 0 are drawn


def write(files: Iterable[Path], out: Path) -> Path:
    """Write report.md and one PNG per problem into `out`; return the report's path."""
    records = [
        json.loads(line) for path in files for line in path.read_text().splitlines() if line.strip()
    ]
    out.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Benchmarks",
        HOW_TO_READ,
        _machines(records),
        "## Data",
        _data(records),
        *goals.page(records),
    ]
    number = 0
    for name, group in grouped(records, title).items():
        _same_data(name, group)
        best = best_known(group)
        runs = succeeded(group)
        proof = [
            record["decrement"]
            for record in group
            if record["kind"] == "reference" and record["status"] == "ok"
        ]
        if not runs:
            parts += [f"## {name}", "No run succeeded."]
        # seconds of two machines are never in one table
        for where, some in grouped(runs, place).items():
            number += 1
            heading = f"{name} ({where})"
            plot = out / f"{number:02d}-{_file_name(name)}.png"
            found = settings(some, best)
            _plot(f"{name}\n{where}", found, plot)
            parts += [
                f"## {heading}",
                _facts(some[0], best, proof),
                f"![seconds against suboptimality]({plot.name})",
            ]
            parts += [_targets(found), _all_settings(found)]
    parts += ["## Not run", _not_run(grouped(records, title)), _left_out(records)]
    path = out / "report.md"
    path.write_text("\n\n".join(filter(None, parts)) + "\n")
    return path


HOW_TO_READ = """\
Seconds are of the fit alone: median (least - most) over the repeats, each in a fresh process,
contestants interleaved, data in memory in the form the contestant wants, kernels and imports warm.
*Suboptimality* is (f - f*) / f* of the returned coefficients, worst of the repeats, f computed in
float64 by `evaluate.py`, f* the least of all runs and of a Newton reference; the tolerance is each
contestant's own. *Time to* a target is the fastest setting of the contestant that reaches it in all
repeats. *Ratio* compares with the fastest rival: below 1 is faster than it. *Warm-up* is a fit of
2,000 rows (compilation, start of a server or cluster), *convert* what makes the library's form of
the data: neither is in the seconds. *MB beyond data* is the peak of all processes of the fit beyond
what was resident with the data loaded, converted copies included."""


# ---- one problem
def _facts(run: Record, best: float, proof: Sequence[float]) -> str:
    kind = "CSR" if run["sparse"] else "dense"
    size = f"{run['n']:,} x {run['d']:,} {kind} {run['stored_dtype']}, {run['nnz']:,} nonzeros"
    if proof:
        doubt = f"half the squared Newton decrement of the reference is {min(proof):.0e} f*"
    else:
        doubt = "no reference run"
    return f"{size}; f* = {best:.12g} ({doubt})."


def _targets(found: Sequence[Setting]) -> str:
    columns = [time_to(found, target) for target in TARGETS]
    rivals = [
        min((s.median for s in column.values() if not s.ours), default=math.nan)
        for column in columns
    ]
    rows = []
    for contestant in dict.fromkeys(setting.contestant for setting in found):
        cells = [contestant]
        for column, rival in zip(columns, rivals, strict=True):
            setting = column.get(contestant)
            cells += (
                [_seconds(setting), _ratio(setting.median / rival)]
                if setting
                else ["not reached", ""]
            )
        rows.append(cells)
    head = [
        "contestant",
        *(cell for target in TARGETS for cell in (f"time to {target:.0e}", "ratio")),
    ]
    return table(head, rows)


def _all_settings(found: Sequence[Setting]) -> str:
    head = [
        "contestant",
        "tol",
        "seconds",
        "runs",
        "suboptimality",
        "passes",
        "rounds",
        "iterations",
        "bound",
    ]
    rows = []
    for setting in found:
        first = setting.first
        counts = [_count(first.get(key)) for key in ("passes", "rounds", "iterations")]
        bound = f"{first['relative_gap']:.1e}" if first.get("relative_gap") is not None else ""
        if "warm_up_seconds" in first:
            apart = [
                _count(median(run[key] for run in setting.runs))
                for key in ("warm_up_seconds", "prepare_seconds")
            ]
        else:
            apart = ["", ""]
        runs = str(len(setting.seconds))
        reached = f"{setting.suboptimality:.1e}"
        what = [setting.contestant, f"{setting.tol:g}", _seconds(setting), runs, reached]
        rows.append([*what, *counts, bound, *apart, _memory(setting)])
    return table([*head, "warm-up s", "convert s", "MB beyond data"], rows)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _memory(setting: Setting) -> str:
    extra = setting.beyond_data_mb
    return "" if extra is None else f"{extra:.0f} ({extra / setting.first['data_mb']:.0%})"


def _plot(name: str, found: Sequence[Setting], path: Path) -> None:
    """Plot seconds against suboptimality: a colour for each library, a marker for each solver."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 6), layout="constrained")
    libraries: dict[str, list[str]] = {}
    for contestant in dict.fromkeys(setting.contestant for setting in found):
        line = sorted((s for s in found if s.contestant == contestant), key=lambda s: -s.tol)
        known = CONTESTANTS.get(contestant.partition(" @")[0])
        of_library = libraries.setdefault(known.package if known else contestant, [])
        of_library.append(contestant)
        color = pyplot.get_cmap("tab20")(
            2 * (len(libraries) - 1) % 20 + (2 * (len(libraries) - 1)) // 20
        )
        x = [s.median for s in line]
        y = [max(s.suboptimality, FLOOR) for s in line]
        style = {
            "linestyle": "-" if line[0].ours else "--",
            "linewidth": 2.0 if line[0].ours else 1.0,
        }
        marker = "osv^D*<>pXhP"[(len(of_library) - 1) % 12]
        axes.plot(x, y, marker=marker, markersize=5, label=contestant, color=color, **style)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="seconds (fit, median)",
        ylabel="relative suboptimality",
        title=name,
    )
    axes.title.set_fontsize("medium")
    for target in TARGETS:
        axes.axhline(target, color="0.8", linewidth=0.8, zorder=0)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


# ---- all problems
def _data(records: Sequence[Record]) -> str:
    """Which rows were used: files, or what stands in for them."""
    rows = {}
    for record in records:
        if record.get("n") and record.get("source"):
            per_row = record["nnz"] / record["n"]
            size = (
                f"{record['n']:,} x {record['d']:,}",
                f"{per_row:.4g}",
                f"{record['positive']:.1%}",
            )
            name = record["data"] + (f", {record['rows']:,} rows" if record["rows"] else "")
            rows[name, record["source"]] = [
                name,
                record["source"],
                *size,
                f"{record['data_mb']:.0f}",
            ]
    if rows:
        return table(
            ["set", "from", "rows x columns", "stored a row", "+1", "MB"], list(rows.values())
        )
    return ""


def _not_run(groups: dict[str, list[Record]]) -> str:
    """List runs without a result, by reason; `_left_out` counts those that rules left out."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, group in groups.items():
        for record in group:
            if record["status"] != "ok" and not _by_rule(record):
                who = record.get("contestant", "the reference")
                # its reason was given before
                status = "" if record["status"] == "skipped" else f"{record['status']}: "
                rows.setdefault((name, who, status + record["reason"]), []).append(
                    f"{record.get('tol', 0):g}"
                )
    if not rows:
        return "Everything that was asked for was run."
    cells = [[*key, ", ".join(dict.fromkeys(tols))] for key, tols in rows.items()]
    return table(["problem", "contestant", "why", "at tol"], cells)


def _by_rule(record: Record) -> bool:
    return record["status"] == "skipped" and record["reason"].startswith(
        ("one run only", "a looser tolerance")
    )


def _left_out(records: Sequence[Record]) -> str:
    counts: dict[str, int] = {}
    for record in records:
        if _by_rule(record):
            counts[record["reason"]] = counts.get(record["reason"], 0) + 1
    return "\n".join(f"- {count} runs left out: {reason}." for reason, count in counts.items())


def _machines(records: Sequence[Record]) -> str:
    rows: dict[tuple[str, ...], int] = {}
    for record in records:
        if record["kind"] == "run" and record["status"] == "ok":
            machine = record["machine"]
            versions = record["versions"]
            what = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"
            names = ", ".join(
                f"{name} {version}" for name, version in versions.items() if version != "absent"
            )
            key = (
                what,
                str(record["threads"]),
                record.get("commit", ""),
                names,
                record["date"][:10],
            )
            rows[key] = rows.get(key, 0) + 1
    loads = [r["load"] for r in records if r.get("load") is not None]
    if loads:
        usual, most = median(loads), max(loads)
        busy = f"\n\nLoad average at the start of runs: median {usual:.1f}, most {most:.1f}."
    else:
        busy = ""
    head = ["machine", "threads", "commit", "versions", "date", "runs"]
    return table(head, [[*key, str(count)] for key, count in rows.items()]) + busy


def _same_data(name: str, group: Sequence[Record]) -> None:
    """Objectives are compared only on the same data: refuse files that mix them up."""
    sizes = {(record["n"], record["d"], record["nnz"]) for record in group if "n" in record}
    if len(sizes) > 1:
        raise ValueError(
            f"{name}: the files hold runs on different data of this name: {sorted(sizes)}"
        )


def _seconds(setting: Setting) -> str:
    least, most = min(setting.seconds), max(setting.seconds)
    spread = f" ({least:.3g} - {most:.3g})" if len(setting.seconds) > 1 else ""
    return f"{setting.median:.3g}{spread}"


def _ratio(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _file_name(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
