"""`ElasticNetCV` and `LassoCV`: strength and mix of the penalty by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from daskglm.core.arguments import is_number, shown
from daskglm.estimators.cv_plot import draw_cv
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.lasso import SELECTIONS as ORDERS
from daskglm.estimators.lasso import ElasticNet
from daskglm.estimators.parameters import inverse
from daskglm.estimators.regularization_path import (
    check_count,
    check_relax,
    check_share,
    ratios_of,
    strengths_of,
)
from daskglm.fitting import schema
from daskglm.fitting.config import FitConfig
from daskglm.fitting.cv_splits import DEFAULT_FOLDS, check_splits
from daskglm.fitting.held_out import SELECTIONS, standard_errors
from daskglm.fitting.open_grid import open_grid, warn_unsolved
from daskglm.fitting.path_checkpoint import PathFits
from daskglm.fitting.penalty_cv import CrossValidated, cross_validate
from daskglm.fitting.record import FitRecord, record_of
from daskglm.fitting.runner import Trained


class ElasticNetCV(ElasticNet):
    """`ElasticNet` with alpha, and l1_ratio if there are several, by cross-validation.

    One pass over the rows tells the paths of all folds, and how well they do on the rows held out.
    Data with more than 2,000 features (500 sparse ones) or offsets take passes for each fold.

    Parameters
    ----------
    l1_ratio : float or sequence of float, default 0.5
        Of several that with the least mean over the folds is taken.
    eps : float, default 1e-3
        Least strength over the largest, where `alphas` are not given.
    alphas : int or sequence of float, default 100
        Strengths; a number means so many, from the least one that leaves no coefficient to `eps` of
        it, for each l1_ratio.
    n_alphas : int, optional
        As in earlier versions of scikit-learn: another name for a number of `alphas`.
    cv : int, scikit-learn splitter, iterable of (train, test), or None
        Folds, as in scikit-learn; None is 5. Dask collections take a number: their rows are
        assigned to folds at random (`random_state`).
    selection : {"min", "1se"}, default "min"
        "min" takes the alpha with the least mean squared error over the folds, "1se" the largest
        within one standard error of it. scikit-learn's "cyclic" and "random" mean "min" here.
    relax : bool, default False
        Whether the features that were selected are fitted again without the penalty.
    fit_intercept, precompute, max_iter, copy_X, tol, positive, random_state, penalty_factor, P2,
    lower_bounds, upper_bounds, groups, standardize, n_jobs, verbose, device, device_memory_limit
        As of `ElasticNet`.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        Those selected; the model is fitted with them to all rows.
    alphas_ : (values,) array, or (ratios, values) array
        Falling strengths; with an axis for values of l1_ratio where that is a sequence and
        `alphas` a number, so that each has its own.
    mse_path_ : (values, folds) array, or (ratios, values, folds) array
        Weighted mean squared errors on the rows held out.
    mse_standard_error_ : (values,) array, or (ratios, values) array
        Standard errors of their means over the folds.
    coef_, sparse_coef_, intercept_, n_features_in_, feature_names_in_
        As of `ElasticNet`.
    n_iter_ : int
        Iterations of the last fit; 1 where the sums of one pass tell it.
    dual_gap_ : float
        Proved bound on how far the objective of the final fit is from its minimum.
    report_ : Report
        Its objective is that of `ElasticNet`; its gap is the largest of all fits, with the cost of
        all.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import daskglm
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = daskglm.ElasticNetCV(l1_ratio=[0.5, 1.0]).fit(X, y)
    >>> model.l1_ratio_, model.report_.passes
    (1.0, 1.0)
    """

    _ratios: ClassVar[Any] = None
    _selections: ClassVar[tuple[str, ...]] = (*SELECTIONS, *ORDERS)
    # groups are for the splitter, checkpoints are no metadata
    __metadata_request__fit: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("groups", "checkpoint", "checkpoint_every", "resume"), UNUSED
    )

    def __init__(
        self,
        *,
        l1_ratio: Any = 0.5,
        eps: float = 1e-3,
        n_alphas: Any = None,
        alphas: Any = 100,
        fit_intercept: bool = True,
        precompute: Any = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        cv: Any = None,
        copy_X: bool = True,
        verbose: int = 0,
        n_jobs: int | None = None,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "min",
        relax: bool = False,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        super().__init__(
            1.0,
            l1_ratio=l1_ratio,
            fit_intercept=fit_intercept,
            precompute=precompute,
            max_iter=max_iter,
            copy_X=copy_X,
            tol=tol,
            positive=positive,
            random_state=random_state,
            penalty_factor=penalty_factor,
            P2=P2,
            lower_bounds=lower_bounds,
            upper_bounds=upper_bounds,
            groups=groups,
            standardize=standardize,
            schema=schema,
            n_jobs=n_jobs,
            verbose=verbose,
            device=device,
            device_memory_limit=device_memory_limit,
        )
        self.eps = eps
        self.n_alphas = n_alphas
        self.alphas = alphas
        self.cv = cv
        self.selection = selection
        self.relax = relax

    def _params(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in self._parameters}
        return {**given, "alpha": 1.0, "l1_ratio": max(self._l1_ratios())}

    def _l1_ratios(self) -> list[float]:
        """Return the values of l1_ratio, checked."""
        return ratios_of(self.l1_ratio if type(self)._ratios is None else type(self)._ratios)

    def _alphas(self) -> np.ndarray | int:
        """Return the strengths, falling, or their number."""
        if self.n_alphas is not None:
            check_count(self.n_alphas, "n_alphas")
            return int(self.n_alphas)
        given = strengths_of(self.alphas, "alphas")
        return given if isinstance(given, int) else np.sort(given)[::-1]

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        groups: Any = None,
        checkpoint: Any = None,
        checkpoint_every: int | str = "60s",
        resume: Any = None,
    ) -> Any:
        """Choose the penalty by cross-validation and fit.

        Parameters
        ----------
        X, y, sample_weight, offset
            As of `ElasticNet.fit`, with one target.
        groups : (n,) array, optional
            Groups of rows that belong together, for splitters such as GroupKFold; data in memory
            only.
        checkpoint, checkpoint_every, resume
            As of `daskglm.fit`, of the fits that are finished: a number of `checkpoint_every`
            counts them. Where folds are drawn, `random_state` must be the same number again.

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For bad data, parameters out of range, and folds that cannot be used; for targets that
            leave nothing to features, such as equal ones, unless `alphas` are numbers.
        """
        split_params = {} if groups is None else {"groups": groups}
        return self._fit(
            X,
            y,
            sample_weight,
            offset=offset,
            split_params=split_params,
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
        start: Any = None,
        client: Any = None,
        split_params: Mapping[str, Any] = MappingProxyType({}),
        **more: Any,
    ) -> Any:
        settings = self._settings(**more)
        settings.check()
        ratios, alphas = self._plan(settings)
        beside = {"sample_weight": sample_weight, "offset": offset}
        how: dict[str, Any] = {"client": client}
        how |= {"cv": DEFAULT_FOLDS if self.cv is None else self.cv, "split_params": split_params}

        def work(X: Any, y: Any, settings: FitConfig, known: Known, data: dict[str, Any]) -> Any:
            return self._choose(X, y, settings, known, ratios, alphas, {**how, **data})

        return self._on_rows(X, y, beside, settings, client, work)

    def _plan(self, settings: FitConfig) -> tuple[list[float], np.ndarray | int]:
        """Return what is to be tried: values of l1_ratio, and strengths or their number.

        Raises ValueError for parameters of cross-validation that are out of range.
        """
        check_splits(self.cv)
        check_share(self.eps)
        found = self._l1_ratios(), self._alphas()
        check_relax(self.relax, f"l1_ratio={self.l1_ratio!r}", settings)
        return found

    def _choose(
        self,
        X: Any,
        y: Any,
        settings: FitConfig,
        known: Known,
        ratios: list[float],
        alphas: np.ndarray | int,
        how: dict[str, Any],
    ) -> ElasticNetCV:
        rule = self.selection if self.selection in SELECTIONS else "min"
        fits = PathFits(settings)
        with open_grid(X, y, settings.without_checkpoints(), **how) as grid:
            found = cross_validate(
                grid,
                ratios,
                alphas,
                float(self.eps),
                selection=rule,
                relax=bool(self.relax),
                fits=fits,
            )
        warn_unsolved([found.report], float(settings.tol))
        record = record_of(settings, grid.engine.facts)
        self._set_chosen(found, record, known)
        return self

    def _set_chosen(self, found: CrossValidated, record: FitRecord, known: Known) -> None:
        d, w = found.report.n_features, found.final.w
        intercept = w[d:] if self.fit_intercept else np.zeros(1)
        r, value = found.best
        C = inverse(float(found.alphas[r, value]))
        record = record.chosen(C, found.ratios[r], relaxed=bool(self.relax))
        self._adopt(Trained(w[None, :d], intercept, None, found.report, record), known)
        self.n_iter_ = max(found.final.n_iter, 1)
        first = slice(None) if self._has_several else 0
        self.l1_ratio_ = float(found.ratios[r])
        self.alpha_ = float(found.alphas[r, value])
        self.alphas_ = found.alphas[first if self._has_own else 0]
        self.mse_path_ = found.deviance[first]
        self.mse_standard_error_ = np.array([standard_errors(each) for each in found.deviance])[
            first
        ]

    @property
    def _has_several(self) -> bool:
        """Whether paths have an axis for values of l1_ratio."""
        return type(self)._ratios is None and not is_number(self.l1_ratio)

    @property
    def _has_own(self) -> bool:
        """Whether each of several values of l1_ratio has strengths of its own."""
        return self._has_several and isinstance(self._alphas(), int)

    # ---- what files keep
    def _tried(self) -> dict[str, Any]:
        """Return what was tried and chosen, for a file."""
        return {
            "alpha": self.alpha_,
            "l1_ratio": self.l1_ratio_,
            "alphas": self.alphas_.tolist(),
            "mse_path": self.mse_path_.tolist(),
            "mse_standard_error": self.mse_standard_error_.tolist(),
        }

    def _set_tried(self, saved: Any, settings: FitConfig) -> None:
        """Take what a file has of what was tried; raises ValueError for what no fit has found."""
        ratios, _ = self._plan(settings)
        names = {"alpha", "l1_ratio", "alphas", "mse_path", "mse_standard_error"}
        if not isinstance(saved, dict) or set(saved) != names:
            raise ValueError(f"of what was tried it has {shown(saved)}, not {sorted(names)}")
        # (values, folds), with an axis for ratios where they are several
        shape, axes = schema.shape_of(saved["mse_path"]), 2 + self._has_several
        if len(shape) != axes or (self._has_several and shape[0] != len(ratios)):
            wanted = (len(ratios), "values", "folds")[3 - axes :]
            raise ValueError(f"mse_path has the shape {shape}, where its shape is {wanted}")
        self.mse_path_ = schema.numbers(saved["mse_path"], shape, "mse_path")
        of_alphas = shape[:-1] if self._has_own else shape[-2:-1]
        self.alphas_ = schema.numbers(saved["alphas"], of_alphas, "alphas")
        self.mse_standard_error_ = schema.numbers(
            saved["mse_standard_error"], shape[:-1], "mse_standard_error"
        )
        self.l1_ratio_ = schema.number(saved["l1_ratio"], "l1_ratio")
        if self.l1_ratio_ not in ratios:
            raise ValueError(f"l1_ratio is {self.l1_ratio_}, which is none of {ratios}")
        self.alpha_ = schema.number(saved["alpha"], "alpha", 0.0)
        of_ratio = np.atleast_2d(self.alphas_)[ratios.index(self.l1_ratio_) * self._has_own]
        if self.alpha_ not in of_ratio:
            raise ValueError(f"alpha is {self.alpha_}, which is none of those that were tried")

    def plot_cv(self, axes: Any = None) -> Any:
        """Draw the mean squared error over alpha, for the selected l1_ratio.

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
        check_is_fitted(self, "mse_path_")
        alphas, errors = self.alphas_, self.mse_path_
        if errors.ndim == 3:
            r = self._l1_ratios().index(self.l1_ratio_)
            errors = errors[r]
            alphas = alphas if alphas.ndim == 1 else alphas[r]
        return draw_cv(alphas, errors, self.alpha_, "mean squared error", axes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    @property
    def dual_gap_(self) -> Any:
        """Proved bound on how far the objective of the final fit is from its minimum."""
        gap = self.report_.relative_gap
        return gap / (1.0 + gap) * self.report_.objective


class LassoCV(ElasticNetCV):
    """`Lasso` with alpha by cross-validation: `ElasticNetCV` with l1_ratio 1, which is no argument.

    Parameters and attributes are those of `ElasticNetCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import daskglm
    >>> X, y = load_diabetes(return_X_y=True)
    >>> daskglm.LassoCV(selection="1se").fit(X, y).coef_.nonzero()[0]
    array([1, 2, 3, 6, 8, 9])
    """

    _ratios: ClassVar[Any] = 1.0

    def __init__(
        self,
        *,
        eps: float = 1e-3,
        n_alphas: Any = None,
        alphas: Any = 100,
        fit_intercept: bool = True,
        precompute: Any = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        copy_X: bool = True,
        cv: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "min",
        relax: bool = False,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        super().__init__(
            l1_ratio=1.0,
            eps=eps,
            n_alphas=n_alphas,
            alphas=alphas,
            fit_intercept=fit_intercept,
            precompute=precompute,
            max_iter=max_iter,
            tol=tol,
            copy_X=copy_X,
            cv=cv,
            verbose=verbose,
            n_jobs=n_jobs,
            positive=positive,
            random_state=random_state,
            selection=selection,
            relax=relax,
            penalty_factor=penalty_factor,
            P2=P2,
            lower_bounds=lower_bounds,
            upper_bounds=upper_bounds,
            groups=groups,
            standardize=standardize,
            schema=schema,
            device=device,
            device_memory_limit=device_memory_limit,
        )
