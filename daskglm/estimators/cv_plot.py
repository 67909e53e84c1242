"""Draw what cross-validation found: the error of the rows held out over the penalty's strength."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.fitting.held_out import SELECTIONS, selected, standard_errors


def draw_cv(
    alphas: np.ndarray, errors: np.ndarray, alpha: float, measure: str, axes: Any = None
) -> Any:
    """Draw the mean over the folds with a band of one standard error.

    Lines mark the strengths that the rules "min" and "1se" select; a dot is at the model's own.

    Parameters
    ----------
    alphas : (values,) array
        A strength of zero is left out, since the axis is logarithmic.
    errors : (values, folds) array
    alpha : float
        That of the model.
    measure : str
        Name of the errors.
    axes : matplotlib.axes.Axes, optional
        Default: new ones.

    Returns
    -------
    matplotlib.axes.Axes
    """
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots()[1]
    order = np.argsort(-alphas)
    order = order[alphas[order] > 0.0]
    mean, error = errors.mean(axis=1), standard_errors(errors)
    x, middle, half = alphas[order], mean[order], error[order]
    axes.fill_between(x, middle - half, middle + half, alpha=0.3, label="one standard error")
    (line,) = axes.plot(x, middle, label="mean of the folds")
    for rule, style in zip(SELECTIONS, ("--", ":"), strict=True):
        axes.axvline(alphas[selected(errors, alphas, rule)], color="0.4", ls=style, label=rule)
    axes.plot([alpha], mean[alphas == alpha], "o", color=line.get_color())
    axes.set_xscale("log")
    axes.invert_xaxis()
    axes.set_xlabel("alpha")
    axes.set_ylabel(f"{measure}, rows held out")
    axes.legend(fontsize="small")
    return axes
