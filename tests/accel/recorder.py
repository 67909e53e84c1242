"""A backend of matplotlib that writes what was drawn, as numbers, to the file DASKGLM_DRAWN: MPLBACKEND=module://..."""

import atexit
import os
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

FigureManager = FigureManagerBase
drawn: list[np.ndarray] = []


def show(*args: Any, **given: Any) -> None:
    """Keep lines, points and pictures of all figures, and close them, as a window would be."""
    for number in pyplot.get_fignums():
        for axes in pyplot.figure(number).axes:
            drawn.extend(line.get_xydata() for line in axes.lines)
            drawn.extend(points.get_offsets() for points in axes.collections)
            drawn.extend(picture.get_array() for picture in axes.images)
    pyplot.close("all")


@atexit.register
def write() -> None:
    """Write what was drawn, what was not shown too."""
    show()
    numbers = [np.ma.filled(np.ma.asarray(each, float), np.nan) for each in drawn]
    np.savez(os.environ["DASKGLM_DRAWN"], *numbers)


__all__ = ["FigureCanvas", "FigureManager", "show"]
