"""`regularization_path`: one model for each strength of the penalty, from none selected to many."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.arguments import check_choice, check_flag, is_number, is_whole
from daskglm.estimators.base import LinearModel
from daskglm.estimators.families import GeneralizedLinearRegressor
from daskglm.estimators.fit_path import MOST_VALUES, values_of
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.logistic import LogisticRegression
from daskglm.fitting.config import FitConfig
from daskglm.fitting.open_grid import warn_unsolved
from daskglm.fitting.path_checkpoint import PathFits, strengths_asked
from daskglm.fitting.penalised import with_columns
from daskglm.fitting.penalty_path import PathProblem, path_report
from daskglm.fitting.report import Report
from daskglm.fitting.runner import rows_of
from daskglm.fitting.setup import loaded
from daskglm.fitting.solvable import check_width
from daskglm.losses.table import find
from daskglm.system.blas import one_thread

# Weakest strength over the strongest where there are more rows than features, and where not; as in
# glmnet.
EPS, WIDE_EPS = 1e-4, 1e-2
# Mix and fold of the only path.
ALONE = (0, 0)
# Of lines, where there are more than colours.
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Models of one problem for falling strengths of the penalty.

    Parameters
    ----------
    alphas : (values,) array
        Strengths beside the mean loss.
    coefs : (values, d) array
    intercepts : (values,) array
    gaps : (values,) array
        Proved bounds on relative suboptimality; nan where nothing is proved.
    deviances : (values,) array
        Weighted means of the unit deviances: twice the mean loss.
    df : (values,) int array
        Coefficients that are not zero, without the intercept.
    feature_names : tuple of str, optional
    classes : (2,) array, optional
        Labels of a classifier.
    report_ : Report
        Cost of all, and the largest gap.
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    gaps: np.ndarray
    deviances: np.ndarray
    df: np.ndarray
    feature_names: tuple[str, ...] | None
    classes: np.ndarray | None
    report_: Report

    def __repr__(self) -> str:
        gap = np.max(self.gaps)
        return (
            f"RegularizationPath of {len(self.alphas)} strengths, alpha from "
            f"{self.alphas[0]:.3g} to {self.alphas[-1]:.3g}: {np.min(self.df)} to "
            f"{np.max(self.df)} of {self.coefs.shape[1]} coefficients, "
            f"{'gaps not all proved' if np.isnan(gap) else f'relative gaps <= {gap:.2g}'}"
        )

    def plot(self, axes: Any = None, *, most_named: int = 10) -> Any:
        """Draw coefficients over the strength, the strongest penalty on the left.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Default: new ones.
        most_named : int
            Features named in the legend, those of the largest coefficients.

        Returns
        -------
        matplotlib.axes.Axes
        """
        import matplotlib.pyplot as plt

        if axes is None:
            axes = plt.subplots()[1]
        live = np.flatnonzero(np.any(self.coefs != 0.0, axis=0))
        largest = live[np.argsort(-np.abs(self.coefs[:, live]).max(axis=0))]
        names = self.feature_names
        colors = len(plt.rcParams["axes.prop_cycle"])
        for rank, j in enumerate(largest):
            label = None
            if rank < most_named:
                label = f"feature {j}" if names is None else names[j]
            style = STYLES[rank // colors % len(STYLES)]
            axes.plot(self.alphas, self.coefs[:, j], style, label=label)
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set_xlabel("alpha")
        axes.set_ylabel("coefficient")
        if len(largest) and most_named > 0:
            axes.legend(fontsize="small")
        return axes


def regularization_path(
    X: Any,
    y: Any,
    *,
    family: str | None = None,
    link: str = "auto",
    loss: str = "logistic",
    l1_ratio: float = 1.0,
    alphas: Any = None,
    n_alphas: int = 100,
    eps: float | None = None,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int | None = None,
    penalty_factor: Any = None,
    P2: Any = None,
    lower_bounds: Any = None,
    upper_bounds: Any = None,
    positive: bool = False,
    groups: Any = None,
    standardize: bool = False,
    schema: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    client: Any = None,
    device: str | None = None,
    out_of_core: bool = False,
    checkpoint: Any = None,
    checkpoint_every: int | str = "60s",
    resume: Any = None,
) -> Any:
    """Fit a model for each of a sequence of falling strengths of the penalty.

    Each begins at the one before. Least squares with up to 2,000 features takes one pass over the
    rows for all of them; others take about two passes each.

    Parameters
    ----------
    X, y, sample_weight, offset, exposure, client, device, out_of_core
        As of `daskglm.fit`.
    family, link : str, optional
        As of `GeneralizedLinearRegressor`; "gaussian" is least squares.
    loss : str, default "logistic"
        Where no family is given: "logistic", of two classes. Not beside a family.
    l1_ratio : float, default 1.0
    alphas : sequence of float, optional
        Strengths, which are sorted to fall; default: `n_alphas` of them, evenly in their logarithm,
        from the least one that leaves only unpenalised coefficients to `eps` of that. Where bounds
        alone leave none at any strength, from the least one without the bounds.
    n_alphas : int, default 100
    eps : float, optional
        Default: 1e-4 with more rows than features, else 1e-2.
    fit_intercept, tol, max_iter, penalty_factor, P2, lower_bounds, upper_bounds, positive, groups,
    standardize
        As of `daskglm.fit`.
    checkpoint, checkpoint_every, resume
        As of `daskglm.fit`, of the fits that are finished: a number of `checkpoint_every` counts
        them.

    Returns
    -------
    RegularizationPath; an awaitable of it where the client is asynchronous.

    Raises
    ------
    ValueError
        For bad data and parameters out of range; without `alphas`, for targets that leave nothing
        to features, such as equal ones, since all strengths would be zero or rounding.

    Warns
    -----
    ConvergenceWarning
        Where a fit ended without meeting `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import daskglm
    >>> X, y = load_diabetes(return_X_y=True)
    >>> path = daskglm.regularization_path(X, y, family="gaussian", n_alphas=5, eps=0.1)
    >>> path.df
    array([0, 2, 4, 4, 5])
    """
    if family is None:
        check_choice(loss, "loss", ("logistic",))
        model: LinearModel = LogisticRegression(C=1.0, multi_class="ovr")
    elif loss != "logistic":
        raise ValueError(f"loss={loss!r} and family={family!r} are both given: leave one out")
    else:
        model = GeneralizedLinearRegressor(family, link=link)
    model.set_params(
        l1_ratio=l1_ratio,
        fit_intercept=fit_intercept,
        tol=tol,
        max_iter=max_iter,
        penalty_factor=penalty_factor,
        P2=P2,
        lower_bounds=lower_bounds,
        upper_bounds=upper_bounds,
        positive=positive,
        groups=groups,
        standardize=standardize,
        schema=schema,
        device=device,
    )
    settings = model._settings(
        average=True,
        out_of_core=out_of_core,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
    )
    settings.check()
    check_gradient(settings)
    if getattr(model, "_estimates", False):
        raise ValueError(f"family={family!r}: a path takes no parameter that is estimated")
    if alphas is not None:
        alphas = np.sort(values_of(alphas, "alphas", zero=True))[::-1]
    check_count(n_alphas, "n_alphas")
    check_share(eps, optional=True)
    beside = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}

    def work(X: Any, y: Any, settings: FitConfig, known: Known, data: dict[str, Any]) -> Any:
        names = known.names if known.design is None else np.array(known.design.names, object)
        return _path({"X": X, "y": y, **data}, settings, names, alphas, n_alphas, eps, client)

    return model._on_rows(X, y, beside, settings, client, work)


def check_gradient(settings: FitConfig) -> None:
    """Raise ValueError for a loss with corners, whose largest strength no gradient tells."""
    if not find(settings.loss).differentiable:
        raise ValueError(
            f"family={settings.loss!r} has corners, and a path of an L1 penalty or bounds wants a "
            "loss with a gradient, which tells the largest alpha; give daskglm.fit a sequence of "
            "C, or search alpha of its estimator by GridSearchCV"
        )


def check_count(given: Any, name: str) -> None:
    """Raise ValueError for what is no number of strengths."""
    if not is_whole(given) or not 1 <= int(given) <= MOST_VALUES:
        raise ValueError(f"{name}={given!r} must be a whole number from 1 to {MOST_VALUES:,}")


def ratios_of(given: Any) -> list[float]:
    """Return one l1_ratio, or several, as a list; raises ValueError for what is none."""
    ratios = [given] if is_number(given) else list(given) if np.iterable(given) else []
    if not ratios or any(not is_number(each) or not 0.0 <= each <= 1.0 for each in ratios):
        raise ValueError(
            f"l1_ratio={given!r:.80} must be a number from 0 to 1, or a sequence of them"
        )
    return [float(each) for each in ratios]


def strengths_of(given: Any, name: str) -> np.ndarray | int:
    """Return strengths as given, or their number; raises ValueError for what is neither."""
    if is_whole(given):
        check_count(given, name)
        return int(given)
    if not np.iterable(given):
        raise ValueError(
            f"{name}={given!r:.200} must be a whole number from 1 to {MOST_VALUES:,}, or a "
            "sequence of numbers not below 0"
        )
    return values_of(given, name, zero=True)


def check_share(eps: Any, *, optional: bool = False) -> None:
    """Raise ValueError for what is no share of the largest strength."""
    if optional and eps is None:
        return
    if not (is_number(eps) and 0.0 < eps <= 1.0):
        raise ValueError(f"eps={eps!r} must be a number above 0 and not above 1")


def check_relax(relax: Any, given: str, settings: FitConfig) -> None:
    """Raise ValueError for what is no flag, and where no feature is selected to be fitted again.

    `given` are the parameters that say so, `settings` those of the largest l1_ratio.
    """
    check_flag(relax, "relax")
    if relax and settings.penalty.is_smooth:
        raise ValueError(
            f"relax=True wants an L1 penalty, which selects features; {given} has none: give an "
            "l1_ratio above 0, or relax=False"
        )


def eps_of(eps: float | None, n_rows: int, n_features: int) -> float:
    """Return `eps`, or its default for so many rows and features."""
    if eps is None:
        return EPS if n_rows > n_features else WIDE_EPS
    return float(eps)


def _path(
    data: dict[str, Any],
    settings: FitConfig,
    names: Any,
    alphas: np.ndarray | None,
    n_alphas: int,
    eps: float | None,
    client: Any,
) -> RegularizationPath:
    began, fits = time.perf_counter(), PathFits(settings)
    loss = find(settings.loss)
    rows = rows_of(data.pop("X"), data.pop("y"), data.pop("sample_weight"), loss, **data)
    check_width(None, rows)
    settings = with_columns(settings, rows)
    with loaded(rows, settings, client) as on, one_thread():
        if len(on.problems) > 1:
            raise ValueError(
                f"y has {len(on.problems)} classes; a path is of two: make y the label of one "
                "class against the rest"
            )
        ((problem, sides),) = on.problems
        of_rows = PathProblem(on.engine, problem, sides, find(problem.loss.name), settings)
        facts = on.engine.facts
        share = eps_of(eps, facts.n_used, facts.n_features or 0)
        of_all = of_rows.objective(1.0)
        fits.begin(of_all, strengths_asked(int(n_alphas) if alphas is None else alphas, share))
        begin = None if fits.finished(ALONE) else of_rows.unpenalised()
        if fits.alphas is None:
            assert begin is not None
            given = of_rows.grid(int(n_alphas), share, begin) if alphas is None else alphas
            fits.alphas = given[None]
        (alphas,) = fits.alphas
        found = fits.solve(ALONE, of_rows, alphas.tolist(), begin)
        fits.write()
        passes, resumed = of_rows.passes + of_all.passes, fits.iterations_restored
        report = path_report(on.engine, found, passes, on.seconds, began, resumed=resumed)
    warn_unsolved([report], float(settings.tol))
    d = report.n_features
    W = np.array([fitted.w for fitted in found])
    intercepts = W[:, d] if settings.fit_intercept else np.zeros(len(W))
    gaps = np.array([fitted.gap for fitted in found])
    deviances = np.array([2.0 * fitted.loss / sum(sides) for fitted in found])
    df = np.count_nonzero(W[:, :d], axis=1)
    names = None if names is None else tuple(map(str, names))
    return RegularizationPath(
        alphas, W[:, :d], intercepts, gaps, deviances, df, names, on.classes, report
    )
