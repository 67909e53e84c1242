"""`GeneralizedLinearRegressorCV`: the penalty of least deviance on rows that are held out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from daskglm.core.arguments import check_choice
from daskglm.estimators.cv_plot import draw_cv
from daskglm.estimators.families import GeneralizedLinearRegressor
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.parameters import inverse
from daskglm.estimators.regularization_path import (
    check_gradient,
    check_relax,
    check_share,
    eps_of,
    ratios_of,
    strengths_of,
)
from daskglm.fitting.config import FitConfig
from daskglm.fitting.cv_splits import DEFAULT_FOLDS, check_splits
from daskglm.fitting.driver import Callback
from daskglm.fitting.held_out import SELECTIONS, held_out, selected
from daskglm.fitting.open_grid import open_grid, warn_unsolved
from daskglm.fitting.path_checkpoint import PathFits
from daskglm.fitting.penalty_cv import cross_validate
from daskglm.fitting.record import record_of
from daskglm.fitting.runner import Trained
from daskglm.objectives.batched import ProblemBatch

# Strengths that a number of them stands for: from the first to the last, as in glum.
LARGEST, LEAST = 10.0, 1e-5


class GeneralizedLinearRegressorCV(GeneralizedLinearRegressor):
    """Regression of a family with `alpha` chosen by cross-validation.

    The rows are loaded once. Each fold is solved from the strongest penalty to the weakest, each
    from the solution before; what the folds hold out is scored in one pass.

    Parameters
    ----------
    family, link, fit_intercept, solver, max_iter, tol
        As of `GeneralizedLinearRegressor`; parameters of families are given, not estimated.
    alphas : int or sequence of float, default 10
        Strengths of the penalty; a number means so many from 10 to 1e-5, evenly in their logarithm,
        and with an L1 part, bounds or `eps` from the least strength that leaves no coefficient to
        `eps` of it.
    eps : float, optional
        Least strength over the largest, where `alphas` is a number. Default: 1e-4, and 1e-2 with no
        more rows than features; without an L1 part and bounds the strengths from 10 to 1e-5.
    l1_ratio : float or sequence of float, default 0.0
        Share of the L1 penalty; of several that with the least mean deviance is taken.
    selection : {"min", "1se"}, default "min"
        "min" takes the alpha with the least mean deviance over the folds, "1se" the largest within
        one standard error of it.
    relax : bool, default False
        Whether the features that an L1 penalty has selected are fitted again without it.
    penalty_factor, P2, lower_bounds, upper_bounds, positive, groups, standardize, schema
        See `daskglm.fit`.
    cv : int, scikit-learn splitter, iterable of (train, test), or None
        Folds, as in scikit-learn; None is 5. Dask collections take a number: their rows are
        assigned to folds at random (`random_state`).
    random_state : int, optional
        Seed of folds that are drawn.
    n_jobs, verbose, progress, stop, solver_options, device, device_memory_limit
        As of `GeneralizedLinearRegressor`.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        Those selected; the model is fitted with them to all rows.
    alphas_ : (values,) array
        Of the selected l1_ratio, as are the paths below. They fall where there is an L1 part or
        bounds, or several l1_ratio; else they are in the order given.
    deviance_path_ : (values, folds) array
        Weighted mean of the unit deviances on the rows held out, with their offsets.
    d2_path_ : (values, folds) array
        :math:`D^2` on these rows, as `score`.
    coef_path_ : (values, folds, d) array
    intercept_path_ : (values, folds) array
    coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As of `GeneralizedLinearRegressor`.
    report_ : Report
        Of the last fit, with the cost of all. Its gap is the largest of all where there is an L1
        part or bounds; else `parts` has the reports of all: folds and values in this order, values
        fastest, then the last.

    Examples
    --------
    >>> import daskglm, numpy as np
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> y = np.round(np.exp(2 * X[:, 0]))
    >>> model = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[1.0, 0.001]).fit(X, y)
    >>> model.alpha_
    0.001
    """

    # groups are for the splitter, callback and checkpoints are no metadata
    __metadata_request__fit: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("groups", "callback", "checkpoint", "checkpoint_every", "resume"), UNUSED
    )

    def __init__(
        self,
        family: str = "gaussian",
        *,
        link: str = "auto",
        alphas: Any = 10,
        eps: float | None = None,
        cv: Any = None,
        l1_ratio: Any = 0.0,
        selection: str = "min",
        relax: bool = False,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        positive: bool = False,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        progress: bool | None = None,
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.family = family
        self.link = link
        self.alphas = alphas
        self.eps = eps
        self.cv = cv
        self.l1_ratio = l1_ratio
        self.selection = selection
        self.relax = relax
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.positive = positive
        self.groups = groups
        self.standardize = standardize
        self.schema = schema
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.progress = progress
        self.stop = stop
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        *,
        groups: Any = None,
        callback: Callback | None = None,
        checkpoint: Any = None,
        checkpoint_every: int | str = "60s",
        resume: Any = None,
    ) -> Any:
        """Choose alpha by cross-validation and fit.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As of `GeneralizedLinearRegressor.fit`.
        groups : (n,) array, optional
            Groups of rows that belong together, for splitters such as GroupKFold; data in memory
            only.
        callback : callable, optional
            As of `daskglm.fit`.
        checkpoint, checkpoint_every, resume
            As of `daskglm.fit`. With an L1 part, bounds or several l1_ratio they are of the fits
            that are finished, which a number of `checkpoint_every` counts. Where folds are drawn,
            `random_state` must be the same number again.

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For bad data, parameters out of range, and folds that cannot be used.
        """
        split_params = {} if groups is None else {"groups": groups}
        beside = {"offset": offset, "exposure": exposure}
        return self._fit(
            X,
            y,
            sample_weight,
            **beside,
            split_params=split_params,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
        )

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        offset: Any = None,
        exposure: Any = None,
        start: Any = None,
        client: Any = None,
        split_params: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> Any:
        if self._estimates:
            raise ValueError(
                f"family={self.family!r}: cross-validation takes no parameter that is estimated; "
                "give the number that a fit without it found"
            )
        check_splits(self.cv)
        check_choice(self.selection, "selection", SELECTIONS)
        ratios = ratios_of(self.l1_ratio)
        alphas: Any = strengths_of(self.alphas, "alphas")
        settings = self._settings(**more)
        settings.check()
        check_relax(self.relax, f"l1_ratio={self.l1_ratio!r}", settings)
        check_share(self.eps, optional=True)
        penalty = settings.penalty
        kinked = penalty.l1_ratio > 0.0 or penalty.is_bounded
        if isinstance(alphas, int) and self.eps is None and not kinked:
            alphas = np.geomspace(LARGEST, LEAST, alphas)
        beside = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}
        how: dict[str, Any] = {"client": client}
        how |= {"cv": DEFAULT_FOLDS if self.cv is None else self.cv, "split_params": split_params}
        choose = self._choose
        if kinked or len(ratios) > 1 or isinstance(alphas, int):
            check_gradient(settings)
            choose = partial(self._choose_of_path, ratios)

        def work(X: Any, y: Any, settings: FitConfig, known: Known, data: dict[str, Any]) -> Any:
            return choose(X, y, settings, known, alphas, {**how, **data})

        return self._on_rows(X, y, beside, settings, client, work)

    def _params(self) -> dict[str, Any]:
        return {**super()._params(), "l1_ratio": max(ratios_of(self.l1_ratio))}

    def _choose_of_path(
        self,
        ratios: list[float],
        X: Any,
        y: Any,
        settings: FitConfig,
        known: Known,
        alphas: Any,
        how: dict[str, Any],
    ) -> GeneralizedLinearRegressorCV:
        """Choose among fits with kinks or bounds, on paths of falling strength."""
        if not isinstance(alphas, int):
            alphas = np.sort(alphas)[::-1]
        fits = PathFits(settings)
        with open_grid(X, y, settings.without_checkpoints(), **how) as grid:
            facts = grid.engine.facts
            eps = eps_of(self.eps, facts.n_used, facts.n_features or 0)
            found = cross_validate(
                grid,
                ratios,
                alphas,
                eps,
                selection=self.selection,
                relax=bool(self.relax),
                fits=fits,
            )
            r, best = found.best
            scores = held_out(grid, found.W[r])
        warn_unsolved([found.report], float(settings.tol))
        d, w = found.report.n_features, found.final.w
        intercept = w[d:] if settings.fit_intercept else np.zeros(1)
        record = record_of(settings, facts).chosen(
            inverse(float(found.alphas[r, best])), found.ratios[r], relaxed=bool(self.relax)
        )
        self._adopt(Trained(w[None, :d], intercept, None, found.report, record), known)
        self.n_iter_ = max(found.final.n_iter, 1)
        self.alpha_, self.alphas_ = float(found.alphas[r, best]), found.alphas[r]
        self.l1_ratio_ = float(found.ratios[r])
        self.deviance_path_, self.d2_path_ = scores
        by_value = found.W[r].swapaxes(0, 1)
        self.coef_path_ = by_value[..., :d]
        self.intercept_path_ = (
            by_value[..., d] if settings.fit_intercept else 0.0 * by_value[..., 0]
        )
        return self

    def _choose(
        self,
        X: Any,
        y: Any,
        settings: FitConfig,
        known: Known,
        alphas: np.ndarray,
        how: dict[str, Any],
    ) -> GeneralizedLinearRegressorCV:
        began = time.perf_counter()
        with np.errstate(divide="ignore"):
            Cs = 1.0 / alphas
        with open_grid(X, y, settings, **how) as grid:
            solutions = grid.solve(grid.batch(Cs), resumable=True)
            d, shape = grid.objective.n_features, (grid.n_folds, len(alphas), -1)
            paths = solutions.W.reshape(shape)
            found = held_out(grid, paths)
            best = selected(found.deviance, alphas, self.selection)
            alone = ProblemBatch(np.zeros(1, int), np.array([-1]), Cs[best : best + 1])
            # a mean of the folds' models may be out of what links with bounded margins take
            bounded = grid.loss.link is not None and grid.loss.link.is_bounded
            start = None if bounded else paths[:, best].mean(axis=0)[None]
            again = grid.solve(alone, start)
            parts = [*solutions.reports, *again.reports]
            report = grid.report(again.reports, began, parts)
        warn_unsolved(parts, float(settings.tol))

        def intercepts(W: np.ndarray) -> np.ndarray:
            return W[..., d] if settings.fit_intercept else np.zeros(W.shape[:-1])

        record = record_of(settings, grid.engine.facts).chosen(Cs[best], 0.0)
        self._adopt(Trained(again.W[:, :d], intercepts(again.W), None, report, record), known)
        self.alpha_, self.alphas_, self.l1_ratio_ = float(alphas[best]), alphas, 0.0
        self.deviance_path_, self.d2_path_ = found
        by_value = paths.swapaxes(0, 1)
        self.coef_path_, self.intercept_path_ = by_value[..., :d], intercepts(by_value)
        return self

    def plot_cv(self, axes: Any = None) -> Any:
        """Draw the mean deviance over alpha, for the selected l1_ratio.

        The curve is the mean over the folds, with a band of one standard error. Lines mark what
        both rules of `selection` select.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Default: new ones.

        Returns
        -------
        matplotlib.axes.Axes
        """
        check_is_fitted(self, "deviance_path_")
        return draw_cv(self.alphas_, self.deviance_path_, self.alpha_, "mean deviance", axes)
