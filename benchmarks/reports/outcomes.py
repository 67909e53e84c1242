"""What recorded runs say: runs by problem and machine, times to a suboptimality. Reads records,
writes nothing.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.suites.evaluate import suboptimality

Record = dict[str, Any]


class Setting(NamedTuple):
    """The repeats of one contestant at one tolerance on one problem."""

    contestant: str
    tol: float
    ours: bool
    seconds: list[float]
    suboptimality: float  # the worst
    runs: list[Record]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def first(self) -> Record:
        return self.runs[0]

    @property
    def beyond_data_mb(self) -> float | None:
        """The most memory of a fit beyond the loaded data, converted copies included."""
        known = [
            run
            for run in self.runs
            if run.get("rss_loaded_mb") is not None and run.get("peak_is_of_fit")
        ]
        return max((run["peak_rss_mb"] - run["rss_loaded_mb"] for run in known), default=None)


def grouped(records: Iterable[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    """Records by key, in the order of first sight."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return groups


def title(record: Record) -> str:
    """Return the name of a problem; records with the same title share one optimum."""
    rows = f" {record['rows']:,} rows" if record["rows"] else ""
    more = ([f"seed {record['seed']}"] if record["seed"] else []) + (
        [record["dtype"]] if record["dtype"] else []
    )
    bias = "with intercept" if record["fit_intercept"] else "no intercept"
    return ", ".join(
        [f"{record['data']}{rows}", record["loss"], f"C = {record['C']:g}", bias, *more]
    )


def place(record: Record) -> str:
    """Return the machine and its threads: seconds of two places are never compared."""
    machine = record["machine"]
    return f"{record['threads']} threads, {machine['cpu']}, {machine['cores']} cores"


def succeeded(group: Iterable[Record]) -> list[Record]:
    """Runs that came to an end."""
    return [record for record in group if record["kind"] == "run" and record["status"] == "ok"]


def best_known(group: Sequence[Record]) -> float:
    """Return the least objective of all runs and references of one problem."""
    values = [record["objective"] for record in group if record["status"] == "ok"]
    return min((value for value in values if math.isfinite(value)), default=math.nan)


def settings(runs: Sequence[Record], best: float) -> list[Setting]:
    """Runs by contestant and tolerance; one of ours also by commit, where it ran at several."""
    commits = {(run["contestant"], run.get("commit")) for run in runs if run["ours"]}
    several = Counter(contestant for contestant, _ in commits)
    by: dict[tuple[str, float], list[Record]] = defaultdict(list)
    for run in runs:
        commit = f" @{run['commit']}" if several[run["contestant"]] > 1 else ""
        by[run["contestant"] + commit, run["tol"]].append(run)
    return [
        Setting(
            contestant,
            tol,
            same[0]["ours"],
            [run["seconds"] for run in same],
            max(suboptimality(run["objective"], best) for run in same),
            same,
        )
        for (contestant, tol), same in sorted(
            by.items(), key=lambda item: (item[0][0], -item[0][1])
        )
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
