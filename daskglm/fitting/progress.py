"""A progress bar on long solves: how far the bound has come on its way to tol, by tqdm."""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Iterator

from daskglm.core.outcome import Iteration
from daskglm.fitting.driver import Callback

# Seconds before a bar is shown: one that comes and goes is worse than none.
DELAY_SECONDS = 2.0


@contextlib.contextmanager
def progress_bar(
    progress: bool | None, callback: Callback | None, tol: float, label: str
) -> Iterator[Callback | None]:
    """Give the callback that a solve should call: the user's own, with a bar drawn around it.

    Parameters
    ----------
    progress : bool, optional
        True draws at once, False never; None after two seconds in a terminal or notebook.
    """
    if progress is False or (progress is None and not _interactive()):
        yield callback
        return
    with warnings.catch_warnings():
        # in a notebook without ipywidgets tqdm draws its bar as text, and need not say so
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm

    delay = 0.0 if progress else DELAY_SECONDS
    bar = tqdm(
        total=100,
        desc=label,
        delay=delay,
        leave=bool(progress),
        miniters=0,  # texts change where the bar does not
        bar_format="{l_bar}{bar}| {elapsed}{postfix}",
    )
    first: list[float] = []

    def draw(iteration: Iteration) -> bool | None:
        if math.isfinite(iteration["relative_gap"]):
            error = iteration["relative_gap"]
        else:
            error = iteration["gradient_norm"]
        first.append(error)
        span = math.log(max(first[0], 1e-300)) - math.log(max(tol, 1e-16))
        if span > 0:
            done = (math.log(max(first[0], 1e-300)) - math.log(max(error, 1e-300))) / span
        else:
            done = 1.0
        # `update` alone keeps to the delay, and knows at the end whether there is a bar to clear
        bar.set_postfix(
            refresh=False,
            objective=f"{iteration['objective']:.6g}",
            gap=f"{iteration['relative_gap']:.1e}",
            passes=iteration["passes"],
        )
        bar.update(max(round(100 * min(max(done, 0.0), 1.0)) - bar.n, 0))
        return callback(iteration) if callback is not None else None

    try:
        yield draw
    finally:
        bar.close()


def _interactive() -> bool:
    """Return whether somebody looks: at a terminal, or at a notebook, which has a kernel."""
    # without importing IPython, which is there already where it runs this
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    # services have no standard error, and schedulers put an object there that can only write
    return getattr(sys.stderr, "isatty", bool)() or hasattr(shell, "kernel")
