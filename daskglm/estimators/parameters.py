"""Translate scikit-learn's and dask-ml's parameters and solvers into settings of a fit."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from daskglm.core.arguments import is_number, is_whole, shown
from daskglm.core.warn import warn
from daskglm.estimators.choices import SOLVER_NAMES
from daskglm.estimators.penalty_parameters import penalty_of
from daskglm.fitting.config import FitConfig
from daskglm.losses.table import LOSSES

DUAL_SOLVERS = ("auto", "liblinear", "sag", "saga", "sdca")
# Those of `SOLVER_NAMES` that take L1 penalties or bounds where they come from.
TAKING_KINKS = ("liblinear", "saga", "admm", "proximal_grad")
MULTI_CLASS = ("ovr", "auto", "deprecated", "multinomial")


def settings_of(params: Mapping[str, Any], loss: str, **more: Any) -> FitConfig:
    """Return the settings that an estimator's parameters ask for.

    Parameters
    ----------
    params : dict
        Parameters by the names of the estimators; absent ones have their defaults.
    loss : str
    more
        Further fields of `FitConfig`.

    Raises
    ------
    ValueError
        For values without a counterpart here, such as a penalised intercept.
    """
    check_names(params)
    if params.get("multi_class") == "multinomial" and loss != "multinomial":
        raise ValueError(
            "multi_class='multinomial' is not implemented here; more than two classes are fitted "
            "'ovr' (LogisticRegression and LogisticRegressionCV have the multinomial loss)"
        )
    fields = {
        name: params[name]
        for name in FitConfig.__dataclass_fields__
        if name in params and name not in ("loss", "penalty")
    }
    fields["penalty"] = penalty = penalty_of(params)
    C = strength(params)
    if C is not None:
        fields["C"] = C
    if "solver" in params or params.get("dual") is True:
        strength_of_losses = math.inf if C is None else C
        kinks = not penalty.is_smooth
        fields["solver"], fields["why"] = solver_of(params, loss, strength_of_losses, kinks=kinks)
    fields["threads"] = threads_of(params.get("n_jobs"))
    fields["progress"] = progress_of(params.get("progress"), params.get("verbose", 0))
    return FitConfig(loss, **(fields | more))


def check_names(params: Mapping[str, Any]) -> None:
    """Raise ValueError for values of scikit-learn's parameters that ask for what is not there."""
    scaling = params.get("intercept_scaling", 1)
    if not is_number(scaling) or not 0.0 < scaling < math.inf:
        raise ValueError(
            f"intercept_scaling={shown(scaling)} must be a number above 0 (it has no effect, since "
            "the intercept is not penalised here)"
        )
    multi_class = params.get("multi_class", "ovr")
    if multi_class not in MULTI_CLASS:
        raise ValueError(
            f"multi_class={multi_class!r} is not implemented; more than two classes are fitted "
            "'ovr', by LogisticRegression also 'multinomial'"
        )
    if not isinstance(params.get("copy_X", True), (bool, np.bool_)):
        raise ValueError(f"copy_X={params['copy_X']!r} must be True or False (X is never changed)")


def strength(params: Mapping[str, Any]) -> float | None:
    """C of the parameters `C`, `alpha` and `penalty`; None where none of them says it.

    Warns UserWarning where `penalty=None` makes a C without effect, as scikit-learn does.
    """
    C, alpha = params.get("C"), params.get("alpha")
    if C is not None and alpha is not None:
        raise ValueError(
            f"alpha={alpha!r} and C={C!r} both set the penalty (C = 1 / alpha): give one of them"
        )
    if "penalty" in params and params["penalty"] is None:
        if C is not None and C != 1.0:
            warn(f"penalty=None: C={C!r} has no effect, the fit has no penalty")
        return math.inf
    if "alpha" in params and C is None:
        return inverse(1.0 if alpha is None else alpha)
    return C


def inverse(alpha: Any) -> float:
    """C = 1 / alpha; infinite for alpha = 0."""
    alpha = alpha.item() if isinstance(alpha, np.ndarray) and alpha.ndim == 0 else alpha
    if not is_number(alpha) or not 0.0 <= alpha < math.inf:
        raise ValueError(
            f"alpha={alpha!r} must be a number not below 0 (C = 1 / alpha; 0: no penalty)"
        )
    return 1.0 / float(alpha) if alpha > 0 else math.inf


def solver_of(
    params: Mapping[str, Any], loss: str, C: Any, *, kinks: bool = False
) -> tuple[str, str]:
    """Return the solver by the name it has here, and the reason.

    `kinks` says whether there is an L1 penalty, or bounds, for which solvers of other packages that
    take them mean "auto".
    """
    asked = params.get("solver", "auto")
    dual = params.get("dual", "auto")
    if not isinstance(dual, (bool, np.bool_)) and dual != "auto":
        raise ValueError(f"dual={dual!r} must be True, False or 'auto'")
    if dual is not False and dual != "auto":
        if asked not in DUAL_SOLVERS:
            raise ValueError(
                "dual=True wants a solver of the dual problem, 'sdca' or 'auto', not "
                f"solver={asked!r}"
            )
        return "sdca", "dual=True"
    name = loss.partition("(")[0].strip() if isinstance(loss, str) else loss
    smooth = name not in LOSSES or LOSSES[name].differentiable
    if "loss" in params and not smooth and dual != "auto":
        raise ValueError(
            f"dual=False: loss={loss!r} has a dual solver only; give dual='auto' or True"
        )
    if not isinstance(asked, str) or asked not in SOLVER_NAMES:
        return asked, "asked for"
    whose, solver = SOLVER_NAMES[asked]
    if kinks and solver != "proximal":  # which takes them
        if asked not in TAKING_KINKS:
            raise ValueError(
                f"solver={asked!r} of {whose} takes no L1 penalty and no bounds; use 'auto'"
            )
        return "auto", f"solver={asked!r} of {whose}: auto"
    if solver == "sdca" and is_number(C) and math.isinf(C):
        solver = "lbfgs"  # no penalty, no dual problem
    if not smooth and solver != "proximal":
        solver = "sdca"
    return solver, f"solver={asked!r} of {whose}: {solver}"


def threads_of(n_jobs: Any) -> int | None:
    """Return how many threads `n_jobs` asks for, as joblib counts; None: all."""
    if n_jobs is None:
        return None
    if not is_whole(n_jobs) or n_jobs == 0:
        raise ValueError(
            f"n_jobs={n_jobs!r} must be a positive integer, None or -1 (all processors)"
        )
    if n_jobs > 0:
        return int(n_jobs)
    return None if n_jobs == -1 else max((os.cpu_count() or 1) + 1 + int(n_jobs), 1)


def progress_of(progress: bool | None, verbose: Any) -> bool | None:
    """`progress`, or where that is left open what `verbose` asks for."""
    if not isinstance(verbose, (int, np.integer, np.bool_)) or verbose < 0:
        raise ValueError(
            f"verbose={verbose!r} must be an integer not below 0 (above 0: show progress)"
        )
    return True if progress is None and verbose else progress
