"""What a round costs by number of workers and length of vector, star against tree, and what a model
makes of it.

`measure` times rounds over worker processes of this machine, `counts` counts passes, rounds and
vectors of the solvers; both append JSON lines. `report` turns these into rounds.md, rounds.png and
model.md (`model.py` has the arithmetic).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest import mock

import click
import numpy as np

from benchmarks.reports.tabular import table
from benchmarks.scaling import model, model_page
from benchmarks.scaling.rounds import SIZES, Round, daskglm_round

WORKERS = (1, 2, 4, 8, 16)
WARM_UP = 3
SUBOPTIMALITY = 1e-6
GROUPS = (1, 2, 4, 8, 16)  # workers that counts of dual coordinate ascent simulate
TOLS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
Record = dict[str, Any]


@click.group()
def main() -> None:
    """Measure rounds, count passes, and fit and apply a model of the time on many nodes."""


def _numbers(_context: Any, _option: Any, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter("numbers with commas between them") from error


def _default_out() -> Path:
    from datetime import date

    return Path(__file__).resolve().parents[1] / "results" / f"{date.today()}-scaling.jsonl"


def _append(out: Path, records: Sequence[Record]) -> None:
    from benchmarks.suites.runner import commit
    from benchmarks.suites.single_run import surroundings

    around = surroundings()
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as file:
        for record in records:
            file.write(json.dumps(record | around | {"commit": commit()}) + "\n")


# ---- rounds
@main.command()
@click.option(
    "--workers", callback=_numbers, default=",".join(map(str, WORKERS)), show_default=True
)
@click.option(
    "--sizes",
    callback=_numbers,
    default=",".join(map(str, SIZES)),
    show_default=True,
    help="Doubles.",
)
@click.option(
    "--repeats", type=click.IntRange(1), default=50, show_default=True, help="Rounds of each way."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Default: benchmarks/results/<date>-scaling.jsonl",
)
def measure(
    workers: tuple[int, ...], sizes: tuple[int, ...], repeats: int, out: Path | None
) -> None:
    """Time gradient rounds, star and tree in turn; JSON lines are appended."""
    from distributed import Client, LocalCluster

    out = out or _default_out()
    options = {
        "threads_per_worker": 1,
        "memory_limit": 0,
        "dashboard_address": None,
        "processes": True,
    }
    for count in workers:
        with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
            client.wait_for_workers(count)
            for d in sizes:
                records = measure_size(client, count, d, repeats)
                _append(out, records)
                for record in records:
                    click.echo(
                        f"{count:>3} workers, {d:>9,} doubles, {record['way']}: "
                        f"{_cell(record['seconds'])} ms"
                    )
    click.echo(f"appended to {out}; next: python -m benchmarks.scaling report {out} --out FOLDER")


def measure_size(client: Any, workers: int, d: int, repeats: int) -> list[Record]:
    """Time rounds with vectors of d doubles; return one record for each way."""
    seconds: dict[str, list[float]] = {"star": [], "tree": []}
    with _ways(client, d, 2 * workers) as ways:
        w = np.zeros(d)
        first = {way: round(w) for way, round in ways.items()}
        if not np.allclose(first["star"], first["tree"], rtol=1e-12, atol=1e-12):
            raise RuntimeError("star and tree gave different gradients")
        for repeat in range(WARM_UP + repeats):
            # in turn, each first as often as second: a busy minute hits both
            for way in sorted(ways, reverse=repeat % 2 == 1):
                start = time.perf_counter()
                ways[way](w)
                seconds[way].append(time.perf_counter() - start)
    common = {
        "kind": "round",
        "workers": workers,
        "d": d,
        "partitions": 2 * workers,
        "repeats": repeats,
    }
    return [common | {"way": way, **_summary(times[WARM_UP:])} for way, times in seconds.items()]


@contextlib.contextmanager
def _ways(client: Any, d: int, partitions: int) -> Iterator[dict[str, Round]]:
    import daskglm.engines.cluster

    before, made = daskglm.engines.cluster.STAR_WORKERS, []
    try:
        for tree in (False, True):
            made.append(daskglm_round(client, d, partitions, tree=tree))
        yield {"star": made[0][0], "tree": made[1][0]}
    finally:
        for _, close in made:
            close()
        daskglm.engines.cluster.STAR_WORKERS = before


def _summary(seconds: Sequence[float]) -> Record:
    return {"seconds": list(seconds), "median": median(seconds), "p90": _ninetieth(seconds)}


def _ninetieth(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]


def _cell(seconds: Sequence[float]) -> str:
    return f"{1e3 * median(seconds):.4g} ({1e3 * _ninetieth(seconds):.4g})"


# ---- passes, rounds and vectors of the solvers
def _higgs(rows: int) -> tuple[Any, np.ndarray]:
    from benchmarks.datasets.problems import higgs_like

    return higgs_like(rows)


def _criteo(rows: int) -> tuple[Any, np.ndarray]:
    from benchmarks.datasets.snap_ml import criteo_like

    return criteo_like(rows)


def _kdd(rows: int) -> tuple[Any, np.ndarray]:
    from benchmarks.datasets.snap_ml import kdd2010b_like

    return kdd2010b_like(rows, positive=None)


DATA: dict[str, tuple[Callable[[int], tuple[Any, np.ndarray]], int]] = {
    "HIGGS": (_higgs, 200_000),
    "Criteo-1TB": (_criteo, 500_000),
    "KDD2010-b": (_kdd, 200_000),
}


@main.command()
@click.option(
    "--data", multiple=True, type=click.Choice(sorted(DATA)), help="Repeatable. Default: all."
)
@click.option(
    "--rows", type=int, help="Rows of the generated sets; default: 200,000, of Criteo 500,000."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Default: benchmarks/results/<date>-scaling.jsonl",
)
def counts(data: tuple[str, ...], rows: int | None, out: Path | None) -> None:
    """Count what every solver needs to a suboptimality of 1e-6, on small sets of three kinds."""
    out = out or _default_out()
    for name in data or DATA:
        make, default = DATA[name]
        X, y = make(rows or default)
        records = count(name, X, y)
        _append(out, records)
        for r in records:
            vectors = f"{r['vectors_down']:.0f} down, {r['vectors_up']:.0f} up"
            seconds = f"{r['seconds']:.2f} s, suboptimality {r['suboptimality']:.1e}"
            click.echo(
                f"{name} {r['solver']} on {r['workers']}: {r['passes']:.0f} passes, {r['rounds']} "
                f"rounds, {vectors}, {seconds}"
            )


def count(name: str, X: Any, y: np.ndarray) -> list[Record]:
    """Find for every solver the loosest tolerance that gives 1e-6, judged by a much tighter fit."""
    from benchmarks.papers.snap_ml.measure import penalty

    C, gram = penalty(X), not model.gram_refused(X.shape[1])
    settings = [(solver, 1) for solver in ("newton", "tron", "lbfgs") if gram or solver != "newton"]
    settings += [("sdca", groups) for groups in GROUPS]
    best = counted_fit(X, y, C, 1e-10, *settings[0])["objective"]
    found = []
    for setting in settings:
        counted_fit(X[:2000], y[:2000], C, 1e-2, *setting)  # compiles
        for tol in TOLS:
            run = counted_fit(X, y, C, tol, *setting)
            run["suboptimality"] = run["objective"] / best - 1
            if run["suboptimality"] <= SUBOPTIMALITY:
                break
        found.append(
            {"kind": "count", "data": name, "n": X.shape[0], "d": X.shape[1], "C": C} | run
        )
    return found


def counted_fit(X: Any, y: np.ndarray, C: float, tol: float, solver: str, workers: int) -> Record:
    """Fit in this process; of several workers the rows of each are a group, one partition each."""
    import daskglm
    from daskglm.core.requests import size_of
    from daskglm.engines.local import Local

    d = X.shape[1]
    moved = {"down": 0.0, "up": 0.0, "nbytes": 0.0, "row_seconds": 0.0}
    threads = len(os.sched_getaffinity(0))
    options = {
        "polish": False,
        "nodes": workers,
        "partitions": max(workers, threads),
        "threads": max(workers, threads),
    }
    total = Local.total

    def counted(self: Any, problem: Any, request: Any, *view: Any) -> Any:
        start = time.perf_counter()
        reply = total(self, problem, request, *view)
        # passes only: what the solver does with vectors would drown them where d exceeds n
        if reply.get("rows"):
            moved["row_seconds"] += time.perf_counter() - start
        moved["down"] += _doubles(request)
        moved["up"] += size_of(reply) / 8
        moved["nbytes"] = self.facts.nbytes
        return reply

    with warnings.catch_warnings(), mock.patch.object(Local, "total", counted):
        warnings.simplefilter("ignore")
        fitted = daskglm.fit(
            X,
            y,
            C=C,
            solver=solver,
            tol=tol,
            max_iter=1000,
            fit_intercept=False,
            random_state=0,
            progress=False,
            solver_options=options if solver == "sdca" else {},
        )
    report = fitted.report_
    what = {key: getattr(report, key) for key in ("passes", "rounds", "seconds", "objective")}
    around = {
        "solver": solver,
        "workers": workers,
        "threads": threads,
        "tol": tol,
        "nbytes": moved["nbytes"],
        "row_seconds": moved["row_seconds"],
    }
    return around | what | {"vectors_down": moved["down"] / d, "vectors_up": moved["up"] / d}


def _doubles(part: Any) -> float:
    """Doubles in the arrays of a request."""
    if isinstance(part, np.ndarray):
        return part.nbytes / 8
    if dataclasses.is_dataclass(part):
        return sum(_doubles(getattr(part, field.name)) for field in dataclasses.fields(part))
    return sum(map(_doubles, part)) if isinstance(part, tuple | list) else 0.0


# ---- tables and the picture
@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder.")
def report(files: tuple[Path, ...], out: Path) -> None:
    """Write rounds.md, rounds.png and model.md from JSON lines."""
    records = [
        json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()
    ]
    timed = [record for record in records if record["kind"] == "round"]
    places = {(record["machine"]["cpu"], record["machine"]["cores"]) for record in timed}
    if len(places) != 1:
        raise click.ClickException(f"rounds of one machine are wanted, not of {len(places)}")
    points = model.points_of(records)
    cores = timed[0]["machine"]["cores"]
    if len(points) < 3:
        raise click.ClickException("the model has three constants: measure at least three medians")
    out.mkdir(parents=True, exist_ok=True)
    fitted = model.fit(points, cores)
    (out / "rounds.md").write_text(rounds_page(timed, fitted))
    draw(points, fitted, out / "rounds.png")
    (out / "model.md").write_text(
        page(points, cores, model.counts_of(records)) + f"\n{_machine(timed)}\n"
    )
    click.echo(f"wrote rounds.md, rounds.png and model.md in {out}")


def rounds_page(records: Sequence[Record], fitted: model.Fit) -> str:
    """Workers by length: medians and 90th percentiles of star and tree."""
    seconds: dict[tuple[int, int, str], list[float]] = {}
    for record in records:
        seconds.setdefault((record["workers"], record["d"], record["way"]), []).extend(
            record["seconds"]
        )
    rows = []
    for workers, d in sorted({key[:2] for key in seconds}, key=lambda key: key[::-1]):
        star = seconds[workers, d, "star"]
        tree = seconds[workers, d, "tree"]
        expected = (f"{1e3 * fitted.predict(workers, d, way):.3g}" for way in ("star", "tree"))
        ratio = f"{median(tree) / median(star):.2f}"
        rows.append([f"{d:,}", workers, len(star), _cell(star), _cell(tree), ratio, *expected])
    head = [
        "doubles",
        "workers",
        "rounds",
        "star ms",
        "tree ms",
        "tree / star",
        "model: star ms",
        "model: tree ms",
    ]
    return (
        "\n\n".join(
            ["# What a round costs", ABOUT_ROUNDS, table(head, rows), PICTURE, _machine(records)]
        )
        + "\n"
    )


ABOUT_ROUNDS = """\
A gradient round of daskglm over tiny CSR partitions, two per worker process, one thread each, all
on one machine: a vector of doubles goes to every worker and one comes back. Median (90th
percentile) in milliseconds; star and tree take turns. *Star*: the client asks all workers itself.
*Tree*: it asks leaders, ceil(sqrt(workers)) workers to a leader's group, which is what daskglm does
beyond 8 workers. Client and scheduler share the cores with the workers: with more processes than
cores this measures work, not waiting, and a tree has as much work as a star."""
PICTURE = "![milliseconds against workers](rounds.png)"


def _machine(records: Sequence[Record]) -> str:
    about = records[-1]
    versions = ", ".join(
        f"{name} {version}" for name, version in about["versions"].items() if version != "absent"
    )
    loads = [record["load"] for record in records if record.get("load") is not None]
    load = f", load at the ends {min(loads)} to {max(loads)}" if loads else ""
    machine = f"{about['machine']['cpu']}, {about['machine']['cores']} cores"
    return f"Rounds: {about['date'][:10]}, {machine}{load}; commit {about['commit']}; {versions}."


def draw(points: Sequence[model.Point], fitted: model.Fit, path: Path) -> None:
    """Milliseconds against workers, a panel per length: star, tree and the model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted({point.d for point in points})
    figure, panels = pyplot.subplots(
        1, len(sizes), figsize=(4 * len(sizes), 4), layout="constrained", squeeze=False
    )
    for axes, d in zip(panels[0], sizes, strict=True):
        for number, way in enumerate(("star", "tree")):
            line = [(p.workers, 1e3 * p.seconds) for p in points if (p.d, p.scheme) == (d, way)]
            axes.plot(*zip(*line, strict=True), marker="os"[number], color=f"C{number}", label=way)
            expected = [(k, 1e3 * fitted.predict(k, d, way)) for k, _ in line]
            axes.plot(
                *zip(*expected, strict=True), ":", color=f"C{number}", label=f"model of the {way}"
            )
        axes.axvline(fitted.cores, color="0.8", linewidth=0.8, zorder=0)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="workers (processes)",
            ylabel="milliseconds",
            title=f"{d:,} doubles",
        )
        workers = sorted({point.workers for point in points})
        axes.set_xticks(workers, labels=map(str, workers))
        axes.minorticks_off()
    panels[0][0].legend(fontsize="small")
    figure.suptitle(
        f"A round by number of workers; the grey line is at {fitted.cores} cores", fontsize="medium"
    )
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


# ---- the page of the model
ASSUMPTIONS = """\
Assumed, not measured:

- A node: 64 cores, 200 GB/s of memory bandwidth, 512 GB, two workers (one per NUMA node) of 32
  threads.
- A pass reads X once at the lesser of 200 GB/s and 64 times what one core of the counting machine
  got through ("MB/s and core" below), perfectly balanced. Arithmetic of the client on its own
  vectors, loading and the first pass are left out.
- Passes and rounds are those of generated sets, shaped alike, of 200,000 to 500,000 rows (first
  table), C = 1 / mean |x|^2, logistic, no intercept, to a relative suboptimality of 1e-6; another
  C, other data or 10,000 times the rows per feature change them. Only sdca's are taken to grow with
  the number of workers: as its power, fitted from 2 to 16 groups of rows in one process and
  **extrapolated** to 32, 256 and 2,048. It runs without the Newton or TRON polish that daskglm
  would put at its end, so where sdca is far behind, read "polish".
- *As daskglm is* (leaders): the client, in one place with the scheduler, asks the leaders of
  ceil(sqrt(workers)) groups. Software seconds per message and byte are those of the fit below, of
  one Python process over loopback; the link adds its own: 1 / network = 1 / software + 1 / link.
  Leaders work at the same time. Vectors are dense doubles.
- *Ideal* (binary): a tree of depth log2(workers), 20 microseconds a level, bytes x depth at the
  speed of the link, no software. A pipelined all-reduce would divide its transfer by the depth.
- Memory per node: data x 1.1, 32 bytes a row, a vector per thread, four per worker and what a
  leader gathers."""


def page(points: Sequence[model.Point], cores: int, counts: Sequence[model.Count]) -> str:
    """model.md: the fit, what is assumed and counted, and predictions with picks."""
    whole = model.fit(points, cores)
    few = [point for point in points if point.workers <= cores]
    narrow = model.fit(few, cores) if len({point.workers for point in few}) > 1 else None
    parts = [
        "# Time on many nodes, by a model",
        f"    {model.__doc__.split(chr(10) * 2)[1]}",
        FORMULA,
    ]
    parts += [
        "## The fit",
        model_page.fits_part(points, cores, whole, narrow),
        "## What is assumed",
        ASSUMPTIONS,
    ]
    parts += ["## Passes, rounds and vectors", model_page.counts_part(counts)]
    for scheme, title in zip(
        model.SCHEMES, ("as daskglm is, through leaders", "ideal binary tree"), strict=True
    ):
        predictions = model.predict(whole, counts, scheme)
        parts += [f"## Predictions: {title}", SECONDS, model_page.predictions_part(predictions)]
    parts += [
        "## The client's link",
        model_page.client_part(whole, counts),
        "## How firm the picks are",
        model_page.firm_part(whole, narrow, counts),
    ]
    return "\n\n".join(parts) + "\n"


FORMULA = """\
Hops are levels of the tree, messages those that one process handles in turn: star 1 and n, leaders
2 and ceil(n / width) + width - 1 with width = ceil(sqrt(n)), binary tree log2(n) and log2(n)."""
SECONDS = """\
Seconds of a fit; the shares are those of the pick (compute / latency / transfer). "-": newton is
refused where its Hessian exceeds 8 GiB, as daskglm refuses it."""


if __name__ == "__main__":
    main()
