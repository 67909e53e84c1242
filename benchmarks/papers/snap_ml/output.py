"""A figure on disk: a table in Markdown, with what it was measured on, and a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.suites.runner import commit
from benchmarks.suites.single_run import surroundings

FOLDER = Path(__file__).resolve().parents[2] / "results" / "sdca"


@dataclass
class Panel:
    """One plot: lines by name, each a list of (x, y)."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    log: str = ""

    def add(self, line: str, x: float, y: float) -> None:
        """Add a point to a line."""
        self.lines.setdefault(line, []).append((x, y))


@dataclass
class Figure:
    """A table and its plots."""

    name: str
    title: str
    text: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)

    def write(self, folder: Path = FOLDER) -> Path:
        """Write name.md and name.png; return the former's path."""
        folder.mkdir(parents=True, exist_ok=True)
        around = surroundings()
        machine = around["machine"]
        versions = around["versions"]
        picture = folder / f"{self.name}.png"
        _draw(self.panels, picture)
        head = "| " + " | ".join(self.columns) + " |\n|" + " --- |" * len(self.columns)
        body = "\n".join(
            "| " + " | ".join(_cell(value) for value in row) + " |" for row in self.rows
        )
        known = ", ".join(
            f"{name} {version}" for name, version in versions.items() if version != "absent"
        )
        where = (
            f"{machine['cpu']}, {machine['cores']} cores, load {around['load']} at the end; commit "
            f"{commit()}; {known}."
        )
        path = folder / f"{self.name}.md"
        path.write_text(
            f"# {self.title}\n\n{self.text}\n\n![{self.title}]({picture.name})\n\n"
            f"{head}\n{body}\n\n{where}\n"
        )
        return path


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _draw(panels: list[Panel], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.6), squeeze=False)
    for panel, axis in zip(panels, axes[0], strict=True):
        for name, points in panel.lines.items():
            points = sorted(points)
            axis.plot(
                [x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=name
            )
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if "x" in panel.log:
            axis.set_xscale("log")
        if "y" in panel.log:
            axis.set_yscale("log")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
