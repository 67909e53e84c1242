"""What processes take over time, whether it is flat, and a picture of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import StatisticsError, median
from typing import Any

import psutil

PROCESSES = ("client", "scheduler", "a", "b")
MEASURES = {"rss_mb": "resident memory, MB", "threads": "threads", "fds": "file descriptors"}
OF_PROCESSES = ("kill", "kill client", "retire", "stop", "kill scheduler")
QUIET = {"tasks": "tasks on the scheduler", "sessions": "sessions on workers"}
# absolute, and relative: what is flat
MORE = {"rss_mb": (10.0, 0.05), "threads": (2.0, 0.0), "fds": (5.0, 0.0)}


class Recorder:
    """Appends memory of client, scheduler and workers, at intervals, to a file of JSON lines."""

    def __init__(self, file: Path, running: Any, seconds: float) -> None:
        self.file = file
        self.running = running
        self.seconds = seconds
        self.began, self.records, self.lock = time.monotonic(), [], threading.Lock()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Recorder:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self.thread.join()

    def write(self, kind: str, **fields: Any) -> None:
        """Append one record."""
        record = {"kind": kind, "t": round(time.monotonic() - self.began, 1), **fields}
        with self.lock, self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")
            self.records.append(record)

    def _sample(self) -> None:
        while not self.ended.wait(self.seconds):
            found = {name: self._taken(name) for name in PROCESSES}
            self.write("sample", **{name: taken for name, taken in found.items() if taken})

    def _taken(self, name: str) -> dict[str, float] | None:
        try:
            if name == "client":
                process = psutil.Process()
            elif name == "scheduler":
                process = psutil.Process(self.running.started[name].pid)
            else:
                process = self.running.worker(name)
            if process is None:
                return None
            with process.oneshot():
                rss = round(process.memory_info().rss / 2**20, 1)
                return {
                    "pid": process.pid,
                    "rss_mb": rss,
                    "threads": process.num_threads(),
                    "fds": process.num_fds(),
                }
        except psutil.Error:
            return None


def thirds(records: Sequence[dict[str, Any]], name: str, measure: str) -> tuple[float, float]:
    """Medians over the second and the last third of the time that these records are of."""
    found = [(record["t"], record[name][measure]) for record in records if name in record]
    begin, end = min(t for t, _ in found), max(t for t, _ in found)
    parts = [
        [value for t, value in found if low * (end - begin) <= t - begin <= high * (end - begin)]
        for low, high in ((1 / 3, 2 / 3), (2 / 3, 1.0))
    ]
    return median(parts[0]), median(parts[1])


def flatness(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare the medians of the last and the second third, for each process and measure.

    What counts is the time from the last start of the cluster on, which a record "cluster" tells.
    "a" alone of the workers lives all that time; "b" is killed and started anew. Of a process
    without samples in both thirds nothing is said.
    """
    since = max((record["t"] for record in records if record["kind"] == "cluster"), default=0.0)
    samples = [record for record in records if record["kind"] == "sample" and record["t"] >= since]
    rows = []
    for name in PROCESSES:
        for measure, (absolute, relative) in MORE.items():
            try:
                before, after = thirds(samples, name, measure)
            except (StatisticsError, ValueError):
                continue
            flat = after <= before + max(absolute, relative * before)
            rows.append(
                {"process": name, "measure": measure, "second": before, "last": after, "flat": flat}
            )
    return rows


def plot(records: Sequence[dict[str, Any]], title: str, out: Path) -> None:
    """Plot what processes take over time, and below what fits left behind at their ends."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    samples = [record for record in records if record["kind"] == "sample"]
    ends = [record for record in records if record["kind"] == "fit" and "tasks" in record]
    figure, axes = plt.subplots(len(MEASURES) + 1, sharex=True, figsize=(9, 11))
    for axis, (measure, label) in zip(axes, MEASURES.items(), strict=False):
        for name in PROCESSES:
            found = [
                (record["t"] / 60, record[name][measure]) for record in samples if name in record
            ]
            if not found:
                continue
            axis.plot(
                *zip(*found, strict=True),
                label=f"worker {name}" if len(name) == 1 else name,
                linewidth=1,
            )
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend(ncols=4, fontsize=8)
    axes[0].set_title(title, fontsize=9)
    for measure, label in QUIET.items():
        axes[-1].plot(
            [end["t"] / 60 for end in ends],
            [end[measure] for end in ends],
            ".",
            label=label,
            markersize=4,
        )
    fits = [record for record in records if record["kind"] == "fit"]
    faults = [fit for fit in fits if fit["fault"] in OF_PROCESSES]
    for start in [record["t"] / 60 for record in records if record["kind"] == "cluster"]:
        for axis in axes:
            axis.axvline(start, color="0.8", linewidth=0.8, zorder=0)
    axes[-1].plot(
        [f["t"] / 60 for f in faults],
        [-0.5] * len(faults),
        "k|",
        label="faults of processes; grey: a new cluster",
        markersize=6,
    )
    axes[-1].set_ylabel("left after a fit")
    axes[-1].legend(fontsize=8)
    axes[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    plt.close(figure)
